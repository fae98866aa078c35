"""What was said long ago is quoted again when somebody comes back to it, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from previously import Chat, Memory
from previously.model import Message, NewMessage, Prompt
from previously.testing import ScriptedLlm
from tests.flows.conftest import Opener

BUDGET = 4_000
AT_ONCE = 100  # messages between two times that the background is waited for
FEW = {"visible_floors": 6, "fold_every": 4}

STORIES = {
    "en": (
        "I promise to bring the Verrin amulet back before the first snow.",
        "Then I will hold you to it.",
        ("We walked on along the road, day {n}.", "The hills went by, day {n}."),
        "Do you still remember what I said about the Verrin amulet?",
        "What did I promise about the amulet?",
    ),
    "zh": (
        "我答应你，下第一场雪之前把霜纹护符还回去。",
        "那我可记住了。",
        ("第{n}天，我们沿着大路继续走。", "第{n}天，远处还是群山。"),
        "你还记得我说过的霜纹护符吗？",
        "我答应过什么时候还护符？",
    ),
}


async def told(chat: Chat, lang: str, turns: int = 300) -> list[Message]:
    """A promise in the third turn, then a long road."""
    promise, answer, (user, reply), *_ = STORIES[lang]
    said: list[NewMessage] = []
    for n in range(turns):
        third = n == 2
        said.append(NewMessage("user", promise if third else user.format(n=n)))
        said.append(NewMessage("assistant", answer if third else reply.format(n=n)))
    made: list[Message] = []
    for start in range(0, len(said), AT_ONCE):
        made += await chat._service.append(chat._ref, said[start : start + AT_ONCE])
        await chat.settle()
    return made


async def ready(memory: Memory, chat: Chat) -> None:
    await chat.settle()
    while await memory._house.store.index_some(256, ripe=False):
        pass


def quoted(prompt: Prompt) -> str:
    return "\n".join(b.wire["content"] for b in prompt.trace.blocks if b.place == "fragment")


def dropping(_: object) -> str:
    """A model that forgets what matters."""
    return "They walked."


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_a_promise_is_quoted_when_somebody_comes_back_to_it(open_memory: Opener, lang: str):
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("road", settings=FEW)
        await told(chat, lang)
        await ready(memory, chat)
        promise, answer, _, mention, question = STORIES[lang]
        await chat.append("user", mention)
        prompt = await chat.prompt(BUDGET)
        fragment = quoted(prompt)
        user, assistant = {"en": ("user", "assistant"), "zh": ("用户", "助手")}[lang]
        assert f"#4 {user}: {promise}" in fragment
        assert f"#5 {assistant}: {answer}" in fragment  # what was said to it
        assert prompt.messages[-1]["content"] == mention
        assert prompt.tokens <= BUDGET
        asked = await chat.prompt(BUDGET, query=question)
        assert promise in quoted(asked)
        assert asked.tokens <= BUDGET
        assert [r.floor for r in prompt.trace.recalled] == sorted(
            r.floor for r in prompt.trace.recalled
        )


async def test_what_still_waits_for_its_summary_is_quoted_too(open_memory: Opener):
    async with open_memory(worker=False) as memory:
        chat = await memory.chat("road", settings=FEW)
        promise, answer, (user, reply), mention, _ = STORIES["en"]
        said = [NewMessage("user", promise), NewMessage("assistant", answer)]
        for n in range(100):
            said += [
                NewMessage("user", user.format(n=n)),
                NewMessage("assistant", reply.format(n=n)),
            ]
        await chat._service.append(chat._ref, [*said, NewMessage("user", mention)])
        prompt = await chat.prompt(1_000)
        assert prompt.trace.dropped
        assert promise in quoted(prompt)
        assert prompt.tokens <= 1_000


async def test_a_turn_that_calls_up_nothing_quotes_nothing(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("road", settings=FEW)
        await told(chat, "en", 60)
        await ready(memory, chat)
        await chat.append("user", "Good morning!")
        assert quoted(await chat.prompt(BUDGET)) == ""


@pytest.mark.parametrize("how", ["hide", "delete", "edit"])
async def test_what_was_taken_out_is_never_quoted(open_memory: Opener, how: str):
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("road", settings=FEW)
        made = await told(chat, "en", 60)
        await ready(memory, chat)
        promise, _, _, mention, question = STORIES["en"]
        await chat.append("user", mention)
        assert promise in quoted(await chat.prompt(BUDGET))
        if how == "edit":
            await chat.edit(made[4], "Nothing of note.")
        else:
            await getattr(chat, how)(made[4])
        for _ in range(2):  # before the index knows, and after
            for prompt in (await chat.prompt(BUDGET), await chat.prompt(BUDGET, query=question)):
                assert "Verrin amulet back" not in str(prompt.messages[:-1])
            await ready(memory, chat)


async def test_a_hidden_neighbour_is_not_quoted_either(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("road", settings=FEW)
        made = await told(chat, "en", 60)
        await chat.hide(made[5])
        await ready(memory, chat)
        await chat.append("user", STORIES["en"][3])
        fragment = quoted(await chat.prompt(BUDGET))
        assert STORIES["en"][0] in fragment
        assert STORIES["en"][1] not in fragment


async def test_who_was_not_there_is_told_nothing_of_it(open_memory: Opener):
    promise, answer, _, mention, question = STORIES["en"]
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("inn", settings=FEW)
        await chat.append("user", "The amulet of Verrin is a tale for all.")
        await chat.append("assistant", "Go on.")
        await chat.append("user", promise, present=["Mara"])
        await chat.append("assistant", answer, present=["Mara"])
        for n in range(30):
            await chat.append("user", f"Another ale, the {n}th.")
            await chat.append("assistant", f"Here, {n}.")
        await ready(memory, chat)
        await chat.append("user", mention)
        for query in (None, question):
            for audience, hears in (((), True), (("Mara",), True), (("Tomas",), False)):
                prompt = await chat.prompt(BUDGET, audience=audience, query=query)
                fragment = quoted(prompt)
                assert (promise in fragment) is hears
                assert (answer in fragment) is hears
                assert "a tale for all" in fragment


async def test_without_it_prompts_are_as_they_were(open_memory: Opener):
    """Off: what the fold shows, the tail, and what is asked; no look at the index at all."""
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("road", settings={**FEW, "related": False})
        await told(chat, "en", 60)
        await ready(memory, chat)
        await chat.append("user", STORIES["en"][3])
        off = await chat.prompt(BUDGET)
        await memory._house.store.forget_terms(chat._ref)
        assert (await chat.prompt(BUDGET)).messages == off.messages
        assert quoted(off) == ""
        await memory._house.service.store.change_settings(chat._ref, {"related": True})
        await ready(memory, chat)
        on = await chat.prompt(BUDGET)
    assert quoted(on) != ""
    plain = [b.wire for b in on.trace.blocks if b.place != "fragment"]
    assert plain == off.messages


async def test_what_stands_before_the_fragments_does_not_move(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(dropping)) as memory:
        chat = await memory.chat("road", settings=FEW)
        await told(chat, "en", 60)
        await ready(memory, chat)
        await chat.append("user", STORIES["en"][3])
        first = await chat.prompt(BUDGET)
        await chat.append("assistant", "Of course.")
        await chat.append("user", "Good. Let us walk.")
        second = await chat.prompt(BUDGET)
    at = next(i for i, b in enumerate(first.trace.blocks) if b.place == "fragment")
    assert second.messages[:at] == first.messages[:at]


@pytest.mark.parametrize("budget", [400, 1_000, 2_000, 8_000])
async def test_where_floors_stand_is_the_same_without_looking_for_what_is_recalled(
    open_memory: Opener, budget: int
):
    async with open_memory(worker=False) as memory:
        chat = await memory.chat("road", settings={**FEW, "budget_tokens": budget})
        promise, answer, (user, reply), mention, _ = STORIES["en"]
        said = [NewMessage("user", promise), NewMessage("assistant", answer)]
        for n in range(40):
            said += [
                NewMessage("user", user.format(n=n)),
                NewMessage("assistant", reply.format(n=n)),
            ]
        await chat._service.append(chat._ref, [*said, NewMessage("user", mention)])
        whole = await chat._service.prompt(chat._ref, preview=True)
        places = await chat._service.prompt_places(chat._ref)
        assert steady(places) == steady(whole)
        assert places.trace.dropped == whole.trace.dropped


def steady(prompt: Prompt) -> list[Any]:
    return [(b.place, b.sources) for b in prompt.trace.blocks if b.place != "fragment"]
