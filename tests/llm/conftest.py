from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
import pytest

from previously.llm.remote import new_session
from previously.testing import FakeUpstream
from tests.llm.llama import llama_server as llama_server


@pytest.fixture
async def upstream() -> AsyncGenerator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture
async def session() -> AsyncGenerator[aiohttp.ClientSession]:
    async with new_session() as made:
        yield made
