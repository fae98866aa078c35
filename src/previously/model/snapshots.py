"""One consistent state of one chat: all that the deciding core looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from previously.model.chats import ChatRef
from previously.model.folds import Fold, Shown
from previously.model.keys import START
from previously.model.messages import Message
from previously.model.summaries import Carried, Summary
from previously.model.work import Attempt, Intent, Rebuild
from previously.settings import Settings

BACKLOG_MAX = 400  # uncovered messages; who would pay for more is asked first


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The eligible messages that no valid summary stands for, oldest first, as far as loaded.

    A run holds neighbours: no covered message lies between two messages of one run.
    """

    runs: tuple[tuple[Message, ...], ...] = ()

    def between(self, first: Message, last: Message) -> tuple[Message, ...]:
        """Those from `first` to `last`, both included."""
        return tuple(m for run in self.runs for m in run if first.pos <= m.pos <= last.pos)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What planning and folding need beyond the tail."""

    uncovered: Uncovered = field(default_factory=Uncovered)
    uncovered_cut: bool = False  # there are more than were loaded
    uncovered_count: int = 0  # of all there are; counted as far as BACKLOG_MAX and one more
    open_since: Mapping[int, int] = field(default_factory=dict[int, int])  # of holes, in ms
    covers: tuple[Summary, ...] = ()  # valid, not under another valid one; oldest first, capped
    children: Mapping[int, tuple[Summary, ...]] = field(  # of covers that reach into the tail
        default_factory=dict[int, tuple[Summary, ...]]
    )
    from_pos: int = START  # where the caps cut: of what stands before this, not all was loaded
    standing: tuple[Message, ...] = ()  # pinned messages before the tail, oldest first
    carried: tuple[Carried, ...] = ()  # of the chat that this one continues, oldest first
    attempts: Mapping[str, Attempt] = field(default_factory=dict[str, Attempt])
    intents: tuple[Intent, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    proposed: frozenset[int] = frozenset()  # holes with a new text that waits for the user
    waiting: frozenset[int] = frozenset()  # summaries that a new text of their volume waits over
    room_tokens: int | None = None  # the tightest room that any prompt of this chat had


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of one chat: all that planner, folding and assembler may look at."""

    ref: ChatRef
    lane: str
    settings: Settings
    rev: int
    fold: Fold
    covered_to: int
    tail: tuple[Message, ...]  # from the fold on, oldest first
    tail_cut: bool = False  # the tail holds only its newest part
    shown: tuple[Shown, ...] = ()  # the fold's items, resolved
    presences: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    recalculating: bool = False  # the client rebuilds its state: write nothing about it now
    recording: bool = True  # proxied turns are kept
    backlog: Backlog | None = None
