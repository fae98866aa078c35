"""Whole stories: the library on a real database with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from previously import Memory
from tests.sqlite import fresh

Opener = Callable[..., AbstractAsyncContextManager[Memory]]


@pytest.fixture(params=["sqlite", "postgres"])
def open_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same database each time."""
    shared = request.param == "postgres"
    where = request.getfixturevalue("postgres_url") if shared else fresh(tmp_path / "story.db")

    def opened(**options: Any) -> AbstractAsyncContextManager[Memory]:
        return Memory.open(where, **options)

    return opened
