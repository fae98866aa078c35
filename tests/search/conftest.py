"""One memory in each database, filled alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from previously.store.postgres import PostgresDatabase
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from tests.sqlite import fresh

NOW_MS = 1_700_000_000_000


def clock_ms() -> int:
    return NOW_MS


async def catch_up(store: SqlStore, limit: int = 256) -> None:
    """Feed the index until nothing is left."""
    while await store.index_some(limit, ripe=False):
        pass


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqliteDatabase(fresh(tmp_path / "search.db")), clock_ms, {})
    yield store
    await store.close()


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(await PostgresDatabase.open(postgres_url), clock_ms, {})
    yield store
    await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> SqlStore:
    return request.getfixturevalue(f"{request.param}_store")
