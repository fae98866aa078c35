from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from previously.errors import (
    DraftRejected,
    ModelUnavailable,
    NotConfigured,
    PreviouslyError,
    TooLong,
)
from previously.llm.anthropic import AnthropicLlm
from previously.llm.remote import Remote
from previously.model import Ask, Usage
from previously.testing import Failure, FakeUpstream
from tests.llm.makers import KEY, asked, made, profile_of


def raw(body: Any, kind: str = "application/json") -> Failure:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Failure(200, sent, {"content-type": kind})


def message(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": list(blocks), "stop_reason": "end_turn", **more}


def streamed(*events: dict[str, Any]) -> Failure:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return raw("".join(lines).encode(), "text/event-stream")


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.fixture
def llm(upstream: FakeUpstream, session: aiohttp.ClientSession) -> Remote:
    return made(AnthropicLlm, upstream, session)


async def test_the_system_stands_apart_and_the_version_is_said(
    upstream: FakeUpstream, llm: Remote
) -> None:
    await llm.complete(asked("hello"))
    seen = upstream.requests[0]
    assert seen.path == "/v1/messages"
    assert seen.headers["x-api-key"] == KEY
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert seen.body["system"] == "Sum up."
    assert seen.messages == [{"role": "user", "content": "hello"}]
    assert seen.body["max_tokens"] == 1_024


def ask_of(*messages: tuple[str, str]) -> Ask:
    said = tuple({"role": role, "content": words} for role, words in messages)
    return Ask(said, (), 60, "en")


async def test_every_message_finds_a_place(upstream: FakeUpstream, llm: Remote) -> None:
    await llm.complete(ask_of(("system", "A"), ("system", "B"), ("user", "C"), ("system", "D")))
    await llm.complete(ask_of(("system", "A")))
    first, second = upstream.requests
    assert first.body["system"] == "A\n\nB"
    assert [(m["role"], m["content"]) for m in first.messages] == [("user", "C"), ("user", "D")]
    assert "system" not in second.body
    assert [(m["role"], m["content"]) for m in second.messages] == [("user", "A")]


async def test_the_base_url_may_name_the_version_or_not(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    for url in (upstream.anthropic_url, f"{upstream.anthropic_url}/", upstream.url):
        await AnthropicLlm(profile_of(AnthropicLlm, url), session).complete(asked())
    assert {seen.path for seen in upstream.requests} == {"/v1/messages"}


USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 70,
    "cache_creation_input_tokens": 20,
    "output_tokens": 9,
}


async def test_the_input_counts_whole_with_what_the_cache_had(
    upstream: FakeUpstream, llm: Remote
) -> None:
    upstream.says(raw(message(text("yes"), usage=USAGE)))
    assert (await llm.complete(asked())).usage == Usage(100, 9, 70)


async def test_a_stream_adds_up(upstream: FakeUpstream, llm: Remote) -> None:
    upstream.says(
        streamed(
            {
                "type": "message_start",
                "message": {"model": "m-1", "usage": {**USAGE, "output_tokens": 1}},
            },
            {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "x"}},
            {"type": "content_block_stop"},
            {"type": "ping"},
            {"type": "content_block_start", "content_block": text("")},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ye"}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "s"}},
            {"type": "news_from_the_future", "x": 1},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "max_tokens"},
                "usage": {"output_tokens": 9},
            },
            {"type": "message_stop"},
        )
    )
    reply = await llm.stream(asked())
    assert (reply.text, reply.reasoning, reply.model) == ("yes", "hm", "m-1")
    assert (reply.finish, reply.usage) == ("length", Usage(100, 9, 70))


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool"),
        ("pause_turn", "other"),
        ("refusal", DraftRejected),
        ("model_context_window_exceeded", TooLong),
    ],
)
async def test_the_reason_to_stop_has_one_word(
    upstream: FakeUpstream, llm: Remote, reason: str, read: str | type[PreviouslyError]
) -> None:
    upstream.says(raw(message(text("yes"), stop_reason=reason)))
    if isinstance(read, str):
        assert (await llm.complete(asked())).finish == read
    else:
        with pytest.raises(read):
            await llm.complete(asked())


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelUnavailable),
        ("rate_limit_error", ModelUnavailable),
        ("api_error", ModelUnavailable),
        ("authentication_error", NotConfigured),
        ("billing_error", NotConfigured),
        ("request_too_large", TooLong),
    ],
)
async def test_an_error_inside_a_stream_is_an_error(
    upstream: FakeUpstream, llm: Remote, kind: str, error: type[PreviouslyError]
) -> None:
    start = {"type": "message_start", "message": {"usage": USAGE}}
    fault = {"type": "error", "error": {"type": kind, "message": "so it goes"}}
    upstream.says(streamed(start, fault))
    with pytest.raises(error, match="so it goes"):
        await llm.stream(asked())


@pytest.mark.parametrize(
    "body", [{"type": "message"}, {"content": "text"}, [], {"error": {}, "type": "error"}]
)
async def test_an_answer_without_content_is_none(
    upstream: FakeUpstream, llm: Remote, body: Any
) -> None:
    upstream.says(raw(body))
    with pytest.raises(ModelUnavailable):
        await llm.complete(asked())
