"""All that a reading needs to know of a request: its pieces, and for each what may be said of it.

A piece is *said* (a stored message says the same), *loose* (an instruction, or a text that was
seen to wander: never stored), or *unknown*. An unknown one is *settled* when an earlier request
had it at the same place and the history has gone on since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from previously.align import normal
from previously.align.hints import AWAY, Habit, Spot
from previously.align.joined import PARTS_MAX
from previously.align.match import Pair
from previously.align.phrases import asks_to_continue
from previously.align.pieces import Piece
from previously.align.views import distances
from previously.model import Message, State

SPOTS_MAX = 128  # texts remembered of a chat
VIEWS_MAX = 16  # of the newest messages that are shown shortened
RESTS_AFTER = 2  # turns
TURN = 2  # messages that are said in it: an instruction that is added is only one
TWINS_MAX = 4  # that say the same and are told apart
START = 0  # in the place of a message: there is none before it


@dataclass(frozen=True)
class Scene:
    """A request over what is stored, before anything is concluded."""

    stored: Sequence[Message]
    complete: bool  # `stored` is all there is
    messages: int  # in the request
    pieces: tuple[Piece, ...]
    pairs: tuple[Pair, ...]  # of the history; piece and stored message, in order
    start: int  # the first piece that can be history
    habit: Habit
    grows: bool = False  # the client says that the last reply is to
    views: frozenset[int] = frozenset()  # pieces of the pairs that show less than is stored
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

    @cached_property
    def _went_on(self) -> set[tuple[int, int]]:
        """The requests since which a turn more is said after something that was in doubt then, and
        the message behind which it was: what is shown again before it is nothing new."""
        was = ((i, self.before[i], spot) for i, spot in self.spots.items() if i in self.before)
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

    def is_last_reply(self, i: int) -> bool:
        """Whether it is the reply that is stored last, in the client's words."""
        m = self.unkept
        said = self.pieces[i].said
        return m is not None and said.role == m.role and normal.reworded(m, said)

    @cached_property
    def unkept(self) -> Message | None:
        """The reply that is stored last, if nobody has shown it yet."""
        last = next((j for j in range(len(self.stored) - 1, -1, -1) if self.stored[j].shown), -1)
        if last < 0 or last in self.told:
            return None
        m = self.stored[last]
        return m if m.role == "assistant" and m.state == State.CANDIDATE else None

    def _rests(self, i: int, spot: Spot) -> bool:
        """Whether it has stayed where it is, turn after turn: no instruction does. What was taken
        for one had only been said before, somewhere else."""
        return self._stayed(i, spot) >= RESTS_AFTER

    def _stayed(self, i: int, spot: Spot) -> int:
        """For how many turns it has been there, this one included."""
        old = self.before.get(i)
        if old is None or len(self._same[self.mark(i)]) > 1 or not self._is_anchored(i, old, spot):
            return 0
        if self._was_passed(i, old):
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
            return old.after == START or self._stands_once(old.after) or self._follows(old, spot)
        if self._was_passed(i, old) or self._outlasts(i, old, spot):
            return True
        # With a reply of ours behind it it has not, however much came and went there.
        return not self._is_held(i, old) and self._is_as_far(i, old, spot)

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

    def _outlasts(self, i: int, old: Spot, spot: Spot) -> bool:
        """Whether it stands in front of everything, as it did, while what stood behind it there has
        left the window: somebody's words would have done so first."""
        if not spot.after == old.after == START or old.request != self._last_request:
            return False
        left = self.stored[: self.pairs[0][1]] if self.pairs else self.stored
        if any(m.shown and m.id in self.habit.told for m in left):
            return True
        spots = self.habit.spots.items()
        behind = {m: s for m, s in spots if s.request == old.request and s.order > old.order}
        here = [s.order for m, s in behind.items() if m in self._same or m in self._said_at]
        gone = [s for s in behind.values() if s.spoken and s.order < min(here, default=0)]
        return len(gone) >= TURN

    @cached_property
    def _last_request(self) -> int:
        """The number of the request before this one; those of another process count down."""
        numbers = (s.request for s in self.habit.spots.values())
        return self.habit.requests - 1 if self.habit.requests else min(numbers, default=0)

    @cached_property
    def _answered(self) -> set[bytes]:
        """What an earlier request had last, and has got a reply of ours behind it since: it was
        said, whatever it was taken for."""
        last = (i for i, old in self.before.items() if not old.later or old.plain == 0)
        seen = (i for i in last if self.was_seen(i) and self._is_answered(i))
        return {self.mark(i) for i in seen if self._is_where_it_was(i)}

    def _is_where_it_was(self, i: int) -> bool:
        old, spot = self.before[i], self.spots[i]
        moved = self._was_passed(i, old) or self._outlasts(i, old, spot)
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
            single = k < i and len(self._same[self.mark(k)]) == 1
            if single and spot.request == old.request and spot.order > old.order:
                yield k

    def _stays_put(self, i: int) -> bool:
        """Whether as much is said after it as was: of two that have changed places, it is the one
        that a client keeps at a distance from the end."""
        return self.spots[i].later == self.before[i].later

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
    def _strayed(self) -> set[bytes]:
        """What was taken for a question, and is missing now before the reply that it got."""
        if not self.pairs:
            return set()
        between = range(self.pairs[0][1] + 1, self.pairs[-1][1])
        missing = (self.stored[j] for j in between if j not in self.told)
        asked = (m for m in missing if m.shown and m.role == "user")
        return {normal.mark(m) for m in asked if m.state == State.CANDIDATE}

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

    @cached_property
    def floating(self) -> set[int]:
        """Pieces that wander."""
        return {i for i, spot in self.spots.items() if self._wanders(i, spot)}

    def is_unknown(self, i: int) -> bool:
        """Whether it may be something said that is not stored."""
        return i in self.spots and self.pieces[i].role != "system" and i not in self.floating

    def is_settled(self, i: int) -> bool:
        """Whether an earlier request had it at the same place, before the history went on."""
        if self.is_heard(i):
            return True
        spot = self.spots[i]
        old = self.before.get(i)
        if old is None or not self.was_seen(i):
            return False
        gone_on = spot.later > old.later or self._is_answered(i)
        if self._lost_question and spot.later < old.later + TURN:
            return False  # it may have come to stand where that was
        return gone_on and self._is_anchored(i, old, spot)

    @cached_property
    def _lost_question(self) -> bool:
        """Whether what the last request asked is nowhere in this one."""
        last = self._last_request
        asked = {m: s for m, s in self.habit.spots.items() if s.request == last and s.spoken}
        mark = max(asked, key=lambda m: asked[m].order, default=None)
        if mark is None or mark in self._same or mark in self._said_at:
            return False
        return not any(map(self.was_asked, self.history))

    def has_stayed(self, i: int) -> bool:
        """Whether it is settled, and has been there for a whole turn: among stored messages, where
        nobody speaks, one that comes and another that goes can make a place look the same."""
        if self.is_heard(i) or not self.is_settled(i):
            return self.is_heard(i)
        spot, old = self.spots[i], self.before[i]
        return spot.later >= old.first[1] + TURN and spot.room > old.room

    def _is_answered(self, i: int) -> bool:
        """Whether a reply of ours has come behind it that no request had before."""
        return any(k > i and k in self.spots and k not in self.before for k in self._heard)

    def was_seen(self, i: int) -> bool:
        """Whether an earlier request had it, and none since was without it."""
        return i in self.before and self.before[i].stays != AWAY

    def stood_beside(self, i: int, m: Message) -> bool:
        """Whether the last request showed both: one is not the other in new words."""
        old = self.before.get(i)
        return old is not None and old.request == self._last_request and m.id in self.habit.told

    def was_asked(self, i: int) -> bool:
        """Whether the last question that was not understood had something of it."""
        return not set(self.habit.asked).isdisjoint(normal.marks(self.pieces[i].said.body))

    def is_heard(self, i: int) -> bool:
        """Whether it is nothing but replies that we have passed on ourselves: it was said."""
        return i in self._heard

    def is_doubtful(self, i: int) -> bool:
        """Whether an earlier request had it, and nothing has shown since what it is."""
        return self.was_seen(i) and not self.is_settled(i)

    def unknown(self, first: int, last: int) -> list[int]:
        """The unknown pieces from one to before another."""
        return [i for i in range(max(first, self.start), last) if self.is_unknown(i)]

    @cached_property
    def _heard(self) -> frozenset[int]:
        if not self.habit.heard:
            return frozenset()
        heard = frozenset(self.habit.heard)
        return frozenset(i for i, p in enumerate(self.pieces) if is_made_of(p, heard))

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
        last = next((i for i in reversed(self.history) if self.pieces[i].role == "user"), None)
        own = normal.marks(self.pieces[last].said.body) if last in self.spots else ()
        return own if len(own) > 1 else self.habit.asked

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
        """When it was first seen behind this message, with how much after it."""
        old = self.before.get(i)
        stays = old is not None and old.stays != AWAY and old.after == spot.after
        return old.first if old is not None and stays else spot.first

    def _spoken_again(self) -> list[int]:
        """Pieces that are stored by now: no longer in doubt."""
        doubted = {m for m, spot in self.habit.spots.items() if spot.spoken}
        doubted |= self.habit.floating
        return [i for i in self.said if self.mark(i) in doubted] if doubted else []


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
