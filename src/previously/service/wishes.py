"""What state alone does not imply: somebody wants work done now, or anew, or all that piled up.

Such work may go beyond the month's budget, but only if whoever asks has said so (`AskFirst`).
"""

from __future__ import annotations

from dataclasses import replace

from previously.errors import AskFirst, OverBudget
from previously.estimate import Estimate, estimate
from previously.model import START, ChatRef, Snapshot
from previously.planner import BACKFILL
from previously.service.desk import AS_SAID, Desk
from previously.summariser import MICROS, Quote, month_of, quote

RUN, LATEST, ARCHIVE, REBUILD = "run", "latest", "archive", "rebuild"


class Wishes(Desk):
    """What is asked for by hand."""

    async def hurry(self, ref: ChatRef) -> None:
        """Write about every closed turn but the last, as far as the month's budget goes."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        self._changed(ref, await self.store.wish(ref, lane, RUN, START))

    async def run_now(
        self, ref: ChatRef, *, latest: bool = False, beyond_budget: bool = False
    ) -> None:
        """Write about every closed turn but the last, whatever the thresholds say.

        With `latest` about that too: up to and including the newest reply.
        """
        await self._wish(ref, LATEST if latest else RUN, beyond_budget=beyond_budget)

    async def archive(self, ref: ChatRef, *, beyond_budget: bool = False) -> None:
        """Make the small summaries that stand before the tail into a volume, few as they are."""
        await self._wish(ref, ARCHIVE, beyond_budget=beyond_budget)

    async def rebuild(
        self, ref: ChatRef, from_pos: int = START, *, beyond_budget: bool = False
    ) -> None:
        """Write summaries anew; each old one stands until its successor is there.

        What a user has edited is left alone.
        """
        await self._wish(ref, REBUILD, from_pos, beyond_budget=beyond_budget)

    async def plan_rebuild(self, ref: ChatRef, from_pos: int = START) -> int:
        """How many summaries a rebuild would write anew."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return await self.store.rebuildable(ref, lane, from_pos)

    async def stop_rebuild(self, ref: ChatRef) -> bool:
        """Leave the summaries that were not written anew yet; whether any rebuild was under way."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return self._changed(ref, await self.store.withdraw(ref, lane, REBUILD))

    async def backfill(
        self, ref: ChatRef, *, dry_run: bool = False, beyond_budget: bool = False
    ) -> Estimate:
        """Write about all that has piled up; what that is expected to take.

        It goes on in the background, after a restart too, until nothing is due or it is paused.
        """
        snapshot = await self.store.load(ref, AS_SAID, wide=True)
        quoted = await quote(self.store, ref.owner, snapshot.settings, self._llm)
        expected = await estimate(self.store, ref, quoted)
        left_usd = await self._left_usd(snapshot, quoted)
        expected = replace(expected, budget_left_usd=left_usd)
        if dry_run:
            return expected
        if expected.calls and not _is_wished(snapshot, beyond_budget=beyond_budget):
            if not beyond_budget:
                _ask_if_dear(expected.cost_usd, left_usd)
            await self._open(ref, snapshot.lane, BACKFILL, START, beyond_budget=beyond_budget)
        self.wake(ref)
        return expected

    async def pause_backfill(self, ref: ChatRef) -> bool:
        """Let what has piled up wait again; whether it was being worked off."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return self._changed(ref, await self.store.withdraw(ref, lane, BACKFILL))

    async def _wish(
        self, ref: ChatRef, kind: str, from_pos: int = START, *, beyond_budget: bool
    ) -> None:
        snapshot = await self.store.load(ref, AS_SAID, wide=False, tail_max=1)
        if not beyond_budget:
            await self._check(snapshot, kind, from_pos)
        await self._open(ref, snapshot.lane, kind, from_pos, beyond_budget=beyond_budget)
        self.wake(ref)

    async def _check(self, snapshot: Snapshot, kind: str, from_pos: int) -> None:
        """`AskFirst` if the month has less left than this is expected to cost."""
        quoted = await quote(self.store, snapshot.ref.owner, snapshot.settings, self._llm)
        left_usd = await self._left_usd(snapshot, quoted)
        if left_usd is not None:
            _ask_if_dear(await self._cost_usd(snapshot, quoted, kind, from_pos), left_usd)

    async def _cost_usd(
        self, snapshot: Snapshot, quoted: Quote, kind: str, from_pos: int
    ) -> float | None:
        """Expected from what is due, or from what a call of this chat has cost so far."""
        if kind in (RUN, LATEST):
            return (await estimate(self.store, snapshot.ref, quoted)).cost_usd
        found = await self.store.usage(snapshot.ref.owner, "chat")
        mine = next((s for s in found if s.heading == str(snapshot.ref.id)), None)
        per_call = mine.cost_micros / MICROS / mine.calls if mine and mine.calls else 0.0
        if kind == REBUILD:
            return per_call * await self.store.rebuildable(snapshot.ref, snapshot.lane, from_pos)
        return per_call

    async def _left_usd(self, snapshot: Snapshot, quoted: Quote) -> float | None:
        """What the month has left; None where no limit can hold: free, or of unknown price."""
        if not quoted.costs or quoted.price is None:
            return None
        settings = snapshot.settings
        month = month_of(self._clock_ms(), settings.time_zone)
        spent = await self.store.spent(snapshot.ref.owner, month)
        return settings.monthly_budget_usd - spent / MICROS

    async def _open(
        self, ref: ChatRef, lane: str, kind: str, from_pos: int, *, beyond_budget: bool
    ) -> None:
        await self.store.wish(ref, lane, kind, from_pos, beyond_budget=beyond_budget)
        if not beyond_budget:
            return
        for task_id, tried in (await self.store.attempts(ref)).items():
            if tried.error_class == OverBudget.__name__:  # what it waits for has been given
                await self.store.decide(ref, task_id, tried.verdict, 0)


def _is_wished(snapshot: Snapshot, *, beyond_budget: bool) -> bool:
    """Whether a backfill goes on already that may do as much."""
    assert snapshot.backlog is not None
    open_ = [wish for wish in snapshot.backlog.intents if wish.kind == BACKFILL]
    return any(wish.beyond_budget or not beyond_budget for wish in open_)


def _ask_if_dear(cost_usd: float | None, left_usd: float | None) -> None:
    if left_usd is None or (left_usd > 0 and (cost_usd or 0.0) <= left_usd):
        return
    about = f"this costs about ${cost_usd:.4f}" if cost_usd else "this costs money"
    raise AskFirst(
        f"{about}, and this month's budget has ${max(0.0, left_usd):.4f} left; "
        "say `beyond_budget` to have it done anyway, or raise monthly_budget_usd"
    )
