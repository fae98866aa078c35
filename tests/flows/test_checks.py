"""When a volume is due, by what it is made of, and the one queue that everything goes through."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from previously import app
from previously.errors import ModelUnavailable
from previously.model import Ask, Message, NewMessage, Reply
from previously.testing import Line, ScriptedLlm
from tests.flows.conftest import Opener
from tests.flows.test_volumes import (
    LONG,
    PLACEHOLDER,
    WIDE,
    Dawdling,
    Stage,
    fact,
    is_about_notes,
    marks,
    note,
    shown,
    stage,
)

ROOMY = {"visible_floors": 2, "max_unarchived_minis": 100, "check_interval": 5}


def is_question(ask: Ask) -> bool:
    return "YES or NO" in ask.messages[0]["content"]


def answering(*words: Line) -> Callable[[Ask], Line]:
    """Notes as usual; questions are answered with these words, the last one stays."""
    said = list(words)

    def answer(ask: Ask) -> Line:
        if is_question(ask):
            return said.pop(0) if len(said) > 1 else said[0]
        return note(ask)

    return answer


def questions(here: Stage) -> list[Ask]:
    return [ask for ask in here.llm.asks if is_question(ask)]


@pytest.mark.proves("B-03", "B-04", "B-75", "B-92", "B-95", "B-98", "B-99")
async def test_a_volume_is_made_when_the_model_says_that_it_is_finished(tmp_path: Path):
    """Looked at every `check_interval` minis; no: nothing changes; yes: all that stand, in one."""
    settings = {**ROOMY, "check_interval": 20}  # which is the default
    async with stage(tmp_path, answering("NO", "YES", "NO", "YES"), **settings) as here:
        said = await here.say(1, 21)
        await here.settle()
        assert questions(here) == []  # 19 minis
        said += await here.say(22, 22)
        await here.settle()
        assert len(questions(here)) == 1
        assert await here.summaries("volume") == []
        assert len(await here.summaries("mini")) == 20
        said += await here.say(23, 42)
        await here.settle()
        assert len(questions(here)) == 2
        (first,) = await here.summaries("volume")
        assert (first.ordinal, marks(first.text)) == (1, list(range(1, 41)))
        assert (first.first_pos, first.last_pos) == (said[0].pos, said[39].pos)
        await here.say(43, 82)
        await here.settle()
        (_, second) = sorted(await here.summaries("volume"), key=lambda s: s.first_pos)
        assert (second.ordinal, marks(second.text)) == (2, list(range(41, 81)))  # none twice
        assert len(await here.summaries("mini")) == 80  # no volume stood in for a mini
        await here.check()


@pytest.mark.proves("B-04", "B-94")
async def test_enough_tokens_make_a_volume_and_nobody_is_asked(tmp_path: Path):
    def long(ask: Ask) -> Line:
        kind = note(ask)
        return kind if is_about_notes(ask) else f"{kind} {'and so it went on ' * 45}"

    settings = {**ROOMY, "mini_tokens": 400, "volume_token_threshold": 1_000}
    async with stage(tmp_path, long, **settings) as here:
        told = [NewMessage("assistant", f"Floor ⟦{n}⟧: {fact(n) * 9}") for n in range(1, 8)]
        await here.house.service.append(here.ref, told)
        await here.settle()
        (volume,) = await here.summaries("volume")
        assert marks(volume.text) == [1, 2, 3, 4, 5]
        assert questions(here) == []


@pytest.mark.proves("B-94", "G-115")
@pytest.mark.parametrize(
    "word",
    [
        "Perhaps.",
        "YES, because the journey has come to its end",
        "",
        '{"finished": "maybe"}',
    ],
)
async def test_whatever_is_not_yes_is_no(tmp_path: Path, word: str):
    async with stage(tmp_path, answering(word), **ROOMY) as here:
        await here.say(1, 8)
        await here.settle()
        assert await here.summaries("volume") == []
        assert len(questions(here)) == 1
        assert len(await here.summaries("mini")) == 6


@pytest.mark.proves("B-94")
async def test_a_question_that_fails_holds_up_nothing(tmp_path: Path):
    async with stage(tmp_path, answering(ModelUnavailable("503")), **ROOMY) as here:
        await here.say(1, 8)
        await here.house.service.settle(here.ref, 5)
        assert len(await here.summaries("mini")) == 6
        assert await here.summaries("volume") == []


@pytest.mark.proves("B-93")
async def test_without_minis_nobody_is_asked_for_a_volume(tmp_path: Path):
    async with stage(tmp_path, note, **ROOMY) as here:
        await here.archive()
        await here.say(1, 2)
        await here.archive()
        assert here.llm.asks == []


@pytest.mark.proves("B-96", "G-46")
async def test_a_volume_is_written_from_its_minis_in_the_light_of_those_before(tmp_path: Path):
    async with stage(tmp_path, note, **ROOMY | {"check_interval": 100}) as here:
        for first in (1, 7, 13):
            await here.say(first, first + 5)
            await here.archive()
        volumes = [ask for ask in here.llm.asks if is_about_notes(ask)]
        told = [marks("".join(text for _, text in ask.material)) for ask in volumes]
        assert told == [list(range(1, 5)), list(range(5, 11)), list(range(11, 17))]
        before = volumes[2].messages[1]["content"].split("===")[0]
        assert marks(before) == list(range(1, 11))  # oldest first


@pytest.mark.proves("G-42", "B-74")
async def test_minis_are_counted_from_what_is_stored(open_memory: Opener):
    settings = {**ROOMY, "related": False}
    llm = ScriptedLlm(answering("NO"))
    for part in range(3):  # three processes, of which none sees five minis made
        async with open_memory(llm=llm, settings=settings) as memory:
            chat = await memory.chat("story")
            for n in range(2 * part, 2 * part + 2):
                await chat.append("user", f"Question {n}: {fact(n)}")
                await chat.append("assistant", f"Answer {n}: {fact(n)}")
            await chat.settle()
            assert [is_question(ask) for ask in llm.asks].count(True) == (part == 2)


@pytest.mark.proves("B-12", "B-64", "B-66")
async def test_one_task_at_a_time_oldest_first(open_memory: Opener):
    running = most = 0

    class Watched(ScriptedLlm):
        async def complete(self, ask: Ask) -> Reply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            try:
                return await super().complete(ask)
            finally:
                running -= 1

    llm = Watched()
    settings = {"visible_floors": 2, "check_interval": 5, "minis_per_call": 1}
    async with open_memory(llm=llm, settings=settings) as memory:
        chat = await memory.chat("story")
        for n in range(24):
            await chat.append("user", f"Question {n}: {fact(n)}")
            await chat.append("assistant", f"Answer {n}: {fact(n)}")
        assert (await chat.settle()).done
        minis = [ask.material[0][1] for ask in llm.asks if not is_about_notes(ask)]
        assert [text.split(":")[0] for text in minis] == [f"Question {n}" for n in range(23)]
        assert most == 1


@pytest.mark.proves("B-13", "B-65")
async def test_only_the_newest_words_of_a_floor_are_summarised_and_replace_the_old(tmp_path: Path):
    settings = {**ROOMY, "auto_volume_summary": False, "minis_per_call": 1}
    async with stage(tmp_path, note, **settings) as here:
        said = await here.say(1, 6)
        await here.settle()
        before = {s.id: s.text for s in await here.summaries("mini")}
        here.llm.hang()
        asked = len(here.llm.asks)
        await here.say(7, 8)  # one task is on its way, others wait
        for n in (91, 92, 93):
            await here.house.service.edit(here.ref, said[1].id, f"Floor ⟦{n}⟧: {fact(n)}")
        here.llm.release()
        await here.settle()
        after = {s.id: s.text for s in await here.summaries("mini")}
        assert sorted(after.values()) == [f"mini ⟦{n}-{n}⟧" for n in (1, 3, 4, 5, 6, 93)]
        assert len(after.keys() & before.keys()) == 3  # the others were not touched
        told = [marks(str(ask.material)) for ask in here.llm.asks[asked:]]
        assert sorted(told) == [[5], [6], [93]]


@pytest.mark.proves("B-41")
async def test_a_chat_shorter_than_the_window_is_shown_as_it_was_said(tmp_path: Path):
    async with stage(tmp_path, note, visible_floors=20) as here:
        await here.say(1, 19)
        await here.settle()
        prompt = await here.prompt()
        assert {block.place for block in prompt.trace.blocks} <= {"tail", "pending"}
        assert marks(str(prompt.messages)) == list(range(1, 20))
        assert here.llm.asks == []


class Told:
    """What each floor tells of, and that a prompt has each exactly once."""

    def __init__(self, here: Stage) -> None:
        self.here = here
        self.said: list[Message] = []
        self.words: dict[int, int] = {}

    async def holds(self) -> None:
        prompt = await self.here.prompt()
        raw, minis, volumes = shown(prompt)
        assert prompt.trace.dropped == ()
        assert sorted([*volumes, *minis, *raw]) == sorted(self.words.values())
        assert PLACEHOLDER not in str(prompt.messages)

    async def before_and_after(self) -> None:
        await self.holds()
        await self.here.settle()
        await self.holds()

    async def play(self, count: int, hangs_at: tuple[int, ...]) -> None:
        """Ten floors at a time; the model may say nothing for ten of them."""
        for first in range(1, count, 10):
            if first in hangs_at:
                self.here.llm.hang()
            self.said += await self.here.say(first, first + 9)
            self.words |= {n: n for n in range(first, first + 10)}
            await self.holds()
            if first not in hangs_at:
                self.here.llm.release()
                await self.here.settle()

    def gone(self, *floors: int) -> list[int]:
        for n in floors:
            del self.words[n]
        return [self.said[n - 1].id for n in floors]


@pytest.mark.proves("I1", "I2", "I3", "I12")
async def test_with_folds_in_batches_every_floor_is_shown_once_whatever_happens(tmp_path: Path):
    """Scenarios 1, 4, 6 and 22 at the default `fold_every`: a model that hangs, deleted and edited
    floors inside volumes, floors that the user hid, a window that goes up and down."""
    settings = {"visible_floors": 6, "fold_every": 20, "max_unarchived_minis": 30}
    async with stage(tmp_path, note, **settings) as here:
        service, told = here.house.service, Told(here)
        await told.play(100, hangs_at=(31, 61))
        await told.before_and_after()
        assert await here.summaries("volume")
        await service.delete(here.ref, told.gone(12, 13, 44))
        await told.before_and_after()
        await service.edit(here.ref, told.said[19].id, f"Floor ⟦720⟧: {fact(720)}")
        told.words[20] = 720
        await told.before_and_after()
        await service.mark(here.ref, "hide", told.gone(50, 51, 52), hidden_by="user")
        for floors in (6, 60, 1, 100, 20):
            await here.set(visible_floors=floors)
            await told.before_and_after()
        await here.set(enabled=False)
        everything = [told.words[n] for n in sorted(told.words)]
        assert shown(await here.prompt()) == (everything, [], [])
        await here.check()


SEEDS = 24


@pytest.mark.slow
@pytest.mark.proves("I1", "I2", "I3", "I12")
async def test_with_folds_in_batches_a_volume_at_the_check_boundary_hides_no_floor(tmp_path: Path):
    """Scenario 2 at the default `fold_every`: the volume comes long before the tail is folded, at
    a moment that only the seed knows, and the fold then moves over it."""
    settings = {"check_interval": 5, "visible_floors": 4, "mini_tokens": 240, "related": False}
    settings |= {"volume_token_threshold": 1_000, "budget_tokens": WIDE}
    llm = Dawdling(random.Random(7))
    house = await app.build(tmp_path / "batches.db", llm=llm, settings=settings)
    try:
        await asyncio.gather(*(_batches(house, seed) for seed in range(SEEDS)))
    finally:
        await house.close()
    assert not any(PLACEHOLDER in str(ask.messages) for ask in llm.asks)


async def _batches(house: app.House, seed: int) -> None:
    rng, service = random.Random(seed), house.service
    ref = (await service.open_chat(f"batches {seed}")).ref
    folded = 0
    for turn in range(16):
        roles = ("user", "assistant")
        said = [NewMessage(roles[n % 2], f"⟦{n}⟧ {LONG}") for n in (2 * turn, 2 * turn + 1)]
        await service.append(ref, said)
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        if turn == 6 or rng.random() < 0.5:
            await service.settle(ref, 60)
        prompt = await service.prompt(ref)
        raw, minis, volumes = shown(prompt)
        assert sorted([*raw, *minis, *volumes]) == list(range(2 * turn + 2))
        assert prompt.trace.dropped == ()
        assert PLACEHOLDER not in str(prompt.messages)
        folded = len(volumes)
        if turn == 6:  # five minis; the fold has not moved yet
            made = [s async for s in service.summaries(ref) if s.kind == "volume"]
            assert [(s.ordinal, s.message_count) for s in made] == [(1, 10)]
            assert raw == list(range(14))
    assert folded >= 10
    await service.change_settings(ref, {"enabled": False})
    assert shown(await service.prompt(ref)) == (list(range(32)), [], [])


@pytest.mark.proves("G-02")
async def test_what_happens_at_once_is_written_one_after_the_other(open_memory: Opener):
    """Appends, edits and looks of the worker at the same time: each counts, and none twice."""
    llm = ScriptedLlm()
    async with open_memory(llm=llm, settings={"visible_floors": 2, "related": False}) as memory:
        chat = await memory.chat("story")
        first = [await chat.append("user", f"Early {n}: {fact(n)}") for n in range(6)]
        later = [chat.append("assistant", f"Late {n}: {fact(n)}") for n in range(20)]
        edits = [chat.edit(m, f"Edited {n}: {fact(n)}") for n, m in enumerate(first)]
        await asyncio.gather(*later, *edits, chat.settle(), chat.prompt())
        assert (await chat.settle()).done
        said = [m async for m in chat.messages()]
        assert [m.body.split(":")[0] for m in said[:6]] == [f"Edited {n}" for n in range(6)]
        assert {m.body.split(":")[0] for m in said[6:]} == {f"Late {n}" for n in range(20)}
        assert await memory._house.store.is_sound(chat._ref, "volumes")
        asked = len(llm.asks)
        minis = [s async for s in chat.summaries() if s.valid and not s.level]
        covered = [i for mini in minis for i in mini.covers]
        assert len(covered) == len(set(covered))
        assert (await chat.settle()).done  # what is done once is not done again
        assert len(llm.asks) == asked
