"""Settings of all chats, of a character's, and of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from previously.model import ChatRef

Whose = int | str | None  # a chat's key, a character's name, or none for all chats


@dataclass(frozen=True, slots=True)
class Scope:
    """Settings that are stored in one place."""

    values: Mapping[str, Any]
    revision: int


class StoredSettings(Protocol):
    """What is set where."""

    async def change_settings(self, ref: ChatRef, changes: Mapping[str, Any]) -> None: ...

    async def setting_layers(self, owner: str, whose: Whose) -> dict[str, Scope]: ...

    async def change_scope(
        self, owner: str, whose: Whose, changes: Mapping[str, Any], revision: int | None
    ) -> None: ...

    async def naming(self, owner: str, profile: str) -> list[Whose]: ...

    async def set_character(
        self, ref: ChatRef, character: str | None, *, only_first: bool = False
    ) -> bool: ...

    async def characters(self, owner: str) -> dict[str, int]: ...
