"""One contract for every database: each backend is one line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from previously.store import Database
from previously.store.postgres import PostgresDatabase
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from tests.sqlite import fresh


async def _sqlite(request: pytest.FixtureRequest) -> Database:
    folder: Path = request.getfixturevalue("tmp_path")
    return SqliteDatabase(fresh(folder / "contract.db"))


class OnOurClock(PostgresDatabase):
    """PostgreSQL, but time goes on when a test says so."""

    def now_ms(self, connection: sa.Connection) -> int | None:
        return None


async def _postgres(request: pytest.FixtureRequest) -> Database:
    return await OnOurClock.open(request.getfixturevalue("postgres_url"))


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Awaitable[Database]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
}


class Clock:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=BACKENDS)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    opened = await BACKENDS[request.param](request)
    yield opened
    await opened.close()


@pytest.fixture
def store(database: Database, clock: Clock) -> SqlStore:
    return SqlStore(database, clock, {})
