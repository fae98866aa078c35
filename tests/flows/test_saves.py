"""Saves: whatever happened since, restoring one gives back what was, and nothing of the rest."""

from __future__ import annotations

import asyncio
import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from previously import Chat, Memory, app
from previously.errors import BadInput, MessageNotFound
from previously.model import ChatRef, Message, Prompt
from previously.store import audit
from previously.testing import ScriptedLlm
from tests.flows.conftest import Opener
from tests.flows.test_branch import SMALL, STEPS, Story

WIDE = 100_000


async def turns(chat: Chat, first: int, last: int, word: str = "turn") -> None:
    for n in range(first, last + 1):
        await chat.append("user", f"In {word}-{n}. I gave Mara the key.")
        await chat.append("assistant", f"Mara hides the key of {word}-{n}.")


async def bodies(chat: Chat) -> list[str]:
    return [m.body async for m in chat.messages()]


async def state(chat: Chat) -> list[tuple[object, ...]]:
    return [
        (m.id, m.body, m.hash, m.tokens, m.hidden_by, m.excluded, m.pinned)
        async for m in chat.messages()
    ]


def text(prompt: Prompt) -> str:
    return json.dumps(prompt.messages, ensure_ascii=False)


async def summarise(memory: Memory, chat: Chat) -> None:
    """Write what is due now, and nothing after."""
    await memory.chat(chat.name, settings={"auto_mini_summary": True})
    assert (await chat.settle()).done
    await memory.chat(chat.name, settings={"auto_mini_summary": False})


def unheard(notes: Sequence[str], words: Sequence[str]) -> bool:
    return not any(word in note for note in notes for word in words)


async def valid(chat: Chat) -> list[str]:
    return [s.text async for s in chat.summaries() if s.valid]


OFF = {**SMALL, "auto_mini_summary": False, "budget_tokens": WIDE}


async def wipe_variables(memory: Memory, chat: Chat) -> None:
    """All that a chat has of its own beside messages and summaries."""
    await memory._house.store.change_settings(chat._ref, dict.fromkeys(OFF))


async def ten_new_turns(chat: Chat, gone: Sequence[str]) -> None:
    for n in range(41, 51):
        await turns(chat, n, n, word="now")
        shown = text(await chat.prompt(WIDE))
        assert unheard([shown], gone)
        assert "turn-1." in shown
        assert f"now-{n}." in shown


@pytest.mark.proves("S-18", "G-71", "A-47", "D-01")
async def test_restoring_an_old_save_forgets_the_future_and_a_later_one_brings_it_back(
    open_memory: Opener,
):
    llm = ScriptedLlm(lambda ask: "note: " + " ".join(t for _, t in ask.material))
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("game", settings=OFF)
        await turns(chat, 1, 30)
        await summarise(memory, chat)
        at_30 = await valid(chat)
        assert len(at_30) >= 28
        await turns(chat, 31, 40)
        save_40, state_40 = await chat.save(), await state(chat)
        await turns(chat, 41, 60)
        await summarise(memory, chat)
        await turns(chat, 61, 80)
        save_80, state_80 = await chat.save(), await state(chat)
        summaries_80 = [s async for s in chat.summaries()]
        assert "turn-41." in text(await chat.prompt())

        assert await chat.restore(save_40) == 80
        assert await state(chat) == state_40
        gone = [f"turn-{n}." for n in range(41, 81)]
        assert (await valid(chat))[: len(at_30)] == at_30
        await ten_new_turns(chat, gone)
        await wipe_variables(memory, chat)
        assert (await valid(chat))[: len(at_30)] == at_30
        await chat.settle()
        assert unheard([*await valid(chat), text(await chat.prompt(WIDE))], gone)
        assert any("now-41." in note for note in await valid(chat))

        await memory.chat("game", settings=OFF)
        await chat.restore(save_80)
        assert await state(chat) == state_80
        now = {s.id: s async for s in chat.summaries()}
        assert [now[s.id] for s in summaries_80] == summaries_80
        await summarise(memory, chat)
        shown = text(await chat.prompt())
        assert unheard([*await valid(chat), shown], ["now-"])
        assert all(f"turn-{n}." in shown for n in range(1, 81))


