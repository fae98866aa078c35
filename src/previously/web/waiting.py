"""A streaming client that has to wait hears comments, so that nothing on the way gives it up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

PATIENCE_S = 1.0  # so long the answer may still come under its own status and headers
COMMENT_EVERY_S = 5.0
COMMENT = b": keep-alive\n\n"


async def kept_alive(work: Coroutine[Any, Any, Response]) -> Response:
    """The answer itself if it comes soon, else a stream that waits for it."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.result() if done else Waiting(task)


class Waiting(Response):
    """Comments until the answer is there, then the answer as events of the same stream."""

    media_type = "text/event-stream"

    def __init__(self, answer: asyncio.Task[Response]) -> None:
        super().__init__(headers={"cache-control": "no-cache"})
        del self.headers["content-length"]
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        left = asyncio.create_task(_until_left(receive))
        try:
            while not self._answer.done() and not left.done():
                await send({"type": "http.response.body", "body": COMMENT, "more_body": True})
                await asyncio.wait(
                    {self._answer, left},
                    timeout=COMMENT_EVERY_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            left.cancel()
            if not self._answer.done():
                self._answer.cancel()
        if not self._answer.done():
            with contextlib.suppress(asyncio.CancelledError):
                await self._answer
            return
        await self._answer.result()(scope, receive, _Events(send))


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Events:
    """A `send` for an answer whose status and headers come too late."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_stream = False
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"")
            self._is_stream = kind.startswith(b"text/event-stream")
        elif self._is_stream:
            await self._send(message)
        else:
            await self._collect(message)

    async def _collect(self, message: Message) -> None:
        """A whole answer, such as an error, becomes one event."""
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        lines = b"".join(b"data: " + line + b"\n" for line in self._body.splitlines() or [b""])
        body = lines + b"\ndata: [DONE]\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
