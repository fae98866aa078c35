"""Who may talk to this server, and what it has answered them."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from previously.store import KeptAnswer, Token, answers, tokens
from previously.store.schema import installation
from previously.store.sql.connected import Connected


class Access(Connected):
    """Tokens, the installation's secret, answers under a key."""

    _secret: bytes | None = None  # made or read once

    async def secret(self) -> bytes:
        """The installation's own secret, made at the first call."""
        if self._secret is None:
            self._secret = await self._db.read(_stored_secret)
        if self._secret is None:
            self._secret = await self._db.write(_make_secret, self._clock_ms())
        return self._secret

    async def add_token(
        self, owner: str, name: str, digest: bytes, scopes: frozenset[str]
    ) -> Token:
        now_ms = self._clock_ms()
        return await self._db.write(tokens.add, owner, name, digest, scopes, now_ms)

    async def tokens(self, owner: str) -> list[Token]:
        return await self._db.read(tokens.listing, owner)

    async def find_token(self, digest: bytes) -> Token | None:
        return await self._db.read(tokens.find, digest)

    async def remove_token(self, owner: str, token_id: int) -> bool:
        return await self._db.write(tokens.remove, owner, token_id)

    async def claim_answer(self, slot: str, request: str) -> KeptAnswer | None:
        """What was answered under this key; none: it is the caller's to answer now."""
        return await self._db.write(answers.claim, slot, request, self._clock_ms())

    async def keep_answer(self, slot: str, status: int, headers: str, body: bytes) -> None:
        await self._db.write(answers.keep, slot, status, headers, body, self._clock_ms())

    async def drop_answer(self, slot: str) -> None:
        await self._db.write(answers.drop, slot)


def _stored_secret(conn: sa.Connection) -> bytes | None:
    return conn.execute(sa.select(installation.c.secret)).scalar()


def _make_secret(conn: sa.Connection, now_ms: int) -> bytes:
    found = _stored_secret(conn)
    if found is not None:
        return found
    made = secrets.token_bytes(32)
    conn.execute(sa.insert(installation).values(id=1, secret=made, created_at=now_ms))
    return made
