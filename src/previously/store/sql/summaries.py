"""Summaries: read, put in a user's own words, compared with what they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from previously.model import ChatRef, Message, Summary
from previously.store import (
    Pace,
    Progress,
    SummaryPage,
    audit,
    changes,
    coverage,
    progress,
    revisions,
    views,
)
from previously.store.schema import chat, lane_state, summary
from previously.store.sql.connected import Connected


class Summaries(Connected):
    """What stands for messages."""

    async def summaries(self, ref: ChatRef, after_id: int, limit: int) -> tuple[Summary, ...]:
        """A page of summaries, each with the messages it covers."""
        return await self._db.read(views.written, ref, after_id, limit)

    async def summaries_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Summary, ...]:
        """Those of the summaries that are stored."""
        return await self._db.read(views.summaries, ref, wanted)

    async def summary(self, ref: ChatRef, summary_id: int) -> SummaryPage:
        return await self._db.read(views.summary, ref, summary_id)

    async def summary_page(
        self, ref: ChatRef, which: str, parent: int | None, after: tuple[int, int], limit: int
    ) -> SummaryPage:
        return await self._db.read(views.summary_page, ref, which, parent, after, limit)

    async def revisions(self, ref: ChatRef, summary_id: int) -> tuple[Summary, ...]:
        return await self._db.read(revisions.history, ref, summary_id)

    async def revision_page(self, ref: ChatRef, summary_id: int) -> SummaryPage:
        """Every text that a summary has had, oldest first."""

        def read(conn: sa.Connection) -> SummaryPage:
            return views.dressed(conn, ref, revisions.history(conn, ref, summary_id))

        return await self._db.read(read)

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary:
        return await self._change(ref, revisions.edit, summary_id, text, self._clock_ms())

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary:
        return await self._change(ref, revisions.restore, revision_id, self._clock_ms())

    async def delete_summary(self, ref: ChatRef, summary_id: int, not_before_ms: int) -> None:
        await self._change(ref, revisions.delete, summary_id, not_before_ms, self._clock_ms())

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None:
        await self._change(ref, revisions.reject, proposal_id)

    async def covering(
        self, ref: ChatRef, lane: str, ids: Sequence[int]
    ) -> dict[int, tuple[int, ...]]:
        return await self._db.read(coverage.covering, ref, lane, ids)

    async def uncovered_page(
        self, ref: ChatRef, lane: str, after_pos: int, limit: int
    ) -> tuple[Message, ...]:
        return await self._db.read(progress.page, ref, lane, after_pos, limit)

    async def progress(self, ref: ChatRef, lane: str) -> Progress:
        return await self._db.read(progress.so_far, ref, lane)

    async def pace(self, ref: ChatRef, lane: str) -> Pace:
        return await self._db.read(progress.pace, ref, lane)

    async def rebuildable(self, ref: ChatRef, lane: str, from_pos: int) -> int:
        return await self._db.read(views.rebuildable, ref, lane, from_pos)

    async def lanes(self) -> list[tuple[ChatRef, str]]:
        """Every visible chat with every lane that has written about it."""
        return await self._db.read(_lanes)

    async def is_sound(self, ref: ChatRef, lane: str) -> bool:
        """Whether what is written down about coverage is what messages and hashes say."""

        def read(conn: sa.Connection) -> bool:
            return audit.stored(conn, ref, lane) == audit.recompute(conn, ref, lane)

        return await self._db.read(read)

    async def repair(self, ref: ChatRef, lane: str) -> bool:
        return await self._change(ref, _repair, lane, self._clock_ms())


def _repair(conn: sa.Connection, ref: ChatRef, lane: str, now_ms: int) -> bool:
    wrong = audit.repair(conn, ref, lane, now_ms)
    if wrong:
        changes.take_rev(conn, ref)  # what turned out to be uncovered is due
    return wrong


def _lanes(conn: sa.Connection) -> list[tuple[ChatRef, str]]:
    written = sa.select(summary.c.chat_id, summary.c.lane)
    known = written.union(sa.select(lane_state.c.chat_id, lane_state.c.lane)).subquery()
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name, known.c.lane)
        .join(known, known.c.chat_id == chat.c.id)
        .where(chat.c.building.is_(False), chat.c.deleted_at.is_(None))
        .order_by(chat.c.id, known.c.lane)
    )
    return [(ChatRef(row.id, row.owner, row.name), row.lane) for row in conn.execute(query)]
