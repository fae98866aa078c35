"""Extractive: a summary without a model, made of the material's own sentences.

Where it is shown, its block says that it quotes: one label for many extracts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from math import sqrt
from typing import NamedTuple

from previously.measure import count_tokens, cut_to_tokens
from previously.model import EXTRACTIVE, Ask, Reply
from previously.text.sentences import sentences
from previously.text.spoken import TOOLS

# Weights, in the worth of one name. What a reader would miss most is what somebody promised or
# ruled; a question is worth its answer, which stands elsewhere.
_NAME = 2.0
_NUMBER = 1.5
_COMMITMENT = 4.0
_OPENING = 1.0
_QUESTION = -2.0
_RARITY = 0.5
_SIGNALS_MAX = 3  # of one kind per sentence: a list of names must not crowd out everything else

_SENTENCE_COLUMNS_MAX = 200  # a longer one is taken clause by clause; a wide character has two
_SHORT_TOKENS = 12  # a piece gains nothing by being shorter: scraps tell no story
_ASKED_SHARE = 2  # a half of the room
_MENDING_TOKENS = 2  # that closing what a piece leaves open may take

_WORD_CHARS_MIN = 4  # shorter words are mostly grammar

_WIDE_FIRST = "\u2e80"
_QUOTES_FIRST = "\u2018"  # and every wide character
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_TERM = re.compile(rf"[^\W\d_{_HAN}][^\W_{_HAN}]*|[{_HAN}]+|\d+(?:[.,:/-]\d+)*")
_COUNTED = re.compile("[零一二三四五六七八九十百千万两半]+[年月日号天夜周岁个次点分元块艘人只把本]")
_TITLED = re.compile("[《「『“][^》」』”，。！？…]{1,8}[》」』”]")  # short speech is no title
_HEAD = re.compile(r"([^\W\d][^:：\n\"“”「」.!?。！？，,]{0,39}): (?=\S)")  # who says it, in a note
_QUOTES = {'"': '"', "“": "”", "「": "」", "『": "』"}  # what opens, and what closes it
_QUOTE = re.compile('["“”「」『』]')
_COMMAS = "，；：,;:、"
_CLAUSE_END = re.compile(r"(?<=[，；：])|(?<=[,;:])\s")
_WIDE_STOPS = frozenset("。！？；，：")
_CLOSING = "」』”’)）】》]'*_~\""
_NOT_WORD = re.compile(r"[\W_]+")
_COMMITTED = re.compile(
    r"\b(?:promis|swear|swor[en]|vow|oath|never|always|must|forb[ia]d|agreed|secret|remember"
    r"|don't ever|not allowed|no one may|rules?\b|decided|owes?\b|allerg)"
    "|答应|发誓|承诺|保证|约定|不要|必须|不许|不准|禁止|绝不|决不|永远|务必|一定要|记住|千万|规矩"
    "|规则|秘密|誓言|决定|从不|别忘|欠",
    re.IGNORECASE,
)


class _Piece(NamedTuple):
    """One sentence that may be chosen."""

    place: int
    line: int
    speaker: str
    text: str
    opens: bool  # it is the first that this speaker says
    goes_on: bool  # the sentence does not end with it
    inside: str  # the quotation mark that was open where it begins
    row: int  # of its line's own lines: speech that goes on in the next opens anew there


def extract(lines: Sequence[tuple[str, str]], tokens_max: int) -> str:
    """The sentences that carry most, in their order, one line per run of one speaker.

    The extract never has more tokens than the material; it is empty only if that is blank. A limit
    too small for a sentence gets the beginning of the first one.
    """
    pieces = _pieces([told for line in lines for told in _told(line)])
    if not pieces:
        return ""
    material = "\n".join(_headed(speaker, text) for speaker, text in lines)
    room = min(tokens_max, count_tokens(material))
    body = _written(pieces)
    if count_tokens(body) > room:
        body = _written(_chosen(pieces, room, _asked(lines, pieces)) or pieces[:1])
    # What was chosen by its parts fits as a whole, but for a limit that nothing fits.
    return cut_to_tokens(body or material, room)


def _told(line: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The line; of a note that is said by nobody, each line with the speaker it names."""
    if line[0]:
        yield line
        return
    for row in line[1].splitlines():
        head = _HEAD.match(row)
        yield (head[1], row[head.end() :]) if head else ("", row)


