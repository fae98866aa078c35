"""Terms: what a text can be found by. Both databases are handed these and cut nothing themselves.

In scripts written without spaces every character and every pair of neighbours is a term, so that
words of one and of two characters are found. Other words are lower-cased and cut to a common stem,
numbers stay whole, an emoji is a term. Of ASCII a term holds only lower-case letters and digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import add

from previously.model import digest

WORD_CHARS_MAX = 40  # what is longer is no word; its beginning finds it
TEXT_CHARS_MAX = 200_000  # of one message; what stands after that is not found
WORDS_KEPT = 65_536  # whose terms are held in memory
POINT = "\u00b7"  # for the point inside a number: an ASCII mark would part it again
SPEAKER = "\u2020"  # in front of who said it, which is a term as well

_IDEOGRAPHS = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002f7ff\U0002fa20-\U000323af"
_COMPATIBLE = "\uf900-\ufaff\U0002f800-\U0002fa1f"  # ideographs that NFKC makes into others
_KANA = "\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe"
_SOUTHERN = "\u0e01-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Myanmar, Khmer
_SPACELESS = f"{_IDEOGRAPHS}{_COMPATIBLE}{_KANA}\uac00-\ud7a3{_SOUTHERN}"
_EMOJI = "\u2600-\u27bf\U0001f000-\U0001f3fa\U0001f400-\U0001faff"  # but skin tones
_WORD = (
    "[0-9a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u0dff\u0f00-\u0fff\u10a0-\u10ff\u1200-\u177f"
    "\u1800-\u1fff]"
)
_NUMBER = rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?(?!{_WORD})"
_PIECE = re.compile(f"[{_SPACELESS}]+|{_NUMBER}|{_WORD}+|[{_EMOJI}]")
_SIGN = re.compile(f"[{_SPACELESS}{_EMOJI}]")
_WORD_CHAR, _WORD_END, _A_NUMBER = re.compile(_WORD), re.compile(f"{_WORD}*"), re.compile(_NUMBER)
_DIGITS = re.compile(f"[0-9{POINT}]+")
_ENGLISH = re.compile("[a-z]{4,}")
_VOWEL = re.compile("[aeiouy]")
FIRST_SIGN = "\u0e00"  # below it there are only words and numbers

# What NFKC leaves alone, and marks that part words before and after it alike: most texts hold
# nothing else, and NFKC takes longer than all the rest.
_PLAIN = (
    "\\x00-\\x7f\u00b7\u2010-\u2026\u3000-\u3002\u3008-\u301b\uff01\uff08\uff09\uff0c\uff1a\uff1b"
    f"\uff1f{_IDEOGRAPHS}{_KANA}\uac00-\ud7a3"
)
_ALL_PLAIN = re.compile(f"[{_PLAIN}]*")
_ODD = re.compile(f"[{_PLAIN}]?[^{_PLAIN}]+")  # with the one in front, which may take an accent


def normal(text: str) -> str:
    """The form in which texts and queries are compared: NFKC where it matters, lower case."""
    text = text[:TEXT_CHARS_MAX]
    if not _ALL_PLAIN.fullmatch(text):
        text = _ODD.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return text.lower()


def terms(text: str) -> set[str]:
    """Every term of a text."""
    found: set[str] = set()
    for piece in _PIECE.findall(normal(text)):
        if piece[0] >= FIRST_SIGN and _SIGN.match(piece):
            found.update(piece)
            found.update(map(add, piece, piece[1:]))
        else:
            found.add(_word_term(piece))
    return found


@lru_cache(WORDS_KEPT)
def _word_term(word: str) -> str:
    """The term of a word or number, as `_PIECE` cuts them."""
    if word[0].isdigit():
        return word[:WORD_CHARS_MAX].replace(",", "").replace(".", POINT)
    word = word[:WORD_CHARS_MAX]
    return _stem(word) if _ENGLISH.fullmatch(word) else word


def _stem(word: str) -> str:
    """A form that the inflections of an English word share; no word for people to read."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ied") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("ed") and not word.endswith("eed") and _can_lose(word, 2):
        word = word[:-2]
    elif word.endswith("ing") and _can_lose(word, 3):
        word = word[:-3]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
        word = word[:-1]
    if word.endswith("y") and len(word) > 3 and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


