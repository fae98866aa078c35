"""Background work as people watch it, wait for it, and decide about what failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from previously.errors import BadInput, NotConfigured, TaskNotFound
from previously.model import CANCELLED, Attempt, ChatRef, Snapshot
from previously.planner import NEVER_MS, TAIL_LOOKED_AT, due, is_held, piled_up
from previously.service.desk import AS_SAID, Desk
from previously.store import Progress
from previously.summariser import quote

SETTLE_LOOK_EVERY_S = 0.1
ANSWERS = ("yes", "no")  # an attempt that was answered waits for nothing
WAITS_FOR_BACKFILL = "waits for `previously backfill`"


@dataclass(frozen=True, slots=True)
class Settled:
    """How a wait for the background work ended."""

    done: bool  # nothing is due any more
    waiting: tuple[Attempt, ...] = ()  # failed for now, with reason and time of the next try
    reason: str = ""  # why there is work that is not done until somebody asks for it


@dataclass(frozen=True, slots=True)
class TaskState:
    """Due work and what became of it so far."""

    id: str
    kind: str
    messages: tuple[int, ...]
    attempt: Attempt | None
    reason: str = ""  # why it is not done until somebody asks for it
    children: tuple[int, ...] = ()  # summaries that it reads instead of messages


class Work(Desk):
    """What is done with the work that is due in a chat."""

    async def progress(self, ref: ChatRef) -> Progress:
        """How far the summaries of a chat have come."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return await self.store.progress(ref, lane)

    async def tasks(self, ref: ChatRef) -> list[TaskState]:
        """What is due in this chat now, each with what became of it so far."""
        snapshot = await self.store.load(ref, AS_SAID, wide=True)
        attempts = await self.store.attempts(ref)
        held = await self._held(snapshot)
        return [
            TaskState(
                task.id,
                task.kind,
                tuple(m.id for m in task.sources),
                attempts.get(task.id),
                held if is_held(task) else "",
                tuple(s.id for s in task.children),
            )
            for task in due(snapshot)
        ]

    async def retry(self, ref: ChatRef, task_id: str) -> None:
        """Try a failed task again now."""
        await self._decide(ref, task_id, "failed", 0)

    async def cancel(self, ref: ChatRef, task_id: str) -> None:
        """Do not try this task again unless its messages change; they stay as they were said."""
        await self._decide(ref, task_id, CANCELLED, NEVER_MS)

    async def _decide(self, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int) -> None:
        if not await self.store.decide(ref, task_id, verdict, not_before_ms):
            raise TaskNotFound(f"the chat {ref.name!r} has no failed task {task_id}")
        self.wake(ref)

    async def settle(self, ref: ChatRef, timeout_s: float) -> Settled:
        """Wait until nothing is due; says what failed and waits for another try."""
        if self._background is None and (self.store.exclusive or self.store.read_only):
            raise BadInput("this memory runs no background work; open it with worker=True")
        try:
            async with asyncio.timeout(timeout_s):
                done = await self._quiet(ref, timeout_s)
        except TimeoutError:
            done = False
        snapshot = await self.store.load(ref, AS_SAID, wide=True, tail_max=1, covers_max=1)
        if piled_up(snapshot):  # seldom; then the low mark is looked for as well
            snapshot = await self.store.load(ref, AS_SAID, wide=True, tail_max=TAIL_LOOKED_AT)
        tried = (await self.store.attempts(ref)).values()
        waiting = tuple(a for a in tried if a.lane == snapshot.lane and a.verdict not in ANSWERS)
        return Settled(done, waiting, await self._held(snapshot))

    async def _quiet(self, ref: ChatRef, timeout_s: float) -> bool:
        """Until this process has nothing to do, and no other one that shares the database has."""
        while True:
            if self._background is not None and not await self._background.idle(ref, timeout_s):
                return False
            if self.store.exclusive or await self._is_done(ref):
                return True
            await asyncio.sleep(SETTLE_LOOK_EVERY_S)

    async def _is_done(self, ref: ChatRef) -> bool:
        """Whether nothing is due, neither now nor after the rest that follows an edit."""
        state = await self.store.work_state(ref)
        if state.leased or state.rev > state.done_rev:
            return False
        if state.due_at_ms is None:
            return True
        tried = (await self.store.attempts(ref)).values()
        return any(attempt.not_before_ms == state.due_at_ms for attempt in tried)

    async def _held(self, snapshot: Snapshot) -> str:
        """Why first summaries wait until somebody asks for them; empty if they do not."""
        if not piled_up(snapshot) or not any(map(is_held, due(snapshot))):
            return ""
        try:
            quoted = await quote(self.store, snapshot.ref.owner, snapshot.settings, self._llm)
        except NotConfigured:
            return ""
        return WAITS_FOR_BACKFILL if quoted.costs else ""
