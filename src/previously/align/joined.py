"""What was joined to a message, told from it.

Clients join what they inject to the words beside it. It is known by having wandered, by having come
without those words, or by the words having come without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from previously.align import normal
from previously.align.hints import AWAY, Habit
from previously.align.phrases import is_instruction
from previously.align.pieces import Piece
from previously.model import Message, NewMessage

LAST_TURN = 4  # messages among which a question stands that was hardly seen again yet
PARTS_MAX = 12  # paragraphs of a text that is looked through for another


def cleared(said: NewMessage, habit: Habit) -> NewMessage:
    """A message without what is known to wander and stands in the midst of its paragraphs now: it
    came between several messages that were joined with it."""
    if said.role == "system" or said.parts is not None or normal.PARAGRAPH not in said.body:
        return said
    parts = normal.paragraphs(said.body)
    inner = [n for n in range(1, len(parts) - 1) if normal.mark_of(parts[n]) in habit.floating]
    if not inner:
        return said
    kept = [part for n, part in enumerate(parts) if n not in inner]
    return replace(said, body=normal.PARAGRAPH.join(kept))


def unjoined(piece: Piece, habit: Habit, later: int) -> Piece:
    """A piece that no stored message says, as far as it may be said by somebody."""
    if not _may_be_joined(piece):
        return piece
    made = _as_seen(_without_injections(piece, _injected(habit, later)), _stayed(habit, later))
    only = habit.floating.issuperset(normal.marks(made.said.body))
    return _as_instruction(made) if only else made


def learned(
    pieces: Sequence[Piece], said: dict[int, int], stored: Sequence[Message], habit: Habit
) -> Habit:
    """What had been joined to a user's words that now come back without it was injected."""
    strange = [i for i, p in enumerate(pieces) if i not in said and p.role == "user"]
    own = {i: normal.marks(pieces[i].said.body) for i in strange}
    found: set[bytes] = set()
    for whole in (habit.asked, *map(normal.marks, _doubtful(said, stored))):
        back = next((i for i in strange if own[i] and set(own[i]) < set(whole)), None)
        if back is not None and _is_itself(own[back], whole, _after(pieces, said, back)):
            found |= set(whole) - set(own[back])
        ends = _same_end(whole, own[strange[-1]]) if strange else ()
        asked = (i for i in strange[:-1] if own[i][:1] == whole[:1])
        replied = (i for i in asked if _is_answered(_after(pieces, said, i)))
        if any(set(ends).isdisjoint(own[i]) for i in replied):
            found |= set(ends)  # each request ends with it, and the question came back without
    return replace(habit, floating=habit.floating | found) if found else habit


def _same_end(before: Sequence[bytes], now: Sequence[bytes]) -> Sequence[bytes]:
    """The paragraphs with which two questions end that begin otherwise."""
    pairs = zip(reversed(before[1:]), reversed(now[1:]), strict=False)
    count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return now[len(now) - count :]


def _is_answered(after: Piece | None) -> bool:
    return after is not None and after.role == "assistant"


def _is_itself(own: tuple[bytes, ...], whole: tuple[bytes, ...], after: Piece | None) -> bool:
    """Whether this is a question with less joined to it: a reply follows, or something else than
    the rest of it, which may only have been parted from it."""
    if _is_answered(after):
        return True
    more = whole[len(own) :]
    rest = normal.marks(after.said.body)[:1] if after is not None else ()
    return whole[: len(own)] == own and more[:1] != rest


def _after(pieces: Sequence[Piece], said: dict[int, int], i: int) -> Piece | None:
    """What is said next, but for the beginning of a reply that a client puts last."""
    spoken = [k for k in range(i + 1, len(pieces)) if pieces[k].role != "system"]
    begins = len(spoken) == 1 and spoken[0] not in said
    if not spoken or (begins and pieces[spoken[0]].role == "assistant"):
        return None
    return pieces[spoken[0]]


def _doubtful(said: dict[int, int], stored: Sequence[Message]) -> list[str]:
    """The last questions that are stored, if they are not shown as they are."""
    known = set(said.values())
    last = range(max(0, len(stored) - LAST_TURN), len(stored))
    return [stored[j].body for j in last if j not in known and stored[j].role == "user"]


def _injected(habit: Habit, later: int) -> set[bytes]:
    """What may have been joined to a text after which so much is said: what is known to wander, and
    what an earlier request had that far from its end. What has more after it now has stayed."""
    return {*habit.floating, *(mark for mark, spot in habit.spots.items() if spot.later >= later)}


def _may_be_joined(piece: Piece) -> bool:
    if piece.role == "system":
        return False
    return normal.PARAGRAPH in piece.said.body or is_instruction(piece.said.body)


def _without_injections(piece: Piece, injected: set[bytes]) -> Piece:
    """A client's words without the paragraphs that are known to be joined to them; as the system's,
    if they are nothing else: a client may send its instructions as the user."""
    parts = normal.paragraphs(piece.said.body)
    spoken = range(len(parts))
    if piece.role == "user":  # what is asked stands last, with all that follows it
        spoken = range(next((n for n in spoken if is_instruction(parts[n])), len(parts)))
    first, last = 0, len(spoken)
    while first < last and normal.mark_of(parts[last - 1]) in injected:
        last -= 1
    while first < last and normal.mark_of(parts[first]) in injected:
        first += 1
    if first == last and len(spoken) < len(parts):
        return _as_instruction(piece)
    if last - first in (0, len(parts)):
        return piece
    body = normal.PARAGRAPH.join(parts[first:last])
    return replace(piece, said=replace(piece.said, body=body), part=True)


def _stayed(habit: Habit, later: int) -> set[bytes]:
    """What an earlier request had with less after it: it was said, unless it comes to wander."""
    spots = habit.spots.items()
    return {m for m, s in spots if s.spoken and s.stays != AWAY and s.later < later}


def _as_seen(piece: Piece, stayed: set[bytes]) -> Piece:
    """A user's words as an earlier request had them, by themselves. What is joined to them since is
    none of his; if he did add it, that shows once they are stored."""
    parts = normal.paragraphs(piece.said.body)
    if not stayed or piece.role != "user" or not 1 < len(parts) <= PARTS_MAX:
        return piece
    seen = _seen_parts(parts, stayed)
    if not seen:
        return piece
    first, last = max(seen, key=lambda span: span[1] - span[0])
    body = normal.PARAGRAPH.join(parts[first:last])
    return replace(piece, said=replace(piece.said, body=body), part=True)


def _seen_parts(parts: Sequence[str], stayed: set[bytes]) -> list[tuple[int, int]]:
    """Where paragraphs stand that were seen by themselves; neighbours that were are one."""
    seen: list[tuple[int, int]] = []
    at = 0
    while at < len(parts):
        sizes = range(len(parts) - at, 0, -1)
        texts = ((size, normal.PARAGRAPH.join(parts[at : at + size])) for size in sizes)
        size = next((size for size, text in texts if normal.mark_of(text) in stayed), 0)
        if size and seen and seen[-1][1] == at:
            seen[-1] = (seen[-1][0], at + size)
        elif size:
            seen.append((at, at + size))
        at += size or 1
    return seen


def _as_instruction(piece: Piece) -> Piece:
    return replace(piece, said=replace(piece.said, role="system"))
