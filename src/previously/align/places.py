"""Where everything stands in a request, and where it stood in those before it.

A piece that no stored message says has a *spot*: the stored message before it, and how much is said
after it. From one request to the next that tells what has moved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from previously.align import normal
from previously.align.hints import Habit, Spot
from previously.align.match import Pair
from previously.align.phrases import asks_to_continue
from previously.align.pieces import Piece
from previously.model import Message, State

TWINS_MAX = 4  # that say the same and are told apart
START = 0  # in the place of a message: there is none before it


@dataclass(frozen=True)
class Places:
    """A request over what is stored."""

    stored: Sequence[Message]
    complete: bool  # `stored` is all there is
    messages: int  # in the request
    pieces: tuple[Piece, ...]
    pairs: tuple[Pair, ...]  # of the history; piece and stored message, in order
    start: int  # the first piece that can be history
    habit: Habit
    grows: bool = False  # the client says that the last reply is to
    views: frozenset[int] = frozenset()  # pieces of the pairs that show less than is stored
    asks: tuple[bytes, ...] = ()  # the paragraphs of the last question, joined ones as well
    _marks: dict[int, bytes] = field(default_factory=dict[int, bytes], compare=False)

    @cached_property
    def said(self) -> dict[int, int]:
        """Piece → stored message."""
        return dict(self.pairs)

    @cached_property
    def told(self) -> set[int]:
        """The stored messages that the request shows."""
        return {j for _, j in self.pairs}

    def mark(self, i: int) -> bytes:
        """What a piece is remembered by."""
        if i not in self._marks:
            self._marks[i] = normal.mark(self.pieces[i].said)
        return self._marks[i]

    @cached_property
    def history(self) -> tuple[int, ...]:
        """The pieces that can be history."""
        first = (i for i in self.said if i < self.start)
        return (*first, *range(self.start, len(self.pieces)))

    @cached_property
    def spots(self) -> dict[int, Spot]:
        """Where every piece stands that no stored message says."""
        spots: dict[int, Spot] = {}
        before = START
        newest = max((m.id for m in self.stored), default=0)
        after = self._said_after()
        for i in self.history:
            spoken, later = self.pieces[i].role != "system", after[i]
            if i in self.said:
                before = self.stored[self.said[i]].id
            else:
                now = self.habit.requests
                room = len(self.pieces) - i
                spots[i] = Spot(
                    *(before, later, spoken, i, now, newest), first=(now, later), room=room
                )
        return spots

    def _said_after(self, loose: Collection[bytes] = ()) -> dict[int, int]:
        """How many messages of the request are said after each piece, but for these: one that comes
        apart is not more than it was when nothing in it was known."""
        after: dict[int, int] = {}
        apart = uncounted(self.pieces, grows=self.grows)
        sources: set[int] = set()
        for i in reversed(self.history):
            after[i] = len(sources) - apart
            if self.pieces[i].role != "system" and not (loose and self.mark(i) in loose):
                sources.add(self.pieces[i].source)
        return after

    @cached_property
    def before(self) -> dict[int, Spot]:
        """Where those of them stood that an earlier request had as well."""
        found: dict[int, Spot] = {}
        for mark, same in self._same.items():
            old = [self.habit.spots[one] for one in twins(mark) if one in self.habit.spots]
            found |= self._paired(same, old) if old else {}
        return found

    @cached_property
    def _same(self) -> dict[bytes, list[int]]:
        """The pieces that stand somewhere, by what they say."""
        same: dict[bytes, list[int]] = {}
        for i in self.spots:
            same.setdefault(self.mark(i), []).append(i)
        return same

    def saying(self, m: Message) -> Sequence[int]:
        """What says the same as this message, and is not stored."""
        return self._same.get(normal.mark(m), ())

    def _paired(self, same: Sequence[int], old: Sequence[Spot]) -> dict[int, Spot]:
        """Which of several that say the same was seen where. As many as there were are the same
        ones, in order; of more, those that stayed where they were, and the others are new; of
        fewer, the last: a window moves on."""
        if len(same) != len(old):
            stayed = self._stayed_among(same, old)
            if len(stayed) == len(old):
                return stayed
        left = max(len(old) - len(same), 0)
        return {i: old[min(left + n, len(old) - 1)] for n, i in enumerate(same)}

    def _stayed_among(self, same: Sequence[int], old: Sequence[Spot]) -> dict[int, Spot]:
        found: dict[int, Spot] = {}
        for i in same:
            was = old[len(found)] if len(found) < len(old) else None
            if (
                was
                and self.spots[i].later >= was.later
                and self._is_anchored(i, was, self.spots[i])
            ):
                found[i] = was
        return found

    def _is_anchored(self, i: int, old: Spot, spot: Spot) -> bool:
        """Whether it stands behind the same stored message; others between may have been hidden
        then, or not stored yet and before it as well."""
        if old.after == spot.after:
            return True
        anchor = self._shown_at.get(old.after, i) if old.after != START else -1
        between = [k for k in self.said if anchor < k < i and not self._was_hidden(k, old)]
        since = [self._was_unsaid(k) for k in between]
        return anchor < i and all(
            o is not None and o.request == old.request and o.order < old.order for o in since
        )

    def _was_hidden(self, k: int, old: Spot) -> bool:
        """Whether a stored message that is shown now was stored then, and not shown, not even in
        words that are stored since."""
        message_id = self.stored[self.said[k]].id
        known = message_id > old.newest or message_id in self.habit.told
        return not known and self._was_unsaid(k) is None

    def _was_unsaid(self, k: int) -> Spot | None:
        """Where a message stood that is stored by now, when it was not yet."""
        mark = self.mark(k)
        return None if mark in self._same else self.habit.spots.get(mark)

    @cached_property
    def _said_at(self) -> dict[bytes, int]:
        return {self.mark(i): i for i in self.said}

    @cached_property
    def _shown_at(self) -> dict[int, int]:
        """Stored message, by its id → piece."""
        return {self.stored[j].id: i for i, j in self.pairs}

    def _stands_once(self, message_id: int) -> bool:
        """Whether the request shows this message, and nothing else in it says the same."""
        shown = self._shown_at.get(message_id)
        if shown is None:
            return False
        return sum(self.mark(i) == self.mark(shown) for i in self.history) == 1

    @cached_property
    def _last_request(self) -> int:
        """The number of the request before this one; those of another process count down."""
        numbers = (s.request for s in self.habit.spots.values())
        return self.habit.requests - 1 if self.habit.requests else min(numbers, default=0)

    def is_heard(self, i: int) -> bool:
        """Whether it is nothing but replies that we have passed on ourselves: it was said."""
        return i in self._heard

    @cached_property
    def _heard(self) -> frozenset[int]:
        if not self.habit.heard:
            return frozenset()
        heard = frozenset(self.habit.heard)
        return frozenset(i for i, p in enumerate(self.pieces) if is_made_of(p, heard))

    @cached_property
    def unkept(self) -> Message | None:
        """The reply that is stored last, if nobody has shown it yet."""
        return unkept(self.stored, self.told)

    def is_last_reply(self, i: int) -> bool:
        """Whether it is the reply that is stored last, in the client's words."""
        m = self.unkept
        said = self.pieces[i].said
        return m is not None and said.role == m.role and normal.reworded(m, said)


