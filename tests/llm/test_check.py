from __future__ import annotations

import aiohttp
import pytest

from previously.llm.check import check
from previously.llm.openai import OpenAiLlm
from previously.llm.profile import Profile
from previously.llm.secrets import Secret
from previously.testing import Answer, Failure, FakeUpstream, Trouble, refusal
from tests.llm.makers import KEY, profile_of


async def test_a_profile_that_works_is_said_to(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says("I am\nready.")
    profile = profile_of(OpenAiLlm, upstream.url, secret="env:K", window_tokens=8_000)
    found = await check(profile, session, Secret(KEY))
    assert found.ok
    assert found.answer == "I am ready."
    assert found.usage is not None
    reached, says, usage = found.lines
    assert reached.startswith("m answers after ")
    assert reached.endswith("and the key is accepted.")
    assert says == "It says: I am ready."
    assert usage == (
        f"It reports {found.usage.input_tokens} tokens read and "
        f"{found.usage.output_tokens} written."
    )


async def test_what_is_not_known_is_said_too(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.sends_usage = False
    found = await check(profile_of(OpenAiLlm, upstream.url), session)
    assert found.ok
    assert found.usage is None
    text = " ".join(found.lines)
    assert "does not say how many tokens" in text
    assert "Set window_tokens" in text
    assert "key" not in text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(401, "invalid_api_key", "bad"), "check env:K"),
        (refusal(404, "model_not_found", "no m"), "check the model's name"),
        (refusal(402, "insufficient_quota", "pay"), "top it up"),
        (refusal(400, "x", "Unknown parameter: 'foo'"), "Check params"),
        (refusal(429, "rate_limit_error", "slow", retry_after="40"), "try again in 40 s"),
        (refusal(500, "api_error", "oh"), "try again."),
        (refusal(400, "content_filter", "no"), "knows the key and the model"),
        (Trouble.GARBAGE, "is no JSON"),
        (
            Failure(200, b'{"choices": [{"message": {}, "finish_reason": "length"}]}'),
            "output_tokens",
        ),
    ],
)
async def test_a_profile_that_does_not_is_explained(
    upstream: FakeUpstream, session: aiohttp.ClientSession, answer: Answer, words: str
) -> None:
    upstream.says(answer)
    found = await check(profile_of(OpenAiLlm, upstream.url, secret="env:K"), session, Secret(KEY))
    assert not found.ok
    assert words in " ".join(found.lines)


async def test_a_server_that_is_not_there_is_named(session: aiohttp.ClientSession) -> None:
    async with FakeUpstream() as gone:
        url = gone.url
    found = await check(profile_of(OpenAiLlm, url), session)
    assert not found.ok
    assert "is the server running?" in found.lines[0]


async def test_what_is_built_in_always_works(session: aiohttp.ClientSession) -> None:
    found = await check(Profile("quotes", "extractive"), session)
    assert found.ok
    assert "no key" in found.lines[0]
