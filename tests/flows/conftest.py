"""Whole stories: the library on a real SQLite file with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from previously import Memory

Opener = Callable[..., AbstractAsyncContextManager[Memory]]


@pytest.fixture
def open_memory(tmp_path: Path) -> Opener:
    """Opens the same file each time."""

    def opened(**options: Any) -> AbstractAsyncContextManager[Memory]:
        return Memory.open(tmp_path / "story.db", **options)

    return opened
