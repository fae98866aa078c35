"""A model on a budget: each call is entered in the ledger before it is made, and settled after."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from previously.errors import OverBudget, PreviouslyError, RetryError
from previously.llm import Llm
from previously.llm.around import Around
from previously.llm.prices import listed
from previously.llm.profile import Price, Profile
from previously.measure import count_tokens
from previously.model import Ask, Reply, Usage

log = logging.getLogger(__name__)

MESSAGE_TOKENS = 8  # what a provider adds to each message for its own marks


@dataclass(frozen=True, slots=True)
class Terms:
    """What a call costs, and how much a month may cost, in millionths of a dollar."""

    price: Price | None = None  # None: nobody knows, which is not the same as free
    output_tokens: int = 0  # that an answer may have beyond what was asked for
    monthly_micros: int | None = None  # None: no limit


class Ledger(Protocol):
    """Where calls are entered; `None` from `reserve` means that the month's limit is reached."""

    async def reserve(self, estimate: int | None, limit: int | None) -> int | None: ...

    async def settle(self, entry: int, used: Usage, cost_micros: int | None) -> None: ...

    async def cancel(self, entry: int) -> None: ...


def price_of(profile: Profile) -> Price | None:
    """The profile's own price, or the listed one of its model."""
    if profile.price is not None:
        return profile.price
    found = listed(profile.model)
    return None if found is None else Price(*found)


class Metered(Around):
    """The same model, asked only while the month's budget lasts."""

    def __init__(self, llm: Llm, terms: Terms, ledger: Ledger) -> None:
        super().__init__(llm)
        self._terms = terms
        self._ledger = ledger

    async def complete(self, ask: Ask) -> Reply:
        """Reserve, ask, settle. A call that was refused is not charged; one that was broken off
        stays reserved, for it may have been."""
        limit = self._terms.monthly_micros
        entry = await self._ledger.reserve(self._estimate(ask), limit)
        if entry is None:
            raise OverBudget(
                f"this month's budget of ${(limit or 0) / 1e6:.2f} would be exceeded; "
                "raise monthly_budget_usd, wait for the next month, or have it done by hand"
            )
        try:
            reply = await self._llm.complete(ask)
        except PreviouslyError:
            await self._ledger.cancel(entry)
            raise
        used = reply.usage if reply.usage.input_tokens else _counted(ask, reply)
        price = self._terms.price
        await self._settle(entry, used, None if price is None else price.of(used))
        return reply

    async def _settle(self, entry: int, used: Usage, cost_micros: int | None) -> None:
        """An answer that has come is never given up for its entry: neither because nobody waits
        for it any more, nor because the ledger is away; then the reservation stands for it."""
        settling = asyncio.create_task(self._ledger.settle(entry, used, cost_micros))
        try:
            await asyncio.shield(settling)
        except asyncio.CancelledError:
            await asyncio.wait([settling])
        except RetryError as error:
            log.warning("a call stays entered at its estimate: %s", error)

    def _estimate(self, ask: Ask) -> int | None:
        """The most that the call can cost; None if nobody knows its price."""
        if self._terms.price is None:
            return None
        written = max(ask.tokens_max, self._terms.output_tokens)
        return self._terms.price.of(Usage(_input_tokens(ask), written))


def _input_tokens(ask: Ask) -> int:
    return sum(count_tokens(m["content"]) + MESSAGE_TOKENS for m in ask.messages)


def _counted(ask: Ask, reply: Reply) -> Usage:
    """Our own count, for a server that reports none."""
    return Usage(_input_tokens(ask), count_tokens(reply.text))
