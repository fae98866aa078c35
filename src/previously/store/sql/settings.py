"""Settings of all chats, of a character's, and of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from previously.model import ChatRef
from previously.store import Scope, Whose, chats, scopes
from previously.store.sql.connected import Connected


class StoredSettings(Connected):
    """What is set where."""

    async def change_settings(self, ref: ChatRef, changes: Mapping[str, Any]) -> None:
        await self._change(ref, chats.change_settings, changes)

    async def setting_layers(self, owner: str, whose: Whose) -> dict[str, Scope]:
        """What is set where, lowest first; the environment is one of the places."""
        stored = await self._db.read(scopes.layers, owner, whose)
        return {"environment": Scope(dict(self._base), 0), **stored}

    async def change_scope(
        self, owner: str, whose: Whose, changes: Mapping[str, Any], revision: int | None
    ) -> None:
        await self._db.write(scopes.change, owner, whose, changes, revision)

    async def naming(self, owner: str, profile: str) -> list[Whose]:
        return await self._db.read(scopes.naming, owner, profile)

    async def set_character(
        self, ref: ChatRef, character: str | None, *, only_first: bool = False
    ) -> bool:
        return await self._change(ref, scopes.set_character, character, only_first=only_first)

    async def characters(self, owner: str) -> dict[str, int]:
        """Every character that is named, and how many chats are theirs."""
        return await self._db.read(scopes.characters, owner)
