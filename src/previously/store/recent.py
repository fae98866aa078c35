"""The newest messages of chats that were looked at lately, held from one turn to the next.

Every change of a chat's messages raises its revision, in the same transaction. So what was read
at a revision is what would be read as long as it stands there, whoever else writes: a look that
has read the revision need not read the messages again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

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
    from_pos: int  # all that stand here or later are among them
    chars: int  # what they hold at most

    @staticmethod
    def of(rev: int, messages: tuple[Message, ...], *, whole: bool) -> Recent:
        """The newest messages."""
        return Recent(rev, messages, whole, messages[0].pos if messages else 0, _chars(messages))

    @staticmethod
    def since(rev: int, messages: tuple[Message, ...], from_pos: int) -> Recent:
        """All messages from a position on."""
        return Recent(rev, messages, whole=False, from_pos=from_pos, chars=_chars(messages))

    def serves(self, rev: int, limit: int) -> bool:
        """Whether the newest `limit` messages of that revision are among these."""
        return rev == self.rev and (self.whole or len(self.messages) >= limit)

    def reaches(self, pos: int) -> bool:
        """Whether all messages from a position on are among these."""
        return self.whole or (bool(self.messages) and self.from_pos <= pos)

    def followed(self, rev: int, kept: Collection[int], made: tuple[Message, ...]) -> Recent:
        """After a turn that only confirmed some of them and added others."""
        confirmed = State.CONFIRMED.value
        old = [replace(m, state=confirmed) if m.id in kept else m for m in self.messages]
        chars = self.chars + _chars(made)
        return Recent(rev, (*old, *made), self.whole, self.from_pos, chars)

    def cut(self, limit: int) -> Recent:
        """No more than `limit` of them."""
        if len(self.messages) <= limit:
            return self
        gone, left = self.messages[:-limit], self.messages[-limit:]
        chars = self.chars - _chars(gone)
        return Recent(self.rev, left, whole=False, from_pos=left[0].pos, chars=chars)


def _chars(messages: Sequence[Message]) -> int:
    return sum([len(m.body) + len(m.parts or "") for m in messages])


class Recents:
    """One per store, bounded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Recent] = OrderedDict()

    def get(self, ref: ChatRef) -> Recent | None:
        """What was last kept of a chat; the look that asks must see whether it still holds."""
        return self._kept.get(ref.id)

    def seen(self, ref: ChatRef, found: Recent, needed: int) -> None:
        """A look has found this and needed so many of it; what is known of a later moment, or more
        of the same, stays."""
        known = self._kept.get(ref.id)
        if known is not None and known.rev > found.rev:
            return
        more = known is not None and known.rev == found.rev and known is not found
        if known is None or not more or len(known.messages) < len(found.messages):
            self._keep(ref, found.cut(needed + MORE_KEPT))

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
