"""What the tests of the adapters are made of."""

from __future__ import annotations

from typing import Any

import aiohttp

from previously.llm.anthropic import AnthropicLlm
from previously.llm.openai import OpenAiLlm
from previously.llm.profile import Profile
from previously.llm.remote import Remote
from previously.llm.secrets import Secret
from previously.model import Ask
from previously.testing import FakeUpstream

KEY = "sk-test-4f9b2c7d8e1a"
REMOTES: tuple[type[Remote], ...] = (OpenAiLlm, AnthropicLlm)


def asked(text: str = "The key lies under the stone.", tokens_max: int = 60) -> Ask:
    return Ask(
        messages=(
            {"role": "system", "content": "Sum up."},
            {"role": "user", "content": text},
        ),
        material=(("Ada", text),),
        tokens_max=tokens_max,
        language="en",
    )


def base_url(kind: type[Remote], upstream: FakeUpstream) -> str:
    return upstream.url if kind is OpenAiLlm else upstream.anthropic_url


def profile_of(kind: type[Remote], url: str, **more: Any) -> Profile:
    source = "openai" if kind is OpenAiLlm else "anthropic"
    given: dict[str, Any] = {
        "name": "cheap",
        "source": source,
        "base_url": url,
        "model": "m",
        **more,
    }
    return Profile(**given)


class Sleeper:
    """Does not sleep; remembers how long it should have."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def made(
    kind: type[Remote],
    upstream: FakeUpstream,
    session: aiohttp.ClientSession,
    sleep: Sleeper | None = None,
    **more: Any,
) -> Remote:
    """An adapter that never waits, with a key."""
    return kind(
        profile_of(kind, base_url(kind, upstream), **more),
        session,
        Secret(KEY),
        jitter=lambda: 0.5,
        sleep=sleep or Sleeper(),
    )
