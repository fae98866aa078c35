"""What is particular to SQLite: the file, its lock, its schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import StatementError

from previously.errors import ReadOnly, SchemaTooNew, StoreLocked, StoreUnavailable
from previously.model import NewMessage
from previously.store import schema
from previously.store.migrate import HEAD, KNOWN
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase


def clock() -> int:
    return 1


def is_ours(name: str | None, *_: object) -> bool:
    """FTS5 makes tables of its own."""
    return not str(name).startswith("posting")


@pytest.mark.proves("G-72")
async def test_the_migrations_make_exactly_the_schema(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "a.db")
    await database.close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as conn:
        ours = {"include_name": is_ours}
        found = compare_metadata(MigrationContext.configure(conn, opts=ours), schema.metadata)
        version = conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    engine.dispose()
    assert found == []
    assert version == HEAD == KNOWN[-1]


@pytest.mark.proves("G-72")
async def test_a_newer_schema_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "a.db"
    await SqliteDatabase(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match=r"9999.*Upgrade"):
            SqliteDatabase(path)
    assert path.read_bytes() == before


async def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path):
    path = tmp_path / "a.db"
    first = SqliteDatabase(path)
    with pytest.raises(StoreLocked, match=r"another process \(id \d+\)"):
        SqliteDatabase(path)
    reader = SqliteDatabase(path, read_only=True)
    with pytest.raises(ReadOnly):
        await SqlStore(reader, clock, {}).recover()
    await reader.close()
    await first.close()
    await SqliteDatabase(path).close()


async def test_commits_are_flushed_to_disk(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "a.db")

    def pragma(conn: sa.Connection, name: str) -> object:
        return conn.exec_driver_sql(f"PRAGMA {name}").scalar()

    assert await database.write(pragma, "synchronous") == 2
    assert await database.write(pragma, "journal_mode") == "wal"
    assert await database.write(pragma, "foreign_keys") == 1
    await database.close()


async def test_a_full_disk_is_an_error_to_wait_for_and_loses_nothing(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "a.db")
    store = SqlStore(database, clock, {})
    chat = await store.ensure_chat("local", "c", "volumes", "volumes")
    await store.append(chat.ref, [NewMessage("user", "kept")])

    def limit(conn: sa.Connection, pages: int) -> int:
        return conn.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar_one()

    full = await database.write(limit, 1)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.append(chat.ref, [NewMessage("user", "x" * 100_000)])
    await database.write(limit, full + 10_000)
    await store.append(chat.ref, [NewMessage("user", "y" * 100_000)])
    assert [m.body[:4] for m in await store.page(chat.ref, 0, 9)] == ["kept", "yyyy"]
    await database.close()


async def test_what_waits_is_written_before_the_file_is_let_go(tmp_path: Path):
    path = tmp_path / "a.db"
    database = SqliteDatabase(path)
    store = SqlStore(database, clock, {})
    chat = await store.ensure_chat("local", "c", "volumes", "volumes")
    await store.append(chat.ref, [NewMessage("user", "kept")])
    await database.close()
    again = SqliteDatabase(path)
    assert len(await SqlStore(again, clock, {}).page(chat.ref, 0, 9)) == 1
    await again.close()


async def test_readers_live_on_after_a_statement_that_cannot_be_run(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "reads.db")
    like = sa.select(schema.message.c.id).where(schema.message.c.hash == sa.bindparam("hash"))

    def wrong(conn: sa.Connection) -> object:
        return conn.execute(like, {"hash": 1}).scalar()

    for _ in range(6):  # more than there are readers
        with pytest.raises(StatementError):
            await database.read(wrong)
    assert await database.read(lambda conn: conn.execute(sa.select(sa.literal(3))).scalar()) == 3
    await database.close()
