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
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from aiohttp import web

from previously.measure import count_tokens, cut_to_tokens
from previously.model import Ask, Part, Reply, Usage
from previously.text.lines import transcript
from previously.text.parts import joined
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

    A request for several notes is put to the script note by note and answered in one; with
    `parted` off the script answers it as a whole.
    """

    costs = True

    def __init__(
        self,
        script: Script = (),
        *,
        name: str = "scripted",
        delay_s: float = 0.0,
        window_tokens: int | None = None,
        parted: bool = True,
    ) -> None:
        self.name = name
        self._parted = parted
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
        if ask.parts and self._parted:
            notes = [_text(self._script(_alone(ask, part))) for part in ask.parts]
            line: Line = joined(notes)
        else:
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


def _alone(ask: Ask, part: Part) -> Ask:
    """The request as it would be about one of its parts."""
    told = {"role": "user", "content": transcript(part.lines)}
    return replace(
        ask,
        messages=(*ask.messages[:1], told),
        material=part.material,
        tokens_max=part.tokens_max,
        parts=(),
    )


def _text(line: Line) -> str:
    if isinstance(line, Exception):
        raise line
    return line.text if isinstance(line, Reply) else line


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


class Trouble(StrEnum):
    """What an upstream does in the place of an answer."""

    HANG = "hang"  # says nothing until its client leaves
    RESET = "reset"  # breaks the connection half-way through its answer
    HALF = "half"  # ends half-way through its answer as if that were all
    GARBAGE = "garbage"  # says that all is well, and nothing that can be read


# A text, a whole assistant message as OpenAI has it (for a response also `output`, its items), a
# refusal, or worse.
Answer = str | Mapping[str, Any] | Failure | Trouble

GARBAGE = b"\x00\xff<html>It works!</html>{"
HANG_LOOK_S = 0.005  # how often a hanging answer looks whether its client is still there


def refusal(status: int, kind: str, message: str, **headers: str) -> Failure:
    """A refusal that the clients of both providers can read; `retry_after="3"` is a header."""
    error = {"type": kind, "code": kind, "message": message, "param": None}
    body = json.dumps({"type": "error", "error": error}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status, body, {"content-type": "application/json", **named})


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


def count_messages(body: Mapping[str, Any]) -> str:
    """The answer of an upstream without a script."""
    asked = body.get("messages", body.get("input"))
    return f"I have read {1 if isinstance(asked, str) else len(asked or ())} messages."


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
        return await self._counted(request, _OPENAI)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._counted(request, _RESPONSES)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._counted(request, _ANTHROPIC)

    async def _counted(self, request: web.Request, tongue: _Tongue) -> web.StreamResponse:
        self._open += 1
        self.at_once_max = max(self.at_once_max, self._open)
        try:
            await asyncio.sleep(self.delay_s)
            return await self._respond(request, tongue)
        finally:
            self._open -= 1

    async def _respond(self, request: web.Request, tongue: _Tongue) -> web.StreamResponse:
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

    def _usage(self, asked: int, said: Mapping[str, Any], tongue: _Tongue) -> Any:
        if self.truncates_to_tokens is not None:
            asked = min(asked, self.truncates_to_tokens)
        if not self.sends_usage:
            return None
        answered = count_tokens(json.dumps(dict(said), ensure_ascii=False))
        return tongue.usage(asked, answered) if self.wrong_usage is None else self.wrong_usage

    async def _trouble(
        self, request: web.Request, trouble: Trouble, tongue: _Tongue, said: _Spoken
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
        self, request: web.Request, events: Iterator[bytes], tongue: _Tongue
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

    async def _paced(self, events: Iterator[bytes], tongue: _Tongue) -> AsyncIterator[bytes]:
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


def _event(data: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


_Spoken = tuple[dict[str, Any], dict[str, Any], Any]  # the request, what is said, its usage


class _Tongue(NamedTuple):
    """One provider's way to say things."""

    whole: Callable[[Mapping[str, Any], Mapping[str, Any], Any], dict[str, Any]]
    events: Callable[[Mapping[str, Any], Mapping[str, Any], Any], Iterator[bytes]]
    usage: Callable[[int, int], dict[str, Any]]
    too_long: Callable[[int, int], Failure]
    end: bytes  # the closing event


def _finish(said: Mapping[str, Any]) -> str:
    return "tool_calls" if said.get("tool_calls") else "stop"


def _openai_usage(asked: int, answered: int) -> dict[str, int]:
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _completion(body: Mapping[str, Any], said: Mapping[str, Any], usage: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, **said}
    whole = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": CREATED_S,
        "model": body.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(said)}],
    }
    return whole if usage is None else {**whole, "usage": usage}


def _openai_events(body: Mapping[str, Any], said: Mapping[str, Any], usage: Any) -> Iterator[bytes]:
    base = {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": CREATED_S,
        "model": body.get("model", "fake"),
    }
    for delta in _deltas(said):
        yield _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(said)}]})
    if as_object(body.get("stream_options")).get("include_usage") and usage is not None:
        yield _event({**base, "choices": [], "usage": usage})
    yield _DONE


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


