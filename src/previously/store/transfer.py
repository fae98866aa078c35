"""Moving a whole memory from one database to another, checked row by row.

Rows are copied a page at a time. What was copied is then compared: as many rows in every table, and
the same sum of their hashes, which does not depend on the order that a database sorts texts in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from previously.errors import BadInput, Conflict
from previously.model import digest
from previously.store import Database
from previously.store.schema import chat, metadata

PAGE_ROWS = 500
SUM_BITS = 128

Row = Sequence[Any]
Progress = Callable[[str, int], None]  # a table, and how many of its rows are done


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows a table has, and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def plus(self, rows: Sequence[Row]) -> Count:
        """With these rows."""
        total = self.total + sum(_hash(row) for row in rows)
        return Count(self.rows + len(rows), total % (1 << SUM_BITS))


def _hash(row: Row) -> int:
    parts = (value if isinstance(value, bytes) else repr(value) for value in row)
    return int.from_bytes(digest(*parts), "big")


def tables() -> list[sa.Table]:
    """What has to be moved, parents first; what can be made again from the rest is not."""
    return [table for table in metadata.sorted_tables if not table.info.get("made_again")]


async def move(source: Database, target: Database, progress: Progress) -> dict[str, int]:
    """Copy everything into an empty database and compare; the rows of each table.

    If anything differs in the end, the target is emptied again.
    """
    if await target.read(_holds_chats):
        raise BadInput("the target holds chats already; name an empty database", field="to")
    await target.write(_empty)
    async with AsyncExitStack() as unless_whole:
        unless_whole.push_async_callback(target.write, _empty)
        copied = {table.name: await _copy(source, target, table, progress) for table in tables()}
        await _compare(copied, source, "the source was changed meanwhile; stop what writes to it")
        await _compare(copied, target, "the target is not what was written to it")
        unless_whole.pop_all()
    await target.write(_set_sequences)
    return {name: count.rows for name, count in copied.items()}


async def _copy(source: Database, target: Database, table: sa.Table, progress: Progress) -> Count:
    count = Count()
    async for page in _pages(source, table):
        await target.write(_insert, table, page)
        count = count.plus(page)
        progress(table.name, count.rows)
    return count


async def _compare(copied: dict[str, Count], database: Database, otherwise: str) -> None:
    for table in tables():
        count = Count()
        async for page in _pages(database, table):
            count = count.plus(page)
        if count != copied[table.name]:
            raise Conflict(f"{otherwise} (table {table.name}); nothing was moved")


async def _pages(database: Database, table: sa.Table) -> AsyncIterator[Sequence[Row]]:
    last: Row | None = None
    places = [list(table.columns).index(column) for column in table.primary_key.columns]
    while page := await database.read(_page, table, last):
        yield page
        last = tuple(page[-1][i] for i in places)


def _page(conn: sa.Connection, table: sa.Table, after: Row | None) -> list[Row]:
    key = list(table.primary_key.columns)
    query = sa.select(*(_plain(c) for c in table.columns)).order_by(*key).limit(PAGE_ROWS)
    if after is not None:
        bound = (sa.bindparam(None, v, type_=c.type) for v, c in zip(after, key, strict=True))
        query = query.where(sa.tuple_(*key) > sa.tuple_(*bound))
    return [tuple(row) for row in conn.execute(query)]


def _plain(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """A lease belongs to a process of the old place."""
    if column.table.name == "work" and column.name in {"lease_owner", "lease_until"}:
        return sa.null().label(column.name)
    return column


def _insert(conn: sa.Connection, table: sa.Table, page: Sequence[Row]) -> None:
    names = [column.name for column in table.columns]
    conn.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in page])


def _holds_chats(conn: sa.Connection) -> bool:
    return conn.execute(sa.select(chat.c.id).limit(1)).scalar() is not None


def _empty(conn: sa.Connection) -> None:
    for table in reversed(metadata.sorted_tables):
        conn.execute(sa.delete(table))


def _set_sequences(conn: sa.Connection) -> None:
    """PostgreSQL counts keys apart from the rows: go on after the highest."""
    if conn.dialect.name == "sqlite":
        return
    for table in tables():
        column = table.autoincrement_column
        if column is None or column.foreign_keys:
            continue
        name = sa.func.pg_get_serial_sequence(table.name, column.name)
        top = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
        if conn.execute(sa.select(name)).scalar() is not None:
            conn.execute(sa.select(sa.func.setval(name, top, sa.false())))
