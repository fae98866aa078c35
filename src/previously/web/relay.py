"""A stream on its way from the upstream to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from previously.model import NewMessage
from previously.web.sse import Tap
from previously.web.upstream import Header

log = logging.getLogger(__name__)

Record = Callable[[NewMessage | None], Awaitable[None]]


class Relay(Response):
    """A stream on its way: bytes as they come, the closing event only once the turn is kept."""

    def __init__(
        self, upstream: aiohttp.ClientResponse, headers: list[Header], record: Record
    ) -> None:
        self.status_code = upstream.status
        self.raw_headers = headers
        self.background = None
        self._upstream = upstream
        self._record = record
        self._tap = Tap()
        self._client_left = False
        self._kept = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        watch = asyncio.create_task(self._watch(receive))
        try:
            whole = await self._relay(send)
        finally:
            # Also when the server is being stopped: what was said so far is a candidate.
            await self._keep()
            watch.cancel()
            self._upstream.close()
        # A stream that broke must not look finished: without an end the connection is cut.
        if whole and not self._client_left:
            await _send_body(send, self._tap.rest(), more=False)

    async def _watch(self, receive: Receive) -> None:
        """A client that leaves takes the upstream's work with it."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_left = True
        self._upstream.close()

    async def _relay(self, send: Send) -> bool:
        """Whether the stream came to its own end."""
        try:
            async for chunk in self._upstream.content.iter_any():
                passed = self._tap.feed(chunk)
                if self._tap.done:
                    if passed:
                        await _send_body(send, passed, more=True)
                    await self._keep()
                    passed = self._tap.rest()
                if passed:
                    await _send_body(send, passed, more=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            if not self._client_left:
                log.warning("the upstream's stream broke: %s", type(error).__name__)
            return False
        return True

    async def _keep(self) -> None:
        if not self._kept:
            self._kept = True
            await self._record(self._tap.end())


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
