"""What a prompt was made of changes before its fold is written; and a tail too long to load."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from previously import Chat, Memory
from previously.model import Message, NewMessage, Prompt
from previously.settings import TAIL_LOADED_MAX
from previously.testing import ScriptedLlm
from tests.flows import pairs
from tests.flows.conftest import Opener

SMALL = {"visible_floors": 4, "fold_every": 2}
BUDGET = 9_000


async def play(chat: Chat, turns: int) -> tuple[Message, ...]:
    said = [
        NewMessage(role, text)
        for n in range(turns)
        for role, text in (
            ("user", f"Question {n}: where is key {n}?"),
            ("assistant", f"Answer {n}: under stone {n}."),
        )
    ]
    return await chat._service.append(chat._ref, said)


async def interrupted(memory: Memory, chat: Chat, work: Callable[[], Awaitable[Any]]) -> Prompt:
    """A prompt; just before its fold is written, something else happens."""
    store = memory._house.store
    save_fold = store.save_fold

    async def late(*args: Any) -> bool:
        store.save_fold = save_fold
        await work()
        return await save_fold(*args)

    store.save_fold = late  # pyright: ignore[reportAttributeAccessIssue]
    prompt = await chat.prompt(BUDGET)
    assert store.save_fold == save_fold  # it did happen
    return prompt


async def places(chat: Chat, prompt: Prompt) -> Counter[tuple[str, str]]:
    found = chat._service.places(chat._ref, prompt)
    return Counter([(p.how, p.reason) async for p in found])


async def test_a_summary_that_comes_while_a_fold_is_made_does_not_cost_the_fold(
    open_memory: Opener,
):
    settings = {**SMALL, "related": False}
    async with open_memory(llm=ScriptedLlm(), settings=settings) as memory:
        chat = await memory.chat("a")
        await play(chat, 6)

        async def commit() -> None:
            await chat.run()
            await chat.settle()

        first = await interrupted(memory, chat, commit)
        again = await chat.prompt(BUDGET)
        assert again.messages == first.messages, "what is not saved moves with every turn"


@pytest.mark.proves("I1", "I10")
@pytest.mark.parametrize("known", [False, True])
async def test_a_change_before_the_fold_is_written_is_seen_by_the_next_prompt(
    open_memory: Opener, known: bool
):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        said = await play(chat, 12)
        await chat.settle()
        if known:  # it is not the first fold that is late
            await chat.prompt(BUDGET)
            await chat.edit(said[9], "Answer 4: nobody knows.")
            await chat.settle()
        await interrupted(memory, chat, lambda: chat.edit(said[1], "Answer 0: in the well."))
        prompt = await chat.prompt(BUDGET)
        shown = json.dumps(prompt.messages)
        assert "in the well" in shown
        assert "Question 0" in shown
        assert set(await places(chat, prompt)) == {("verbatim", ""), ("summary", "")}


async def test_a_switch_before_the_fold_is_written_is_seen_by_the_next_prompt(open_memory: Opener):
    with pairs.registered():
        async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
            chat = await memory.chat("a")
            said = await play(chat, 50)
            await chat.settle()
            await chat.prompt(BUDGET)
            await chat.edit(said[9], "Answer 4: nobody knows.")
            await chat.settle()
            await chat.recalculating(on=True)
            await interrupted(memory, chat, lambda: chat.switch("pairs"))
            assert set(await places(chat, await chat.prompt(BUDGET))) == {("verbatim", "")}


async def test_a_fold_that_nothing_disturbed_is_kept(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 12)
        await chat.settle()
        first = await chat.prompt(BUDGET)
        assert (await chat.prompt(BUDGET)).trace.fold == first.trace.fold
        assert not first.trace.fold.stale


@pytest.mark.proves("I1")
@pytest.mark.parametrize("budget", [3_000, 100_000])
async def test_of_a_tail_too_long_to_load_everything_is_shown_or_named(
    open_memory: Opener, budget: int
):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL, worker=False) as memory:
        chat = await memory.chat("a")
        said = await play(chat, TAIL_LOADED_MAX // 2 + 100)
        for _ in range(2):  # the fold's first prompt, and one that finds it
            prompt = await chat.prompt(budget)
            found = await places(chat, prompt)
            assert set(found) == {
                ("verbatim", ""),
                ("dropped", "over budget, and no summary stands for it yet"),
            }
            assert prompt.messages[-1]["content"] == said[-1].body


async def test_summaries_of_what_could_not_be_loaded_are_shown_when_they_come(open_memory: Opener):
    async with open_memory(settings=SMALL) as memory:
        chat = await memory.chat("a")
        await chat.recalculating(on=True)
        said = await play(chat, TAIL_LOADED_MAX // 2 + 100)
        assert await places(chat, await chat.prompt(100_000)) == {
            ("verbatim", ""): TAIL_LOADED_MAX,
            ("dropped", "over budget, and no summary stands for it yet"): 200,
        }
        await chat.recalculating(on=False)
        assert (await chat.settle()).done
        found = await places(chat, await chat.prompt(100_000))
        assert found == {("verbatim", ""): 4, ("summary", ""): len(said) - 4}


@pytest.mark.proves("I1")
async def test_after_a_rollback_the_newest_messages_are_shown_as_they_were_said(
    open_memory: Opener,
):
    """They had left the tail: a fold that moves may have to move back."""
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        said = await play(chat, 20)
        await chat.settle()
        await chat.prompt(BUDGET)
        await chat.rollback(to=said[15])
        prompt = await chat.prompt(BUDGET)
        assert [m["content"] for m in prompt.messages][-4:] == [m.body for m in said[12:16]]
        assert set(await places(chat, prompt)) == {("verbatim", ""), ("summary", "")}


@pytest.mark.proves("I1")
async def test_a_volume_over_what_the_tail_should_hold_is_opened(open_memory: Opener):
    """More floors are to be seen than were when the volume was written."""
    few = {"visible_floors": 2, "fold_every": 2, "max_unarchived_minis": 4}
    async with open_memory(llm=ScriptedLlm(), settings=few) as memory:
        chat = await memory.chat("a")
        said = await play(chat, 24)
        await chat.settle()
        volumes = [s async for s in chat.summaries() if s.level and s.valid]
        assert volumes
        await chat.prompt(BUDGET)
        reach = next(i for i, m in enumerate(said) if m.pos == volumes[-1].first_pos) + 3
        many = await memory.chat("a", settings={"visible_floors": len(said) - reach})
        await chat.edit(said[0], "Question 0: never mind.")
        prompt = await many.prompt(BUDGET)
        shown = [m["content"] for m in prompt.messages if m["role"] != "system"]
        assert shown[-(len(said) - reach) :] == [m.body for m in said[reach:]]
        assert set(await places(chat, prompt)) == {("verbatim", ""), ("summary", "")}
