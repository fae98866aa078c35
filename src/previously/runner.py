"""The reconcile loop: look at a chat, do what its stored state says is due, look again.

A wake-up carries no news. A lost one costs the time until the next sweep and nothing else. On a
database that many processes share, each of them hears of every change; the lease decides who does
the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from previously.engine import Engine
from previously.errors import (
    ChatNotFound,
    LeaseLost,
    PlanAnewError,
    PreviouslyError,
    RetryError,
    StaleDraft,
)
from previously.model import (
    Attempt,
    ChatRef,
    Draft,
    FoldKey,
    Lease,
    Snapshot,
    Summary,
    Task,
    Verdict,
)
from previously.planner import (
    COVERS_LOOKED_AT,
    NEVER_MS,
    REST_MS,
    TAIL_LOOKED_AT,
    Plan,
    advance,
    beyond_budget,
    forgotten,
    fulfilled,
    piled_up,
    plan,
    together,
)
from previously.settings import Settings
from previously.store import Store

log = logging.getLogger(__name__)

LEASE_MS = 60_000
RENEW_EVERY_S = 15.0
SWEEP_EVERY_S = 5.0
SWEEP_CHATS_MAX = 256
CHATS_AT_ONCE = 4
BACKOFF_FIRST_MS = 2_000
BACKOFF_MAX_MS = 600_000

INDEX_MESSAGES = 128  # that one transaction puts into the search index
INDEX_PAUSE_S = 0.05  # after each of them, for whoever has a turn to record

PLANNING = FoldKey("(planning)")


class Engines(Protocol):
    """Who summarises what."""

    async def engine_for(
        self, ref: ChatRef, lane: str, settings: Settings, *, beyond_budget: bool
    ) -> Engine: ...

    async def cost(self, ref: ChatRef, settings: Settings) -> bool:
        """Whether an answer costs anything."""
        ...


class Runner:
    """Embedded: one loop in this process."""

    def __init__(
        self, store: Store, engines: Engines, worker: str, jitter: Callable[[], float]
    ) -> None:
        self._store = store
        self._engines = engines
        self._worker = worker
        self._jitter = jitter  # between 0 and 1
        self._wanted: dict[int, ChatRef] = {}
        self._heard: set[int] = set()  # chats that somebody changed, known by their keys only
        self._seen: dict[int, int] = {}  # looked at, nothing due; written down by the sweep
        self._running: set[int] = set()
        self._hurried: set[int] = set()
        self._owed: list[Lease] = []  # could not be given back, and would keep everybody out
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(CHATS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked = asyncio.Condition()
        self._loop: asyncio.Task[None] | None = None
        self.on_commit: Callable[[ChatRef], None] = lambda _: None

    async def start(self) -> None:
        """Take over what a dead process left, then run until `stop`."""
        await self._store.recover()
        self._loop = asyncio.create_task(self._run(), name="previously-runner")
        self._tasks.add(asyncio.create_task(self._index(), name="previously-index"))

    async def stop(self) -> None:
        """End at once; what was running is planned again at the next start."""
        tasks = [*self._tasks, *([self._loop] if self._loop else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._write_seen()

    def wake(self, ref: ChatRef) -> None:
        """This chat may have work."""
        self._wanted[ref.id] = ref
        self._wake.set()

    def heard(self, chat_id: int) -> None:
        """Some process has changed this chat."""
        self._heard.add(chat_id)
        self._wake.set()

    async def idle(self, ref: ChatRef, timeout_s: float) -> bool:
        """Wait until nothing is due in this chat; False if that took too long.

        Somebody waits, so nothing rests after an edit.
        """
        self._hurried.add(ref.id)
        self.wake(ref)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._looked:
                await self._looked.wait_for(lambda: not self._busy(ref))
        self._hurried.discard(ref.id)
        return not self._busy(ref)

    async def draft(self, task: Task, settings: Settings) -> Draft:
        """What the chat's model makes of a task; nothing comes of it."""
        engine = await self._engines.engine_for(task.chat, task.lane, settings, beyond_budget=False)
        made = await engine.run(task)
        assert isinstance(made, Draft), "a task that asks for words is answered by them"
        return made

    def _busy(self, ref: ChatRef) -> bool:
        return ref.id in self._wanted or ref.id in self._running

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        sweep_at = clock()
        while True:
            if clock() >= sweep_at:  # however much is heard of meanwhile
                with _survived("a look for work failed; the next sweep tries again"):
                    await self._sweep()
                sweep_at = clock() + SWEEP_EVERY_S
            with _survived("what was heard of was not looked at; the next sweep finds it"):
                await self._resolve_heard()
            self._start_wanted()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(sweep_at):
                    await self._wake.wait()
            self._wake.clear()

    async def _resolve_heard(self) -> None:
        heard, self._heard = self._heard, set()
        if not heard:
            return
        try:
            for ref in await self._store.refs(list(heard)):
                self._wanted.setdefault(ref.id, ref)
        except RetryError as error:
            log.warning("a change was heard of but not looked at: %s", error)

    def _start_wanted(self) -> None:
        for chat_id, ref in list(self._wanted.items()):
            if chat_id in self._running:
                continue  # it looks again when it ends
            del self._wanted[chat_id]
            self._running.add(chat_id)
            task = asyncio.create_task(self._look(ref))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        try:
            await self._write_seen()
            owed, self._owed = self._owed, []
            for lease in owed:
                await self._let_go(lease)
            for ref, _ in await self._store.due(SWEEP_CHATS_MAX):
                self._wanted.setdefault(ref.id, ref)
        except RetryError as error:
            log.warning("sweep postponed: %s", error)

    async def _index(self) -> None:
        """Bring the search index up, a batch at a time; a fault costs a delay."""
        while True:
            fed = 0
            with _survived("the search index was not fed; the next round tries again"):
                fed = await self._feed_index()
            await asyncio.sleep(INDEX_PAUSE_S if fed else SWEEP_EVERY_S)

    async def _feed_index(self) -> int:
        try:
            return await self._store.index_some(INDEX_MESSAGES)
        except RetryError as error:
            log.info("index postponed: %s", error)
            return 0

    async def _write_seen(self) -> None:
        seen, self._seen = self._seen, {}
        if seen and not self._store.read_only:
            await self._store.settled(list(seen.items()))

    async def _look(self, ref: ChatRef) -> None:
        """A fault costs this chat a delay."""
        try:
            with _survived(f"chat {ref.id}: reconcile failed; the next sweep tries again"):
                await self._look_in_turn(ref)
        finally:
            self._running.discard(ref.id)
            self._wake.set()
            async with self._looked:
                self._looked.notify_all()

    async def _look_in_turn(self, ref: ChatRef) -> None:
        try:
            async with self._slots:
                if self._store.exclusive or await self._may_be_due(ref):
                    await self.reconcile(ref)
        except ChatNotFound:
            log.info("chat %s was deleted meanwhile", ref.id)
        except PlanAnewError as error:
            log.info("chat %s: %s", ref.id, error)
            self._wanted[ref.id] = ref
        except RetryError as error:
            log.warning("chat %s: %s; the next sweep tries again", ref.id, error)

    async def _may_be_due(self, ref: ChatRef) -> bool:
        """A word about a change reaches every process; most of them find it taken or done."""
        state = await self._store.work_state(ref)
        if state.leased:
            return False
        ripe = state.due_at_ms is not None and state.due_at_ms <= await self._store.now_ms()
        return state.rev > state.done_rev or ripe or ref.id in self._hurried

    async def reconcile(self, ref: ChatRef) -> None:
        """Do all that is due in one chat."""
        rest_ms = 0 if ref.id in self._hurried else REST_MS
        look = await self._first_look(ref, rest_ms)
        if look is not None and await self._is_quiet(ref, *look):
            return
        lease = await self._store.claim(ref, self._worker, LEASE_MS)
        if lease is None:
            return
        async with self._held(lease):
            snapshot, decided = look or await self._look_at(ref, rest_ms)
            while decided.ready:
                await self._work_off(lease, snapshot, decided, rest_ms)
                snapshot, decided = await self._look_at(ref, rest_ms)
            await self._give_back(lease, snapshot, decided)

    async def _first_look(self, ref: ChatRef, rest_ms: int) -> tuple[Snapshot, Plan] | None:
        """Who is alone looks before leasing, and mostly need not lease. Others lease first: what
        they saw before might be done by somebody else meanwhile."""
        return await self._look_at(ref, rest_ms) if self._store.exclusive else None

    async def _is_quiet(self, ref: ChatRef, snapshot: Snapshot, decided: Plan) -> bool:
        """Whether nothing is to be done; then the next sweep writes down that it was seen."""
        assert snapshot.backlog is not None
        if decided.ready or snapshot.backlog.intents or forgotten(snapshot):
            return False
        state = await self._store.work_state(ref)
        if state.due_at_ms != decided.next_ms:
            return False
        self._seen[ref.id] = snapshot.rev
        return True

    async def _look_at(self, ref: ChatRef, rest_ms: int) -> tuple[Snapshot, Plan]:
        snapshot = await self._store.load(
            ref, PLANNING, wide=True, tail_max=TAIL_LOOKED_AT, covers_max=COVERS_LOOKED_AT
        )
        return snapshot, await self._plan(snapshot, rest_ms)

    async def _plan(self, snapshot: Snapshot, rest_ms: int) -> Plan:
        """Whether calls cost is asked only where it matters."""
        frugal = piled_up(snapshot) and await self._engines.cost(snapshot.ref, snapshot.settings)
        return plan(snapshot, await self._store.now_ms(), rest_ms, frugal=frugal)

    async def _give_back(self, lease: Lease, snapshot: Snapshot, decided: Plan) -> None:
        if gone := forgotten(snapshot):
            await self._store.forget_attempts(lease, gone)
        done = fulfilled(snapshot, decided)
        await self._store.finish(lease, snapshot.rev, decided.next_ms, done)

    async def _work_off(
        self, lease: Lease, snapshot: Snapshot, decided: Plan, rest_ms: int
    ) -> None:
        """Task after task from one look at the database, as long as each can be committed.

        A commit compares hashes with what is stored, so a look that has grown old costs one
        refused draft and never a wrong one.
        """
        while decided.ready:
            company = together(snapshot, decided)
            made = await self._attempt(lease, snapshot, company)
            if made is None:
                return
            snapshot = advance(snapshot, made)
            decided = await self._plan(snapshot, rest_ms)

    async def _attempt(
        self, lease: Lease, snapshot: Snapshot, company: Sequence[Task]
    ) -> Summary | None:
        """The summary that the first of these asks for, or None if there is a reason to look
        again. Whatever went wrong, this task waits and the others go on."""
        task, made = company[0], None
        broke = f"chat {lease.ref.id}: task {task.id} broke"
        with _survived(broke, expected=PreviouslyError) as fault:
            made = await self._made(lease, snapshot, company)
        if isinstance(fault.error, StaleDraft):
            log.info("chat %s: %s", lease.ref.id, fault.error)
        elif isinstance(fault.error, PlanAnewError):
            raise fault.error
        elif fault.error is not None:
            await self._postpone(lease, task, fault.error)
        elif made is not None:
            self.on_commit(lease.ref)
        return made

    async def _made(
        self, lease: Lease, snapshot: Snapshot, company: Sequence[Task]
    ) -> Summary | None:
        """What was asked for and committed; None if it was a yes or no."""
        task = company[0]
        engine = await self._engines.engine_for(
            lease.ref, task.lane, snapshot.settings, beyond_budget=beyond_budget(snapshot)
        )
        draft = await engine.run(task, company)
        if isinstance(draft, Verdict):
            await self._note(lease, draft)
            return None
        return await self._store.commit(lease, draft)

    async def _note(self, lease: Lease, said: Verdict) -> None:
        """A yes or no is remembered until what it was about has changed: it is paid for once."""
        word = "yes" if said.yes else "no"
        task = said.task
        made = Attempt(task.id, task.lane, word, "", "", tries=1, not_before_ms=NEVER_MS)
        await self._store.record_attempt(lease, made)

    async def _postpone(self, lease: Lease, task: Task, error: Exception) -> None:
        known = (await self._store.attempts(lease.ref)).get(task.id)
        tries = (known.tries if known else 0) + 1
        wait_ms = min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS << min(tries - 1, 16))
        wait_ms = int(wait_ms * (0.75 + self._jitter() / 2))
        asked_s = getattr(error, "retry_after_s", None) or 0.0
        made = Attempt(
            task_id=task.id,
            lane=task.lane,
            verdict="failed",
            error_class=type(error).__name__,
            error_text=str(error),
            tries=tries,
            not_before_ms=await self._store.now_ms() + max(wait_ms, int(asked_s * 1000)),
        )
        await self._store.record_attempt(lease, made)

    @contextlib.asynccontextmanager
    async def _held(self, lease: Lease) -> AsyncGenerator[None]:
        """Hold the lease as long as the work goes on; give it back if the work breaks off.

        If it is lost, the work ends at once: somebody else is doing it.
        """
        work = asyncio.current_task()
        assert work is not None
        keeper = asyncio.create_task(self._keep(lease, work))
        finished = False
        try:
            yield
            finished = True
        except asyncio.CancelledError:
            if keeper.done() and work.uncancel() == 0:
                raise LeaseLost(f"another worker has chat {lease.ref.name!r}") from None
            raise
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            if not finished:
                await self._let_go(lease)

    async def _keep(self, lease: Lease, work: asyncio.Task[object]) -> None:
        """Until the lease is lost. A database that is away for a moment is asked again."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                await self._store.renew(lease, LEASE_MS)
            except RetryError as error:
                log.warning("chat %s: the lease was not renewed: %s", lease.ref.id, error)
            except LeaseLost:
                work.cancel()
                return

    async def _let_go(self, lease: Lease) -> None:
        try:
            await self._store.release(lease)
        except RetryError:
            self._owed.append(lease)
        except LeaseLost as error:
            log.info("chat %s: %s", lease.ref.id, error)


@dataclass(slots=True)
class _Fault:
    """What was caught, if anything was."""

    error: Exception | None = None


@contextlib.contextmanager
def _survived(what: str, *, expected: type[Exception] | tuple[()] = ()) -> Generator[_Fault]:
    """The edge of a loop, where everything is caught: a fault costs a delay, never the loop.

    What may be expected there is not logged: whoever asks for the fault says what it means.
    """
    fault = _Fault()
    try:
        yield fault
    except Exception as error:
        fault.error = error
        if not isinstance(error, expected):
            log.exception("%s", what)