def _openai_too_long(asked: int, window: int) -> Failure:
    message = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted "
        f"in {asked} tokens. Please reduce the length of the messages."
    )
    return refusal(400, "context_length_exceeded", message)


def _responses_usage(asked: int, answered: int) -> dict[str, Any]:
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }


def _response(body: Mapping[str, Any], said: Mapping[str, Any], usage: Any) -> dict[str, Any]:
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": CREATED_S,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body.get("model", "fake"),
        "output": _items(said),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "usage": usage,
    }


def _items(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "output" in said:
        return list(said["output"])
    items: list[dict[str, Any]] = []
    if said.get("content"):
        part: dict[str, Any] = {
            "type": "output_text",
            "text": said["content"],
            "annotations": [],
            "logprobs": [],
        }
        message = {"type": "message", "id": "msg_fake", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [part]})
    for index, call in enumerate(said.get("tool_calls") or ()):
        made = {"type": "function_call", "id": f"fc_fake{index}", "status": "completed"}
        items.append({**made, "call_id": call["id"], **call["function"]})
    return items


def _responses_events(
    body: Mapping[str, Any], said: Mapping[str, Any], usage: Any
) -> Iterator[bytes]:
    whole = _response(body, said, usage)
    begun: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index}
        opened = {**item, **_EMPTY.get(item["type"], {})}
        events.append({"type": "response.output_item.added", **at, "item": opened})
        events += [{**event, **at, "item_id": item["id"]} for event in _item_events(item)]
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield _event({**event, "sequence_number": number}, event["type"])


_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
}


def _item_events(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "function_call":
        name = "response.function_call_arguments"
        for piece in _pieces(item["arguments"]):
            yield {"type": f"{name}.delta", "delta": piece}
        yield {"type": f"{name}.done", "name": item["name"], "arguments": item["arguments"]}
    if item["type"] != "message":
        return
    for index, part in enumerate(item["content"]):
        at = {"content_index": index}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
        done: dict[str, Any] = {"text": part["text"], "logprobs": []}
        yield {"type": "response.output_text.done", **at, **done}
        yield {"type": "response.content_part.done", **at, "part": part}


def _responses_too_long(*_: int) -> Failure:
    message = (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again."
    )
    return refusal(400, "context_length_exceeded", message)


def _anthropic_usage(asked: int, answered: int) -> dict[str, int]:
    return {
        "input_tokens": asked,
        "output_tokens": answered,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _message(body: Mapping[str, Any], said: Mapping[str, Any], usage: Any) -> dict[str, Any]:
    whole = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "fake"),
        "content": _blocks(said),
        "stop_reason": "tool_use" if said.get("tool_calls") else "end_turn",
        "stop_sequence": None,
    }
    return whole if usage is None else {**whole, "usage": usage}


def _blocks(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = said.get("content")
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in said.get("tool_calls") or ():
        function = call["function"]
        arguments = json.loads(function["arguments"])
        used = {"type": "tool_use", "id": call["id"], "name": function["name"]}
        blocks.append({**used, "input": arguments})
    return blocks


def _anthropic_events(
    body: Mapping[str, Any], said: Mapping[str, Any], usage: Any
) -> Iterator[bytes]:
    whole = _message(body, said, usage)
    start: dict[str, Any] = {**whole, "content": [], "stop_reason": None}
    yield _event({"type": "message_start", "message": start}, "message_start")
    yield _event({"type": "ping"}, "ping")
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    end: dict[str, Any] = {"type": "message_delta", "delta": delta}
    if usage is not None:
        end["usage"] = usage
    yield _event(end, "message_delta")
    yield _MESSAGE_STOP


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    is_text = block["type"] == "text"
    opened: dict[str, Any] = {**block, ("text" if is_text else "input"): "" if is_text else {}}
    start: dict[str, Any] = {"type": "content_block_start", "index": index, "content_block": opened}
    yield _event(start, "content_block_start")
    for piece in _pieces(block["text"] if is_text else json.dumps(block["input"])):
        delta = (
            {"type": "text_delta", "text": piece}
            if is_text
            else {"type": "input_json_delta", "partial_json": piece}
        )
        said = {"type": "content_block_delta", "index": index, "delta": delta}
        yield _event(said, "content_block_delta")
    yield _event({"type": "content_block_stop", "index": index}, "content_block_stop")


def _anthropic_too_long(asked: int, window: int) -> Failure:
    message = f"prompt is too long: {asked} tokens > {window} maximum"
    return refusal(400, "invalid_request_error", message)


_DONE = b"data: [DONE]\n\n"
_MESSAGE_STOP = _event({"type": "message_stop"}, "message_stop")
_OPENAI = _Tongue(_completion, _openai_events, _openai_usage, _openai_too_long, _DONE)
_RESPONSES = _Tongue(
    _response, _responses_events, _responses_usage, _responses_too_long, b""
)  # it has no closing event
_ANTHROPIC = _Tongue(
    _message, _anthropic_events, _anthropic_usage, _anthropic_too_long, _MESSAGE_STOP
)


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
