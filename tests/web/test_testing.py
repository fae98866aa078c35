from __future__ import annotations

import asyncio
import sys

import pytest
from openai import AsyncOpenAI, RateLimitError

from previously.errors import ModelUnavailable
from previously.measure import count_tokens
from previously.model import Ask, Reply
from previously.testing import Failure, FakeUpstream, ScriptedLlm

ASK = Ask(
    messages=({"role": "user", "content": "Sum up."},),
    material=(("Ada", "The key is under the stone. " * 40),),
    tokens_max=30,
    language="en",
)


async def test_a_script_is_followed_line_by_line() -> None:
    llm = ScriptedLlm(["first", ModelUnavailable("busy"), Reply("third", "other")])
    assert (await llm.complete(ASK)).text == "first"
    with pytest.raises(ModelUnavailable):
        await llm.complete(ASK)
    assert (await llm.complete(ASK)).model == "other"
    assert llm.asks == [ASK] * 3


async def test_without_a_script_the_note_keeps_the_material_it_has_room_for() -> None:
    note = (await ScriptedLlm().complete(ASK)).text
    assert note.startswith("Ada: The key is under the stone.")
    assert count_tokens(note) <= 30


async def test_a_script_may_be_a_function() -> None:
    llm = ScriptedLlm(lambda ask: f"{ask.tokens_max} tokens", delay_s=0.001)
    assert (await llm.complete(ASK)).text == "30 tokens"


async def test_a_hanging_model_answers_when_it_is_released() -> None:
    llm = ScriptedLlm(["late"])
    llm.hang()
    call = asyncio.create_task(llm.complete(ASK))
    await asyncio.sleep(0.01)
    assert (call.done(), llm.waiting) == (False, 1)
    llm.release()
    assert (await call).text == "late"
    assert llm.waiting == 0


async def test_the_fake_upstream_satisfies_the_real_client() -> None:
    async with (
        FakeUpstream() as upstream,
        AsyncOpenAI(base_url=upstream.url, api_key="k", max_retries=0) as client,
    ):
        assert [m.id async for m in client.models.list()] == ["fake"]
        answer = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}]
        )
        assert answer.choices[0].message.content == "I have read 1 messages."
        assert answer.usage is not None
        assert answer.usage.total_tokens > 0
        upstream.says(Failure(429, b'{"error":{"message":"slow down"}}'))
        with pytest.raises(RateLimitError, match="slow down"):
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}]
            )


async def test_the_fake_upstream_runs_from_a_shell() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "previously.testing", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    try:
        async with AsyncOpenAI(base_url=line.split()[-1], api_key="k") as client:
            assert [m.id async for m in client.models.list()] == ["fake"]
    finally:
        process.terminate()
        await process.communicate()
