"""Another lane for a chat: what each of them has written stays, and only one of them is shown."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from previously import Chat
from previously.errors import BadInput, ModelUnavailable
from previously.model import Message, Prompt, Summary
from previously.testing import ScriptedLlm
from tests.flows import pairs
from tests.flows.conftest import Opener

SMALL = {"visible_floors": 4, "fold_every": 2, "auto_volume_summary": False}
BUDGET = 9_000


@pytest.fixture(autouse=True)
def two_lanes() -> Generator[None]:
    with pairs.registered():
        yield


async def play(chat: Chat, turns: int, first: int = 0) -> list[Message]:
    said: list[Message] = []
    for n in range(first, first + turns):
        said.append(await chat.append("user", f"Question {n}: where is key {n}?"))
        said.append(await chat.append("assistant", f"Answer {n}: under stone {n}."))
    return said


async def notes(chat: Chat, lane: str) -> list[Summary]:
    return [s async for s in chat.summaries() if s.lane == lane and s.valid]


async def missing(chat: Chat, prompt: Prompt) -> list[str]:
    """Messages that the prompt neither shows nor names as left out."""
    service = chat._service
    return [
        p.message.body
        async for p in service.places(chat._ref, prompt)
        if p.how == "dropped" and p.reason == "unknown"
    ]


def covers(prompt: Prompt) -> list[int]:
    return [i.id for b in prompt.trace.blocks if b.place == "cover" for i in b.sources]


@pytest.mark.proves("I1")
async def test_a_lane_that_has_written_nothing_yet_shows_everything_as_it_was_said(
    open_memory: Opener,
):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        said = await play(chat, 80)
        await chat.settle()
        assert covers(await chat.prompt(BUDGET))
        await chat.recalculating(on=True)  # nothing is written meanwhile
        await chat.switch("pairs")
        prompt = await chat.prompt(BUDGET)
        assert [m["content"] for m in prompt.messages] == [m.body for m in said]
        assert covers(prompt) == []
        assert await missing(chat, prompt) == []


async def test_after_a_switch_only_the_new_lane_is_shown(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 20)
        await chat.settle()
        await chat.prompt(BUDGET)
        await chat.switch("pairs")
        await chat.settle()
        prompt = await chat.prompt(BUDGET)
        assert set(covers(prompt)) <= {s.id for s in await notes(chat, "pairs")}
        assert len(covers(prompt)) == 9
        assert await missing(chat, prompt) == []


async def test_switching_back_finds_the_old_summaries_and_pays_for_nothing(open_memory: Opener):
    llm = ScriptedLlm()
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 20)
        await chat.settle()
        before, told = await notes(chat, "volumes"), await chat.prompt(BUDGET)
        await chat.switch("pairs")
        await chat.settle()
        asked = len(llm.asks)
        await chat.switch("volumes")
        await chat.settle()
        assert len(llm.asks) == asked
        assert await notes(chat, "volumes") == before
        assert (await chat.prompt(BUDGET)).messages == told.messages
        assert await notes(chat, "pairs")


@pytest.mark.proves("I4")
async def test_what_changed_meanwhile_is_written_anew_and_nothing_else(open_memory: Opener):
    llm = ScriptedLlm()
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("a")
        said = await play(chat, 20)
        await chat.settle()
        before = await notes(chat, "volumes")
        await chat.switch("pairs")
        await chat.settle()
        await chat.edit(said[5], "Answer 2: in the well.")
        await chat.settle()
        gone = {s.id for s in before} - {s.id for s in await notes(chat, "volumes")}
        assert gone == {s.id for s in before if said[5].id in s.covers}
        asked = len(llm.asks)
        await chat.switch("volumes")
        await chat.settle()
        assert len(llm.asks) == asked + 1
        shown = json.dumps((await chat.prompt(BUDGET)).messages)
        assert "in the well" in shown
        assert "under stone 2." not in shown


async def test_a_wish_is_for_the_lane_it_was_made_in(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 12)
        await chat.settle()
        before = await notes(chat, "volumes")
        await chat.recalculating(on=True)
        await chat.rebuild()
        await chat.switch("pairs")
        await chat.recalculating(on=False)
        assert (await chat.settle()).done
        assert await notes(chat, "volumes") == before
        await chat.switch("volumes")
        assert (await chat.settle()).done
        after = await notes(chat, "volumes")
        assert len(after) == len(before)
        assert {s.id for s in after}.isdisjoint({s.id for s in before})


async def test_a_task_that_was_called_off_stays_so_through_a_switch_and_back(open_memory: Opener):
    llm = ScriptedLlm(lambda _: ModelUnavailable("503"))
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 3)
        settled = await chat.settle()
        assert [a.lane for a in settled.waiting] == ["volumes"]
        (task,) = await chat.tasks()
        await chat.cancel(task.id)
        await chat.switch("pairs")
        assert (await chat.settle()).waiting == ()
        asked = len(llm.asks)
        await chat.switch("volumes")
        await chat.settle()
        assert len(llm.asks) == asked


async def test_the_preset_it_has_already_changes_nothing(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 20)
        await chat.settle()
        told = await chat.prompt(BUDGET)
        state = await chat._service.store.work_state(chat._ref)
        await chat.switch("volumes")
        assert await chat._service.store.work_state(chat._ref) == state
        assert (await chat.prompt(BUDGET)).trace.fold == told.trace.fold


async def test_an_unknown_preset_is_refused(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("a")
        with pytest.raises(BadInput, match="unknown preset 'nine'; there are: volumes, pairs"):
            await chat.switch("nine")
        assert (await chat._service.find_chat("a")).lane == "volumes"


async def test_a_branch_has_the_summaries_of_every_lane(open_memory: Opener):
    llm = ScriptedLlm()
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("a")
        await play(chat, 12)
        await chat.settle()
        await chat.switch("pairs")
        await chat.settle()
        asked = len(llm.asks)
        branch = await chat.branch("b")
        for lane in ("pairs", "volumes"):
            await branch.switch(lane)
            await branch.settle()
            theirs = [s.text for s in await notes(chat, lane)]
            assert [s.text for s in await notes(branch, lane)] == theirs
        assert len(llm.asks) == asked
        assert (await chat._service.find_chat("a")).lane == "pairs"