def _can_lose(word: str, count: int) -> bool:
    rest = word[:-count]
    return len(rest) >= 3 and bool(_VOWEL.search(rest))


def is_sign(term: str) -> bool:
    """Whether a term is made of characters that need no spaces around them."""
    return _SIGN.match(term) is not None


def counter(term: str) -> Callable[[str], int]:
    """What counts how often a term occurs in a text that is `normal`."""
    if _SIGN.match(term):
        return lambda text: text.count(term)
    if _DIGITS.fullmatch(term):
        return _number_counter(term)
    root = root_of(term)
    return lambda text: _count_words(text, term, root) if root in text else 0


def _number_counter(term: str) -> Callable[[str], int]:
    """Most texts hold other numbers: they are told apart before theirs are cut out one by one."""
    whole = term.partition(POINT)[0]
    first = len(whole) % 3 or 3
    grouped = ",".join([whole[:first], *(whole[i : i + 3] for i in range(first, len(whole), 3))])

    def count(text: str) -> int:
        if whole not in text and grouped not in text:
            return 0
        return sum(1 for _ in _numbers(text, term))

    return count


def _count_words(text: str, term: str, root: str) -> int:
    """As many as `_words` finds; it is asked about every candidate of every turn."""
    count = 0
    at = text.find(root)
    while at >= 0:
        end = at + len(root)
        if at == 0 or _WORD_CHAR.match(text, at - 1) is None:
            found = _WORD_END.match(text, at)
            end = found.end() if found else end
            count += _word_term(text[at:end]) == term
        at = text.find(root, end)
    return count


def spans(text: str, term: str) -> Iterator[tuple[int, int]]:
    """Where a term occurs in a text that is `normal`, from left to right."""
    if _SIGN.match(term):
        return _signs(text, term)
    if _DIGITS.fullmatch(term):
        return _numbers(text, term)
    return _words(text, term)


def _signs(text: str, term: str) -> Iterator[tuple[int, int]]:
    at = text.find(term)
    while at >= 0:
        yield at, at + len(term)
        at = text.find(term, at + len(term))


def _numbers(text: str, term: str) -> Iterator[tuple[int, int]]:
    for found in _A_NUMBER.finditer(text):
        if _word_term(found[0]) == term and not _inside_word(text, found.start()):
            yield found.span()


def _words(text: str, term: str) -> Iterator[tuple[int, int]]:
    root = root_of(term)
    at = text.find(root)
    while at >= 0:
        end = at + len(root)
        if not _inside_word(text, at):
            found = _WORD_END.match(text, at)
            end = found.end() if found else end
            if _word_term(text[at:end]) == term:
                yield at, end
        at = text.find(root, end)


def root_of(term: str) -> str:
    """What every word of this term begins with."""
    return term[:-1] if len(term) > 3 and term.endswith("i") else term


def _inside_word(text: str, at: int) -> bool:
    return at > 0 and _WORD_CHAR.match(text, at - 1) is not None


def speaker_term(name: str) -> str:
    """The term of everything that somebody said, under exactly this name."""
    return SPEAKER + digest(name).hex()


def places(text: str) -> list[int]:
    """For each character of `normal(text)`, and its end, where it stands in the text itself."""
    text = text[:TEXT_CHARS_MAX]
    made: list[int] = []
    at = 0
    for found in _ODD.finditer(text):
        made.extend(range(at, found.start()))
        length = len(unicodedata.normalize("NFKC", found[0]).lower())
        last = found.end() - found.start() - 1
        made.extend(found.start() + min(i, last) for i in range(length))
        at = found.end()
    made.extend(range(at, len(text) + 1))
    return made
