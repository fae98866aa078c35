"""A text that is larger than a real model's window, summarised through its real refusals.

The model is too small to write a good summary, so any words of it are taken; what is tested is
everything around it: refusals read right, parts that fit, notes made one, figures that add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from previously.engine import Engine, Limits
from previously.engine.request import text_request
from previously.llm.openai import OpenAiLlm
from previously.llm.profile import Profile
from previously.measure import count_tokens, cut_to_tokens
from previously.model import Accepted, Ask, Line, Part, Reply
from tests.llm.llama import LlamaServer

TARGET_TOKENS = 64
PARAGRAPH = (
    "On day {n} the keeper of lamp {n} rowed to the harbour and traded {n} candles for rope. "
    "Mara wrote down that the heron had not been seen since the storm, and that she owed the "
    "ferryman {n} silver for the crossing. In the evening they mended the net by the window and "
    "spoke about the letter that had come from the mainland, which nobody had dared to open."
)


@dataclass(frozen=True)
class AnyWords:
    """A request that takes whatever the model says, cut to size."""

    lines: tuple[Line, ...]
    tokens_max: int = TARGET_TOKENS
    language: str = "en"
    chat: None = None

    def ask(self, part: Part, fence: str) -> Ask:
        made = text_request(self.lines, preset="recap", tokens_max=self.tokens_max)
        return made.ask(part, fence)

    def accept(self, part: Part, reply: Reply, *, last: bool) -> Accepted:
        text = cut_to_tokens(reply.text.strip() or "nothing", part.tokens_max)
        return Accepted(text, count_tokens(text))


def story(chars: int) -> str:
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < chars:
        paragraphs.append(PARAGRAPH.format(n=len(paragraphs) + 1))
    return "\n\n".join(paragraphs)[:chars]


async def summarised(
    server: LlamaServer, session: aiohttp.ClientSession, chars: int
) -> dict[str, Any]:
    """The figures of a run whose window nobody stated: the server's refusals teach it."""
    text = story(chars)
    profile = Profile(
        "local",
        base_url=server.url,
        model=server.model,
        output_tokens=TARGET_TOKENS,
        timeout_s=600,
    )
    lines = text_request(text, preset="recap", tokens_max=TARGET_TOKENS).lines
    limits = Limits(note_tokens_max=TARGET_TOKENS, at_once=1)
    engine = Engine(OpenAiLlm(profile, session), None, b"secret", limits=limits)
    result = await engine.summarise(AnyWords(lines))
    assert 0 < result.tokens <= TARGET_TOKENS
    assert result.stats["too_long"] >= 1, "the real server has refused what was too long"
    assert result.stats["truncated"] is False
    chunks, merges = result.stats["chunk_count"], result.stats["merges"]
    answered = chunks + merges
    assert result.stats["answers"] == answered
    assert chunks * server.window_tokens > count_tokens(text), "no chunk exceeds the window"
    assert merges >= 1
    # What the server says it read is the whole text and our words around each part of it.
    assert result.usage.input_tokens > count_tokens(text)
    assert 0 < result.usage.output_tokens <= answered * TARGET_TOKENS
    return result.stats


@pytest.mark.proves("E-18", "E-19")
@pytest.mark.llm
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_twelve_thousand_characters(
    llama_server: LlamaServer, session: aiohttp.ClientSession
):
    stats = await summarised(llama_server, session, 12_000)
    assert stats["calls"] <= 12


@pytest.mark.llm
@pytest.mark.long
@pytest.mark.timeout(900)
async def test_sixty_thousand_characters(llama_server: LlamaServer, session: aiohttp.ClientSession):
    stats = await summarised(llama_server, session, 60_000)
    assert stats["calls"] <= 40
