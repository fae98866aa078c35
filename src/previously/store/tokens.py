"""Transactions on access tokens: a digest and what it may do, never the token."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from previously.errors import BadInput
from previously.store import Token
from previously.store.schema import token

_T = token.c
_SELECT = sa.select(_T.id, _T.name, _T.scopes, _T.created_at)


def _token(row: Any) -> Token:
    return Token(row.id, row.name, frozenset(json.loads(row.scopes)), row.created_at)


def add(
    conn: sa.Connection, owner: str, name: str, digest: bytes, scopes: frozenset[str], now_ms: int
) -> Token:
    """A token of a name that none of the owner's has."""
    taken = sa.select(_T.id).where(_T.owner == owner, _T.name == name)
    if conn.execute(taken).scalar() is not None:
        raise BadInput(f"there is a token named {name!r} already", field="name")
    row = {"owner": owner, "name": name, "digest": digest, "created_at": now_ms}
    held = json.dumps(sorted(scopes))
    made = conn.execute(sa.insert(token).values(scopes=held, **row).returning(_T.id)).scalar_one()
    return Token(made, name, scopes, now_ms)


def listing(conn: sa.Connection, owner: str) -> list[Token]:
    """The owner's tokens, oldest first."""
    return [_token(row) for row in conn.execute(_SELECT.where(_T.owner == owner).order_by(_T.id))]


def find(conn: sa.Connection, digest: bytes) -> Token | None:
    """The token with that digest."""
    row = conn.execute(_SELECT.where(_T.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def remove(conn: sa.Connection, owner: str, token_id: int) -> bool:
    """Whether there was one."""
    mine = sa.and_(_T.owner == owner, _T.id == token_id)
    return bool(conn.execute(sa.delete(token).where(mine)).rowcount)
