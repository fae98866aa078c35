"""One answer in the words of OpenAI's two interfaces and of Anthropic's, whole or as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from previously.testing.answers import Failure, refusal
from previously.text.wire import as_object

CREATED_S = 1_750_000_000  # no clock: the same request always gets the same answer
PIECE_CHARS = 8


def _event(data: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class Tongue(NamedTuple):
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
OPENAI = Tongue(_completion, _openai_events, _openai_usage, _openai_too_long, _DONE)
RESPONSES = Tongue(
    _response, _responses_events, _responses_usage, _responses_too_long, b""
)  # it has no closing event
ANTHROPIC = Tongue(
    _message, _anthropic_events, _anthropic_usage, _anthropic_too_long, _MESSAGE_STOP
)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]
