"""Statements that run at every turn or change never walk a table: their cost stays bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from previously.store import (
    backlog,
    changes,
    coverage,
    folds,
    intents,
    leaves,
    messages,
    profiles,
    revisions,
    snapshots,
    work,
)
from previously.store.prepared import Prepared
from previously.store.sqlite import SqliteDatabase

VALUES: dict[str, object] = {
    "ids": [1, 2],
    "of_lane": "volumes",
    "lane": "volumes",
    "audience": "",
    "scope_id": "1",
    "task": "t",
    "request": "r",
    "hash": b"h",
    "worker": "w",
}


MODULES = (
    snapshots,
    folds,
    backlog,
    messages,
    changes,
    coverage,
    leaves,
    revisions,
    profiles,
    intents,
    work,
)
UNBOUNDED = {"_DUE", "_OTHERS"}  # one row per chat at a sweep; a chat's first few messages


def statements() -> list[tuple[str, sa.Select[Any]]]:
    named = ((m, name, thing) for m in MODULES for name, thing in vars(m).items())
    return [
        (f"{module.__name__}.{name}", cast("sa.Select[Any]", found))
        for module, name, thing in named
        for found in (thing.statement if isinstance(thing, Prepared) else thing,)
        if isinstance(found, sa.Select) and name not in UNBOUNDED
    ]


@pytest.mark.parametrize(("name", "statement"), statements(), ids=[n for n, _ in statements()])
async def test_a_statement_uses_an_index(tmp_path: Path, name: str, statement: sa.Select[Any]):
    database = SqliteDatabase(tmp_path / "plan.db")
    plan = await database.read(explain, statement)
    await database.close()
    assert plan
    assert [step for step in plan if step.startswith("SCAN")] == [], name


def explain(conn: sa.Connection, statement: sa.Select[Any]) -> list[str]:
    """How SQLite would run it, with its values bound as they are when it runs."""
    ran: list[tuple[str, tuple[object, ...]]] = []

    def listen(*args: Any) -> None:
        ran.append((args[2], args[3]))

    event.listen(conn, "before_cursor_execute", listen)
    names = [bind.key for bind in statement.compile(conn).binds.values() if bind.required]
    conn.execute(statement, {name: VALUES.get(name, 1) for name in names}).all()
    event.remove(conn, "before_cursor_execute", listen)
    text, values = ran[0]
    return [str(row[3]) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
