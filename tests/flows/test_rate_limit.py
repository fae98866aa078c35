"""A rate limit in one half of a tree, through a real adapter, the runner and the store."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from previously.llm.openai import OpenAiLlm
from previously.llm.remote import new_session
from previously.testing import Failure as Refusal
from previously.testing import FakeUpstream
from tests.flows.conftest import Opener
from tests.llm.makers import Sleeper, profile_of

LIMITED = {
    "error": {
        "message": "Rate limit reached for m on tokens per minute (TPM): Limit 30000, Used 29500, "
        "Requested 2100. Please try again in 3.2s.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    }
}
WINDOW_TOKENS = 2_000


def paragraph(n: int) -> str:
    return " ".join(f"w{n}x{k}" for k in range(70)) + "."


@pytest.mark.slow
@pytest.mark.proves("S-14", "E-18", "G-64")
async def test_a_rate_limit_in_the_right_half_costs_the_left_half_nothing(open_memory: Opener):
    limited = {"yes"}
    answered: Counter[str] = Counter()

    def answer(body: dict[str, Any]) -> str | Refusal:
        asked = body["messages"][-1]["content"]
        if limited and any(f"w{n}x" in asked for n in range(16, 32)):
            return Refusal(429, json.dumps(LIMITED).encode())
        answered[asked] += 1
        return f"Note {len(answered)} on this part."

    async with FakeUpstream(answer) as upstream, new_session() as session:
        profile = profile_of(
            OpenAiLlm, upstream.url, window_tokens=WINDOW_TOKENS, output_tokens=300
        )
        llm = OpenAiLlm(profile, session, jitter=lambda: 0.5, sleep=Sleeper())
        async with open_memory(llm=llm) as memory:
            chat = await memory.chat("giant", settings={"visible_floors": 1})
            await chat.append("user", "\n\n".join(paragraph(n) for n in range(32)))
            for words in ("I see.", "And now?", "Now we go on."):
                await chat.append("assistant" if words[-1] == "." else "user", words)
            await chat.settle()
            waiting = [t for t in await chat.tasks() if t.attempt is not None]
            assert [t.attempt.error_class for t in waiting if t.attempt] == ["ModelUnavailable"]
            texts = [s.text async for s in chat.summaries()]
            assert len(texts) == 1  # of "I see."; nothing of the giant
            had = set(answered)
            assert len(had) >= 2  # of the left half, and "I see."
            limited.clear()
            await chat.retry(waiting[0].id)
            await chat.settle()
            assert await chat.tasks() == []
            assert len([s async for s in chat.summaries()]) == 2
    assert max(answered.values()) == 1  # also what had arrived before the failure
    assert had < set(answered)
