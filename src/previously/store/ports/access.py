"""Who may talk to this server, and what it has answered them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a request that has a key of its own."""

    request: str  # digest of what was asked
    status: int | None  # none: it is being made
    headers: str  # JSON
    body: bytes


@dataclass(frozen=True, slots=True)
class Token:
    """A key to this server: what it is for, never what it is."""

    id: int
    name: str
    scopes: frozenset[str]
    created_at_ms: int


class Access(Protocol):
    """Tokens, the installation's secret, answers under a key."""

    async def secret(self) -> bytes: ...

    async def add_token(
        self, owner: str, name: str, digest: bytes, scopes: frozenset[str]
    ) -> Token: ...

    async def tokens(self, owner: str) -> list[Token]: ...

    async def find_token(self, digest: bytes) -> Token | None: ...

    async def remove_token(self, owner: str, token_id: int) -> bool: ...

    async def claim_answer(self, slot: str, request: str) -> KeptAnswer | None: ...

    async def keep_answer(self, slot: str, status: int, headers: str, body: bytes) -> None: ...

    async def drop_answer(self, slot: str) -> None: ...
