"""Answers on their way from the upstream to the client, byte for byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from previously.model import NewMessage
from previously.web.contact import broke
from previously.web.dialect import Hearing
from previously.web.encoding import Decode, Undecodable
from previously.web.sse import Tap
from previously.web.upstream import Header

log = logging.getLogger(__name__)

CLIENT_STALL_S = 120.0  # a client that takes nothing for so long has left

Record = Callable[[tuple[NewMessage, ...]], Awaitable[None]]  # the choices of a reply


class ClientStalled(TimeoutError):
    """It is the client that takes nothing, not the upstream that gives nothing."""


class Passage(Response):
    """An answer that nobody listens to."""

    def __init__(
        self, upstream: aiohttp.ClientResponse, headers: list[Header], begun: bytes = b""
    ) -> None:
        self.status_code = upstream.status
        self.raw_headers = headers
        self.background = None
        self._upstream = upstream
        self._begun = begun  # what was read of it already
        self._client_left = False
        self._broken: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        watch = asyncio.create_task(self._watch(receive))
        whole = False
        try:
            await send({"type": "http.response.start", **start})
            whole = await self._relay(send)
        finally:
            await self._end()
            watch.cancel()
            self._upstream.close()
        if self._client_left:
            return
        # A stream that broke must not look finished: without an end the connection is cut.
        if whole:
            await _send_body(send, self._rest(), more=False)
        elif self._broken is not None and (words := self._last_words(self._broken)):
            await _send_body(send, words, more=True)

    async def _watch(self, receive: Receive) -> None:
        """A client that leaves takes the upstream's work with it."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_left = True
        self._upstream.close()

    async def _relay(self, send: Send) -> bool:
        """Whether the stream came to its own end."""
        try:
            if self._begun:
                await self._pass(send, self._begun)
            async for chunk in self._upstream.content.iter_any():
                await self._pass(send, chunk)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not self._client_left:
                log.warning("the upstream's stream broke: %s", type(error).__name__)
            # The HTTP client raises one object for every answer that was closed. What it has gone
            # through would stay with it, and with that this answer, as long as the process.
            error.with_traceback(None)
            self._broken = None if isinstance(error, ClientStalled) else error
            return False
        return True

    async def _pass(self, send: Send, chunk: bytes) -> None:
        await _send_body(send, chunk, more=True)

    async def _end(self) -> None:
        """It is over, one way or another."""

    def _rest(self) -> bytes:
        return b""

    def _last_words(self, error: Exception) -> bytes:
        """Where nobody listens nobody knows what could be said there."""
        return b""


class Relay(Passage):
    """A streamed reply: what says that it is whole leaves only once the turn is kept."""

    def __init__(
        self,
        upstream: aiohttp.ClientResponse,
        headers: list[Header],
        record: Record,
        words: Hearing,
        decode: Decode | None = None,
        *,
        begun: bytes = b"",
    ) -> None:
        super().__init__(upstream, headers, begun)
        self._record = record
        self._decode = decode
        self._tap = Tap(words, holds=decode is None)
        self._kept: tuple[NewMessage, ...] = ()
        self._ripe = False

    async def _pass(self, send: Send, chunk: bytes) -> None:
        if self._decode is not None:
            await self._pass_encoded(send, chunk)
            return
        passed = self._tap.feed(chunk)
        if self._ripens():
            if passed:
                await _send_body(send, passed, more=True)
            await self._keep()
            passed = self._tap.rest()
        if passed:
            await _send_body(send, passed, more=True)

    async def _pass_encoded(self, send: Send, chunk: bytes) -> None:
        """Encoded bytes cannot be parted at an event: the chunk that ends the reply waits whole."""
        assert self._decode is not None
        try:
            self._tap.feed(self._decode(chunk))
        except Undecodable as error:
            log.warning("an encoded stream cannot be read: %s", error)
            self._decode = _nothing
        if self._ripens():
            await self._keep()
        await _send_body(send, chunk, more=True)

    def _ripens(self) -> bool:
        """Whether the reply has just become whole."""
        before, self._ripe = self._ripe, self._tap.ripe
        return self._ripe and not before

    async def _end(self) -> None:
        # Also when the server is being stopped: what was said so far is a candidate.
        await self._keep()

    def _rest(self) -> bytes:
        return b"" if self._decode is not None else self._tap.rest()

    def _last_words(self, error: Exception) -> bytes:
        """Only whole events have gone out, so one more can follow; of encoded bytes that is not
        known, and of a reply that is whole nothing is missing."""
        return b"" if self._decode is not None or self._tap.ripe else broke(error)

    async def _keep(self) -> None:
        """Words that come after their own end are kept as well: as another variant."""
        said = self._tap.words.replies() if self._tap.ripe else self._tap.end()
        if said and said != self._kept:
            self._kept = said
            await self._record(said)


def _nothing(_: bytes) -> bytes:
    return b""


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    try:
        async with asyncio.timeout(CLIENT_STALL_S):
            await send({"type": "http.response.body", "body": body, "more_body": more})
    except TimeoutError as error:
        raise ClientStalled from error
