"""A chat that continues another one knows what that had come to, and none of its messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from previously import Memory
from previously.errors import BadInput, SummaryNotFound
from previously.memory import Chat
from previously.model import Prompt
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener

SMALL = {"visible_floors": 2, "fold_every": 1, "related": False, "auto_volume_summary": False}
TURNS = 8


async def told(memory: Memory, name: str = "old", **settings: Any) -> Chat:
    """A story whose newest turns have no summary yet."""
    chat = await memory.chat(name, settings={**SMALL, **settings})
    for n in range(TURNS):
        await chat.append("user", f"Mara hid key number {n} under stone {n}.", name="Mara")
        await chat.append("assistant", f"Stone {n} keeps it.")
    await chat.settle()
    return chat


def text_of(prompt: Prompt) -> str:
    return json.dumps(prompt.messages, ensure_ascii=False)


def places(prompt: Prompt) -> list[str]:
    return [block.place for block in prompt.trace.blocks]


async def test_a_new_chat_begins_with_what_the_old_one_has_come_to(open_memory: Opener):
    llm = ScriptedLlm(plain_note)
    async with open_memory(llm=llm) as memory:
        old = await told(memory)
        minis = [s.text async for s in old.summaries()]
        new = await old.continue_as("new")
        assert [m async for m in new.messages()] == []
        assert [s async for s in new.summaries()] == []
        calls = len(llm.asks)
        await new.append("user", "Where did we leave the keys?")
        await new.settle()
        prompt = await new.prompt()
        assert places(prompt) == ["carried", "pending"]
        shown = text_of(prompt)
        assert minis
        assert all(text in shown for text in minis)
        assert f"key number {TURNS - 1}" in shown  # the newest turn had no summary yet
        assert prompt.messages[-1]["content"] == "Where did we leave the keys?"
        assert len(llm.asks) == calls  # what is carried over is not summarised again


async def test_the_old_chat_and_the_new_one_share_nothing(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await told(memory)
        before = await old.prompt()
        new = await old.continue_as("new")
        await new.forget_carried((await new.carried())[0])
        said = [m async for m in old.messages()]
        await old.edit(said[0], "Mara hid nothing.")
        assert len(await new.carried()) >= TURNS - 1
        assert "hid nothing" not in text_of(await new.prompt())
        assert before.messages != []
        with pytest.raises(BadInput):
            await old.continue_as("new")
        with pytest.raises(BadInput):
            await old.continue_as(" ")


async def test_what_is_taken_out_is_gone_from_the_next_prompt(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await told(memory)
        new = await old.continue_as("new")
        await new.append("user", "Well?")
        carried = await new.carried()
        assert carried[0].text in text_of(await new.prompt())
        await new.forget_carried(carried[0])
        assert carried[0].text not in text_of(await new.prompt())
        assert carried[1].text in text_of(await new.prompt())
        with pytest.raises(SummaryNotFound):
            await new.forget_carried(carried[0])
        with pytest.raises(SummaryNotFound):
            await old.forget_carried(carried[1])


async def test_what_is_carried_over_stands_still_between_folds(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        new = await (await told(memory, fold_every=20)).continue_as("new")
        heads: list[Any] = []
        for n in range(6):
            await new.append("user", f"And then, {n}?")
            heads.append((await new.prompt()).messages[0])
            await new.append("assistant", f"Then {n}.")
        assert all(head == heads[0] for head in heads)
        assert "earlier one" in heads[0]["content"]


async def test_nobody_learns_from_a_new_chat_what_only_another_knew(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await memory.chat("inn", settings=SMALL)
        for n in range(6):
            await old.append("user", f"In the open: ale {n}.", present=["Mara", "Tomas"])
            await old.append("assistant", f"Poured {n}.", present=["Mara", "Tomas"])
            await old.append("user", f"Whispered: secret {n}.", present=["Mara"])
            await old.append("assistant", f"Kept {n}.", present=["Mara"])
        pinned = await old.append("user", "Pinned secret.", present=["Mara"])
        await old.pin(pinned)
        await old.settle()
        new = await (await old.continue_as("inn 2")).continue_as("inn 3")
        await new.append("user", "Good evening.")
        tomas = text_of(await new.prompt(audience=["Tomas"]))
        mara = text_of(await new.prompt(audience=["Mara"]))
    assert "secret" not in tomas
    assert "Kept" not in tomas
    assert all(f"ale {n}." in tomas for n in range(6))
    assert all(f"secret {n}." in mara for n in range(6))
    assert "Pinned secret." in mara


async def test_it_weighs_in_the_share_of_summaries_and_leaves_the_new_ones_half(
    open_memory: Opener,
):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await told(memory, budget_tokens=700)
        pinned = await old.append("user", "The seal is broken by nobody.")
        await old.pin(pinned)
        new = await old.continue_as("new")
        for n in range(30):
            await new.append("user", f"On the road, day {n}: rain, mud and a lame horse.")
            await new.append("assistant", f"Day {n} passes slowly.")
            await new.settle()
            assert (await new.prompt()).tokens <= 700
        prompt = await new.prompt()
        sizes = {b.place: b.tokens for b in prompt.trace.blocks}
        assert 0 < sizes["carried"] <= sizes["carried"] + sizes["cover"] <= 0.56 * 700
        assert "The seal is broken by nobody." in text_of(prompt)


async def test_a_branch_and_a_purge_take_it_along(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await told(memory)
        new = await old.continue_as("new")
        await new.append("user", "Well?")
        branch = await new.branch("twig")
        mine = [(c.text, c.from_title, c.kind) for c in await new.carried()]
        assert [(c.text, c.from_title, c.kind) for c in await branch.carried()] == mine
        service = new._service
        ref = (await service.find_chat("new")).ref
        await service.delete_chat(ref)
        await service.purge_chat(ref.id)
        assert await service.store.carried(ref) == ()
        assert [(c.text, c.from_title, c.kind) for c in await branch.carried()] == mine


async def test_settings_preset_and_a_chain_go_along(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        old = await told(memory, budget_tokens=3_000)
        second = await old.continue_as("second")
        await second.append("user", "Chapter two begins in the rain.")
        await second.append("assistant", "It rains.")
        third = await second.continue_as("third")
        service = third._service
        ref = (await service.find_chat("third")).ref
        assert (await service.settings(ref)).budget_tokens == 3_000
        carried = await third.carried()
        assert [c.from_title for c in carried] == ["old"] * (len(carried) - 1) + ["second"]
        assert "Chapter two" in carried[-1].text


async def test_a_chinese_chat_hands_its_turns_on_in_chinese(open_memory: Opener):
    async with open_memory() as memory:
        old = await memory.chat("旧")
        await old.append("user", "今晚谁守灯？")
        await old.append("assistant", "托马斯守灯，他答应天亮前不离开。")
        (piece,) = await (await old.continue_as("新")).carried()
    assert piece.text.startswith("用户")
    assert "assistant" not in piece.text
