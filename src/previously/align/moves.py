"""What has moved in a request since those before it, and what has stayed.

Somebody's words stay behind the message that they followed while a history goes on. An instruction
keeps its distance from the end, and comes to stand behind others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from previously.align import normal
from previously.align.hints import AWAY, Spot
from previously.align.places import START, Places, stands_apart, twins
from previously.model import State

RESTS_AFTER = 2  # turns
TURN = 2  # messages that are said in it: an instruction that is added is only one


@dataclass(frozen=True)
class Moves(Places):
    """The places of a request, compared with those of earlier ones."""

    @cached_property
    def _went_on(self) -> set[tuple[int, int]]:
        """The requests since which a turn more is said after something that was in doubt then, and
        the message behind which it was: what is shown again before it is nothing new. Of two that
        say the same nobody knows which one was seen."""
        single = ((i, spot) for i, spot in self.spots.items() if not self._is_twin(i))
        was = ((i, self.before[i], spot) for i, spot in single if i in self.before)
        return {
            (request, old.after)
            for i, old, spot in was
            for request, later in ((old.request, old.later), old.first)
            if spot.later >= later + TURN and self._was_answered(i, old)
        }

    def _was_answered(self, i: int, old: Spot) -> bool:
        """Whether a reply has come behind it since: what else does may be nothing but more
        instructions."""
        last = len(self.pieces) - 1 - stands_apart(self.pieces, grows=self.grows)
        for k in range(last, i, -1):
            if self.pieces[k].role != "assistant":
                continue
            known = k in self.before or (k in self.said and not self._is_newer(k, old))
            if not known:
                return True
        return False

    def _is_newer(self, k: int, old: Spot) -> bool:
        return self.stored[self.said[k]].id > old.newest

    def _wanders(self, i: int, spot: Spot) -> bool:
        """Whether it is known to be injected, or was seen elsewhere before."""
        mark = self.mark(i)
        old = self.before.get(i)
        known = mark in self.habit.floating or mark in self._strayed
        if not known and (old is None or not spot.spoken):
            return False
        if self.is_heard(i) or self.is_last_reply(i):
            return False
        if mark in self._said_at:
            return False  # somebody says again what is stored by now
        if known and (mark in self._answered or self._rests(i, spot)):
            return False
        return known or (old is not None and self._has_moved(i, old, spot))

    def _rests(self, i: int, spot: Spot) -> bool:
        """Whether it has stayed where it is, turn after turn: no instruction does. What was taken
        for one had only been said before, somewhere else."""
        return self._stayed(i, spot) >= RESTS_AFTER

    def _stayed(self, i: int, spot: Spot) -> int:
        """For how many turns it has been there, this one included."""
        old = self.before.get(i)
        if old is None or len(self._same[self.mark(i)]) > 1 or not self._is_where_it_was(i):
            return 0
        if spot.later == old.later:
            return max(old.stays, 0)  # the same turn, asked again
        return old.stays + 1 if spot.later >= old.later + TURN else 0  # from `AWAY` on it is new

    def _has_moved(self, i: int, old: Spot, spot: Spot) -> bool:
        """Whether it stood behind another message that is still there, before one that it follows
        now, or as far from the end although the history has gone on."""
        if old.stays == AWAY:
            return False  # somebody may say again what was taken back
        if self._is_twin(i):
            return False  # of two that say the same nobody knows which one was seen
        if not self._is_anchored(i, old, spot):
            return self._is_elsewhere(old, spot)
        if self._was_passed(i, old) or i in self._outlasting:
            return True
        # With a reply of ours behind it it has not, however much came and went there.
        return not self._is_held(i, old) and self._is_as_far(i, old, spot)

    def _is_elsewhere(self, old: Spot, spot: Spot) -> bool:
        """Whether it stood before something that it stands behind now. What was said before all
        the rest has left the window since, and is said again."""
        if old.after == START:
            return old.stays < 1
        return self._stands_once(old.after) or self._follows(old, spot)

    def _is_twin(self, i: int) -> bool:
        """Whether another one says the same, or did so."""
        mark = self.mark(i)
        other = self.habit.spots.get(twins(mark)[1])
        return len(self._same[mark]) > 1 or (other is not None and other.stays != AWAY)

    def _follows(self, old: Spot, spot: Spot) -> bool:
        """Whether it stands behind a message that the last request showed behind it."""
        last = old.request == self._last_request and spot.after in self.habit.told
        if not last or not self._stands_once(spot.after):
            return False
        before = [m.id for m in self.stored[: self.said[self._shown_at[spot.after]]]]
        return old.after in before or old.after not in {m.id for m in self.stored}

    @cached_property
    def _outlasting(self) -> set[int]:
        """What stands in front of everything, as it did, while what stood behind it there has left
        the window: somebody's words would have done so first. Behind what has not outlasted
        anything something was only taken out."""
        found: set[int] = set()
        for i, spot in self.spots.items():
            old = self.before.get(i)
            if old is None or not spot.spoken or old.request != self._last_request:
                continue
            if not spot.after == old.after == START or not self._has_lost(old):
                break
            found.add(i)
        return found

    def _has_lost(self, old: Spot) -> bool:
        """Whether what stood behind it has left the window."""
        left = self.stored[: self.pairs[0][1]] if self.pairs else self.stored
        if any(m.shown and m.id in self.habit.told for m in left):
            return True
        spots = self.habit.spots.items()
        behind = {m: s for m, s in spots if s.request == old.request and s.order > old.order}
        here = [s.order for m, s in behind.items() if m in self._told]
        front = min(here, default=0)
        gone = [m for m, s in behind.items() if s.spoken and s.order < front]
        return len(gone) >= TURN or not set(self.habit.heard).isdisjoint(gone)

    @cached_property
    def _told(self) -> set[bytes]:
        """What the request says, also as part of more."""
        parts = (normal.marks(self.pieces[i].said.body) for i in self.history)
        return {*self._same, *self._said_at}.union(*parts)

    @cached_property
    def _answered(self) -> set[bytes]:
        """What an earlier request had last, and has got a reply of ours behind it since: it was
        said, whatever it was taken for."""
        last = (i for i, old in self.before.items() if not old.later or old.plain == 0)
        seen = (i for i in last if self.was_seen(i) and self._is_answered(i))
        return {self.mark(i) for i in seen if self._is_where_it_was(i)}

    def _is_where_it_was(self, i: int) -> bool:
        old, spot = self.before[i], self.spots[i]
        moved = self._was_passed(i, old) or i in self._outlasting
        return self._is_anchored(i, old, spot) and not moved

    def _is_as_far(self, i: int, old: Spot, spot: Spot) -> bool:
        """Whether it is as far from the end as it was, although the history has gone on."""
        as_far = old.plain in (None, self._plainly_after[i])
        stood = [(old.request, old.later)] if as_far else []
        return any(
            later == spot.later and (request, old.after) in self._went_on
            for request, later in (*stood, old.first)
        )

    def _is_held(self, i: int, old: Spot) -> bool:
        """Whether a reply stands behind it that we have passed on then or since. An instruction
        that is as far from the end as before would have come behind it."""
        seen = (self.before.get(k) for k in self._heard if k > i)
        return any(o is None or o.request != old.request or o.order > old.order for o in seen)

    @cached_property
    def _plainly_after(self) -> dict[int, int]:
        """The same without what was known to wander before."""
        return self._said_after(self.habit.floating)

    def _was_passed(self, i: int, old: Spot) -> bool:
        """Whether it has changed places with something else that is in doubt, a narrator's line or
        an instruction, and is the one that has moved."""
        return any(self._stays_put(i) or not self._stays_put(k) for k in self._passed_by(i, old))

    def _passed_by(self, i: int, old: Spot) -> Iterator[int]:
        """What stood behind it in that request, and stands before it now."""
        for k, spot in self.before.items():
            behind = spot.request == old.request and spot.order > old.order
            if k < i and behind and not self._is_twin(k):
                yield k

    def _stays_put(self, i: int) -> bool:
        """Whether as much is said after it as was: of two that have changed places, it is the one
        that a client keeps at a distance from the end."""
        return self.spots[i].later == self.before[i].later

    @cached_property
    def _strayed(self) -> set[bytes]:
        """What was taken for a question, and is missing now before the reply that it got."""
        if not self.pairs:
            return set()
        between = range(self.pairs[0][1] + 1, self.pairs[-1][1])
        missing = (self.stored[j] for j in between if j not in self.told)
        asked = (m for m in missing if m.shown and m.role == "user")
        return {normal.mark(m) for m in asked if m.state == State.CANDIDATE}

    def _is_answered(self, i: int) -> bool:
        """Whether a reply of ours has come behind it that no request had before."""
        return any(k > i and k in self.spots and k not in self.before for k in self._heard)

    def was_seen(self, i: int) -> bool:
        """Whether an earlier request had it, and none since was without it."""
        return i in self.before and self.before[i].stays != AWAY

    @cached_property
    def floating(self) -> set[int]:
        """Pieces that wander."""
        return {i for i, spot in self.spots.items() if self._wanders(i, spot)}
