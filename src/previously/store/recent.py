"""The newest messages of chats that were looked at lately, held from one turn to the next.

Every change of a chat's messages raises its revision, in the same transaction. So what was read
at a revision is what would be read as long as it stands there, whoever else writes: a look that
has read the revision need not read the messages again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from previously.model import ChatRef, Message, State

CHATS_KEPT = 256
CHARS_KEPT = 250_000  # of one chat; one that says more is read anew each time
MORE_KEPT = 32  # messages beyond those that were asked for: clients send a little more each time


@dataclass(frozen=True, slots=True)
class Recent:
    """A chat's newest messages at one revision, oldest first."""

    rev: int
    messages: tuple[Message, ...]
    whole: bool  # there are no others
    chars: int = field(default=0, compare=False)  # what they hold at most

    @staticmethod
    def of(rev: int, messages: tuple[Message, ...], *, whole: bool) -> Recent:
        """What a look has found."""
        return Recent(rev, messages, whole, _chars(messages))

    def newest(self, rev: int, limit: int) -> Recent | None:
        """At most `limit` of them, as a look would find them; None if it has to look itself."""
        count = len(self.messages)
        if rev != self.rev or (count < limit and not self.whole):
            return None
        if count < limit:
            return self
        return self.cut(limit, whole=False)

    def followed(self, rev: int, kept: Collection[int], made: tuple[Message, ...]) -> Recent:
        """After a turn that only confirmed some of them and added others."""
        confirmed = State.CONFIRMED.value
        old = [replace(m, state=confirmed) if m.id in kept else m for m in self.messages]
        return Recent(rev, (*old, *made), self.whole, self.chars + _chars(made))

    def cut(self, limit: int, *, whole: bool) -> Recent:
        """No more than `limit` of them."""
        whole = whole and len(self.messages) <= limit
        return Recent(self.rev, self.messages[-limit:], whole, self.chars)


def _chars(messages: Sequence[Message]) -> int:
    return sum([len(m.body) + len(m.parts or "") for m in messages])


class Recents:
    """One per store, bounded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Recent] = OrderedDict()

    def get(self, ref: ChatRef) -> Recent | None:
        """What was last kept of a chat; the look that asks must see whether it still holds."""
        return self._kept.get(ref.id)

    def seen(self, ref: ChatRef, found: Recent) -> None:
        """A look has found this; what is known of a later moment, or more of the same, stays."""
        known = self._kept.get(ref.id)
        if known is not None and known.rev > found.rev:
            return
        count = len(found.messages)
        if known is not None and known.rev == found.rev and len(known.messages) > count:
            found = known.cut(count + MORE_KEPT, whole=known.whole)
        self._keep(ref, found)

    def recorded(
        self, ref: ChatRef, rev: int, kept: Collection[int], made: tuple[Message, ...]
    ) -> None:
        """This process has confirmed some messages and added others, and nothing else was done
        since the revision before."""
        known = self._kept.get(ref.id)
        if known is not None and known.rev == rev - 1:
            self._keep(ref, known.followed(rev, kept, made))

    def _keep(self, ref: ChatRef, recent: Recent) -> None:
        self._kept.pop(ref.id, None)
        if recent.chars <= CHARS_KEPT:
            self._kept[ref.id] = recent
        if len(self._kept) > CHATS_KEPT:
            self._kept.popitem(last=False)
