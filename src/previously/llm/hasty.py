"""A model that is given only so long, and one that another stands in for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from previously.errors import BadInput, ModelUnavailable, NotConfigured, RetryError
from previously.llm import Llm
from previously.llm.around import Around
from previously.model import Ask, Reply

log = logging.getLogger(__name__)

Note = Callable[[str | None], Awaitable[None]]  # why a model cannot be asked; None: it can


class Hasty(Around):
    """The same model, given up on after a while. What it may yet answer is lost."""

    def __init__(self, llm: Llm, latency_ms_max: int) -> None:
        super().__init__(llm)
        self._latency_ms_max = latency_ms_max

    async def complete(self, ask: Ask) -> Reply:
        """Its answer, if it comes in time."""
        try:
            async with asyncio.timeout(self._latency_ms_max / 1000):
                return await self._llm.complete(ask)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"no answer within {self._latency_ms_max} ms; if that happens often, "
                "raise max_latency_ms"
            ) from error


class StoodInFor(Around):
    """A model, and another that is asked when the first cannot answer. Every use is told.

    What only a person can mend (a wrong key, a missing model) is noted until it is mended.
    """

    def __init__(self, first: Llm, second: Llm, note: Note, trouble: str | None = None) -> None:
        super().__init__(first)
        self._second = second
        self._note = note
        self._trouble = trouble  # as it is noted

    async def _noted(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            await self._note(trouble)
            self._trouble = trouble

    @property
    def costs(self) -> bool:
        return self._llm.costs or self._second.costs

    @property
    def window_tokens(self) -> int | None:
        known = [w for w in (self._llm.window_tokens, self._second.window_tokens) if w]
        return min(known, default=None)

    async def complete(self, ask: Ask) -> Reply:
        """The first one's answer, or the second one's."""
        try:
            reply = await self._llm.complete(ask)
        except (ModelUnavailable, NotConfigured, BadInput) as error:
            if not isinstance(error, ModelUnavailable):
                await self._noted(str(error))
            log.warning(
                "profile %s failed (%s); profile %s was asked instead (fallback_to_main)",
                self._llm.name,
                error,
                self._second.name,
            )
            return await self._second.complete(ask)
        with suppress(RetryError):  # the answer is worth more than the note
            await self._noted(None)
        return reply
