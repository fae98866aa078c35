"""Who was not there learns nothing of it, neither from a message nor from a summary."""

from __future__ import annotations

import json

from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener


async def test_a_prompt_for_an_audience_holds_only_what_all_of_them_saw(open_memory: Opener):
    llm = ScriptedLlm(plain_note)
    async with open_memory(llm=llm) as memory:
        chat = await memory.chat("inn", settings={"visible_floors": 2, "fold_every": 1})
        for n in range(8):
            await chat.append("user", f"In the open: ale {n}.", present=["Mara", "Tomas"])
            await chat.append("assistant", f"Poured {n}.", present=["Mara", "Tomas"])
            await chat.append("user", f"Whispered: secret {n}.", present=["Mara"])
            await chat.append("assistant", f"Kept {n}.", present=["Mara"])
        await chat.append("user", "Everybody hears this.")
        await chat.settle()
        mara = json.dumps((await chat.prompt(audience=["Mara"])).messages)
        tomas = json.dumps((await chat.prompt(audience=["Tomas"])).messages)
        both = json.dumps((await chat.prompt(audience=["Tomas", "Mara"])).messages)
        everything = json.dumps((await chat.prompt()).messages)
        minis = [s async for s in chat.summaries()]
    assert all(f"secret {n}." in mara and f"ale {n}." in mara for n in range(8))
    assert "secret" not in tomas
    assert "Kept" not in tomas
    assert all(f"ale {n}." in tomas for n in range(8))
    assert tomas == both
    assert "Everybody hears this." in tomas
    assert everything.count("secret") == 8
    for ask in llm.asks:
        said = " ".join(text for _, text in ask.material)
        assert not ("secret" in said and "ale" in said)
    assert len(minis) >= 14


async def test_a_stranger_sees_only_what_everybody_saw(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("inn")
        await chat.append("user", "Hush.", present=["Mara"])
        await chat.append("user", "Hello all.")
        prompt = await chat.prompt(audience=["Nobody"])
        assert [m["content"] for m in prompt.messages] == ["Hello all."]
