"""The interface on each database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.web.rest.rig import Rest, opened


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncGenerator[Rest]:
    async with opened(tmp_path / "previously.db", tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
async def either(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Rest]:
    """The same interface, on one database after the other."""
    location: Path | str = tmp_path / "previously.db"
    if request.param == "postgres":
        location = str(request.getfixturevalue("postgres_url"))
    async with opened(location, tmp_path) as found:
        yield found
