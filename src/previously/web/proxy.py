"""The proxy door: OpenAI's chat interface, with the chat's memory put in its place.

A turn is on disk before the client sees its last event. A fault in memory never breaks the chat.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, cast

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from previously.model import NewMessage
from previously.text.wire import as_object
from previously.web.guard import refusal
from previously.web.outgoing import Outgoing, Raw, Turn
from previously.web.relay import Relay
from previously.web.sse import reply_in
from previously.web.turns import Turns
from previously.web.upstream import Header, Upstream, returned

log = logging.getLogger(__name__)

MEMORY_DEADLINE_S = 10.0

NOT_CONFIGURED = (
    "no upstream is configured: start the server with `previously serve --upstream URL`, "
    "where URL is an OpenAI-compatible address such as https://api.openai.com/v1"
)

T = TypeVar("T")


class Proxy:
    """Every request to one upstream."""

    def __init__(self, turns: Turns, upstream: Upstream | None) -> None:
        self._turns = turns
        self._upstream = upstream

    async def models(self, request: Request) -> Response:
        """The upstream's own list."""
        return await self._pass_on(request, "/models", None, Outgoing("models"))

    async def completions(self, request: Request) -> Response:
        """One turn."""
        raw = await request.body()
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError) as error:
            return refusal(400, f"the body is not valid JSON: {error}", "invalid_json")
        if not isinstance(body, dict):
            return refusal(400, "the body is not a JSON object", "invalid_json")
        fields = cast(Raw, body)
        ours = fields.pop("previously", None)
        outgoing = await self._outgoing(request, fields, ours)
        if outgoing.messages is not None:
            fields["messages"] = outgoing.messages
        if outgoing.messages is not None or ours is not None:
            raw = _encoded(fields)
        return await self._pass_on(request, "/chat/completions", raw, outgoing)

    async def _outgoing(self, request: Request, body: Raw, ours: object) -> Outgoing:
        if self._upstream is None or _recording_is_off(request, ours):
            return Outgoing.unchanged("recording is off")
        messages = body.get("messages")
        if not isinstance(messages, list):
            return Outgoing.unchanged("the request has no list of messages")
        return await self._safely(
            self._turns.prepare(request.path_params["chat"], cast(list[Any], messages)),
            Outgoing.unchanged("the memory failed; the server's log says why"),
        )

    async def _safely(self, work: Awaitable[T], otherwise: T) -> T:
        """The one edge where everything is caught: no fault in memory may break the chat."""
        try:
            async with asyncio.timeout(MEMORY_DEADLINE_S):
                return await work
        except Exception as error:
            log.warning("the memory failed: %s: %s", type(error).__name__, error, exc_info=True)
            return otherwise

    async def _pass_on(
        self, request: Request, path: str, body: bytes | None, outgoing: Outgoing
    ) -> Response:
        if self._upstream is None:
            return refusal(503, NOT_CONFIGURED, "upstream_not_configured")
        query = request.scope["query_string"].decode("latin-1")
        target = f"{path}?{query}" if query else path
        try:
            response = await self._upstream.request(
                request.method, target, request.headers.raw, body
            )
            told = outgoing.headers(request.path_params["chat"])
            return await self._answer(response, outgoing.turn, told)
        except TimeoutError:
            return refusal(504, "the upstream did not answer in time", "upstream_timeout")
        except aiohttp.ClientError as error:
            log.warning("the upstream failed: %s", type(error).__name__)
            return refusal(502, f"the upstream failed: {error}", "upstream_unreachable")

    async def _answer(
        self, response: aiohttp.ClientResponse, turn: Turn | None, told: list[Header]
    ) -> Response:
        """The upstream's answer as it came; kept only if it is one and can be read."""
        headers = [*returned(response), *told]
        readable = response.headers.get("content-encoding", "identity") == "identity"
        if turn is not None and not readable:
            log.warning("chat %s: an encoded reply cannot be read, nothing is kept", turn.ref.id)
        if response.status != 200 or not readable:
            turn = None

        async def record(reply: NewMessage | None) -> None:
            if turn is not None and reply is not None:
                await self._safely(self._turns.record(turn, reply), None)

        if response.content_type == "text/event-stream" and readable:
            return Relay(response, headers, record)
        body = await response.read()
        await record(reply_in(body) if turn is not None else None)
        return _exactly(response.status, headers, body)


def _exactly(status: int, headers: list[Header], body: bytes) -> Response:
    response = Response(body, status)
    response.raw_headers = [*headers, (b"content-length", str(len(body)).encode())]
    return response


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be sent
        return json.dumps(body, separators=(",", ":")).encode()


def _recording_is_off(request: Request, ours: object) -> bool:
    if as_object(ours).get("record") is False:
        return True
    return request.headers.get("x-previously-record", "").lower() == "off"
