"""A request in pieces: one for each message, more for one that several were joined into.

Clients join neighbours of one role, and what they inject between them, into one message. It comes
apart where it holds a stored message whole; nothing else can say where one ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from previously.align import normal
from previously.align.match import Keys, Pair, matched
from previously.model import Message, NewMessage

BEGINNING = 12  # letters by which a message is found again
NO_KEY = ("", -1)  # of a stored message that is paired already, or not to be
TOLD_KEPT = 1_024  # stored messages that a client no longer sends are read once
LIKELY_MAX = 8  # stored messages with the same first paragraph that are tried


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that one message of a request says."""

    source: int  # which message
    said: NewMessage
    part: bool = False  # the message says more than this

    @property
    def role(self) -> str:
        return self.said.role


@dataclass(frozen=True, slots=True)
class Laid:
    """A request over what is stored."""

    pieces: tuple[Piece, ...]
    pairs: tuple[Pair, ...]  # piece and stored message that say the same, in order


def lay(request: Sequence[NewMessage], stored: Sequence[Message]) -> Laid:
    """The same letter by letter first; what is left by what it says."""
    ours = [normal.raw_key(m) for m in stored]
    raw = [normal.raw_key(one) for one in request]
    exact = matched(raw, ours)
    if len(exact) == len(request):
        return Laid(tuple(Piece(i, one) for i, one in enumerate(request)), tuple(exact))
    words = [normal.key(m) for m in stored]
    certain = _certain(exact, [normal.key(one) for one in request], words)
    pieces, fixed = _parted(request, stored, dict(certain))
    rests = set(_rests(pieces, stored, fixed) if len(certain) < len(exact) else ())
    fixed = sorted([*fixed, *rests])
    taken = {j for _, j in fixed}
    held = {i for i, _ in fixed}
    theirs: list[Hashable] = [
        ("", i) if i in held else normal.key(p.said) for i, p in enumerate(pieces)
    ]
    mine: list[Hashable] = [NO_KEY if j in taken else word for j, word in enumerate(words)]
    visible = [key if m.shown else NO_KEY for key, m in zip(mine, stored, strict=True)]
    if visible != mine:  # what is hidden stands for what nothing else does
        fixed = matched(theirs, visible, fixed)
    pairs = matched(theirs, _without_hidden(theirs, mine, stored), fixed)
    return Laid(tuple(pieces), tuple(pair for pair in pairs if pair not in rests))


def _certain(pairs: Sequence[Pair], theirs: Keys, ours: Keys) -> list[Pair]:
    """Those that may not be others: of what is said more than once, one may be part of a message
    that is still to come apart. Neighbours of other pairs are where they belong."""
    counts = Counter(ours)
    counts.update({key: n - 1 for key, n in Counter(theirs).items() if n > 1})
    known = set(pairs)
    return [
        (i, j)
        for i, j in pairs
        if counts[ours[j]] == 1 or (i - 1, j - 1) in known or (i + 1, j + 1) in known
    ]


def _without_hidden(theirs: Keys, mine: Keys, stored: Sequence[Message]) -> Keys:
    """Of what is said more than once those are meant that are shown, while there are enough."""
    hidden = [j for j, m in enumerate(stored) if not m.shown and mine[j] != NO_KEY]
    if not hidden:
        return mine
    asked, shown = Counter(theirs), Counter(mine)
    shown.subtract(mine[j] for j in hidden)
    spare = {j for j in hidden if 0 < asked[mine[j]] <= shown[mine[j]]}
    return [NO_KEY if j in spare else key for j, key in enumerate(mine)] if spare else mine


def _rests(pieces: Sequence[Piece], stored: Sequence[Message], fixed: Sequence[Pair]) -> list[Pair]:
    """Where a piece is what is left of one message alone: it holds those in place that are said
    more than once, and is no pair itself."""
    held, taken = {i for i, _ in fixed}, {j for _, j in fixed}
    ours: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    theirs = {normal.bare(piece.said.body) for piece in pieces}
    whole = theirs.intersection(normal.bare(m.body) for m in stored)  # and not what is left of more
    for j, m in enumerate(stored):
        if j not in taken and m.shown and normal.bare(m.body) not in whole:
            ours[m.role, normal.bare(m.body)[:BEGINNING]].append(j)
    found: list[Pair] = []
    for i, piece in enumerate(pieces):
        words = normal.bare(piece.said.body)
        if i in held or words in whole or len(words) <= BEGINNING:
            continue
        likely = ours.get((piece.role, words[:BEGINNING]), ())[-LIKELY_MAX:]
        cut = [j for j in likely if normal.is_cut(stored[j].body, piece.said.body)]
        found += [(i, j) for j in cut] if len(cut) == 1 else []
    return _between_others(found, fixed)


