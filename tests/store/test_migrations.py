"""Every step from an older schema: on a filled database, without loss, whole or not at all.

The old database is filled with plain SQL, as it was at revision 0001; what a later revision adds
must do without anything that only this version knows.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.ext.asyncio import create_async_engine

from previously import Memory, app
from previously.errors import SchemaTooNew, SchemaTooOld
from previously.model import POS_GAP, NewMessage, digest, key
from previously.store import migrate, schema
from previously.store.migrate import HEAD, KNOWN
from previously.store.postgres import PostgresDatabase
from previously.store.urls import url_of
from previously.testing import ScriptedLlm
from tests.postgres import Server

pytestmark = pytest.mark.slow

FIRST = KNOWN[0]
CHAT = 7
LINES = (
    "第一句：你好，世界。",
    "Ünïcödé, emoji 👩‍👩‍👧, a tab\tand a 'quote' \"twice\"",
    "right to left: שלום; combining: e\u0301; a line\nand another",
    "% _ \\ and ; DROP TABLE message; --",
    "𠮷野家 is beyond the first plane",
    "six is hidden",
    "seven is the newest user's word",
    "eight answers it",
)
TABLES = """
chat work message variant message_revision presence summary link lane_state hole fold intent
attempt llm_result profile participant chat_participant setting usage token installation
"""


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """A chat of eight messages, of which two are summarised and one is a hole."""
    said = [NewMessage(("user", "assistant")[n % 2], body) for n, body in enumerate(LINES)]
    yield (
        "chat",
        {
            "id": CHAT,
            "owner": "local",
            "name": "旧的",
            "title": "旧的",
            "preset": "volumes",
            "lane": "volumes",
            "recalculating": False,
            "archived": False,
            "recording": True,
            "building": False,
            "created_at": 5,
        },
    )
    yield (
        "work",
        {
            "chat_id": CHAT,
            "rev": 9,
            "done_rev": 9,
            "next_n": len(said) + 1,
            "next_s": 2,
            "last_pos": len(said) * POS_GAP,
            "fence": 3,
        },
    )
    for n, one in enumerate(said, 1):
        yield (
            "message",
            {
                "id": key(CHAT, n),
                "chat_id": CHAT,
                "pos": n * POS_GAP,
                "role": one.role,
                "kind": "speech",
                "state": "confirmed",
                "body": one.body,
                "hash": one.hash,
                "tokens": 10,
                "hidden_by": "user" if n == 6 else None,
                "excluded": False,
                "pinned": False,
                "variant": 0,
                "version": 1,
                "created_at": n,
            },
        )
    yield from summaries(said)
    yield from the_rest()


def summaries(said: list[NewMessage]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "summary",
        {
            "id": key(CHAT, 1),
            "chat_id": CHAT,
            "lane": "volumes",
            "kind": "mini",
            "level": 0,
            "ordinal": 1,
            "text": "他们互相问候。",
            "hash": digest("他们互相问候。"),
            "tokens": 6,
            "first_pos": POS_GAP,
            "last_pos": 2 * POS_GAP,
            "message_count": 2,
            "status": "ready",
            "valid": True,
            "root_id": key(CHAT, 1),
            "edited_by_user": False,
            "pinned": False,
            "version": 1,
            "created_at": 6,
            "updated_at": 6,
        },
    )
    for n in (1, 2):
        yield (
            "link",
            {
                "summary_id": key(CHAT, 1),
                "position": n - 1,
                "target_is_summary": False,
                "target_id": key(CHAT, n),
                "target_hash": said[n - 1].hash,
            },
        )
    yield (
        "lane_state",
        {
            "chat_id": CHAT,
            "lane": "volumes",
            "enabled": True,
            "frozen": False,
            "covered_to": 3 * POS_GAP,
            "next_ordinal": 2,
            "checked_at_ordinal": 0,
        },
    )
    yield "hole", {"chat_id": CHAT, "lane": "volumes", "message_id": key(CHAT, 3), "since": 7}
    yield (
        "fold",
        {
            "chat_id": CHAT,
            "audience": "",
            "budget_tokens": 8000,
            "version": 1,
            "tail_pos": 3 * POS_GAP,
            "from_pos": 0,
            "room_tokens": 8000,
            "shown": "s1",
            "reason": "because",
            "stale": False,
            "moved_at": 7,
        },
    )


def the_rest() -> Iterator[tuple[str, dict[str, Any]]]:
    """A row in every other table."""
    chat = {"chat_id": CHAT}
    for idx, body in enumerate((LINES[3], "another way to say it")):
        hashed = {"hash": NewMessage("assistant", body).hash, "tokens": 5, "created_at": 8}
        yield "variant", {"message_id": key(CHAT, 4), "idx": idx, "body": body, **hashed}
    yield (
        "message_revision",
        {
            **chat,
            "rev": 4,
            "message_id": key(CHAT, 2),
            "change": "edit",
            "before": json.dumps({"body": "as it was"}),
            "undone": False,
            "created_at": 8,
        },
    )
    yield "presence", {**chat, "id": 1, "members": '["白娅"]'}
    closed = {"lane": "volumes", "payload": "{}", "created_at": 8, "closed_at": 9}
    yield "intent", {"id": 1, **chat, "kind": "run", **closed}
    failed = {"verdict": "failed", "error_class": "ModelUnavailable", "error_text": "503"}
    later = {"tries": 2, "not_before": 1 << 62, "updated_at": 8}
    yield "attempt", {**chat, "task_id": "t", "lane": "volumes", **failed, **later}
    answer = json.dumps({"text": "付过的", "model": "m", "finish": "stop", "usage": [1, 2]})
    paid = {"request_hash": "r", "response": answer, "sources": f"[{key(CHAT, 3)}]"}
    yield "llm_result", {**chat, **paid, "created_at": 8}
    model = {"source": "openai", "base_url": "http://x", "model": "m", "version": 1}
    yield "profile", {"id": 1, "owner": "local", "name": "p", **model}
    person = {"key": "a:b", "display_name": "白娅", "rev": 1, "version": 1}
    yield "participant", {"id": 1, "owner": "local", **person}
    yield "chat_participant", {**chat, "participant_id": 1}
    own = {"scope": "chat", "scope_id": str(CHAT), "revision": 1}
    yield "setting", {"owner": "local", **own, "body": '{"visible_floors": 2, "fold_every": 1}'}
    spent = {"month": "2026-01", "profile": "p", "lane": "volumes", "input_tokens": 1}
    yield "usage", {"id": 1, "owner": "local", **spent, "output_tokens": 2, "created_at": 8}
    yield (
        "token",
        {
            "id": 1,
            "owner": "local",
            "name": "t",
            "digest": digest("t"),
            "scopes": "",
            "created_at": 8,
        },
    )
    yield "installation", {"id": 1, "secret": digest("secret"), "created_at": 8}


def fill(conn: sa.Connection) -> None:
    """Rows by the names that revision 0001 has for them."""
    for table, values in rows():
        conn.execute(sa.insert(sa.table(table, *_columns(values))).values(**values))


def _columns(names: Iterable[str]) -> list[sa.ColumnClause[Any]]:
    return [sa.column(name) for name in names]


def held(conn: sa.Connection) -> dict[str, list[str]]:
    """Everything that was filled in, read column by column as 0001 had them."""
    columns: dict[str, dict[str, None]] = {}
    for table, values in rows():
        columns.setdefault(table, {}).update(dict.fromkeys(values))
    found: dict[str, list[str]] = {}
    for table, names in columns.items():
        query = sa.select(*_columns(names)).select_from(sa.table(table))
        found[table] = sorted(repr(_plain(row)) for row in conn.execute(query))
    return found


def _plain(row: Sequence[Any]) -> list[Any]:
    return [int(value) if isinstance(value, bool) else value for value in row]


class Old:
    """A filled database of an older schema."""

    def __init__(
        self, location: Path | str, run: Callable[[Callable[[sa.Connection], Any]], Any]
    ) -> None:
        self.location = location
        self.run = run  # a function of a connection, in one transaction


def on_sqlite(path: Path) -> Old:
    def run(function: Callable[[sa.Connection], Any]) -> Any:
        engine = sa.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as conn:
                conn.exec_driver_sql("PRAGMA journal_mode=WAL")
                conn.exec_driver_sql("BEGIN")
                result = function(conn)
                conn.exec_driver_sql("COMMIT")
                return result
        finally:
            engine.dispose()

    return Old(path, run)


def on_postgres(url: str) -> Old:
    async def inside(function: Callable[[sa.Connection], Any]) -> Any:
        engine = create_async_engine(url_of(url))
        try:
            async with engine.begin() as conn:
                return await conn.run_sync(function)
        finally:
            await engine.dispose()

    return Old(url, lambda function: asyncio.run(inside(function)))


@pytest.fixture(params=["sqlite", "postgres"])
def old(request: pytest.FixtureRequest) -> Old:
    """Empty as yet."""
    if request.param == "sqlite":
        return on_sqlite(request.getfixturevalue("tmp_path") / "old.db")
    server: Server = request.getfixturevalue("postgres")
    return on_postgres(server.database("template1"))


def at(old: Old, revision: str) -> None:
    """Filled at the first revision, then brought to this one."""
    old.run(lambda conn: migrate.run(conn, FIRST))
    old.run(fill)
    for step in KNOWN[1 : KNOWN.index(revision) + 1]:
        old.run(lambda conn, step=step: migrate.run(conn, step))
    assert old.run(migrate.current) == revision


def ours(name: str | None, *_: Any) -> bool:
    """An index over words is each database's own."""
    return not str(name).startswith("posting")


