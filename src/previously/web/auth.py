"""Who may use the REST interface: a token shown as a Bearer, or a cookie that a login gave.

Without a token of the server's own everybody who reaches it may do everything: it listens on
loopback only. With one, each request shows it, or one of those that were given out for less.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import HTTPConnection

from previously.service import Service

READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = frozenset({READ, WRITE, ADMIN})
COOKIE_MAX_AGE_S = 30 * 24 * 60 * 60
TOKEN_BYTES = 24

# Whoever may write chats may not thereby change where texts and keys go, or let others in.
_ADMIN_ONLY = ("/api/tokens", "/api/profiles", "/api/settings")
_OPEN = ("/api/login", "/api/logout")


def needed(method: str, path: str) -> str | None:
    """The scope that a request takes; None: anybody may."""
    if path in _OPEN:
        return None
    if path.startswith("/api/tokens"):
        return ADMIN
    if method in ("GET", "HEAD"):
        return READ
    return ADMIN if path.startswith(_ADMIN_ONLY) else WRITE


def new_token() -> tuple[str, bytes]:
    """A token, and what is stored of it."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, digest_of(token)


def digest_of(token: str) -> bytes:
    """What is stored of a token. It is random and long, so that a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Cookie:
    """What a browser is given."""

    name: str
    value: str
    max_age_s: int


class Keyring:
    """The server's own token, and those that were given out."""

    COOKIE: ClassVar[str] = "previously_session"

    def __init__(self, service: Service, token: str | None) -> None:
        self._service = service
        self._own = None if token is None else digest_of(token)

    @property
    def is_open(self) -> bool:
        """Whether nobody has to show anything."""
        return self._own is None

    async def scopes(self, request: HTTPConnection) -> frozenset[str] | None:
        """What a request may do; None: it shows nothing that we know."""
        if self.is_open:
            return SCOPES
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token:
            return await self.scopes_of(token.strip())
        return await self._of_cookie(request.cookies)

    async def scopes_of(self, token: str) -> frozenset[str] | None:
        """What a token is good for; None: it is none of ours."""
        return await self._of_digest(digest_of(token))

    async def _of_digest(self, digest: bytes) -> frozenset[str] | None:
        if self._own is None or hmac.compare_digest(digest, self._own):
            return SCOPES
        found = await self._service.store.find_token(digest)
        if found is None:
            return None
        held = set(found.scopes)
        held |= {WRITE, READ} if ADMIN in held else set()
        return frozenset(held | ({READ} if WRITE in held else set()))

    async def cookie_for(self, token: str) -> Cookie:
        """A cookie that stands for a token, as long as that is one."""
        until_s = self._service.now_ms() // 1000 + COOKIE_MAX_AGE_S
        words = f"{digest_of(token).hex()}.{until_s}"
        value = f"{words}.{await self._signature(words)}"
        return Cookie(self.COOKIE, value, COOKIE_MAX_AGE_S)

    async def _of_cookie(self, cookies: Mapping[str, str]) -> frozenset[str] | None:
        words, _, signature = cookies.get(self.COOKIE, "").rpartition(".")
        signed = signature.encode("utf-8", "surrogatepass")
        if not words or not hmac.compare_digest(signed, (await self._signature(words)).encode()):
            return None
        digest, _, until_s = words.partition(".")
        if int(until_s) * 1000 < self._service.now_ms():
            return None
        return await self._of_digest(bytes.fromhex(digest))

    async def _signature(self, words: str) -> str:
        secret = await self._service.store.secret()
        return hmac.new(secret, b"session " + words.encode(), hashlib.sha256).hexdigest()
