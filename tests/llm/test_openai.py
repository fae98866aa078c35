"""Servers that speak OpenAI's language with an accent."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from previously.errors import (
    BadInput,
    DraftRejected,
    ModelUnavailable,
    NotConfigured,
    PreviouslyError,
    TooLong,
)
from previously.llm.openai import OpenAiLlm
from previously.llm.remote import Remote
from previously.model import Usage
from previously.testing import Answer, Failure, FakeUpstream, refusal
from tests.llm.makers import KEY, asked, made


def raw(body: Any, kind: str = "application/json") -> Failure:
    """A body as it is, under a status that says that all is well."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Failure(200, sent, {"content-type": kind})


def said(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], **more}


def streamed(*chunks: Any, done: bool = True) -> Failure:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return raw("".join([*lines, "data: [DONE]\n\n" * done]).encode(), "text/event-stream")


def piece(finish: Any = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.fixture
def llm(upstream: FakeUpstream, session: aiohttp.ClientSession) -> Remote:
    return made(OpenAiLlm, upstream, session)


async def test_the_request_is_as_the_client_of_openai_would_make_it(
    upstream: FakeUpstream, llm: Remote
) -> None:
    ask = asked()
    await llm.complete(ask)
    seen = upstream.requests[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.messages == list(ask.messages)  # B-86: nothing but what was asked
    assert "stream_options" not in seen.body


async def test_a_server_without_a_key_gets_none(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    await OpenAiLlm(made(OpenAiLlm, upstream, session).profile, session).complete(asked())
    assert "authorization" not in upstream.requests[0].headers


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (
            {
                "prompt_tokens": 90,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(90, 9, 64, 5),
        ),
        (  # DeepSeek
            {
                "prompt_tokens": 90,
                "completion_tokens": 9,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 26,
            },
            Usage(90, 9, 64),
        ),
        ({"prompt_tokens": 90, "completion_tokens": 9, "cached_tokens": 64}, Usage(90, 9, 64)),
        ({"prompt_tokens": 90, "prompt_tokens_details": None}, Usage(90)),
        (None, Usage()),
    ],
)
async def test_usage_is_read_in_whichever_spelling(
    upstream: FakeUpstream, llm: Remote, usage: Any, read: Usage
) -> None:
    upstream.says(raw(said({"content": "yes"}, usage=usage)))
    assert (await llm.complete(asked())).usage == read
    upstream.says(streamed(piece("stop", content="yes"), {"choices": [], "usage": usage}))
    assert (await llm.stream(asked())).usage == read


@pytest.mark.parametrize(
    ("finish", "read"),
    [
        ("stop", "stop"),
        (None, "stop"),
        ("eos", "stop"),
        ("STOP", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("tool_calls", "tool"),
        ("function_call", "tool"),
        ("tired", "other"),
    ],
)
async def test_the_reason_to_finish_has_one_word(
    upstream: FakeUpstream, llm: Remote, finish: Any, read: str
) -> None:
    upstream.says(raw(said({"content": "yes"}, finish)))
    assert (await llm.complete(asked())).finish == read


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "yes", "reasoning_content": "hm"}, "yes", "hm"),
        ({"content": "yes", "reasoning": "hm"}, "yes", "hm"),
        ({"content": "<think>hm</think>yes"}, "<think>hm</think>yes", ""),
        ({"content": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}, "yes", ""),
        ({"content": ["ye", {"type": "image_url"}, "s", 5]}, "yes", ""),
        ({"content": None}, "", ""),
        ({}, "", ""),
        (None, "", ""),
    ],
)
async def test_the_text_is_found_and_the_thinking_kept_apart(
    upstream: FakeUpstream, llm: Remote, message: Any, text: str, reasoning: str
) -> None:
    upstream.says(raw(said(message)))
    reply = await llm.complete(asked())
    assert (reply.text, reply.reasoning) == (text, reasoning)
    if message:
        upstream.says(streamed(piece(**message), piece("stop")))
        reply = await llm.stream(asked())
        assert (reply.text, reply.reasoning) == (text, reasoning)