@pytest.mark.proves("G-72")
def test_every_table_of_the_first_revision_is_filled():
    assert {table for table, _ in rows()} == set(TABLES.split())


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("revision", KNOWN[1:])
def test_a_step_loses_nothing(old: Old, revision: str):
    at(old, KNOWN[KNOWN.index(revision) - 1])
    before = old.run(held)
    old.run(lambda conn: migrate.run(conn, revision))
    assert old.run(held) == before
    assert old.run(migrate.current) == revision


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("revision", KNOWN)
def test_an_older_memory_opens_and_works(old: Old, revision: str):
    at(old, revision)
    before = old.run(held)
    asyncio.run(app.bring_up(old.location))
    assert old.run(held) == before
    asyncio.run(lives_on(old))


async def lives_on(old: Old) -> None:
    async with Memory.open(old.location, worker=False) as memory:
        chat = await memory.chat("旧的")
        prompt = json.dumps((await chat.prompt()).messages, ensure_ascii=False)
    assert "他们互相问候。" in prompt
    for line in (*LINES[2:5], *LINES[6:]):
        assert json.dumps(line, ensure_ascii=False)[1:-1] in prompt
    for line in (*LINES[:2], LINES[5]):
        assert line not in prompt
    async with Memory.open(old.location, llm=ScriptedLlm()) as memory:
        chat = await memory.chat("旧的")
        await chat.append("user", "和以前一样吗？")
        await chat.append("assistant", "是的。")
        assert (await chat.settle()).done
        notes = [s.text async for s in chat.summaries()]
        assert notes[0] == "他们互相问候。"
        assert len(notes) > 2
        assert [m.body async for m in chat.messages()][: len(LINES)] == list(LINES)


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("revision", KNOWN)
def test_the_way_up_ends_in_exactly_the_schema(old: Old, revision: str):
    at(old, revision)
    asyncio.run(app.bring_up(old.location))

    def differences(conn: sa.Connection) -> list[Any]:
        options = {"include_name": ours, "compare_type": True}
        return compare_metadata(MigrationContext.configure(conn, opts=options), schema.metadata)

    assert old.run(differences) == []


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_migrations_make_what_the_definition_makes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    if kind == "sqlite":
        pair = [on_sqlite(tmp_path / f"{n}.db") for n in range(2)]
    else:
        server: Server = request.getfixturevalue("postgres")
        pair = [on_postgres(server.database("template1")) for _ in range(2)]
    pair[0].run(migrate.run)
    pair[1].run(schema.metadata.create_all)
    assert pair[0].run(described) == pair[1].run(described)


