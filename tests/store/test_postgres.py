"""What only a shared database can get wrong: clocks, collisions, lost connections, passwords."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from previously.app import clock_ms
from previously.errors import NotConfigured, ReadOnly, SchemaTooNew, StoreUnavailable
from previously.model import NewMessage
from previously.store.postgres import PostgresDatabase
from previously.store.schema import message, work
from previously.store.sql import SqlStore
from previously.store.urls import shown
from tests.postgres import Server
from tests.store.test_contract import chat_with, lease_on


def wrong_clock() -> int:
    """A machine whose clock is a day ahead."""
    return clock_ms() + 86_400_000


async def test_leases_go_by_the_clock_that_all_processes_share(postgres_url: str):
    first, second = [await PostgresDatabase.open(postgres_url) for _ in range(2)]
    ahead, right = SqlStore(first, wrong_clock, {}), SqlStore(second, lambda: 0, {})
    chat, _ = await chat_with(ahead, 2)
    await lease_on(right, chat)
    assert await ahead.claim(chat.ref, "ahead", 60_000) is None  # by its own clock it has expired
    assert abs(await ahead.now_ms() - clock_ms()) < 60_000
    for database in (first, second):
        await database.close()


async def test_two_processes_append_to_one_chat_without_collision_or_loss(postgres_url: str):
    databases = [await PostgresDatabase.open(postgres_url) for _ in range(3)]
    stores = [SqlStore(database, lambda: 1, {}) for database in databases]
    chats = await asyncio.gather(
        *(s.ensure_chat("local", "one", "volumes", "volumes") for s in stores)
    )
    assert len({chat.ref for chat in chats}) == 1
    ref = chats[0].ref

    async def talk(store: SqlStore, who: int) -> None:
        for n in range(10):
            await store.append(ref, [NewMessage("user", f"{who}:{n}")])

    await asyncio.gather(*(talk(store, who) for who, store in enumerate(stores)))

    def read(conn: sa.Connection) -> tuple[list[str], int]:
        said = conn.execute(sa.select(message.c.body).order_by(message.c.pos)).scalars().all()
        return list(said), conn.execute(sa.select(work.c.rev)).scalar_one()

    said, rev = await databases[0].read(read)
    assert rev == 30
    assert len(set(said)) == 30
    for who in range(3):  # what one process said stands in the order it was said in
        assert [s for s in said if s.startswith(f"{who}:")] == [f"{who}:{n}" for n in range(10)]
    for database in databases:
        await database.close()


async def test_changes_of_one_chat_wait_for_each_other(postgres_url: str):
    databases = [await PostgresDatabase.open(postgres_url) for _ in range(2)]
    stores = [SqlStore(database, lambda: 1, {}) for database in databases]
    chat, said = await chat_with(stores[0], 4)
    edits = [stores[n % 2].edit(chat.ref, said[n % 4].id, f"text {n}", None) for n in range(24)]
    await asyncio.gather(*edits)
    page = await stores[0].page(chat.ref, -(1 << 62), 10)
    assert [m.version for m in page] == [7, 7, 7, 7]
    for database in databases:
        await database.close()


async def test_every_process_hears_of_a_change(postgres_url: str):
    here, there = [await PostgresDatabase.open(postgres_url) for _ in range(2)]
    heard: list[int] = []
    ear = asyncio.create_task(there.listen(heard.append))
    store = SqlStore(here, lambda: 1, {})
    chat, _ = await chat_with(store, 0)
    while not heard:
        await store.append(chat.ref, [NewMessage("user", "hello")])
        await asyncio.sleep(0.02)
    assert set(heard) == {chat.ref.id}
    ear.cancel()
    await asyncio.gather(ear, return_exceptions=True)
    await here.close()
    await there.close()


async def test_a_restart_of_the_database_costs_a_moment(postgres: Server):
    url = postgres.database()
    database = await PostgresDatabase.open(url)
    heard: list[int] = []
    ear = asyncio.create_task(database.listen(heard.append))
    store = SqlStore(database, lambda: 1, {})
    chat, _ = await chat_with(store, 2)
    await asyncio.to_thread(postgres.restart)
    assert len(await store.newest(chat.ref, 10)) == 2
    await store.append(chat.ref, [NewMessage("user", "after")])
    heard.clear()
    for _ in range(100):
        if heard:
            break
        await asyncio.sleep(0.1)
        await store.append(chat.ref, [NewMessage("user", "again")])
    assert heard
    ear.cancel()
    await asyncio.gather(ear, return_exceptions=True)
    await database.close()


async def test_a_database_that_is_not_there_is_told_in_words_and_without_the_password(
    postgres_url: str,
):
    nowhere = "postgresql://someone:hunter2@127.0.0.1:9/none"
    with pytest.raises(StoreUnavailable, match="cannot be reached") as refused:
        await PostgresDatabase.open(nowhere)
    assert "hunter2" not in str(refused.value)
    assert shown(nowhere) == "postgresql://someone:***@127.0.0.1:9/none"
    missing = sa.make_url(postgres_url).set(database="no_such").render_as_string()
    with pytest.raises(NotConfigured, match="no_such"):
        await PostgresDatabase.open(missing)


async def test_a_newer_schema_is_refused_and_left_alone(postgres: Server):
    url = postgres.database()
    database = await PostgresDatabase.open(url)
    await database.write(
        lambda conn: conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    )
    await database.close()
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match="Nothing was changed"):
            await PostgresDatabase.open(url, read_only=read_only)


async def test_a_reader_changes_nothing(postgres_url: str):
    reader = await PostgresDatabase.open(postgres_url, read_only=True)
    with pytest.raises(ReadOnly):
        await SqlStore(reader, lambda: 1, {}).ensure_chat("local", "x", "volumes", "volumes")
    with pytest.raises(DBAPIError, match="read-only"):
        await reader.read(lambda conn: conn.execute(sa.delete(message)).rowcount)
    await reader.close()


async def test_two_processes_that_start_together_migrate_once(postgres: Server):
    url = postgres.database("template1")
    opened = await asyncio.gather(*(PostgresDatabase.open(url) for _ in range(4)))
    for database in opened:
        await database.close()