def unkept(stored: Sequence[Message], told: Collection[int]) -> Message | None:
    """The reply that is stored last, if it is not among those that are shown, nor ever was."""
    last = next((j for j in range(len(stored) - 1, -1, -1) if stored[j].shown), -1)
    if last < 0 or last in told:
        return None
    m = stored[last]
    return m if m.role == "assistant" and m.state == State.CANDIDATE else None


def twins(mark: bytes) -> list[bytes]:
    """What several that say the same are remembered by, from the first one on."""
    return [mark, *(mark + bytes([n]) for n in range(1, TWINS_MAX))]


def is_made_of(piece: Piece, heard: frozenset[bytes]) -> bool:
    """Whether a piece is nothing but these paragraphs, said as a reply."""
    own = normal.marks(piece.said.body) if piece.role == "assistant" else ()
    return bool(own) and heard.issuperset(own)


def stands_apart(pieces: Sequence[Piece], *, grows: bool) -> int:
    """How many of the last pieces a client puts behind all the rest, when what it injects has its
    place already: a reply that is to grow, and the sentence that asks for it."""
    if pieces and asks_to_continue(pieces[-1].said.body):
        return 2
    return int(grows and bool(pieces) and pieces[-1].role == "assistant")


def uncounted(pieces: Sequence[Piece], *, grows: bool) -> int:
    """How many of them are said, and are not counted among what is said after another."""
    return min(stands_apart(pieces, grows=grows), 1)