YES = json.dumps(said({"content": "yes"})).encode()


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"\xef\xbb\xbf" + YES),
        raw(YES + b"\n\nWarning: something on line 7"),
        raw(b"\n\n  \n" + YES, "text/plain"),
        raw(b"<br />Notice: hello<br />" + YES, "text/html"),
        streamed(piece(content="ye"), piece("stop", content="s")),  # though nobody asked for it
        streamed(piece(content="ye"), piece(content="s")),
        streamed(piece(content="ye"), piece("stop", content="s"), done=False),
        raw(b": PROCESSING\r\n\r\ndata: " + YES.replace(b"message", b"delta") + b"\r\n\r\n"),
        raw(b"\xef\xbb\xbfdata:" + YES.replace(b"message", b"delta") + b"\r\rdata:[DONE]\r\r"),
        raw(b'data: {"choices":\ndata: [{"delta": {"content": "yes"}}]}\n\ndata: [DONE]\n'),
        raw(b"event: message\nid: 1\ndata: " + YES + b"\n\ndata: nonsense\n\ndata: 5\n\n"),
        raw({"choices": [{"text": "yes", "finish_reason": "stop"}]}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_odd_answer_is_an_answer(
    upstream: FakeUpstream, llm: Remote, answer: Answer, stream: bool
) -> None:
    upstream.says(answer)
    assert (await (llm.stream if stream else llm.complete)(asked())).text == "yes"
    assert len(upstream.requests) == 1


INSIDE: dict[str, tuple[Any, type[PreviouslyError]]] = {
    "OpenRouter, code as a status": (
        {"error": {"code": 429, "message": "Rate limited"}},
        ModelUnavailable,
    ),
    "code in the choice": (
        {"choices": [{"error": {"code": 502, "message": "Provider died"}, "message": {}}]},
        ModelUnavailable,
    ),
    "a name": ({"error": {"type": "invalid_request_error", "message": "bad"}}, BadInput),
    "a key": ({"error": {"code": "invalid_api_key", "message": "bad"}}, NotConfigured),
    "a text": ({"error": "something went wrong"}, ModelUnavailable),
    "vLLM's object": ({"object": "error", "message": "no", "code": 400}, BadInput),
    "an overflow": ({"error": {"message": "prompt is too long"}}, TooLong),
    "no choices": ({"id": "x", "choices": []}, ModelUnavailable),
    "no object": ([1, 2], ModelUnavailable),
}


@pytest.mark.parametrize("what", INSIDE)
async def test_an_error_inside_an_answer_is_an_error(
    upstream: FakeUpstream, llm: Remote, what: str
) -> None:
    body, error = INSIDE[what]
    upstream.says(raw(body))
    with pytest.raises(error):
        await llm.complete(asked())


async def test_an_error_inside_a_stream_is_an_error(upstream: FakeUpstream, llm: Remote) -> None:
    upstream.says(streamed(piece(content="The k"), {"error": {"code": 429, "message": "slow"}}))
    with pytest.raises(ModelUnavailable, match="slow"):
        await llm.stream(asked())
    upstream.says(streamed(piece(content="The k"), done=False))
    with pytest.raises(ModelUnavailable, match="broke off"):
        await llm.stream(asked())


@pytest.mark.parametrize(
    "answer",
    [
        raw(said({"content": "half", "refusal": None}, "content_filter")),
        raw(said({"content": None, "refusal": "I can't help with that."})),
        streamed(piece(refusal="I can't "), piece("stop", refusal="help with that.")),
        raw(said({"content": ""}, "sensitive")),
    ],
)
async def test_a_refusal_is_no_draft(upstream: FakeUpstream, llm: Remote, answer: Answer) -> None:
    upstream.says(answer)
    with pytest.raises(DraftRejected, match="refused"):
        await llm.complete(asked())


async def test_an_answer_that_the_window_cut_was_too_long(
    upstream: FakeUpstream, llm: Remote
) -> None:
    upstream.says(raw(said({"content": "half"}, "model_context_window_exceeded")))
    with pytest.raises(TooLong):
        await llm.complete(asked())


async def test_a_provider_that_gave_up_may_do_better_later(
    upstream: FakeUpstream, llm: Remote
) -> None:
    gave_up = raw(said({"content": "ha"}, "insufficient_system_resource"))
    upstream.says(gave_up, "fine")
    assert (await llm.complete(asked())).text == "fine"


@pytest.mark.parametrize(
    "refused",
    [
        refusal(
            400,
            "unsupported_parameter",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
        ),
        Failure(
            422,
            b'{"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs not permitted"}]}',
        ),
    ],
)
async def test_a_server_may_want_the_limit_under_its_other_name(
    upstream: FakeUpstream, llm: Remote, refused: Failure
) -> None:
    upstream.answer = lambda body: refused if "max_tokens" in body else "fine"
    assert (await llm.complete(asked())).text == "fine"
    assert (await llm.complete(asked())).text == "fine"
    limits = [seen.body.get("max_completion_tokens") for seen in upstream.requests]
    assert limits == [None, 1_024, 1_024]  # learnt once


async def test_the_other_name_is_tried_once(upstream: FakeUpstream, llm: Remote) -> None:
    upstream.says(refusal(400, "x", "'max_tokens' and 'max_completion_tokens' are not supported"))
    with pytest.raises(BadInput):
        await llm.complete(asked())
    assert len(upstream.requests) == 2


async def test_a_limit_that_is_too_large_is_not_renamed(
    upstream: FakeUpstream, llm: Remote
) -> None:
    upstream.says(refusal(400, "x", "Invalid max_tokens value, the valid range is [1, 512]"))
    with pytest.raises(BadInput, match="valid range"):
        await llm.complete(asked())
    assert len(upstream.requests) == 1


async def test_a_server_that_does_not_know_stream_options_is_asked_without(
    upstream: FakeUpstream, llm: Remote
) -> None:
    refused = refusal(400, "x", "Unrecognized request argument supplied: stream_options")
    upstream.answer = lambda body: refused if "stream_options" in body else "fine"
    assert (await llm.stream(asked())).text == "fine"
    assert [seen.body["stream"] for seen in upstream.requests] == [True, True]
