"""Ways of remembering, one file each. A new lane is a new file and one line in `registry.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from previously.model import Ask, Block, Draft, Reply, Snapshot, Summary, Task


class Lane(Protocol):
    """Pure decisions about one kind of summary. No lane reads a clock, a database or the network,
    and none knows another."""

    @property
    def name(self) -> str: ...

    def due(self, snapshot: Snapshot) -> list[Task]:
        """What should be summarised now, most urgent first."""
        ...

    def ask(self, task: Task, fence: str) -> Ask:
        """The request for one task; `fence` marks where quoted material begins and ends."""
        ...

    def accept(self, task: Task, reply: Reply) -> Draft:
        """The reply as a draft, or `DraftRejected`."""
        ...

    def covers(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """The summaries that may stand for old messages, oldest first."""
        ...

    def show(self, covers: Sequence[Summary]) -> Block:
        """How neighbouring covers stand in a prompt."""
        ...
