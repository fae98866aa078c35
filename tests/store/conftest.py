"""One contract for every database: each backend is one line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from previously.store import Database
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase

BACKENDS: dict[str, Callable[[Path], Database]] = {
    "sqlite": lambda folder: SqliteDatabase(folder / "contract.db"),
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
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    opened = BACKENDS[request.param](tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def store(database: Database, clock: Clock) -> SqlStore:
    return SqlStore(database, clock, {})
