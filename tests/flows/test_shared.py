"""Several processes, one database: one of them works on a chat, and no death loses work."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from previously import Memory, app, runner
from previously.errors import BadInput, LeaseLost, ModelUnavailable, StoreUnavailable
from previously.memory import Chat
from previously.model import Ask, Reply, Summary
from previously.service import desk
from previously.store import audit, postgres
from previously.store.postgres import PostgresDatabase
from previously.store.schema import chat as chat_table
from previously.store.schema import hole, lane_state, link, llm_result, summary, usage, work
from previously.testing import ScriptedLlm
from tests.postgres import Server
from tests.store.test_contract import chat_with, draft

pytestmark = pytest.mark.slow

SHARER = Path(__file__).with_name("sharer.py")
BIN = Path(sys.executable).parent
SMALL = {"visible_floors": 2, "fold_every": 1, "minis_per_call": 1}
LONG_S = 3600.0  # as good as never
SOON_S = 2.5  # well before a sweep could come, even on a busy machine
WAIT_S = 30.0


class Watch:
    """Every call of every house, and whether two were about one chat at the same time."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []  # house, chat, request
        self.overlaps: list[str] = []
        self._open: Counter[str] = Counter()

    def llm(self, house: str, delay_s: float = 0.02) -> ScriptedLlm:
        return _Watched(self, house, delay_s)

    def opened(self, house: str, chat: str, request: str) -> None:
        self.calls.append((house, chat, request))
        self._open[chat] += 1
        if self._open[chat] > 1:
            self.overlaps.append(chat)

    def closed(self, chat: str) -> None:
        self._open[chat] -= 1


class _Watched(ScriptedLlm):
    def __init__(self, watch: Watch, house: str, delay_s: float) -> None:
        super().__init__(name=house, delay_s=delay_s)
        self.watch = watch

    async def complete(self, ask: Ask) -> Reply:
        found = re.search(r"(\S+)#\d+", ask.material[0][1])
        assert found is not None
        self.watch.opened(self.name, found[1], ask.hash)
        try:
            return await super().complete(ask)
        finally:
            self.watch.closed(found[1])


@asynccontextmanager
async def opened(url: str, llm: ScriptedLlm | None = None) -> AsyncGenerator[app.House]:
    """A house that works if it has a model."""
    house = await app.build(url, llm=llm, worker=llm is not None, settings=SMALL)
    try:
        yield house
    finally:
        await house.close()


async def talk(chat: Chat, turns: int, start: int = 0) -> None:
    for n in range(start, start + turns):
        await chat.append("user", f"{chat.name}#{n} What about number {n}?")
        await chat.append("assistant", f"Number {n} lies in the harbour.")


async def until(condition: Callable[[], Any], within_s: float = WAIT_S) -> None:
    """Wait for something that happens elsewhere; `condition` may be async."""
    async with asyncio.timeout(within_s):
        while True:
            told = condition()
            if await told if asyncio.iscoroutine(told) else told:
                return
            await asyncio.sleep(0.02)


async def listeners(url: str) -> int:
    """How many connections hear of changes."""
    database = await PostgresDatabase.open(url, read_only=True)
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )
    try:
        return await database.read(lambda conn: conn.execute(query).scalar_one())
    finally:
        await database.close()


async def hears(url: str, count: int) -> None:
    async def enough() -> bool:
        return await listeners(url) >= count

    await until(enough)


async def notes(chat: Chat) -> list[Summary]:
    return [s async for s in chat.summaries()]


async def work_row(house: app.House, chat: Chat) -> Any:
    query = sa.select(work).where(work.c.chat_id == chat._ref.id)
    return await house.store._db.read(lambda conn: conn.execute(query).one())


def raw(house: app.House) -> AsyncConnection:
    """A connection of this house, to do with as a test likes."""
    database = house.store._db
    assert isinstance(database, PostgresDatabase)
    return database._engine.connect()


