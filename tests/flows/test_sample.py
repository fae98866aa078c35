"""The stories that come with the program, told floor by floor at the default settings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from previously import Memory, Prompt
from previously.memory import Chat

SETTLE_EVERY = 20
PROMISE = 12
ASKED = {  # floors on which the player asks about something, and the floor that it was said on
    "en": {125: 68, 223: 60, 341: 24, 395: 284, 397: 8, 409: 64, 413: 6, 415: PROMISE},
    "zh": {97: 24, 321: 34, 399: 76, 415: PROMISE},
}
ANSWERED_MIN = {"en": 3, "zh": 1}  # of these, without being asked for
SOUGHT = {  # secrets and corrections, as somebody would look for them
    "en": {52: "going blind", 350: "I'm blind", 98: "forge step", 104: "not forty days"},
    "zh": {48: "一天都没瞎过", 50: "左手 割缆", 98: "初九", 350: "他从来没瞎过"},
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def sample(name: str) -> str:
    return (files("previously") / "samples" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Told:
    """A story that was told to its end, and the prompts that were built on the way."""

    language: str
    chat: Chat
    facts: list[dict[str, Any]]
    prompts: dict[int, Prompt]  # by the floor that they answer

    def needle(self, floor: int) -> str:
        return next(f["needle"] for f in self.facts if f["floor"] == floor)


async def index(memory: Memory) -> None:
    """What hours of a conversation would have done: the index knows all that was said so far."""
    while await memory._house.store.index_some(256, ripe=False):
        pass


def words(prompt: Prompt) -> str:
    return "\n".join(str(m.get("content")) for m in prompt.messages)


@pytest.fixture(params=["en", "zh"])
async def told(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Told]:
    language = request.param
    story = [json.loads(line) for line in sample(f"{language}.jsonl").splitlines()]
    prompts: dict[int, Prompt] = {}
    async with Memory.open(tmp_path / "story.db") as memory:
        chat = await memory.chat("story")
        for floor, said in enumerate(story):
            await chat.append(said["role"], said["content"], name=said["name"])
            if floor % SETTLE_EVERY == 0:
                await chat.settle()
                await index(memory)
            if said["role"] == "user":
                prompts[floor] = await chat.prompt()
        await chat.settle()
        await index(memory)
        facts = json.loads(sample(f"{language}.facts.json"))["facts"]
        yield Told(language, chat, facts, prompts)


async def test_a_whole_story_is_remembered(told: Told):
    assert len(told.prompts) == 208
    assert [f for f, p in told.prompts.items() if p.tokens > p.trace.budget_tokens] == []
    assert [f for f, p in told.prompts.items() if p.trace.dropped] == []
    assert told.needle(PROMISE) in words(told.prompts[415])
    asked = ASKED[told.language].items()
    called_up = [a for a, said in asked if told.needle(said) in words(told.prompts[a])]
    print(f"{told.language}: of {len(asked)} floors that ask, answered: {called_up}")
    assert len(called_up) >= ANSWERED_MIN[told.language]

    lost: list[int] = []
    for fact in told.facts:
        prompt = await told.chat.prompt(query=fact["gist"])
        assert prompt.tokens <= prompt.trace.budget_tokens
        if fact["needle"] not in words(prompt):
            lost.append(fact["floor"])
    share = 1 - len(lost) / len(told.facts)
    print(f"{told.language}: {share:.3f} of {len(told.facts)} facts recalled; not: {lost}")
    assert share >= 0.9, lost

    for floor, query in SOUGHT[told.language].items():
        hits = await told.chat.search(query)
        assert floor in [hit.floor for hit in hits[:3]], query
