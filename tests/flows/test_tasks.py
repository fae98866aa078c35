"""What is due can be seen, tried again and called off; who listens hears of changes."""

from __future__ import annotations

import asyncio

import pytest

from previously.errors import ModelUnavailable, TaskNotFound
from previously.model import Ask, Message
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener
from tests.flows.test_changes import notes


@pytest.mark.proves("G-35", "G-74")
async def test_a_failed_task_is_listed_tried_again_and_called_off(open_memory: Opener):
    broken = {"question 0", "question 1"}

    def answer(ask: Ask) -> str | Exception:
        bad = any(q in ask.material[0][1] for q in broken)
        return ModelUnavailable("503", retry_after_s=3600) if bad else plain_note(ask)

    async with open_memory(llm=ScriptedLlm(answer)) as memory:
        chat = await memory.chat("demo", settings={"visible_floors": 2})
        messages: list[Message] = []
        for n in range(4):
            messages.append(await chat.append("user", f"question {n}"))
            messages.append(await chat.append("assistant", f"answer {n}"))
        await chat.settle()
        first, second = await chat.tasks()
        assert first.messages == (messages[0].id, messages[1].id)
        assert first.attempt is not None
        assert (first.attempt.error_class, first.attempt.tries) == ("ModelUnavailable", 1)
        assert first.attempt.not_before_ms > 0
        broken.clear()
        await chat.settle()
        assert len(await chat.tasks()) == 2  # it was told to wait an hour
        await chat.retry(first.id)
        await chat.cancel(second.id)
        await chat.settle()
        (left,) = await chat.tasks()
        assert left.attempt is not None
        assert left.attempt.verdict == "cancelled"
        assert len(await notes(chat)) == 2
        with pytest.raises(TaskNotFound):
            await chat.retry(first.id)
        await chat.edit(messages[2], "another question")
        await chat.settle()
        assert await chat.tasks() == []
        assert len(await notes(chat)) == 3


async def test_who_listens_hears_of_every_change(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("demo", settings={"visible_floors": 1})
        heard: list[int] = []

        async def listen() -> None:
            async for rev in chat.events():
                heard.append(rev)  # noqa: PERF401 - it never ends

        listener = asyncio.create_task(listen())
        for n in range(3):
            await chat.append("user", f"question {n}")
            await chat.append("assistant", f"answer {n}")
        await chat.settle()
        for _ in range(100):
            if heard and heard[-1] == 9:
                break
            await asyncio.sleep(0.02)
        listener.cancel()
        assert heard == sorted(set(heard))
        assert heard[-1] == 9  # its settings, six messages, two minis