def _between_others(some: Sequence[Pair], fixed: Sequence[Pair]) -> list[Pair]:
    """Those that stand in one order with the others and with each other."""
    kept: list[Pair] = []
    for i, j in some:
        at = bisect_left(fixed, (i, j))
        before = max([*(j for _, j in fixed[at - 1 : at]), *(j for _, j in kept[-1:])], default=-1)
        after = fixed[at][1] if at < len(fixed) else j + 1
        if before < j < after:
            kept.append((i, j))
    return kept


def comes_apart(said: NewMessage, stored: Sequence[Message]) -> bool:
    """Whether any of these is held by a message that says more."""
    if normal.PARAGRAPH not in said.body:
        return False
    return len(_apart(0, said, _beginnings(stored, set()))) > 1


def _parted(
    request: Sequence[NewMessage], stored: Sequence[Message], exact: Mapping[int, int]
) -> tuple[list[Piece], list[Pair]]:
    """The pieces, and which of them are paired already."""
    begins = _beginnings(stored, set(exact.values()))
    pieces: list[Piece] = []
    fixed: list[Pair] = []
    for i, said in enumerate(request):
        if i in exact:
            fixed.append((len(pieces), exact[i]))
            pieces.append(Piece(i, said))
        else:
            pieces += _apart(i, said, begins)
    return pieces, fixed


_Begins = Mapping[tuple[str, str], Sequence[tuple[str, ...]]]


def _beginnings(stored: Sequence[Message], taken: set[int]) -> _Begins:
    """Role and first paragraph → the paragraphs of the messages that begin so."""
    begins: defaultdict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for j, m in enumerate(stored):
        if j not in taken and m.parts is None and m.tool_calls is None:
            told = _told(m.body)
            if told and told[0]:
                begins[m.role, told[0]].append(told)
    return begins


@lru_cache(maxsize=TOLD_KEPT)
def _told(body: str) -> tuple[str, ...]:
    return tuple(_words(normal.paragraphs(body)))


def _words(parts: Sequence[str]) -> list[str]:
    """Paragraphs as they are compared: only the first can have a name in front."""
    return [normal.bare(part) if i == 0 else normal.plain(part) for i, part in enumerate(parts)]


def _apart(source: int, said: NewMessage, begins: _Begins) -> list[Piece]:
    whole = [Piece(source, said)]
    if normal.PARAGRAPH not in said.body or said.parts is not None or said.tool_calls is not None:
        return whole
    parts = normal.paragraphs(said.body)
    cuts = _cuts(said.role, parts, begins)
    if len(cuts) < 2:
        return whole
    ends = [*cuts[1:], len(parts)]
    texts = [normal.PARAGRAPH.join(parts[a:b]) for a, b in zip(cuts, ends, strict=True)]
    return [Piece(source, replace(said, body=text), part=True) for text in texts]


def _cuts(role: str, parts: Sequence[str], begins: _Begins) -> list[int]:
    """Where pieces start: a stored message, or what stands between two of them."""
    cuts: list[int] = [0]
    at = 0
    while at < len(parts):
        size = _length_at(role, parts, at, begins)
        if size:
            cuts += [at, at + size]
        at += size or 1
    return sorted({cut for cut in cuts if cut < len(parts)})


def _length_at(role: str, parts: Sequence[str], at: int, begins: _Begins) -> int:
    """Paragraphs of the longest stored message that begins here; 0 if none does."""
    likely = begins.get((role, normal.bare(parts[at])), ())[:LIKELY_MAX]
    best = 0
    for told in likely:
        here = _words(parts[at : at + len(told)])
        if len(told) > best and tuple(here) == told:
            best = len(told)
    return best
