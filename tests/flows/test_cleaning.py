"""What is summarised of a message is what the user wants of it; the message itself stays."""

from __future__ import annotations

import pytest

from previously.errors import BadInput
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener


@pytest.mark.proves("B-08", "B-09")
async def test_a_mini_is_written_about_what_is_left_and_the_message_stays(open_memory: Opener):
    llm = ScriptedLlm(plain_note)
    settings = {
        "visible_floors": 1,
        "fold_every": 1,
        "minis_per_call": 1,
        "capture_start_tag": "<正文>",
        "capture_end_tag": "</正文>",
        "message_cleanup_regex": [{"pattern": "\\s*\\(ooc[^)]*\\)", "flags": "gi"}],
    }
    async with open_memory(llm=llm) as memory:
        chat = await memory.chat("inn", settings=settings)
        reply = "<think>plan</think><正文>She lights the lamp (OOC: nice).</正文>status: 7"
        for n in range(4):
            await chat.append("user", f"Light lamp {n} (ooc hi), please.")
            await chat.append("assistant", reply)
        await chat.settle()
        said = [m.body async for m in chat.messages()]
        with pytest.raises(BadInput, match="rule 1"):
            await memory.change_settings({"message_cleanup_regex": [{"pattern": "("}]})
    assert said.count(reply) == 4  # nothing that is stored changes
    asked = [text for ask in llm.asks for _, text in ask.material]
    assert asked
    assert "She lights the lamp." in asked
    assert "Light lamp 0, please." in asked
    assert not any("plan" in text or "OOC" in text or "status" in text for text in asked)


async def test_the_newest_reply_is_summarised_on_demand(open_memory: Opener):
    llm = ScriptedLlm(plain_note)
    async with open_memory(llm=llm) as memory:
        chat = await memory.chat("inn", settings={"auto_volume_summary": False})
        for n in range(3):
            await chat.append("user", f"Who keeps lamp {n} tonight?")
            await chat.append("assistant", f"Tomas keeps lamp {n}.")
        await chat.append("user", "And tomorrow?")
        await chat.settle()
        assert [s async for s in chat.summaries()] == []
        await chat.run(latest=True)
        await chat.settle()
        last = [m async for m in chat.messages()][5]
        covered = {i for s in [s async for s in chat.summaries()] for i in s.covers}
        prompt = await chat.prompt()
    assert last.id in covered
    assert "Tomas keeps lamp 2." in [m["content"] for m in prompt.messages]  # still verbatim


async def test_a_try_shows_what_the_model_would_read(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(plain_note)) as memory:
        chat = await memory.chat("inn", settings={"message_cleanup_regex": [{"pattern": "lamp"}]})
        await chat.append("user", "Light the lamp.")
        await chat.append("assistant", "The lamp is lit.")
        await chat.append("user", "Thanks.")
        await chat.append("assistant", "Gladly.")
        trial = await chat._service.try_template(chat._ref, "mini_prompt", "", run=False)
    assert trial.ask is not None
    assert "lamp" not in trial.ask.messages[-1]["content"]
