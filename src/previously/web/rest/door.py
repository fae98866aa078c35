"""Before any route: who asks, and whether the same request was answered already.

Both are ASGI middleware around the REST application, so that no route can forget them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from previously.web.auth import Keyring, needed
from previously.web.rest.context import Context
from previously.web.rest.problems import problem

KEY_CHARS_MAX = 200
ANSWERS_KEPT = 1_000
ANSWER_BYTES_MAX = 256 * 1024


class Doorkeeper:
    """Lets in who shows a token that is good for the request."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._ring = Keyring(context.service, context.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = await self._refused(HTTPConnection(scope), scope["method"], scope["path"])
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _refused(self, request: HTTPConnection, method: str, path: str) -> Response | None:
        if method not in ("GET", "HEAD") and not _is_own_page(request.headers):
            return problem(
                403,
                "Another page may not write here",
                "the request comes from a page of another address",
                "Use the page that this server serves itself.",
            )
        wanted = needed(method, path)
        if wanted is None or self._ring.is_open:
            return None
        held = await self._ring.scopes(request)
        if held is None:
            return problem(
                401,
                "This server asks for its token",
                "the request shows no token that is known here",
                "Send it as `Authorization: Bearer TOKEN`, or log in with POST /api/login. It is "
                "what PREVIOUSLY_TOKEN was set to when the server was started.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if wanted not in held:
            return problem(
                403,
                "This token is not good for that",
                f"it takes the scope {wanted!r}; this one has {', '.join(sorted(held))}",
                "Use another token, or make one with POST /api/tokens.",
            )
        return None


def _is_own_page(headers: Headers) -> bool:
    """Whether a write comes from a program, or from the page that is served here."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


@dataclass(slots=True)
class _Kept:
    """An answer that was given, or is being made."""

    request: bytes  # digest of what was asked
    done: asyncio.Event = field(default_factory=asyncio.Event)
    start: Message | None = None
    body: bytes = b""


class OnlyOnce:
    """A POST with an Idempotency-Key is done once; asked again, it is answered as before.

    Answers are kept in this process, the newest of them; after a restart a key is new again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: OrderedDict[tuple[str, bytes, str], _Kept] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        if not key or len(key) > KEY_CHARS_MAX:
            await _bad_key()(scope, receive, send)
            return
        body = await _read(receive)
        asked = hashlib.sha256(scope["query_string"] + b"\0" + body).digest()
        who = hashlib.sha256(Headers(scope=scope).get("authorization", "").encode()).digest()
        slot = (key, who, scope["path"])
        known = self._kept.get(slot)
        if known is not None:
            await self._again(known, asked, scope, receive, send)
            return
        made = self._kept[slot] = _Kept(asked)
        if len(self._kept) > ANSWERS_KEPT:
            self._kept.popitem(last=False)
        try:
            await self._app(scope, _replay(body, receive), _record(made, send))
        finally:
            made.done.set()
            if not _is_worth_keeping(made):
                self._kept.pop(slot, None)

    async def _again(
        self, known: _Kept, asked: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if known.request != asked:
            await _other_request()(scope, receive, send)
            return
        await known.done.wait()
        if known.start is None:
            await _other_request()(scope, receive, send)
            return
        replayed = (b"idempotency-replayed", b"true")
        await send({**known.start, "headers": [*known.start["headers"], replayed]})
        await send({"type": "http.response.body", "body": known.body})


def _key(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    return Headers(scope=scope).get("idempotency-key")


def _is_worth_keeping(made: _Kept) -> bool:
    """What went wrong may go right the next time."""
    return (
        made.start is not None and made.start["status"] < 400 and len(made.body) <= ANSWER_BYTES_MAX
    )


def _bad_key() -> Response:
    return problem(
        422,
        "The request cannot be used",
        f"Idempotency-Key has 1 to {KEY_CHARS_MAX} characters",
        "Send another key, such as a UUID.",
    )


def _other_request() -> Response:
    return problem(
        409,
        "This key was used for another request",
        "an Idempotency-Key belongs to one request",
        "Send a new key with a new request.",
    )


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _record(made: _Kept, send: Send) -> Send:
    async def record(message: Message) -> None:
        if message["type"] == "http.response.start":
            made.start = message
        else:
            made.body += message.get("body", b"")
        await send(message)

    return record