async def is_sound(house: app.House, chat: Chat) -> bool:
    database = house.store._db
    written = await database.read(audit.stored, chat._ref, "volumes")
    return written == await database.read(audit.recompute, chat._ref, "volumes")


@asynccontextmanager
async def process(*command: str) -> AsyncGenerator[Process]:
    """Another process; it is gone when the block ends."""
    made = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE)
    try:
        yield made
    finally:
        if made.returncode is None:
            made.kill()
        await made.communicate()


async def says(child: Process, word: str) -> None:
    assert child.stdout is not None
    async with asyncio.timeout(WAIT_S):
        while (line := (await child.stdout.readline()).decode()) != f"{word}\n":
            assert line, "the process has ended"


def sharer(url: str, go: Path, lease_s: float, how: str = "live") -> Any:
    return process(str(SHARER), url, str(go), str(int(lease_s * 1000)), how)


@asynccontextmanager
async def away(server: Server) -> AsyncGenerator[None]:
    """The database is not there until the block ends."""
    await asyncio.to_thread(server.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(server.start)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """For tests that stop it."""
    return request.getfixturevalue("postgres")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Other times for the runners of this process."""

    def set_(lease_s: float = 60.0, sweep_s: float = LONG_S) -> None:
        monkeypatch.setattr(runner, "LEASE_MS", int(lease_s * 1000))
        monkeypatch.setattr(runner, "RENEW_EVERY_S", lease_s / 4)
        monkeypatch.setattr(runner, "SWEEP_EVERY_S", sweep_s)

    return set_


@pytest.mark.proves("S-10", "I5", "G-13")
@pytest.mark.timeout(180)
async def test_two_hundred_turns_are_each_summarised_once_by_one_of_three(postgres_url: str):
    watch = Watch()
    async with AsyncExitStack() as stack:
        houses = [
            await stack.enter_async_context(opened(postgres_url, watch.llm(f"house {n}")))
            for n in range(3)
        ]
        memories = [Memory(house) for house in houses]
        chats = [await memories[n % 3].chat(f"c{n}") for n in range(10)]
        await asyncio.gather(*(talk(chat, 20) for chat in chats))
        for chat in chats:
            assert (await chat.settle()).done
        assert watch.overlaps == []
        asked = Counter(request for _, _, request in watch.calls)
        assert set(asked.values()) == {1}
        by_house = Counter(house for house, _, _ in watch.calls)
        assert len(by_house) == 3
        assert min(by_house.values()) > len(watch.calls) // 20
        for chat in chats:
            made = [note for note in await notes(chat) if not note.level]
            assert len(made) == 19  # all but the turn that stays verbatim
            assert len({s.covers for s in made}) == 19
            assert await is_sound(houses[0], chat)


@pytest.mark.proves("S-10", "G-13")
async def test_a_worker_process_does_what_another_process_recorded(postgres_url: str):
    worker = (str(BIN / "previously"), "worker", "--database", postgres_url)
    async with process(*worker) as child, opened(postgres_url) as house:
        assert child.stdout is not None
        assert (await child.stdout.readline()).startswith(b"Working on postgresql://")
        await hears(postgres_url, 2)
        chat = await Memory(house).chat("c", settings=SMALL)
        for n in range(3):  # a sweep every five seconds could not be in time for each of them
            await talk(chat, 4, 4 * n)
            start = time.monotonic()
            assert (await chat.settle()).done
            assert time.monotonic() - start < SOON_S
            assert len(await notes(chat)) == 4 * (n + 1) - 1


async def test_word_of_a_change_wakes_the_others_at_once(
    postgres_url: str, quick: Callable[..., None]
):
    quick()  # nobody sweeps
    llm = ScriptedLlm()
    async with opened(postgres_url, llm), opened(postgres_url) as here:
        await hears(postgres_url, 2)
        chat = await Memory(here).chat("c")
        await talk(chat, 4)
        assert (await chat.settle(WAIT_S)).done
        assert len(await notes(chat)) == 3


async def test_to_settle_is_to_wait_for_what_rests_after_an_edit(
    postgres_url: str, quick: Callable[..., None]
):
    quick(sweep_s=0.5)
    async with opened(postgres_url, ScriptedLlm()), opened(postgres_url) as here:
        chat = await Memory(here).chat("c")
        await talk(chat, 4)
        assert (await chat.settle(WAIT_S)).done
        first = await anext(chat.messages())
        await chat.edit(first, "c#0 Something else altogether.")
        assert (await chat.settle(WAIT_S)).done
        standing = [s for s in await notes(chat) if s.valid]
        assert any("Something else" in s.text for s in standing)
        assert len(standing) == 3


async def test_to_settle_does_not_wait_for_a_task_that_has_failed(
    postgres_url: str, quick: Callable[..., None]
):
    quick(sweep_s=0.5)
    broken = ScriptedLlm(lambda _: ModelUnavailable("no", retry_after_s=100))
    async with opened(postgres_url, broken), opened(postgres_url) as here:
        chat = await Memory(here).chat("c")
        await talk(chat, 2)
        settled = await chat.settle(WAIT_S)
        assert settled.done
        assert [a.error_class for a in settled.waiting] == ["ModelUnavailable"]


async def test_a_change_is_seen_by_whoever_listens_elsewhere(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(desk, "EVENTS_LOOK_EVERY_S", LONG_S)
    async with opened(postgres_url) as here, opened(postgres_url) as there:
        await hears(postgres_url, 2)
        mine, theirs = await Memory(here).chat("c"), await Memory(there).chat("c")
        seen: list[int] = []

        async def listen() -> None:
            async for rev in theirs.events():
                seen.append(rev)  # noqa: PERF401 - somebody reads it meanwhile

        ear = asyncio.create_task(listen())
        await until(lambda: seen == [0])
        await mine.append("user", "hello")
        await until(lambda: seen[-1] == 1, SOON_S)
        await mine.append("user", "again")
        await until(lambda: seen[-1] == 2, SOON_S)
        ear.cancel()
        await asyncio.gather(ear, return_exceptions=True)


@pytest.mark.proves("S-10", "I5")
async def test_a_killed_worker_is_followed_when_its_lease_ends(
    postgres_url: str, tmp_path: Path, quick: Callable[..., None]
):
    quick(sweep_s=0.2)
    lease_s = 3.0
    llm = ScriptedLlm()
    async with sharer(postgres_url, tmp_path / "never", lease_s) as child:
        await says(child, "ready")
        async with opened(postgres_url) as here:
            chat = await Memory(here).chat("c")
            await talk(chat, 4)
            await says(child, "asked")
            before = await work_row(here, chat)
            child.kill()
            await child.wait()
            async with opened(postgres_url, llm):
                await until(lambda: llm.asks)
                after = await work_row(here, chat)
                assert (await chat.settle(WAIT_S)).done
        assert after.fence > before.fence
        assert after.lease_until - runner.LEASE_MS >= before.lease_until  # not a moment sooner
        assert len(await notes_of(postgres_url, "c")) == 3


async def notes_of(url: str, name: str) -> list[Summary]:
    async with opened(url) as house:
        return await notes(await Memory(house).chat(name))


WRITTEN = (summary, link, lane_state, hole, usage, work)


async def written(house: app.House) -> list[list[Any]]:
    def read(conn: sa.Connection) -> list[list[Any]]:
        return [sorted(map(repr, conn.execute(sa.select(table)))) for table in WRITTEN]

    return await house.store._db.read(read)


@pytest.mark.proves("S-10", "I5", "I6")
async def test_a_stalled_worker_that_lost_its_lease_writes_nothing(
    postgres_url: str, tmp_path: Path, quick: Callable[..., None]
):
    quick(sweep_s=0.2)
    go = tmp_path / "go"
    async with sharer(postgres_url, go, 1.0) as child, opened(postgres_url) as here:
        await says(child, "ready")
        chat = await Memory(here).chat("c")
        await talk(chat, 4)
        await says(child, "asked")
        child.send_signal(signal.SIGSTOP)
        async with opened(postgres_url, ScriptedLlm(lambda ask: f"taken over: {ask.hash}")):
            assert (await chat.settle(WAIT_S)).done
        before = await written(here)
        assert all(s.text.startswith("taken over") for s in await notes(chat))
        go.touch()
        child.send_signal(signal.SIGCONT)
        other = await Memory(here).chat("other")
        await talk(other, 4)  # it lives on, and does this
        assert (await other.settle(WAIT_S)).done
        assert [s.text.startswith(f"by {child.pid}") for s in await notes(other)] == [True] * 3
        mine = f"({chat._ref.id}, "
        assert [row for row in (await written(here))[5] if row.startswith(mine)] == before[5][:1]
        assert all(s.text.startswith("taken over") for s in await notes(chat))
        assert len(await notes(chat)) == 3
        assert await is_sound(here, chat)


@pytest.mark.proves("I5", "I6")
async def test_a_late_commit_is_refused(postgres_url: str):
    async with opened(postgres_url) as here, opened(postgres_url) as there:
        chat, said = await chat_with(here.store, 4)
        late = await here.store.claim(chat.ref, "late", 50)
        assert late is not None
        await asyncio.sleep(0.1)
        new = await there.store.claim(chat.ref, "new", 60_000)
        assert new is not None
        before = await written(here)
        with pytest.raises(LeaseLost):
            await here.store.commit(late, draft(chat, said[:2]))
        with pytest.raises(LeaseLost):
            await here.store.finish(late, 99, None)
        with pytest.raises(LeaseLost):
            await here.store.forget_attempts(late, ["x"])
        with pytest.raises(LeaseLost):
            await here.store.renew(late, 60_000)
        assert await written(here) == before
        await there.store.finish(new, 1, None)
        with pytest.raises(LeaseLost):  # or nobody could have the chat until that lease ends
            await there.store.renew(new, 60_000)


@pytest.mark.proves("S-10")
async def test_an_answer_that_a_dead_worker_had_is_not_asked_for_again(
    postgres_url: str, tmp_path: Path, quick: Callable[..., None]
):
    quick(sweep_s=0.2)
    go = tmp_path / "go"
    go.touch()
    llm = ScriptedLlm()
    async with sharer(postgres_url, go, 1.0, "die") as child, opened(postgres_url) as here:
        await says(child, "ready")
        chat = await Memory(here).chat("c")
        await talk(chat, 4)
        assert await child.wait() == 9
        kept = sa.select(llm_result.c.request_hash)
        paid = await here.store._db.read(lambda conn: conn.execute(kept).scalars().all())
        assert len(paid) == 1
        async with opened(postgres_url, llm):
            assert (await chat.settle(WAIT_S)).done
        made = await notes(chat)
        assert [s.text.startswith(f"by {child.pid}") for s in made] == [True, False, False]
        assert paid[0] not in {ask.hash for ask in llm.asks}
        assert len(llm.asks) == 2


async def test_settings_reach_the_process_that_works(postgres_url: str):
    async with opened(postgres_url, ScriptedLlm()), opened(postgres_url) as here:
        chat = await Memory(here).chat("c", settings={"visible_floors": 100})
        await talk(chat, 6)
        assert (await chat.settle(WAIT_S)).done
        assert await notes(chat) == []
        await Memory(here).chat("c", settings={"visible_floors": 4})
        assert (await chat.settle(WAIT_S)).done
        assert len(await notes(chat)) == 4


@pytest.mark.proves("I6")
async def test_two_processes_cannot_give_two_branches_one_name(postgres_url: str):
    async with opened(postgres_url, ScriptedLlm()) as one, opened(postgres_url) as two:
        chats = [await Memory(house).chat("c") for house in (one, two)]
        await talk(chats[0], 6)
        same = [chat.branch("twig") for chat in (*chats, *chats)]
        apart = [chat.branch(f"leaf {n}") for n, chat in enumerate(chats)]
        ends = await asyncio.gather(*same, *apart, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends[:4]) == ["BadInput"] * 3 + ["Chat"]
        for made in (*(end for end in ends if isinstance(end, Chat)),):
            assert len([m async for m in made.messages()]) == 12
            assert (await made.settle(WAIT_S)).done
            assert await is_sound(two, made)
        assert sum(isinstance(end, BadInput) for end in ends) == 3
        assert await one.store.unfinished() == 0


async def test_a_copy_that_a_living_process_makes_is_left_to_it(postgres_url: str):
    async with opened(postgres_url) as here:
        chat = await Memory(here).chat("c")
        await talk(chat, 3)
        made = await here.store.start_branch(chat._ref, "twig", None)
        old = await here.store.start_branch(chat._ref, "older", None)
        age = sa.update(chat_table).where(chat_table.c.id == old.target.id).values(created_at=5)
        await here.store._db.write(lambda conn: conn.execute(age).rowcount)
        async with opened(postgres_url, ScriptedLlm()):
            assert await here.store.unfinished() == 1  # the one whose process cannot live any more
        for part, level in made.parts:
            await here.store.copy_part(made, part, level)
        await here.store.finish_branch(made)
        assert len([m async for m in (await Memory(here).chat("twig")).messages()]) == 6


async def test_what_a_dead_worker_left_is_found_while_others_talk(
    postgres_url: str, quick: Callable[..., None]
):
    quick(sweep_s=0.3)
    async with opened(postgres_url, ScriptedLlm()) as busy, opened(postgres_url) as here:
        left = await Memory(here).chat("left")
        assert await here.store.claim(left._ref, "dead", 1_000) is not None
        await talk(left, 3)
        noise = await Memory(busy).chat("noise")

        async def goes_on() -> None:
            while True:
                await noise.append("user", "and so on")
                await asyncio.sleep(0.02)

        noisy = asyncio.create_task(goes_on())
        try:
            assert (await left.settle(8)).done
            assert len(await notes(left)) == 2
        finally:
            noisy.cancel()
            await asyncio.gather(noisy, return_exceptions=True)


async def test_a_change_under_way_is_waited_for_and_not_passed_over(postgres_url: str):
    async with opened(postgres_url) as here, opened(postgres_url) as there:
        chat = await Memory(here).chat("c")
        async with raw(here) as connection:  # as one that saves a fold does
            await connection.execute(sa.select(work.c.rev).with_for_update())
            claim = asyncio.create_task(there.store.claim(chat._ref, "w", 1_000))
            await asyncio.sleep(0.3)
            assert not claim.done()
        assert await claim is not None


@pytest.mark.timeout(120)
async def test_an_idle_process_hears_again_after_the_database_was_away(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(desk, "EVENTS_LOOK_EVERY_S", LONG_S)
    url = server.database()
    async with opened(url) as idle, opened(url) as other:
        chat = await Memory(idle).chat("c")
        await asyncio.gather(*(idle.store.newest(chat._ref, 1) for _ in range(4)))  # a full pool
        await hears(url, 2)
        await asyncio.to_thread(server.restart)
        await hears(url, 2)
        assert idle.ear is not None
        assert not idle.ear.done()
        events = chat.events()
        rev = await anext(events)
        await (await Memory(other).chat("c")).append("user", "hello")
        async with asyncio.timeout(SOON_S):
            assert await anext(events) == rev + 1


@pytest.mark.timeout(120)
async def test_a_lease_is_kept_through_a_restart_of_the_database(
    server: Server, quick: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    quick(lease_s=20.0, sweep_s=0.3)
    monkeypatch.setattr(postgres, "AWAY_S_MAX", 0.0)  # nobody waits for it
    url = server.database()
    slow, other = ScriptedLlm(), ScriptedLlm()
    runner.RENEW_EVERY_S = 0.3
    async with opened(url, slow) as here:
        slow.hang()
        chat = await Memory(here).chat("c")
        await talk(chat, 2)
        await until(lambda: slow.waiting)
        async with away(server):
            await asyncio.sleep(1)  # renewals fail
        before = (await work_row(here, chat)).lease_until

        async def renewed() -> bool:
            return (await work_row(here, chat)).lease_until > before

        await until(renewed)
        async with opened(url, other):
            await asyncio.sleep(1)
            assert other.asks == []
        slow.release()
        assert (await chat.settle(WAIT_S)).done
        assert len(slow.asks) == 1


@pytest.mark.timeout(120)
async def test_a_lease_that_could_not_be_given_back_is_given_back_later(
    server: Server, quick: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    quick(lease_s=600.0, sweep_s=0.3)
    monkeypatch.setattr(postgres, "AWAY_S_MAX", 0.0)  # nobody waits for it
    url = server.database()
    failing = ScriptedLlm([ModelUnavailable("no")])
    async with opened(url, failing) as here:
        failing.hang()
        chat = await Memory(here).chat("c")
        await talk(chat, 2)
        await until(lambda: failing.waiting)
        async with away(server):
            failing.release()
            await until(lambda: here.runner is not None and not here.runner._running)

        async def done() -> bool:
            return len(await notes(chat)) == 1

        await until(done)


@pytest.mark.timeout(120)
async def test_what_is_said_while_the_database_restarts_is_recorded_once(server: Server):
    url = server.database()
    async with opened(url) as here:
        chat = await Memory(here).chat("c")
        async with away(server):
            said = asyncio.create_task(chat.append("user", "hello"))
            await asyncio.sleep(0.5)
            assert not said.done()
        await said
        assert [m.body async for m in chat.messages()] == ["hello"]


@pytest.mark.timeout(120)
async def test_an_answer_that_comes_while_the_database_is_away_is_not_paid_for_twice(
    server: Server, quick: Callable[..., None]
):
    quick(sweep_s=0.3)
    url = server.database()
    slow = ScriptedLlm()
    async with opened(url, slow) as here:
        slow.hang()
        chat = await Memory(here).chat("c")
        await talk(chat, 2)
        await until(lambda: slow.waiting)
        async with away(server):
            slow.release()
            await until(lambda: not slow.waiting)
            await asyncio.sleep(0.5)
        assert (await chat.settle(WAIT_S)).done
        assert len(await notes(chat)) == 1
        assert len(slow.asks) == 1


async def test_a_lost_lease_ends_the_call_that_nobody_waits_for(
    postgres_url: str, quick: Callable[..., None]
):
    quick(lease_s=2.0, sweep_s=0.3)
    slow = ScriptedLlm()
    async with opened(postgres_url, slow) as here:
        slow.hang()
        chat = await Memory(here).chat("c")
        await talk(chat, 2)
        await until(lambda: slow.waiting)
        take = sa.update(work).values(fence=work.c.fence + 1, lease_owner="other")
        await here.store._db.write(lambda conn: conn.execute(take).rowcount)
        await until(lambda: not slow.waiting)


async def test_too_many_at_once_are_told_so(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    for name, value in (("POOL_SIZE", 1), ("POOL_MORE", 0), ("POOL_WAIT_S", 0.2)):
        monkeypatch.setattr(postgres, name, value)
    database = await PostgresDatabase.open(postgres_url)

    def slow(conn: sa.Connection) -> None:
        conn.exec_driver_sql("SELECT pg_sleep(1)")

    ends = await asyncio.gather(*(database.read(slow) for _ in range(2)), return_exceptions=True)
    await database.close()
    told = [end for end in ends if end is not None]
    assert [type(end) for end in told] == [StoreUnavailable]
    assert "in use" in str(told[0])


async def test_a_process_that_stops_in_mid_transaction_does_not_hold_a_chat_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "STALLED_MS_MAX", 500)
    async with opened(postgres_url) as stalled, opened(postgres_url) as here:
        chat = await Memory(here).chat("c")
        async with raw(stalled) as connection:
            await connection.execute(sa.select(work.c.rev).with_for_update())
            async with asyncio.timeout(10):
                await chat.append("user", "hello")
            with pytest.raises(DBAPIError):
                await connection.execute(sa.text("SELECT 1"))
