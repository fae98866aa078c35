"""A POST with an Idempotency-Key is done once, by whichever server it reaches.

Asked again it is answered as before, after a restart too. What went wrong is not kept: it may go
right the next time. Neither is an answer that shows a secret.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from previously.errors import PreviouslyError
from previously.store import KeptAnswer
from previously.web.rest.context import Context
from previously.web.rest.problems import problem, told

KEY_CHARS_MAX = 200
ANSWER_BYTES_MAX = 256 * 1024
LOOK_EVERY_S = 0.05
WAIT_S = 30.0  # for an answer that is being made
SECRET = ("/tokens", "/login")  # what they answer stands nowhere else


@dataclass(slots=True)
class _Made:
    """An answer on its way out."""

    start: Message | None = None
    body: bytes = b""


class OnlyOnce:
    """Around the REST application."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._store = context.service.store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = None if self._store.read_only else _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        if not key or len(key) > KEY_CHARS_MAX:
            await _bad_key()(scope, receive, send)
            return
        body = await _read(receive)
        asked = hashlib.sha256(scope["query_string"] + b"\0" + body).hexdigest()
        slot = _slot(scope, key)
        try:
            known = await self._claimed(slot, asked)
        except PreviouslyError as error:
            await told(error)(scope, receive, send)
            return
        if known is not None:
            await _again(known, asked)(scope, receive, send)
            return
        await self._answer(slot, scope, _replay(body, receive), send)

    async def _claimed(self, slot: str, asked: str) -> KeptAnswer | None:
        """What is known, once it is; none: it is ours to make."""
        for _ in range(int(WAIT_S / LOOK_EVERY_S)):
            known = await self._store.claim_answer(slot, asked)
            if known is None or known.status is not None or known.request != asked:
                return known
            await asyncio.sleep(LOOK_EVERY_S)
        return KeptAnswer(asked, None, "[]", b"")

    async def _answer(self, slot: str, scope: Scope, receive: Receive, send: Send) -> None:
        made = _Made()
        try:
            await self._app(scope, receive, _record(made, send))
        finally:
            with suppress(PreviouslyError):  # it was answered; the key is free again by itself
                await asyncio.shield(self._settle(slot, made))

    async def _settle(self, slot: str, made: _Made) -> None:
        if made.start is None or not _is_worth_keeping(made):
            await self._store.drop_answer(slot)
            return
        headers = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in made.start["headers"]]
        status: int = made.start["status"]
        await self._store.keep_answer(slot, status, json.dumps(headers), made.body)


def _key(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].endswith(SECRET):
        return None
    return Headers(scope=scope).get("idempotency-key")


def _slot(scope: Scope, key: str) -> str:
    who = Headers(scope=scope).get("authorization", "")
    return hashlib.sha256("\0".join((key, who, scope["path"])).encode()).hexdigest()


def _is_worth_keeping(made: _Made) -> bool:
    return (
        made.start is not None and made.start["status"] < 400 and len(made.body) <= ANSWER_BYTES_MAX
    )


def _again(known: KeptAnswer, asked: str) -> Response:
    if known.request != asked:
        return _other_request()
    if known.status is None:
        return _being_made()
    answer = Response(known.body, known.status)
    headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in json.loads(known.headers)]
    answer.raw_headers = [*headers, (b"idempotency-replayed", b"true")]
    return answer


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


def _being_made() -> Response:
    return problem(
        409,
        "The same request is being answered",
        "another one with this Idempotency-Key has not ended yet",
        "Send it again later, with the same key.",
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


def _record(made: _Made, send: Send) -> Send:
    async def record(message: Message) -> None:
        if message["type"] == "http.response.start":
            made.start = message
        else:
            made.body += message.get("body", b"")
        await send(message)

    return record
