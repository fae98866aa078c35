"""An HTTP server that answers at once, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from previously.measure import count_tokens
from previously.testing.answers import GARBAGE, Answer, Failure, Trouble, count_messages
from previously.testing.tongues import ANTHROPIC, CREATED_S, OPENAI, RESPONSES, Tongue

BODY_BYTES_MAX = 64 * 1024 * 1024
HANG_LOOK_S = 0.005  # how often a hanging answer looks whether its client is still there


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

    @property
    def items(self) -> list[dict[str, Any]]:
        """The prompt of a response."""
        return self.body["input"]


class FakeUpstream:
    """A server on loopback that speaks OpenAI's chat completions and responses and Anthropic's
    messages, each as their own clients expect it; use it as an async context manager."""

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
        self.delay_s = 0.0  # before every answer
        self.piece_delay_s = 0.0  # between two events of a stream
        self.cut_after_pieces: int | None = None  # break the connection there
        self.sends_done = True  # whether a stream ends with `[DONE]`
        self.window_tokens: int | None = None  # a longer prompt is refused, as its provider would
        self.truncates_to_tokens: int | None = None  # a longer prompt is cut without a word
        self.sends_usage = True
        self.wrong_usage: Any = None  # sent in the place of the true one
        self.abandoned = 0  # answers whose reader left before the end
        self.at_once_max = 0  # most requests that were open at the same time
        self._open = 0
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    def says(self, *answers: Answer) -> None:
        """From now on these, one after the other; the last one stays."""
        lines = iter(answers[:-1])
        self.answer = lambda _: next(lines, answers[-1])

    @property
    def url(self) -> str:
        """The base URL that a client of OpenAI is given."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL that a client of Anthropic is given."""
        return f"http://{self._host}:{self._port}"

    async def __aenter__(self) -> FakeUpstream:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_get("/v1/models", self._models)
        app.router.add_route("*", "/v1/{rest:.*}", self._echo)
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
        model = {
            "id": "fake",
            "object": "model",
            "type": "model",
            "display_name": "Fake",
            "created": CREATED_S,
            "created_at": "2025-06-15T15:06:40Z",
            "owned_by": "previously",
        }
        page = {"has_more": False, "first_id": "fake", "last_id": "fake"}
        return web.json_response({"object": "list", "data": [model], **page}, headers=self.headers)

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        """Any other route gives back what it got."""
        seen = await self._note(request)
        kind = request.headers.get("content-type", "application/octet-stream")
        headers = {"content-type": kind, "x-method": request.method, **self.headers}
        return web.Response(body=seen.raw, headers=headers)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._counted(request, OPENAI)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._counted(request, RESPONSES)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._counted(request, ANTHROPIC)

    async def _counted(self, request: web.Request, tongue: Tongue) -> web.StreamResponse:
        self._open += 1
        self.at_once_max = max(self.at_once_max, self._open)
        try:
            await asyncio.sleep(self.delay_s)
            return await self._respond(request, tongue)
        finally:
            self._open -= 1

    async def _respond(self, request: web.Request, tongue: Tongue) -> web.StreamResponse:
        body = (await self._note(request)).body
        asked = _prompt_tokens(body)
        if self.window_tokens is not None and asked > self.window_tokens:
            return _refused(tongue.too_long(asked, self.window_tokens))
        answer = self.answer(body)
        if isinstance(answer, Failure):
            return _refused(answer)
        trouble = answer if isinstance(answer, Trouble) else None
        text = count_messages(body) if isinstance(answer, Trouble) else answer
        said = {"content": text} if isinstance(text, str) else dict(text)
        usage = self._usage(asked, said, tongue)
        if trouble is not None:
            return await self._trouble(request, trouble, tongue, (body, said, usage))
        if body.get("stream"):
            return await self._stream(request, tongue.events(body, said, usage), tongue)
        return web.json_response(tongue.whole(body, said, usage), headers=self.headers)

    def _usage(self, asked: int, said: Mapping[str, Any], tongue: Tongue) -> Any:
        if self.truncates_to_tokens is not None:
            asked = min(asked, self.truncates_to_tokens)
        if not self.sends_usage:
            return None
        answered = count_tokens(json.dumps(dict(said), ensure_ascii=False))
        return tongue.usage(asked, answered) if self.wrong_usage is None else self.wrong_usage

    async def _trouble(
        self, request: web.Request, trouble: Trouble, tongue: Tongue, said: _Spoken
    ) -> web.StreamResponse:
        if trouble is Trouble.HANG:
            while _is_there(request):  # noqa: ASYNC110 nothing tells that it closed
                await asyncio.sleep(HANG_LOOK_S)
            self.abandoned += 1
            return web.Response()
        if trouble is Trouble.GARBAGE:
            return web.Response(body=GARBAGE, content_type="application/json")
        streams = bool(said[0].get("stream"))
        events = b"".join(tongue.events(*said))
        whole = events if streams else json.dumps(tongue.whole(*said)).encode()
        kind = "text/event-stream" if streams else "application/json"
        half = whole[: len(whole) // 2]
        if trouble is Trouble.HALF:
            return web.Response(body=half, content_type=kind)
        response = web.StreamResponse(headers={"content-type": kind})
        await response.prepare(request)
        await response.write(half)
        _break(request)
        return response

    async def _stream(
        self, request: web.Request, events: Iterator[bytes], tongue: Tongue
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", **self.headers}
        )
        await response.prepare(request)
        sent = 0
        try:
            async for event in self._paced(events, tongue):
                if sent == self.cut_after_pieces and request.transport is not None:
                    _break(request)
                    return response
                await response.write(event)
                sent += 1
        except ConnectionError:
            self.abandoned += 1
        return response

    async def _paced(self, events: Iterator[bytes], tongue: Tongue) -> AsyncIterator[bytes]:
        for event in events:
            if event != tongue.end or self.sends_done:
                yield event
            if self.piece_delay_s and event != tongue.end:
                await asyncio.sleep(self.piece_delay_s)


def _refused(failure: Failure) -> web.Response:
    return web.Response(status=failure.status, body=failure.body, headers=failure.headers)


def _is_there(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _break(request: web.Request) -> None:
    if isinstance(request.transport, asyncio.WriteTransport):
        request.transport.abort()


def _prompt_tokens(body: Mapping[str, Any]) -> int:
    head = [body[name] for name in ("system", "instructions") if body.get(name)]
    asked = body.get("messages", body.get("input"))
    said = [asked] if isinstance(asked, str) else asked or []
    return count_tokens(json.dumps([*head, *said], ensure_ascii=False))


_Spoken = tuple[dict[str, Any], dict[str, Any], Any]  # the request, what is said, its usage
