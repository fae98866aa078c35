"""The plain `openai` client, a real model behind the proxy, and a window that is soon too small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from previously import app
from previously.web.serve import create_app
from tests.llm.llama import LlamaServer
from tests.web.rig import running

pytestmark = pytest.mark.llm

FACT = "The tide-watch of Dorcas Vane hangs on nail 47 at Kettle Light."


def words(turn: int) -> str:
    if turn == 2:
        return f"Remember this for later. {FACT}"
    return f"Day {turn}. {turn * 7} gulls came, the Heron passed, and I promised candles. " * 5


@asynccontextmanager
async def served(folder: Path, llama: LlamaServer) -> AsyncGenerator[tuple[int, app.House]]:
    house = await app.build(folder / "previously.db")
    try:
        async with running(create_app(house.service, llama.url)) as port:
            yield port, house
    finally:
        await house.close()


async def converse(folder: Path, llama: LlamaServer, turns: int) -> list[dict[str, Any]]:
    """Every turn is answered; what was sent last, as it is told."""
    async with served(folder, llama) as (port, house):
        client = AsyncOpenAI(
            base_url=f"http://127.0.0.1:{port}/c/demo/v1", api_key="x", max_retries=0, timeout=300
        )
        talk: list[Any] = [{"role": "system", "content": "Answer in a few words."}]
        async with client:
            for turn in range(turns):
                talk.append({"role": "user", "content": words(turn)})
                answer = await client.chat.completions.with_raw_response.create(
                    model=llama.model, messages=talk, max_tokens=12, temperature=0
                )
                # A model of this size may say nothing at all; a client keeps something.
                said = answer.parse().choices[0].message.content or "…"
                talk.append({"role": "assistant", "content": said})
                if said == "…":
                    continue
                assert int(answer.headers["x-previously-prompt-tokens"]) <= llama.window_tokens
        ref = (await house.service.find_chat("demo")).ref
        assert len([m async for m in house.service.messages(ref)]) >= turns * 2 - 2
        asked = "Where does the tide-watch of Dorcas Vane hang?"
        prompt = await house.service.prompt(ref, 1_500, query=asked, preview=True)
        return prompt.messages


@pytest.mark.proves("E-08")
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_twenty_turns_outgrow_a_real_window_and_none_fails(
    tmp_path: Path, llama_server: LlamaServer
) -> None:
    messages = await converse(tmp_path, llama_server, 20)
    assert "nail 47" in json.dumps(messages)


@pytest.mark.long
@pytest.mark.timeout(3_600)
async def test_after_three_hundred_turns_a_fact_of_the_second_is_still_there(
    tmp_path: Path, llama_server: LlamaServer
) -> None:
    messages = await converse(tmp_path, llama_server, 300)
    assert "nail 47" in json.dumps(messages)


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "When the tide is high.",
        "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
    },
}
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "count",
        "schema": {
            "type": "object",
            "properties": {"gulls": {"type": "integer"}},
            "required": ["gulls"],
            "additionalProperties": False,
        },
    },
}


async def test_streams_tools_and_schemas_reach_a_real_model(
    tmp_path: Path, llama_server: LlamaServer
) -> None:
    async with served(tmp_path, llama_server) as (port, _):

        def plainly() -> str:
            base = f"http://127.0.0.1:{port}/c/sync/v1"
            with OpenAI(base_url=base, api_key="x", max_retries=0, timeout=300) as client:
                messages: Any = [{"role": "user", "content": "How many gulls are seven?"}]
                answer = client.chat.completions.create(
                    model="smollm2", messages=messages, max_tokens=24, response_format=SCHEMA
                )
                return answer.choices[0].message.content or ""

        assert isinstance(json.loads(await asyncio.to_thread(plainly))["gulls"], int)
        base = f"http://127.0.0.1:{port}/c/async/v1"
        async with AsyncOpenAI(base_url=base, api_key="x", max_retries=0, timeout=300) as client:
            said: Any = [{"role": "user", "content": "Say hello."}]
            stream = await client.chat.completions.create(
                model="smollm2",
                messages=said,
                max_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.completion_tokens > 0
            told = [c.choices[0].delta.content or "" for c in chunks if c.choices]
            said += [{"role": "assistant", "content": "".join(told)}]
            said += [{"role": "user", "content": "When is high tide on Monday?"}]
            answer = await client.chat.completions.create(
                model="smollm2", messages=said, max_tokens=48, tools=[TOOL], tool_choice="auto"
            )
            assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
