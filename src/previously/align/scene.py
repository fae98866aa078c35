"""All that a reading needs to know of a request: its pieces, and for each what may be said of it.

A piece is *said* (a stored message says the same), *loose* (an instruction, or a text that was
seen to wander: never stored), or *unknown*. An unknown one is *settled* when an earlier request
had it at the same place and the history has gone on since.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from previously.align import normal
from previously.align.hints import AWAY, Habit, Spot
from previously.align.joined import PARTS_MAX
from previously.align.moves import TURN, Moves
from previously.align.places import START, twins, uncounted
from previously.align.views import distances
from previously.model import CLIENT, Message, State

SPOTS_MAX = 128  # texts remembered of a chat
VIEWS_MAX = 16  # of the newest messages that are shown shortened


@dataclass(frozen=True)
class Scene(Moves):
    """A request over what is stored, before anything is concluded."""

    @cached_property
    def named(self) -> set[str]:
        """The roles before whose texts this request puts a name, where none is stored."""
        kept = ((i, self.stored[j]) for i, j in self.pairs)
        return {
            m.role
            for i, m in kept
            if m.state == State.CONFIRMED
            and not normal.prefix(m.body)
            and normal.prefix(self.pieces[i].said.body)
        }

    def is_unknown(self, i: int) -> bool:
        """Whether it may be something said that is not stored."""
        return i in self.spots and self.pieces[i].role != "system" and i not in self.floating

    def is_settled(self, i: int) -> bool:
        """Whether an earlier request had it at the same place, before the history went on."""
        if self.is_heard(i) or self._is_part_of_answered(i):
            return True
        spot = self.spots[i]
        old = self.before.get(i)
        if old is None or not self.was_seen(i):
            return False
        gone_on = spot.later > old.later or self._is_answered(i)
        if self._lost_question and spot.later < old.later + TURN:
            return False  # it may have come to stand where that was
        return gone_on and self._is_anchored(i, old, spot)

    def _is_part_of_answered(self, i: int) -> bool:
        """Whether the last question that was not understood is nothing but this and what stands
        beside it, joined into one, and our reply to it follows now."""
        asked, said = set(self.habit.asked), (k for k in self.history if k >= i)
        for k in said:
            if self.pieces[k].role == "system":
                continue
            if self.is_heard(k):
                return k > i and k in self.spots and k not in self.before
            if self.pieces[k].role != "user" or k in self.said or not self._is_of(k, asked):
                return False
        return False

    def _is_of(self, i: int, marks: Collection[bytes]) -> bool:
        own = normal.marks(self.pieces[i].said.body)
        return bool(own) and all(mark in marks for mark in own)

    @cached_property
    def _lost_question(self) -> bool:
        """Whether what the last request asked is nowhere in this one."""
        last = self._last_request
        asked = {m: s for m, s in self.habit.spots.items() if s.request == last and s.spoken}
        told = [m for m in self.stored if m.id in self.habit.told]
        if told and told[-1].role == "user" and all(s.after != told[-1].id for s in asked.values()):
            return told[-1].shown and told[-1].id not in self._shown_at
        mark = max(asked, key=lambda m: asked[m].order, default=None)
        if mark is None or mark in self._told:
            return False
        return not any(map(self.was_asked, self.history))

    def has_stayed(self, i: int) -> bool:
        """Whether it is settled, and has been there for a whole turn: among stored messages, where
        nobody speaks, one that comes and another that goes can make a place look the same."""
        if self.is_heard(i) or not self.is_settled(i):
            return self.is_heard(i)
        spot, old = self.spots[i], self.before[i]
        return spot.later >= old.first[1] + TURN and spot.room > old.room

    def stood_beside(self, i: int, m: Message) -> bool:
        """Whether the last request showed both: one is not the other in new words."""
        old = self.before.get(i)
        return old is not None and old.request == self._last_request and m.id in self.habit.told

    def was_shown_again(self, m: Message) -> bool:
        """Whether it is hidden, and the last request, which was not understood, showed it."""
        return m.hidden_by == CLIENT and m.id in self.habit.told

    def was_asked(self, i: int) -> bool:
        """Whether the last question that was not understood had something of it."""
        return not set(self.habit.asked).isdisjoint(normal.marks(self.pieces[i].said.body))

    def is_doubtful(self, i: int) -> bool:
        """Whether an earlier request had it, and nothing has shown since what it is."""
        return self.was_seen(i) and not self.is_settled(i)

    def unknown(self, first: int, last: int) -> list[int]:
        """The unknown pieces from one to before another."""
        return [i for i in range(max(first, self.start), last) if self.is_unknown(i)]

    @cached_property
    def _far(self) -> list[int]:
        return distances([p.said for p in self.pieces], uncounted(self.pieces, grows=self.grows))

    def is_cut(self, i: int) -> bool:
        """Whether somebody has cut what is shown shortened: others that have come to stand where it
        stood, when it was first seen so, are shown whole, with what it lacks. Where two lack the
        same kind of thing, it is a rule."""
        m = self.stored[self.said[i]]
        first = self.habit.views.get(m.id)
        sign = self._lacks(i)
        if first is None or (sign and any(self._lacks(k) == sign for k in self.views - {i})):
            return False
        later = [k for k in self.said if k > i and self.pieces[k].role == m.role]
        there = {k: self.stored[self.said[k]] for k in later if self._far[k] >= first}
        kept = (one.body for one in there.values() if one.state == State.CONFIRMED)
        return any(sign in body for body in kept) and self.views.isdisjoint(there)

    def _lacks(self, i: int) -> str:
        """How that begins which is missing in what is shown shortened."""
        return normal.cut_out(self.stored[self.said[i]].body, self.pieces[i].said.body)

    def _seen_short(self) -> dict[int, int]:
        """Which messages are shown shortened, and how much was said after them at first."""
        ids = {i: self.stored[self.said[i]].id for i in sorted(self.views)[-VIEWS_MAX:]}
        return {one: self.habit.views.get(one, self._far[i]) for i, one in ids.items()}

    def remembered(self, stored: set[int]) -> Habit:
        """The habit after this request, of whose pieces these are stored now."""
        rested = {self.mark(i) for i, spot in self.spots.items() if self._rests(i, spot)}
        kept = {self.mark(i) for i in (*(stored - self.said.keys()), *self._spoken_again())}
        parts = (normal.marks(self.pieces[i].said.body) for i in self.floating)
        wandered = {self.mark(i) for i in self.floating}.union(*parts)
        floating = (self.habit.floating - rested | wandered) - kept
        kept_in = {mark for i in stored - self.said.keys() for mark in self._begun_with(i)}
        gone = {one for mark in (*kept, *kept_in, *self._same) for one in twins(mark)}
        missing = {m: s for m, s in self.habit.spots.items() if m not in gone}
        shown = {*self._shown_at, *([] if self.stored else [START])}
        away = {m: replace(s, stays=AWAY) for m, s in missing.items() if s.after in shown}
        spots = missing | away | self._seen(stored, floating)
        return replace(
            self.habit,
            requests=self.habit.requests + 1,
            told=frozenset(self.stored[j].id for _, j in self.pairs[-SPOTS_MAX:]),
            spots=dict(list(spots.items())[-SPOTS_MAX:]),
            floating=frozenset(sorted(floating)[:SPOTS_MAX]),
            views=self._seen_short(),
        )

    def _begun_with(self, i: int) -> set[bytes]:
        """What may have been seen by itself before more was joined to it."""
        parts = normal.paragraphs(self.pieces[i].said.body)[:PARTS_MAX]
        return {normal.mark_of(normal.PARAGRAPH.join(parts[:n])) for n in range(1, len(parts))}

    def asked(self) -> tuple[bytes, ...]:
        """The paragraphs of the last question, if it is not stored: some may be joined to it."""
        return self.asks if len(self.asks) > 1 else self.habit.asked

    def _seen(self, stored: set[int], floating: Collection[bytes]) -> dict[bytes, Spot]:
        """Where everything stands that is in doubt still."""
        seen: dict[bytes, Spot] = {}
        plain = self._said_after(floating)
        for mark, same in self._same.items():
            left = (i for i in same if i not in stored)
            for i, one in zip(left, twins(mark), strict=False):
                seen[one] = replace(
                    self.spots[i],
                    stays=self._stayed(i, self.spots[i]),
                    first=self._first(i, self.spots[i]),
                    plain=plain[i],
                )
        return dict(sorted(seen.items(), key=lambda item: item[1].order))

    def _first(self, i: int, spot: Spot) -> tuple[int, int]:
        """When it was first seen behind this message, with how much after it; or with least, if
        somebody has taken back what came after it since."""
        old = self.before.get(i)
        stays = old is not None and old.stays != AWAY and old.after == spot.after
        return min(old.first, spot.first, key=itemgetter(1)) if old and stays else spot.first

    def _spoken_again(self) -> list[int]:
        """Pieces that are stored by now: no longer in doubt."""
        doubted = {m for m, spot in self.habit.spots.items() if spot.spoken}
        doubted |= self.habit.floating
        return [i for i in self.said if self.mark(i) in doubted] if doubted else []
