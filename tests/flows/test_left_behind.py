"""A branch and its source: whatever happens in one, the other stays what it was, row for row."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from previously import Chat, Memory
from previously.model import Message
from previously.testing import ScriptedLlm
from tests.flows import pairs
from tests.flows.conftest import Opener
from tests.flows.image import Image, image

SMALL = {"visible_floors": 4, "fold_every": 2}
LANES = ("volumes", pairs.NAME)


@pytest.fixture(autouse=True)
def two_lanes() -> Generator[None]:
    with pairs.registered():
        yield


async def rows(memory: Memory, chat: Chat) -> Image:
    return await memory._house.store._db.read(image, chat._ref)


async def lived_in(memory: Memory) -> tuple[Chat, list[Message]]:
    """A chat with notes of two lanes, holes in both, a fold and a step to take back."""
    chat = await memory.chat("source", settings=SMALL)
    for n in range(16):
        await chat.append("user", f"Question {n}: where is key {n}?")
        await chat.append("assistant", f"Answer {n}: under stone {n}.")
    said = [m async for m in chat.messages()]
    for lane in LANES:
        await chat.switch(lane)
        await chat.settle()
        await chat.prompt(9_000)
    await chat.recalculating(on=True)
    await chat.edit(said[3], "Answer 1: nobody knows.")
    return chat, said


async def live_on(chat: Chat) -> None:
    said = [m async for m in chat.messages()]
    await chat.recalculating(on=False)
    await chat.edit(said[1], "Answer 0: in the well.")
    await chat.swipe(said[5], "Answer 2: in the attic.")
    await chat.move(said[6], before=said[0])
    await chat.delete(said[2], said[4])
    await chat.undo()
    await chat.append("user", "And now?")
    for lane in LANES:
        await chat.switch(lane)
        await chat.settle()
        await chat.prompt(9_000)


@pytest.mark.proves("G-25", "I7")
@pytest.mark.parametrize("at", [None, 11])
async def test_making_a_branch_changes_nothing_in_its_source(open_memory: Opener, at: int | None):
    async with open_memory(llm=ScriptedLlm()) as memory:
        chat, said = await lived_in(memory)
        before = await rows(memory, chat)
        branch = await chat.branch("branch", at=None if at is None else said[at])
        assert await rows(memory, chat) == before
        for one in (chat, branch):
            for lane in LANES:
                assert await memory._house.store.is_sound(one._ref, lane)


@pytest.mark.proves("G-25")
@pytest.mark.parametrize("stay", [False, True])
async def test_whichever_lives_on_the_other_stays_what_it_was(open_memory: Opener, stay: bool):
    async with open_memory(llm=ScriptedLlm()) as memory:
        chat, said = await lived_in(memory)
        branch = await chat.branch("branch", at=said[20])
        await chat.recalculating(on=False)
        await chat.settle()
        await branch.settle()
        alive, left = (chat, branch) if stay else (branch, chat)
        before = await rows(memory, left)
        await live_on(alive)
        assert await rows(memory, left) == before
        for one in (chat, branch):
            for lane in LANES:
                assert await memory._house.store.is_sound(one._ref, lane)