def _pieces(lines: Sequence[tuple[str, str]]) -> list[_Piece]:
    """Every sentence once, where it was first said."""
    pieces: list[_Piece] = []
    said: set[str] = set()
    heard: set[str] = set()
    for line, (speaker, text) in enumerate(lines):
        for sentence, goes_on, inside, row in _short_sentences(text):
            gist = _NOT_WORD.sub("", sentence).casefold() or sentence
            if gist not in said:
                said.add(gist)
                opens = speaker not in heard
                pieces.append(
                    _Piece(len(pieces), line, speaker, sentence, opens, goes_on, inside, row)
                )
                heard.add(speaker)
    return pieces


def _short_sentences(text: str) -> Iterator[tuple[str, bool, str, int]]:
    """Sentences, or clauses of long ones; whether the sentence goes on behind each, which quotation
    is open where it begins, and in which of the lines it stands. A new line opens none."""
    for row, line in enumerate(text.splitlines()):
        inside = ""
        for sentence in sentences(line):
            clauses = _clauses(sentence)
            for clause in clauses:
                yield clause, clause is not clauses[-1], inside, row
                inside = _open_quote(inside, clause)


def _clauses(sentence: str) -> list[str]:
    if _columns(sentence) <= _SENTENCE_COLUMNS_MAX:
        return [sentence]
    return [clause for clause in map(str.strip, _CLAUSE_END.split(sentence)) if clause]


def _open_quote(inside: str, text: str) -> str:
    """The quotation mark that is still open behind a text."""
    for mark in _QUOTE.findall(text):
        if inside:
            inside = "" if mark == _QUOTES[inside] else inside
        elif mark in _QUOTES:
            inside = mark
    return inside


def _columns(text: str) -> int:
    return len(text) + sum(char >= _WIDE_FIRST for char in text)


def _asked(lines: Sequence[tuple[str, str]], pieces: list[_Piece]) -> _Piece | None:
    """What was wanted, where a tool was used: its answer means nothing without that."""
    if not any(speaker in TOOLS for speaker, _ in lines):
        return None
    first = [piece for piece in pieces if piece.line == pieces[0].line]
    return next((piece for piece in first if _asks(piece.text)), first[0])


def _asks(text: str) -> bool:
    return "?" in text[-3:] or "？" in text[-3:]


def _chosen(pieces: list[_Piece], room: int, asked: _Piece | None = None) -> list[_Piece]:
    """The pieces that fit by their own counts, best first; of worthless ones at most one.

    What was `asked` goes first, as far as it leaves half of the room to its answer.
    """
    tokens = [count_tokens(piece.text) for piece in pieces]
    worth = _worth(pieces)
    size = [max(_SHORT_TOKENS, count) for count in tokens]
    ranked = sorted(pieces, key=lambda piece: -worth[piece.place] / sqrt(size[piece.place]))
    if asked is not None and tokens[asked.place] * _ASKED_SHARE <= room:
        worth[asked.place] = max(worth)
        ranked = [asked, *(piece for piece in ranked if piece is not asked)]
    chosen: list[_Piece] = []
    headed: set[int] = set()
    for piece in ranked:
        cost = tokens[piece.place] + _mending(piece)
        if piece.line not in headed:
            cost += count_tokens(_headed(piece.speaker, "")) + 1  # and the end of the line
        if cost <= room and (worth[piece.place] > 0 or not chosen):
            room -= cost
            headed.add(piece.line)
            chosen.append(piece)
    return chosen


