"""Statements of the hottest paths, handed to SQLite's driver without any ceremony.

SQLAlchemy says once what a statement reads on SQLite, and how its values come back; from then on
the driver runs it directly. On any other database SQLAlchemy runs it as it runs every other one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

Values = Mapping[str, Any]
Row = Sequence[Any]
_Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    text: str
    names: tuple[str, ...]  # of its values, in their order
    fixed: Mapping[str, Any]  # values that stand in the statement itself
    reads: tuple[tuple[int, _Read], ...]  # columns that come back as something else

    def bound(self, values: Values) -> tuple[Any, ...]:
        return tuple([values[n] if n in values else self.fixed[n] for n in self.names])


class Prepared:
    """One statement; what it takes and yields is the same on every database."""

    def __init__(
        self,
        statement: sa.Executable,
        columns: Sequence[str] | None = None,  # that an insert gives
    ) -> None:
        self.statement = statement
        self._columns = columns
        self._plan: _Plan | None = None

    def all(self, conn: sa.Connection, values: Values) -> Sequence[Row]:
        """Every row it yields."""
        if conn.dialect.name != "sqlite":
            return conn.execute(self.statement, values).all()
        plan = self._plan or self._made(conn.dialect)
        rows = _raw(conn).execute(plan.text, plan.bound(values)).fetchall()
        return [_read(row, plan.reads) for row in rows] if plan.reads else rows

    def one(self, conn: sa.Connection, values: Values) -> Row | None:
        """The only row, or None."""
        found = self.all(conn, values)
        return found[0] if found else None

    def many(self, conn: sa.Connection, values: Sequence[Values]) -> None:
        """Once for each of these; nothing comes back."""
        if conn.dialect.name != "sqlite":
            conn.execute(self.statement, cast("list[Any]", values))
            return
        plan = self._plan or self._made(conn.dialect)
        _raw(conn).executemany(plan.text, [plan.bound(one) for one in values])

    def _made(self, dialect: Dialect) -> _Plan:
        statement = cast(Any, self.statement)
        made = statement.compile(dialect=dialect, column_keys=self._columns)
        names: tuple[str, ...] = tuple(made.positiontup or ())
        fixed: dict[str, Any] = {
            n: made.binds[n].value for n in names if not made.binds[n].required
        }
        types = [column.type.dialect_impl(dialect) for column in statement.exported_columns]
        found = [kind.result_processor(dialect, None) for kind in types]
        reads = tuple((i, read) for i, read in enumerate(found) if read is not None)
        self._plan = _Plan(str(made), names, fixed, reads)
        return self._plan


def _raw(conn: sa.Connection) -> sqlite3.Connection:
    raw = conn.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _read(row: Row, reads: Sequence[tuple[int, _Read]]) -> Row:
    values = list(row)
    for i, read in reads:
        values[i] = read(values[i])
    return values
