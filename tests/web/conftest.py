from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.web.rig import Door, opened


@pytest.fixture
async def door(tmp_path: Path) -> AsyncGenerator[Door]:
    async with opened(tmp_path) as made:
        yield made