def described(conn: sa.Connection) -> dict[str, Any]:
    """Tables, columns, keys, indexes."""
    found = sa.inspect(conn)
    return {
        table: {
            "columns": [
                (c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)
            ],
            "primary": found.get_pk_constraint(table),
            "unique": sorted(map(repr, found.get_unique_constraints(table))),
            "foreign": sorted(map(repr, found.get_foreign_keys(table))),
            "indexes": sorted(_index(made) for made in found.get_indexes(table)),
        }
        for table in found.get_table_names()
        if ours(table) and table != "alembic_version"
    }


def _index(made: Any) -> str:
    options = {name: str(value) for name, value in made.get("dialect_options", {}).items()}
    return repr((made["name"], made["column_names"], bool(made["unique"]), options))


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("revision", KNOWN[:-1])
def test_the_older_file_is_kept_aside(tmp_path: Path, revision: str):
    old = on_sqlite(tmp_path / "old.db")
    at(old, revision)
    before = old.run(held)
    asyncio.run(app.bring_up(old.location))
    kept = on_sqlite(tmp_path / f"old.db.{revision}.bak")
    assert kept.run(migrate.current) == revision
    assert kept.run(held) == before
    with closing(sqlite3.connect(tmp_path / f"old.db.{revision}.bak")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert list(tmp_path.glob("*.tmp")) == []


DIES = """
import asyncio, os, sys
from pathlib import Path
import sqlalchemy as sa
from previously import app

left = [int(sys.argv[2])]

def counted(conn, cursor, statement, *rest):
    if statement.lstrip().upper().startswith(("CREATE", "ALTER", "UPDATE", "INSERT", "DROP")):
        left[0] -= 1
        if left[0] == 0:
            os._exit(9)

sa.event.listen(sa.Engine, "after_cursor_execute", counted)
asyncio.run(app.bring_up(app.database_location(sys.argv[1])))
print(left[0])
"""


def brought_up(location: Path | str, die_after: int) -> subprocess.CompletedProcess[str]:
    """By another process, which dies after that many statements."""
    command = [sys.executable, "-c", DIES, str(location), str(die_after)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.proves("G-72", "I6")
@pytest.mark.timeout(180)
def test_a_process_that_dies_in_mid_migration_leaves_what_was_there(old: Old):
    at(old, FIRST)
    before = old.run(held)
    for die_after in (1, 3, 5):
        assert brought_up(old.location, die_after).returncode == 9
        assert old.run(migrate.current) == FIRST
        assert old.run(held) == before
    whole = brought_up(old.location, 1_000)
    assert whole.returncode == 0, whole.stderr
    assert int(whole.stdout) <= 1_000 - 5  # so the fifth was one of them
    assert old.run(migrate.current) == HEAD
    assert old.run(held) == before


@pytest.mark.proves("G-72")
def test_a_newer_schema_is_refused_in_a_sentence_and_not_touched(old: Old):
    at(old, HEAD)
    old.run(lambda conn: conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'"))
    before = old.run(held)
    raw = old.location.read_bytes() if isinstance(old.location, Path) else b""
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match=r"9999.*Nothing was changed\. Upgrade"):
            asyncio.run(app.build(old.location, read_only=read_only))
    assert old.run(held) == before
    assert old.run(lambda conn: sa.inspect(conn).get_table_names())
    if isinstance(old.location, Path):
        assert old.location.read_bytes() == raw
        assert list(old.location.parent.glob("*.bak")) == []


@pytest.mark.proves("G-72")
@pytest.mark.parametrize("revision", KNOWN[:-1])
def test_an_older_schema_is_not_opened_for_reading(old: Old, revision: str):
    at(old, revision)
    before = old.run(held)
    with pytest.raises(SchemaTooOld, match=rf"schema {revision}.*previously migrate"):
        asyncio.run(app.build(old.location, read_only=True))
    assert old.run(migrate.current) == revision
    assert old.run(held) == before


@pytest.mark.proves("G-72")
def test_processes_that_start_together_bring_it_up_once(postgres: Server):
    old = on_postgres(postgres.database("template1"))
    at(old, FIRST)
    before = old.run(held)

    async def together() -> None:
        opened = await asyncio.gather(*(PostgresDatabase.open(str(old.location)) for _ in range(4)))
        for database in opened:
            await database.close()

    asyncio.run(together())
    assert old.run(held) == before
    assert old.run(migrate.current) == HEAD