def _worth(pieces: list[_Piece]) -> list[float]:
    terms = [_TERM.findall(piece.text) for piece in pieces]
    # A capital inside a sentence makes a name, also where the same word begins another sentence.
    names = {term for found in terms for term in found[1:] if term[0].isupper() and len(term) > 1}
    keys = [_keys(found) for found in terms]
    spread = Counter(key for found in keys for key in found)
    return [
        _signals(piece, names.intersection(found), found)
        + _RARITY * sum(1 / spread[key] for key in rare) / sqrt(len(rare) or 1)
        for piece, found, rare in zip(pieces, terms, keys, strict=True)
    ]


def _signals(piece: _Piece, names: set[str], terms: list[str]) -> float:
    """What can be seen in a sentence itself."""
    text = piece.text
    named = (0 if text.isupper() else len(names)) + len(_TITLED.findall(text))
    counted = sum(term[0].isdigit() for term in terms) + len(_COUNTED.findall(text))
    worth = _NAME * min(named, _SIGNALS_MAX) + _NUMBER * min(counted, _SIGNALS_MAX)
    if _COMMITTED.search(text):
        worth += _COMMITMENT
    if piece.opens:
        worth += _OPENING
    if _asks(text):
        worth += _QUESTION
    return worth


def _keys(terms: list[str]) -> set[str]:
    """What a sentence is compared by: longer words, and pairs of Han characters."""
    keys: set[str] = set()
    for term in terms:
        if term[0] >= _WIDE_FIRST:
            keys.update(map(str.__add__, term, term[1:]))
        elif len(term) >= _WORD_CHARS_MIN:
            keys.add(term.lower())
    return keys


def _written(pieces: list[_Piece]) -> str:
    runs = groupby(sorted(pieces), key=lambda piece: piece.speaker)
    told = ((speaker, _joined(_mended(list(run)))) for speaker, run in runs)
    return "\n".join(_headed(speaker, text) for speaker, text in told if text)


def _mended(run: Sequence[_Piece]) -> list[str]:
    """What was said in one go, each as a whole: a reader sees no half of a pair."""
    stretches: list[list[_Piece]] = []
    for piece in run:
        last = stretches[-1][-1] if stretches else None
        if last and last.place == piece.place - 1 and _one_row(last, piece):
            stretches[-1].append(piece)
        else:
            stretches.append([piece])
    whole = (_whole(_joined([p.text for p in s]), s[0], s[-1]) for s in stretches)
    return [text for text in whole if text]  # of a lone asterisk nothing is left


def _one_row(one: _Piece, other: _Piece) -> bool:
    return one.line == other.line and one.row == other.row


def _whole(text: str, first: _Piece, last: _Piece) -> str:
    if last.goes_on:
        text = text.rstrip(_COMMAS) + "…"
    text = first.inside + text
    if text.count("*") % 2:
        text = text.replace("*", "")
    return text + _QUOTES.get(_open_quote("", text), "")


def _mending(piece: _Piece) -> int:
    return 0 if _whole(piece.text, piece, piece) == piece.text else _MENDING_TOKENS


def _joined(texts: list[str]) -> str:
    if not texts:
        return ""
    blanks = [_blank(before, after) for before, after in pairwise(texts)]
    return "".join(chain.from_iterable(zip(texts, [*blanks, ""], strict=True)))


def _blank(before: str, after: str) -> str:
    """None where the material had none: Chinese writes on behind a stop."""
    stopped = before.rstrip(_CLOSING)[-1:] in _WIDE_STOPS
    mixed = not before[-1].isalnum() and after[0] >= _QUOTES_FIRST
    return "" if stopped or mixed else " "


def _headed(speaker: str, text: str) -> str:
    name = " ".join(speaker.split())
    return f"{name}: {text}" if name else text


class Extractive:
    """The built-in summariser: works with no key and no network, and says that it only quotes."""

    name = EXTRACTIVE
    costs = False
    window_tokens = None

    async def complete(self, ask: Ask) -> Reply:
        """Sentences of the material that carry the most, within the size asked for."""
        return Reply(extract(ask.material, ask.tokens_max), model=self.name)
