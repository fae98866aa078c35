"""Models that summarise: which there are, what they have cost, who may call one now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from previously.model import Usage


@dataclass(frozen=True, slots=True)
class Purpose:
    """Who pays, and what for."""

    owner: str
    month: str
    profile: str
    chat_id: int | None
    lane: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used, under one heading."""

    heading: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int  # of the calls whose price is known
    unpriced_calls: int


class Profiles(Protocol):
    """Profiles, the ledger of costs, places for calls."""

    async def put_profile(self, owner: str, values: Mapping[str, Any]) -> int: ...

    async def profiles(self, owner: str) -> list[tuple[dict[str, Any], int]]: ...

    async def find_profile(self, owner: str, name: str) -> tuple[dict[str, Any], int] | None: ...

    async def alter_profile(
        self, owner: str, values: Mapping[str, Any], version: int | None
    ) -> int: ...

    async def remove_profile(self, owner: str, name: str) -> None: ...

    async def note_trouble(self, owner: str, name: str, trouble: str | None) -> None:
        """Why a profile cannot be asked, or None: it can again. Changing it forgets the reason."""
        ...

    async def troubles(self, owner: str) -> dict[str, str]: ...

    async def reserve(
        self, purpose: Purpose, estimate_micros: int | None, limit_micros: int | None
    ) -> int | None: ...

    async def settle_cost(self, entry: int, used: Usage, cost_micros: int | None) -> None: ...

    async def cancel_cost(self, entry: int) -> None: ...

    async def spent(self, owner: str, month: str) -> int: ...

    async def usage(self, owner: str, by: str) -> list[Spent]: ...

    async def totals(self, owner: str) -> dict[str, dict[str, int]]: ...

    async def take_place(
        self, profile: str, holder: str, limits: tuple[int | None, int | None], lease_ms: int
    ) -> int: ...

    async def give_place_back(self, profile: str, holder: str) -> None: ...
