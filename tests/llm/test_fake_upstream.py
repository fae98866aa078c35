"""The fake upstream through the providers' own clients: what satisfies them is faithful enough."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai
import pytest

from previously.testing import FakeUpstream, Trouble, refusal

HELLO: Any = [{"role": "user", "content": "hello there"}]
CALLS = {
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "look", "arguments": '{"where": "under the stone"}'},
        },
        {"id": "call_2", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
    ],
}
OPENAI_TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
ANTHROPIC_TOOLS: Any = [{"name": "look", "input_schema": {"type": "object"}}]


def ask_openai(upstream: FakeUpstream) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=upstream.url, api_key="k", max_retries=0)


def ask_anthropic(upstream: FakeUpstream) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=upstream.anthropic_url, api_key="k", max_retries=0)


async def test_openais_client_gets_its_answer(upstream: FakeUpstream) -> None:
    async with ask_openai(upstream) as client:
        answer = await client.chat.completions.create(model="m", messages=HELLO)
    assert answer.choices[0].message.content == "I have read 1 messages."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert len(upstream.requests) == 1


async def test_openais_blocking_client_does_too(upstream: FakeUpstream) -> None:
    def talk() -> tuple[str | None, str]:
        with openai.OpenAI(base_url=upstream.url, api_key="k", max_retries=0) as client:
            whole = client.chat.completions.create(model="m", messages=HELLO)
            stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
            pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
            return whole.choices[0].message.content, "".join(pieces)

    whole, streamed = await asyncio.to_thread(talk)
    assert whole == streamed == "I have read 1 messages."


async def test_openais_client_reads_the_stream_and_its_usage(upstream: FakeUpstream) -> None:
    async with (
        ask_openai(upstream) as client,
        client.chat.completions.stream(
            model="m", messages=HELLO, stream_options={"include_usage": True}
        ) as stream,
    ):
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "I have read 1 messages."
    assert final.usage is not None
    assert final.usage.prompt_tokens > 0


async def test_openais_client_gets_tool_calls(upstream: FakeUpstream) -> None:
    upstream.says(CALLS)
    async with ask_openai(upstream) as client:
        whole = await client.chat.completions.create(model="m", messages=HELLO, tools=OPENAI_TOOLS)
        async with client.chat.completions.stream(
            model="m", messages=HELLO, tools=OPENAI_TOOLS
        ) as stream:
            streamed = await stream.get_final_completion()
    for choice in (whole.choices[0], streamed.choices[0]):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls is not None
        made: Any = choice.message.tool_calls
        assert [(call.id, call.function.name) for call in made] == [
            ("call_1", "look"),
            ("call_2", "wait"),
        ]
        assert json.loads(made[0].function.arguments) == {"where": "under the stone"}


async def test_anthropics_client_gets_its_answer(upstream: FakeUpstream) -> None:
    async with ask_anthropic(upstream) as client:
        answer = await client.messages.create(
            model="m", max_tokens=50, system="Be kind.", messages=HELLO
        )
        models = [model.id async for model in client.models.list()]
    assert [block.text for block in answer.content if block.type == "text"] == [
        "I have read 1 messages."
    ]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert models == ["fake"]


async def test_anthropics_blocking_client_does_too(upstream: FakeUpstream) -> None:
    def talk() -> str:
        with (
            anthropic.Anthropic(base_url=upstream.anthropic_url, api_key="k") as client,
            client.messages.stream(model="m", max_tokens=50, messages=HELLO) as stream,
        ):
            return "".join(stream.text_stream)

    assert await asyncio.to_thread(talk) == "I have read 1 messages."


async def test_anthropics_client_reads_the_stream_and_tool_calls(upstream: FakeUpstream) -> None:
    upstream.says({**CALLS, "content": "Let me look."})
    async with ask_anthropic(upstream) as client:
        whole = await client.messages.create(
            model="m", max_tokens=50, messages=HELLO, tools=ANTHROPIC_TOOLS
        )
        async with client.messages.stream(
            model="m", max_tokens=50, messages=HELLO, tools=ANTHROPIC_TOOLS
        ) as stream:
            pieces = [piece async for piece in stream.text_stream]
            final = await stream.get_final_message()
    assert "".join(pieces) == "Let me look."
    assert len(pieces) > 1
    for message in (whole, final):
        assert message.stop_reason == "tool_use"
        used = [block for block in message.content if block.type == "tool_use"]
        assert [(block.id, block.name, block.input) for block in used] == [
            ("call_1", "look", {"where": "under the stone"}),
            ("call_2", "wait", {}),
        ]
    assert final.usage.output_tokens == whole.usage.output_tokens


async def test_both_clients_know_their_own_errors(upstream: FakeUpstream) -> None:
    upstream.says(refusal(429, "rate_limit_error", "slow down", retry_after="7"))
    async with ask_openai(upstream) as one, ask_anthropic(upstream) as other:
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            await one.chat.completions.create(model="m", messages=HELLO)
        assert caught.value.response.headers["retry-after"] == "7"
        with pytest.raises(anthropic.RateLimitError, match="slow down"):
            await other.messages.create(model="m", max_tokens=5, messages=HELLO)
        upstream.says(refusal(500, "api_error", "oh no"))
        with pytest.raises(openai.InternalServerError):
            await one.chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(anthropic.InternalServerError):
            await other.messages.create(model="m", max_tokens=5, messages=HELLO)


async def test_a_prompt_beyond_the_window_is_refused_as_each_provider_would(
    upstream: FakeUpstream,
) -> None:
    upstream.window_tokens = 20
    long: Any = [{"role": "user", "content": "word " * 40}]
    async with ask_openai(upstream) as one, ask_anthropic(upstream) as other:
        with pytest.raises(openai.BadRequestError) as caught:
            await one.chat.completions.create(model="m", messages=long)
        assert caught.value.code == "context_length_exceeded"
        with pytest.raises(anthropic.BadRequestError, match="tokens > 20 maximum"):
            await other.messages.create(model="m", max_tokens=5, messages=long)
        assert await one.chat.completions.create(model="m", messages=HELLO)
        assert await other.messages.create(model="m", max_tokens=5, messages=HELLO)


async def test_silent_truncation_and_wrong_usage_show_in_the_figures(
    upstream: FakeUpstream,
) -> None:
    upstream.truncates_to_tokens = 20
    long: Any = [{"role": "user", "content": "word " * 40}]
    async with ask_openai(upstream) as one, ask_anthropic(upstream) as other:
        cut = await one.chat.completions.create(model="m", messages=long)
        assert cut.usage is not None
        assert cut.usage.prompt_tokens == 20
        said = await other.messages.create(model="m", max_tokens=5, messages=long)
        assert said.usage.input_tokens == 20
        upstream.wrong_usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        wrong = await one.chat.completions.create(model="m", messages=long)
        assert wrong.usage is not None
        assert wrong.usage.total_tokens == 2
        upstream.sends_usage = False
        assert (await one.chat.completions.create(model="m", messages=HELLO)).usage is None


@pytest.mark.parametrize("trouble", [Trouble.RESET, Trouble.GARBAGE, Trouble.HALF])
async def test_the_clients_stumble_over_each_trouble(
    upstream: FakeUpstream, trouble: Trouble
) -> None:
    upstream.says(trouble)
    async with ask_openai(upstream) as one, ask_anthropic(upstream) as other:
        with pytest.raises((openai.APIError, ValueError)):
            await one.chat.completions.create(model="m", messages=HELLO)
        with pytest.raises((anthropic.APIError, ValueError)):
            await other.messages.create(model="m", max_tokens=5, messages=HELLO)


async def test_a_hanging_upstream_notices_that_its_client_left(upstream: FakeUpstream) -> None:
    upstream.says(Trouble.HANG)
    async with ask_openai(upstream) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model="m", messages=HELLO, timeout=0.2)
    for _ in range(400):
        if upstream.abandoned:
            break
        await asyncio.sleep(0.005)
    assert upstream.abandoned == 1
