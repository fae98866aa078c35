"""Old messages that a client shows shortened: by its user's hand, or by a rule of its own.

Some clients leave a part of a message out of their prompts once it is old. One message that is
shorter than it was has been cut by somebody. Where those that come to stand where it stood are
shorter as well it is a rule, and what is stored stays whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from previously.align import normal
from previously.align.match import Pair
from previously.align.normal import Said
from previously.align.pieces import BEGINNING, Laid, Piece
from previously.model import Message, NewMessage

VIEW_FROM = 3  # messages said after it: what is newer may be cleaned, or cut by the user
STRETCH_MAX = 8  # messages between two known ones that are compared all with all

Line = tuple[int, Said]  # where something is said, and what


def shortened(
    theirs: Sequence[Said | None], ours: Sequence[Said | None], pairs: Sequence[Pair]
) -> Iterator[Pair]:
    """Where they show one of ours shortened, before others that are shown as they are."""
    for (a, c), (b, d) in pairwise([(-1, -1), *pairs]):
        some = _lines(theirs, a + 1, b)
        if some:
            yield from _cut_in(some, _lines(ours, c + 1, d))


def _lines(said: Sequence[Said | None], first: int, last: int) -> list[Line]:
    found = ((i, said[i]) for i in range(first, last))
    return [(i, one) for i, one in found if one is not None]


def _cut_in(theirs: Sequence[Line], ours: Sequence[Line]) -> list[Pair]:
    """As many as there are stand for one another; of more or fewer, those that can be only one."""
    if len(theirs) == len(ours):
        steps = zip(theirs, ours, strict=True)
        return [(i, j) for (i, said), (j, m) in steps if is_shorter(m, said)]
    theirs, ours = theirs[-STRETCH_MAX:], ours[-STRETCH_MAX:]
    found = [(i, j) for i, said in theirs for j, m in ours if is_shorter(m, said)]
    once = [Counter(pair[side] for pair in found) for side in (0, 1)]
    return [(i, j) for i, j in found if once[0][i] == once[1][j] == 1]


def parted(laid: Laid, stored: Sequence[Message], held: Sequence[Pair]) -> Laid:
    """The same with such pieces taken apart as show several messages in one, shortened, before
    others that are held in place."""
    cuts = dict(_parts(laid, stored, held))
    if not cuts:
        return laid
    pieces: list[Piece] = []
    moved: dict[int, int] = {}
    for i, piece in enumerate(laid.pieces):
        moved[i] = len(pieces)
        said = [replace(piece.said, body=body) for body in cuts.get(i, ())]
        pieces += [Piece(piece.source, one, part=True) for one in said] or [piece]
    return Laid(tuple(pieces), tuple((moved[i], j) for i, j in laid.pairs))


def _parts(
    laid: Laid, stored: Sequence[Message], held: Sequence[Pair]
) -> Iterator[tuple[int, list[str]]]:
    """Pieces that several of the messages between their neighbours are found in, and the parts."""
    for (a, c), (b, d) in pairwise([(-1, -1), *held]):
        theirs = [i for i in range(a + 1, b) if _may_be_several(laid.pieces[i].said)]
        between = [m for m in stored[c + 1 : d] if m.shown][-STRETCH_MAX:] if theirs else []
        for i in theirs:
            said = laid.pieces[i].said
            ours = [m for m in between if m.role == said.role]  # others may be hidden now
            begins = normal.paragraphs(said.body)[0]
            first = [n for n, m in enumerate(ours) if _begins_like(m, said.role, begins)]
            found = (_found_in(said, ours[n:]) for n in first)
            parts = next((parts for parts in found if parts), None)
            if parts:
                yield i, parts


def _may_be_several(said: NewMessage) -> bool:
    joined = normal.PARAGRAPH in said.body.strip()
    return joined and said.role != "system" and said.parts is None


def _found_in(said: NewMessage, ours: Sequence[Message]) -> list[str]:
    """The parts of a text, if each is one of these, whole or shortened; none if any is not."""
    paragraphs = normal.paragraphs(said.body)
    starts = [0]
    for m in ours[1:]:
        later = range(starts[-1] + 1, len(paragraphs))
        start = next((n for n in later if _begins_like(m, said.role, paragraphs[n])), None)
        if start is None:
            break
        starts.append(start)
    ends = [*starts[1:], len(paragraphs)]
    parts = [normal.PARAGRAPH.join(paragraphs[a:b]) for a, b in zip(starts, ends, strict=True)]
    whole = len(parts) > 1 and all(map(_is_of, ours, parts))
    return parts if whole else []


def _begins_like(m: Message, role: str, text: str) -> bool:
    ours, theirs = normal.bare(m.body)[:BEGINNING], normal.bare(text)[:BEGINNING]
    return m.role == role and bool(theirs) and ours.startswith(theirs)


def _is_of(m: Message, text: str) -> bool:
    return normal.bare(m.body) == normal.bare(text) or normal.is_cut(m.body, text)


def distances(said: Sequence[Said], uncounted: int = 0) -> list[int]:
    """How much is said after each, but for the last ones that do not count."""
    after: list[int] = []
    count = -uncounted
    for one in reversed(said):
        after.append(count)
        count += one.role != "system"
    return after[::-1]


def is_shorter(whole: Said, rest: Said) -> bool:
    """Whether one message is what is left of another. Whole paragraphs that a user's words lack had
    rather been joined to them."""
    plain = rest.parts is None and rest.tool_calls is None and whole.tool_calls is None
    if not plain or whole.role != rest.role or not normal.is_cut(whole.body, rest.body):
        return False
    if not normal.is_telling(rest) and not normal.cut_out(whole.body, rest.body):
        return False
    return rest.role != "user" or not set(normal.marks(rest.body)) <= set(normal.marks(whole.body))
