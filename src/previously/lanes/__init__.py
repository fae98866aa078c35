"""Ways of remembering, one file each. A new lane is a new file and one line in `registry.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from previously.model import Accepted, Ask, Block, Part, Reply, Snapshot, Summary, Task


class Lane(Protocol):
    """Pure decisions about one kind of summary. No lane reads a clock, a database or the network,
    and none knows another."""

    @property
    def name(self) -> str: ...

    def due(self, snapshot: Snapshot) -> list[Task]:
        """What should be summarised now, most urgent first."""
        ...

    def ask(self, task: Task, fence: str, part: Part) -> Ask:
        """The request about a part of the task: a stretch of its messages, or notes to be made into
        one. `fence` marks where quoted material begins and ends."""
        ...

    def together(self, snapshot: Snapshot, ready: Sequence[Task]) -> tuple[Task, ...]:
        """The first of these tasks, and those behind it that one request may be about with it."""
        ...

    def ask_together(self, tasks: Sequence[Task], fence: str, parts: Sequence[Part]) -> Ask:
        """The request about several tasks, a part for each, to be answered in numbered notes."""
        ...

    def accept(self, task: Task, part: Part, reply: Reply, *, last: bool) -> Accepted:
        """The words of the reply, or `DraftRejected`; `last` if nobody will ask again."""
        ...

    def decides(self, task: Task) -> bool:
        """Whether a task asks for a yes or no instead of a summary."""
        ...

    def verdict(self, task: Task, reply: Reply) -> bool:
        """What the reply to such a task says."""
        ...

    def covers(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """The summaries that may stand for old messages, oldest first."""
        ...

    def carry(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """The records that a chat which continues this one is given, oldest first."""
        ...

    def show(self, covers: Sequence[Summary]) -> Block:
        """How neighbouring covers stand in a prompt."""
        ...
