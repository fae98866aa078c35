"""What was joined to a message, told from it.

Clients join what they inject to the words beside it. It is known by having wandered, by having come
without those words, or by the words having come without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from previously.align import normal
from previously.align.hints import AWAY, Habit
from previously.align.phrases import is_instruction
from previously.align.pieces import Piece
from previously.model import Message, State

LAST_TURN = 4  # messages among which a question stands that was not seen again yet
PARTS_MAX = 12  # paragraphs of a text that is looked through for another


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
    strange = [p for i, p in enumerate(pieces) if i not in said and p.role == "user"]
    found = _joined_in_doubt(strange, habit.asked) if len(habit.asked) > 1 else set[bytes]()
    known = set(said.values())
    doubtful = [
        m
        for j, m in enumerate(stored[-LAST_TURN:], max(0, len(stored) - LAST_TURN))
        if j not in known and m.role == "user" and m.state == State.CANDIDATE
    ]
    for m in doubtful:
        for piece in strange:
            whole = piece.said.body + normal.PARAGRAPH
            if m.body.startswith(whole):
                found |= set(normal.marks(m.body[len(whole) :]))
    return replace(habit, floating=habit.floating | found) if found else habit


def _joined_in_doubt(pieces: Sequence[Piece], asked: tuple[bytes, ...]) -> set[bytes]:
    """The same for what was asked in a request that was not understood."""
    found: set[bytes] = set()
    for piece in pieces:
        own = normal.marks(piece.said.body)
        if len(own) < len(asked) and own == asked[: len(own)]:
            found.update(asked[len(own) :])
    return found


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
    for size in range(len(parts), 0, -1):
        for at in range(len(parts) - size + 1):
            body = normal.PARAGRAPH.join(parts[at : at + size])
            if normal.mark_of(body) in stayed:
                return replace(piece, said=replace(piece.said, body=body), part=True)
    return piece


def _as_instruction(piece: Piece) -> Piece:
    return replace(piece, said=replace(piece.said, role="system"))
