"""Summaries: read, put in a user's own words, compared with what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from previously.model import ChatRef, Message, Summary


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the summaries of a chat have come."""

    uncovered: int  # eligible messages that no summary stands for
    summaries: int


@dataclass(frozen=True, slots=True)
class Pace:
    """How the newest summaries of a chat were made, together."""

    summaries: int = 0
    calls: int = 0
    duration_ms: int = 0
    tokens: int = 0
    tokens_max: int = 0  # that they might have had


@dataclass(frozen=True, slots=True)
class SummaryPage:
    """Some summaries, with the floors they stand for."""

    summaries: tuple[Summary, ...]
    floors: Mapping[int, int]  # of their first and last positions
    children: Mapping[int, int]  # how many summaries each is made of; minis have none
    flags: Mapping[int, tuple[str, ...]]  # what is doubtful about them


class Summaries(Protocol):
    """What stands for messages."""

    async def summaries(self, ref: ChatRef, after_id: int, limit: int) -> tuple[Summary, ...]: ...

    async def summaries_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Summary, ...]: ...

    async def summary(self, ref: ChatRef, summary_id: int) -> SummaryPage: ...

    async def summary_page(
        self, ref: ChatRef, which: str, parent: int | None, after: tuple[int, int], limit: int
    ) -> SummaryPage: ...

    async def revisions(self, ref: ChatRef, summary_id: int) -> tuple[Summary, ...]: ...

    async def revision_page(self, ref: ChatRef, summary_id: int) -> SummaryPage: ...

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary: ...

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary: ...

    async def delete_summary(self, ref: ChatRef, summary_id: int, not_before_ms: int) -> None: ...

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None: ...

    async def covering(
        self, ref: ChatRef, lane: str, ids: Sequence[int]
    ) -> dict[int, tuple[int, ...]]: ...

    async def uncovered_page(
        self, ref: ChatRef, lane: str, after_pos: int, limit: int
    ) -> tuple[Message, ...]: ...

    async def progress(self, ref: ChatRef, lane: str) -> Progress: ...

    async def pace(self, ref: ChatRef, lane: str) -> Pace: ...

    async def rebuildable(self, ref: ChatRef, lane: str, from_pos: int) -> int: ...

    async def repair(self, ref: ChatRef, lane: str) -> bool: ...
