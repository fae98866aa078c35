"""A model behind its limits: so many calls at once, so many a minute, over all processes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from previously.llm import Llm
from previously.llm.around import Around
from previously.model import Ask, Reply

PLACE_MS = 300_000  # longer than any call may take; a dead process gives its place back by then


@dataclass(frozen=True, slots=True)
class Limits:
    """None: as many as there are."""

    at_once: int | None = None
    per_minute: int | None = None

    def __bool__(self) -> bool:
        return self.at_once is not None or self.per_minute is not None


class Places(Protocol):
    """Where the places are counted."""

    async def take_place(
        self, profile: str, holder: str, limits: tuple[int | None, int | None], lease_ms: int
    ) -> int: ...

    async def give_place_back(self, profile: str, holder: str) -> None: ...


class Limited(Around):
    """The same model, asked no more often than its limits allow; callers wait their turn."""

    def __init__(self, llm: Llm, limits: Limits, places: Places) -> None:
        super().__init__(llm)
        self._limits = (limits.at_once, limits.per_minute)
        self._places = places

    async def complete(self, ask: Ask) -> Reply:
        """Wait for a place, then ask."""
        async with self._place():
            return await self._llm.complete(ask)

    async def _take(self, holder: str) -> int:
        return await self._places.take_place(self._llm.name, holder, self._limits, PLACE_MS)

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None]:
        holder = uuid.uuid4().hex
        while wait_ms := await self._take(holder):  # noqa: ASYNC110 - as long as it was told
            await asyncio.sleep(wait_ms / 1000)
        try:
            yield
        finally:
            # Also when cancelled: a place that nobody gives back blocks others for minutes.
            await asyncio.shield(self._places.give_place_back(self._llm.name, holder))
