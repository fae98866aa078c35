"""Stand-ins for tests and demonstrations: a summariser that follows a script, an upstream that
answers at once. Both are real at the seam: the one is an `Llm`, the other an HTTP server.

`python -m previously.testing --port 8378` runs the upstream from a shell.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from previously.measure import count_tokens, cut_to_tokens
from previously.model import Ask, Reply, Usage
from previously.text.wire import as_object

CREATED_S = 1_750_000_000  # no clock: the same request always gets the same answer
PIECE_CHARS = 8
BODY_BYTES_MAX = 64 * 1024 * 1024

Line = str | Reply | Exception
Script = Sequence[Line] | Callable[[Ask], Line]


class ScriptedLlm:
    """Answers as the script says, and remembers what it was asked.

    The script is a list, used up in order, or a function of the request. An exception in it is
    raised. Without a script, or after its end, the answer is the material itself, cut to size: a
    note that keeps the facts it has room for.
    """

    costs = True

    def __init__(
        self,
        script: Script = (),
        *,
        name: str = "scripted",
        delay_s: float = 0.0,
        window_tokens: int | None = None,
    ) -> None:
        self.name = name
        self.window_tokens = window_tokens
        self.delay_s = delay_s
        self.asks: list[Ask] = []
        self.waiting = 0  # calls that hang at this moment
        self._script = script if callable(script) else _in_order(script)
        self._open = asyncio.Event()
        self._open.set()

    def hang(self) -> None:
        """From now on calls wait for `release`."""
        self._open.clear()

    def release(self) -> None:
        """Let every waiting call answer, late as it is."""
        self._open.set()

    async def complete(self, ask: Ask) -> Reply:
        """The next line of the script."""
        self.asks.append(ask)
        self.waiting += 1
        try:
            await self._open.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        finally:
            self.waiting -= 1
        line = self._script(ask)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Reply):
            return line
        asked = sum(count_tokens(m["content"]) for m in ask.messages)
        return Reply(line, self.name, usage=Usage(asked, count_tokens(line)))


def _in_order(script: Iterable[Line]) -> Callable[[Ask], Line]:
    lines = iter(script)

    def answer(ask: Ask) -> Line:
        line = next(lines, None)
        return plain_note(ask) if line is None else line

    return answer


def plain_note(ask: Ask) -> str:
    """The material as one note within the limit."""
    text = " ".join(f"{speaker}: {text}" for speaker, text in ask.material)
    return cut_to_tokens(text, ask.tokens_max)


@dataclass(frozen=True, slots=True)
class Failure:
    """An upstream's refusal."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Answer = str | Mapping[str, Any] | Failure  # a text, a whole assistant message, or a refusal


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as the upstream got it."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The request's JSON."""
        return json.loads(self.raw)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The prompt."""
        return self.body["messages"]


def count_messages(body: Mapping[str, Any]) -> str:
    """The answer of an upstream without a script."""
    return f"I have read {len(body['messages'])} messages."


class FakeUpstream:
    """An OpenAI-compatible server on loopback; use it as an async context manager."""

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Answer] = count_messages,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.answer: Callable[[dict[str, Any]], Answer] = answer
        self.requests: list[Seen] = []
        self.headers: dict[str, str] = {}  # sent with every answer
        self.piece_delay_s = 0.0  # between two events of a stream
        self.cut_after_pieces: int | None = None  # break the connection there
        self.sends_done = True  # whether a stream ends with `[DONE]`
        self.abandoned = 0  # streams whose reader left before the end
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    def says(self, *answers: Answer) -> None:
        """From now on these, one after the other; the last one stays."""
        lines = iter(answers[:-1])
        self.answer = lambda _: next(lines, answers[-1])

    @property
    def url(self) -> str:
        """The base URL that a client is given."""
        return f"http://{self._host}:{self._port}/v1"

    async def __aenter__(self) -> FakeUpstream:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _note(self, request: web.Request) -> Seen:
        names = {name.lower() for name in request.headers}
        headers = {name: ", ".join(request.headers.getall(name)) for name in names}
        seen = Seen(request.path_qs, headers, await request.read())
        self.requests.append(seen)
        return seen

    async def _models(self, request: web.Request) -> web.StreamResponse:
        await self._note(request)
        model = {"id": "fake", "object": "model", "created": CREATED_S, "owned_by": "previously"}
        return web.json_response({"object": "list", "data": [model]}, headers=self.headers)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = (await self._note(request)).body
        answer = self.answer(body)
        if isinstance(answer, Failure):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        said = {"content": answer} if isinstance(answer, str) else dict(answer)
        if body.get("stream"):
            return await self._stream(request, body, said)
        return web.json_response(_completion(body, said), headers=self.headers)

    async def _stream(
        self, request: web.Request, body: dict[str, Any], said: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", **self.headers}
        )
        await response.prepare(request)
        sent = 0
        try:
            async for event in self._events(body, said):
                if sent == self.cut_after_pieces and request.transport is not None:
                    request.transport.abort()
                    return response
                await response.write(event)
                sent += 1
        except ConnectionError:
            self.abandoned += 1
        return response

    async def _events(
        self, body: Mapping[str, Any], said: Mapping[str, Any]
    ) -> AsyncIterator[bytes]:
        for chunk in _chunks(body, said):
            yield b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
            if self.piece_delay_s:
                await asyncio.sleep(self.piece_delay_s)
        if self.sends_done:
            yield b"data: [DONE]\n\n"


def _finish(said: Mapping[str, Any]) -> str:
    return "tool_calls" if said.get("tool_calls") else "stop"


def _usage(body: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, int]:
    asked = count_tokens(json.dumps(body["messages"], ensure_ascii=False))
    answered = count_tokens(json.dumps(dict(said), ensure_ascii=False))
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _completion(body: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, **said}
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": CREATED_S,
        "model": body.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(said)}],
        "usage": _usage(body, said),
    }


def _chunks(body: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    base = {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": CREATED_S,
        "model": body.get("model", "fake"),
    }
    for delta in _deltas(said):
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(said)}]}
    if as_object(body.get("stream_options")).get("include_usage"):
        yield {**base, "choices": [], "usage": _usage(body, said)}


def _deltas(said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(said.get("content") or ""):
        yield {"content": piece}
    for index, call in enumerate(said.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        first = {"index": index, "id": call["id"], "type": "function", "function": function}
        yield {"tool_calls": [first]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


async def _run(host: str, port: int) -> None:
    async with FakeUpstream(host=host, port=port) as upstream:
        sys.stdout.write(f"a fake upstream answers at {upstream.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the upstream until it is stopped."""
    parser = argparse.ArgumentParser(prog="python -m previously.testing", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8378, help="port (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_run(options.host, options.port))
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main()
