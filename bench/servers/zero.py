"""An upstream that answers at once, and a bare pass-through in front of it: what a proxy adds to.

python bench/servers/zero.py upstream PORT
python bench/servers/zero.py pass PORT UPSTREAM_PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import cast

import aiohttp
import httptools
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

WORDS = [f"word{n} " for n in range(20)]
REPLY = "".join(WORDS)


def _whole() -> bytes:
    message = {"role": "assistant", "content": REPLY}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3_000, "completion_tokens": 20, "total_tokens": 3_020}
    head = {"id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": "zero"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": "zero"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


BODY = _whole()
JSON_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    + str(len(BODY)).encode()
    + b"\r\n\r\n"
    + BODY
)
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
EVENTS = [
    *(_event({"content": word}) for word in WORDS),
    _event({}, "stop"),
    b"data: [DONE]\n\n",
]


class Upstream(asyncio.Protocol):
    """Reads a request, answers from memory; a stream goes out event by event."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # not by class: uvloop has its own
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        body, self.body = self.body, b""
        if b'"stream": true' in body or b'"stream":true' in body:
            self.transport.write(SSE_HEAD)
            for event in EVENTS:
                self.transport.write(_chunk(event))
            self.transport.write(b"0\r\n\r\n")
        else:
            self.transport.write(JSON_ANSWER)


async def upstream(port: int) -> None:
    """Answer until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def bare(port: int, behind: int) -> None:
    """Forward every request, byte for byte, and nothing else: on the product's own parts."""
    session: list[aiohttp.ClientSession] = []

    async def forward(request: Request) -> Response:
        if not session:
            connector = aiohttp.TCPConnector(limit=1024)
            session.append(aiohttp.ClientSession(connector=connector, auto_decompress=False))
        url = f"http://127.0.0.1:{behind}/v1/chat/completions"
        headers = {"content-type": "application/json"}
        answer = await session[0].post(url, data=await request.body(), headers=headers)
        kind = answer.headers["content-type"]
        if kind.startswith("text/event-stream"):
            return StreamingResponse(_chunks(answer), media_type=kind)
        return Response(await answer.read(), media_type=kind)

    app = Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="warning", access_log=False, backlog=1024)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for chunk in answer.content.iter_any():
        yield chunk


def main() -> None:
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "upstream":
        import uvloop  # noqa: PLC0415 - the fastest there is; nobody else needs it here

        uvloop.run(upstream(port))
    else:
        bare(port, int(sys.argv[3]))


if __name__ == "__main__":
    main()