@pytest.mark.proves("A-47")
async def test_taking_and_restoring_a_save_changes_no_summary(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("game")
        await turns(chat, 1, 12)
        await chat.settle()
        before, prompt = [s async for s in chat.summaries()], await chat.prompt()
        save = await chat.save()
        assert await chat.restore(save) == 0
        assert [s async for s in chat.summaries()] == before
        assert (await chat.prompt()).messages == prompt.messages


@pytest.mark.proves("D-01")
async def test_texts_marks_and_order_come_back_as_they_were(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("game")
        await turns(chat, 1, 8)
        said = [m async for m in chat.messages()]
        await chat.hide(said[2])
        await chat.swipe(said[5], "the second reply")
        await chat.settle()
        save = json.loads(json.dumps(await chat.save()))
        before, prompt = await state(chat), await chat.prompt()
        await chat.edit(said[0], "edited once")
        await chat.edit(said[0], "edited twice")
        await chat.edit(said[5], "the second reply, edited")
        await chat.swipe(said[5], "the third reply")
        await chat.swipe(said[7], "another reply")
        await chat.hide(said[2], hidden=False)
        await chat.pin(said[3])
        await chat.exclude(said[4])
        await chat.move(said[9], before=said[1])
        await chat.delete(said[6], said[10])
        await chat.insert("user", "in between", before=said[8])
        await chat.settle()
        changed = await state(chat)
        touched = await chat.restore(save)
        assert await state(chat) == before
        await chat.settle()
        assert (await chat.prompt()).messages == prompt.messages
        assert await chat.undo() == touched
        assert await state(chat) == changed
        assert (await chat.swipe(said[5], 1)).body == "the second reply, edited"


@pytest.mark.proves("D-01")
async def test_a_save_outlives_the_process(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("game")
        await turns(chat, 1, 3)
        kept, before = json.dumps(await chat.save()), await bodies(chat)
        await turns(chat, 4, 6)
    async with open_memory() as memory:
        chat = await memory.chat("game")
        await chat.restore(json.loads(kept))
        assert await bodies(chat) == before


async def test_a_save_that_does_not_fit_changes_nothing(open_memory: Opener):
    async with open_memory() as memory:
        chat, other = await memory.chat("game"), await memory.chat("other")
        for one in (chat, other):
            await turns(one, 1, 2)
        save, foreign = await chat.save(), await other.save()
        before = await state(chat)

        def wrong(**values: Any) -> dict[str, Any]:
            return {**copy.deepcopy(save), **values}

        first, second = save["messages"][:2]
        cases: list[tuple[dict[str, Any], str]] = [
            (foreign, "the save is of the chat 'other'"),
            (wrong(messages=foreign["messages"]), "another chat that was named 'game'"),
            ({}, "the save is of the chat None"),
            (wrong(messages=None), "no save"),
            (wrong(messages=[["x", "y"]]), "no save"),
            (wrong(messages=[[first[0], "zz"]]), "no save"),
            (wrong(messages=[[*first, {"pos": 3}]]), "no save"),
            (wrong(messages=[[*first, {"hidden_by": 3}]]), "no save"),
            (wrong(messages=[first, first]), "twice"),
            (wrong(messages=[[first[0], second[1]]]), "text that message .* had is gone"),
            (wrong(messages=[[str(int(first[0]) + 99), first[1]]]), "no longer has message"),
        ]
        for case, problem in cases:
            with pytest.raises(BadInput, match=problem) as caught:
                await chat.restore(case)
            assert caught.value.field == "save"
        assert await state(chat) == before
        assert await chat.undo() == 0


@pytest.mark.proves("G-71")
async def test_a_rollback_takes_out_all_that_came_after_in_one_step(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("game")
        await turns(chat, 1, 20)
        await chat.settle()
        said = [m async for m in chat.messages()]
        assert await chat.rollback(to=said[9]) == 30
        assert [m.id async for m in chat.messages()] == [m.id for m in said[:10]]
        shown = text(await chat.prompt(WIDE))
        assert [n for n in range(6, 21) if f"turn-{n}." in shown] == []
        assert "turn-5." in shown
        with pytest.raises(MessageNotFound):
            await chat.rollback(to=said[30])
        assert await chat.rollback(to=said[9]) == 0
        assert await chat.undo() == 30
        assert [m async for m in chat.messages()][:10] == said[:10]
        assert len(await bodies(chat)) == 40


# --- a random life with saves in it; then every save in any order


async def held(house: app.House, ref: ChatRef) -> list[tuple[object, ...]]:
    def seen(m: Message) -> tuple[object, ...]:
        return (m.id, m.hash, m.body, m.hidden_by, m.excluded, m.pinned)

    return [seen(m) async for m in house.service.messages(ref)]


async def life_with_saves(lives: list[list[tuple[str, int]]], order: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        house = await app.build(Path(folder) / "x.db", llm=ScriptedLlm(), settings=SMALL)
        try:
            story, service = Story(house), house.service
            ref = (await service.open_chat("game")).ref
            await story.live(ref, [("append", 0)] * 4)
            saves: list[tuple[dict[str, Any], list[tuple[object, ...]]]] = []
            for steps in lives:
                await story.live(ref, steps)
                saves.append((await service.save(ref), await held(house, ref)))
            for n in order:
                save, was = saves[n % len(saves)]
                touched = await service.restore(ref, save)
                assert await held(house, ref) == was
                assert await service.save(ref) == save
                alive = "".join(str(row[2]) for row in was if row[3] != "user")
                await story.check(ref, {w for w in story.said[ref.id] if w not in alive})
                if touched and n % 2:
                    await service.undo(ref)
                    await service.restore(ref, save)
                    assert await held(house, ref) == was
                await service.settle(ref, 20)
                await story.check(ref, {w for w in story.said[ref.id] if w not in alive})
        finally:
            await house.close()


@pytest.mark.slow
@pytest.mark.proves("G-71", "D-01")
@pytest.mark.timeout(180)
@settings(max_examples=15)
@given(
    st.lists(STEPS, min_size=1, max_size=3),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_every_save_can_be_restored_in_any_order(
    lives: list[list[tuple[str, int]]], order: list[int]
):
    asyncio.run(life_with_saves(lives, order))


async def test_a_restored_chat_is_true_to_its_hashes(tmp_path: Path):
    house = await app.build(tmp_path / "x.db", llm=ScriptedLlm(), settings=SMALL)
    chat = Chat(house.service, await house.service.open_chat("game"))
    await turns(chat, 1, 10)
    save = await chat.save()
    await turns(chat, 11, 20)
    await chat.settle()
    await chat.restore(save)
    written = await house.store._db.read(audit.stored, chat._ref, "volumes")
    assert written == await house.store._db.read(audit.recompute, chat._ref, "volumes")
    assert len(written.valid) == len(await valid(chat)) == 10
    await house.close()
