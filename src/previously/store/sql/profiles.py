"""Models that summarise: which there are, what they have cost, who may call one now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from previously.model import Usage
from previously.store import Purpose, Spent, ledger, profiles, views
from previously.store.limits import give_back, take
from previously.store.sql.connected import Connected


class Profiles(Connected):
    """Profiles, the ledger of costs, places for calls."""

    async def put_profile(self, owner: str, values: Mapping[str, Any]) -> int:
        return await self._db.write(profiles.put, owner, values)

    async def profiles(self, owner: str) -> list[tuple[dict[str, Any], int]]:
        return await self._db.read(profiles.listing, owner)

    async def find_profile(self, owner: str, name: str) -> tuple[dict[str, Any], int] | None:
        return await self._db.read(profiles.find, owner, name)

    async def alter_profile(
        self, owner: str, values: Mapping[str, Any], version: int | None
    ) -> int:
        return await self._db.write(profiles.alter, owner, values, version)

    async def remove_profile(self, owner: str, name: str) -> None:
        await self._db.write(profiles.remove, owner, name)

    async def note_trouble(self, owner: str, name: str, trouble: str | None) -> None:
        await self._db.write(profiles.note_trouble, owner, name, trouble)

    async def troubles(self, owner: str) -> dict[str, str]:
        return await self._db.read(profiles.troubles, owner)

    async def reserve(
        self, purpose: Purpose, estimate_micros: int | None, limit_micros: int | None
    ) -> int | None:
        now_ms = self._clock_ms()
        return await self._db.write(ledger.reserve, purpose, estimate_micros, limit_micros, now_ms)

    async def settle_cost(self, entry: int, used: Usage, cost_micros: int | None) -> None:
        await self._db.write(ledger.settle, entry, used, cost_micros)

    async def cancel_cost(self, entry: int) -> None:
        await self._db.write(ledger.cancel, entry)

    async def spent(self, owner: str, month: str) -> int:
        return await self._db.read(ledger.spent, owner, month)

    async def usage(self, owner: str, by: str) -> list[Spent]:
        return await self._db.read(ledger.totals, owner, by)

    async def totals(self, owner: str) -> dict[str, dict[str, int]]:
        return await self._db.read(views.totals, owner)

    async def take_place(
        self, profile: str, holder: str, limits: tuple[int | None, int | None], lease_ms: int
    ) -> int:
        """A place for one model call: 0, or how long to wait before asking again."""

        def timed(conn: sa.Connection) -> int:
            return take(conn, profile, holder, limits, self._now_ms(conn), lease_ms)

        return await self._db.write(timed)

    async def give_place_back(self, profile: str, holder: str) -> None:
        await self._db.write(give_back, profile, holder)
