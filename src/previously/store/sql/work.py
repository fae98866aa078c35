"""Background work: what is due, who is at it, what has become of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from previously.model import Attempt, ChatRef, Draft, Lease, Reply, Summary, WorkState
from previously.store import intents, views, work
from previously.store.sql.connected import Connected


class Work(Connected):
    """Leases, attempts, wishes and answers that were paid for."""

    async def now_ms(self) -> int:
        """The clock that leases and retries go by."""
        return self._clock_ms() if self._db.exclusive else await self._db.read(self._now_ms)

    @property
    def exclusive(self) -> bool:
        return self._db.exclusive

    async def listen(self, heard: Callable[[int], None]) -> None:
        await self._db.listen(heard)

    async def recover(self) -> int:
        return await self._db.write(work.recover) if self._db.exclusive else 0

    async def due(self, limit: int) -> list[tuple[ChatRef, int]]:
        return await self._db.read(lambda conn: work.due(conn, self._now_ms(conn), limit))

    async def settled(self, seen: Sequence[tuple[int, int]]) -> None:
        await self._db.write(work.settle, seen)

    async def busy_chats(self, owner: str, limit: int) -> list[ChatRef]:
        return await self._db.read(views.busy_chats, owner, limit)

    async def work_state(self, ref: ChatRef) -> WorkState:
        return await self._db.read(lambda conn: work.state(conn, ref, self._now_ms(conn)))

    async def claim(self, ref: ChatRef, worker: str, lease_ms: int) -> Lease | None:
        def timed(conn: sa.Connection) -> Lease | None:
            return work.claim(conn, ref, worker, self._now_ms(conn), lease_ms)

        return await self._db.write(timed)

    async def renew(self, lease: Lease, lease_ms: int) -> None:
        await self._db.write(lambda conn: work.renew(conn, lease, self._now_ms(conn) + lease_ms))

    async def finish(
        self,
        lease: Lease,
        seen_rev: int,
        due_at_ms: int | None,
        fulfilled: Sequence[int] = (),
    ) -> None:
        now_ms = self._clock_ms()
        await self._db.write(work.finish, lease, seen_rev, due_at_ms, fulfilled, now_ms)

    async def release(self, lease: Lease) -> None:
        await self._db.write(work.release, lease)

    async def commit(self, lease: Lease, draft: Draft) -> Summary:
        now_ms = self._clock_ms()
        made, rev = await self._db.write(work.commit, lease, draft, now_ms)
        self._recent.recorded(lease.ref, rev, (), ())  # no message was touched
        return made

    async def attempts(self, ref: ChatRef) -> dict[str, Attempt]:
        return await self._db.read(work.attempts, ref)

    async def record_attempt(self, lease: Lease, made: Attempt) -> None:
        await self._db.write(work.record_attempt, lease, made, self._clock_ms())

    async def forget_attempts(self, lease: Lease, task_ids: Sequence[str]) -> None:
        await self._db.write(work.forget_attempts, lease, task_ids)

    async def decide(self, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int) -> bool:
        return await self._change(ref, work.decide, task_id, verdict, not_before_ms)

    async def wish(
        self, ref: ChatRef, lane: str, kind: str, from_pos: int, *, beyond_budget: bool = False
    ) -> int:
        now_ms = self._clock_ms()
        return await self._change(
            ref, intents.open_intent, lane, kind, from_pos, now_ms, beyond_budget=beyond_budget
        )

    async def withdraw(self, ref: ChatRef, lane: str, kind: str) -> bool:
        return await self._change(ref, intents.withdraw, lane, kind, self._clock_ms())

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None:
        return await self._db.read(work.paid, ref, request_hash)

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        await self._change(ref, work.keep_paid, request_hash, reply, sources, self._clock_ms())

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None:
        await self._db.write(work.forget_paid, ref, request_hash)
