"""Minis and volumes, slid with every floor (`fold_every=1`): the scenarios as they are written."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from previously import app
from previously.model import Ask, Message, NewMessage, Prompt, Reply, Summary
from previously.store import audit
from previously.testing import ScriptedLlm

LANE = "volumes"
PLACEHOLDER = "（总结生成中...）"
SINGLY: dict[str, Any] = {"auto_volume_summary": False, "minis_per_call": 1}
WIDE = 100_000  # a budget in which everything has room
_MARK = re.compile(r"⟦(\d+)(?:-(\d+))?⟧")


def marks(text: object) -> list[int]:
    """The floors that a text speaks of."""
    found = _MARK.findall(str(text))
    return [n for first, last in found for n in range(int(first), int(last or first) + 1)]


def marked(floors: list[int]) -> str:
    """The same, written as short as can be."""
    runs: list[list[int]] = []
    for n in floors:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return " ".join(f"⟦{run[0]}-{run[-1]}⟧" for run in runs)


def is_about_notes(ask: Ask) -> bool:
    return all(not speaker for speaker, _ in ask.material)


def note(ask: Ask) -> str:
    """Says of which floors it tells, and whether it is a mini or something larger."""
    kind = "volume" if is_about_notes(ask) else "mini"
    told = [n for _, text in ask.material for n in marks(text)]
    return f"{kind} {marked(told)}"


@dataclass
class Stage:
    """One chat of one house."""

    house: app.House
    ref: Any
    llm: ScriptedLlm

    async def say(self, first: int, last: int, role: str = "assistant") -> tuple[Message, ...]:
        """Floors that are a turn each, with enough words to be worth a note."""
        new = [NewMessage(role, f"Floor ⟦{n}⟧: {fact(n)}") for n in range(first, last + 1)]
        return await self.house.service.append(self.ref, new)

    async def settle(self) -> None:
        settled = await self.house.service.settle(self.ref, 50)
        assert settled.done
        assert settled.waiting == ()

    async def archive(self) -> None:
        """A volume of what there is."""
        await self.house.service.archive(self.ref)
        await self.settle()

    async def prompt(self, budget: int | None = WIDE) -> Prompt:
        return await self.house.service.prompt(self.ref, budget)

    async def set(self, **settings: Any) -> None:
        await self.house.store.change_settings(self.ref, settings)
        self.house.service.wake(self.ref)

    async def summaries(self, kind: str) -> list[Summary]:
        found = self.house.service.summaries(self.ref)
        return [s async for s in found if s.kind == kind and s.valid and s.status == "ready"]

    async def check(self) -> None:
        """What is written down about coverage is what messages and hashes say."""
        database = self.house.store._db
        written = await database.read(audit.stored, self.ref, LANE)
        assert written == await database.read(audit.recompute, self.ref, LANE)


def fact(n: int) -> str:
    return f"the lamp of room {n} was lit by keeper number {n} and nobody put it out again. " * 3


@asynccontextmanager
async def stage(
    path: Path, answer: Callable[[Ask], str | Reply | Exception] = note, **settings: Any
) -> AsyncGenerator[Stage]:
    llm = ScriptedLlm(answer)
    house = await app.build(path / "volumes.db", llm=llm)
    try:
        mine = {"fold_every": 1, "related": False, "budget_tokens": WIDE, **settings}
        chat = await house.service.open_chat("volumes", settings=mine)
        yield Stage(house, chat.ref, llm)
    finally:
        await house.close()


def shown(prompt: Prompt) -> tuple[list[int], list[int], list[int]]:
    """The floors that a prompt holds raw, in minis, and in volumes."""
    raw: list[int] = []
    minis: list[int] = []
    volumes: list[int] = []
    for block in prompt.trace.blocks:
        text = str(block.wire["content"])
        if block.place != "cover":
            raw += marks(text)
            continue
        for line in text.splitlines():
            (volumes if "volume " in line else minis).extend(marks(line))
    return raw, minis, volumes


# --- 1: placeholder never leaks


@pytest.mark.proves("S-01", "B-05", "B-73", "B-76", "G-32", "G-33", "G-34", "I3")
async def test_floors_leave_the_prompt_one_by_one_when_their_minis_are_ready(tmp_path: Path):
    gate = asyncio.Semaphore(0)
    async with stage(tmp_path, visible_floors=3, **SINGLY) as here:
        here.llm.complete = _gated(here.llm, gate)  # type: ignore[method-assign]
        prompts: list[Prompt] = []
        for turn in range(30):
            await here.say(2 * turn, 2 * turn, "user")
            await here.say(2 * turn + 1, 2 * turn + 1)
            prompts.append(await here.prompt())
            assert shown(prompts[-1])[0] == list(range(2 * turn + 2))
        for done in range(1, 29):
            gate.release()
            await _until(here, done)
            prompts.append(await here.prompt())
            raw, minis, _ = shown(prompts[-1])
            assert minis == list(range(2 * done))
            assert raw == list(range(2 * done, 60))
        assert len(here.llm.asks) == 28  # what is left is the tail
        everything = [*(str(p.messages) for p in prompts), *(str(a) for a in here.llm.asks)]
        assert not any(PLACEHOLDER in text or "总结生成中" in text for text in everything)


def _gated(llm: ScriptedLlm, gate: asyncio.Semaphore) -> Callable[[Ask], Any]:
    answer = llm.complete

    async def complete(ask: Ask) -> Reply:
        await gate.acquire()
        return await answer(ask)

    return complete


async def _until(here: Stage, count: int) -> None:
    async with asyncio.timeout(20):
        async for _ in here.house.service.events(here.ref):
            if len(await here.summaries("mini")) >= count:
                return


# --- 2: a volume at the check boundary

RUNS = 1_000
AT_ONCE = 16
LONG = "The keeper of the lamp wrote down what every boat had on board that day. " * 17


def long_note(ask: Ask) -> str:
    """Some 240 tokens, so that five of them make a volume by their size."""
    if is_about_notes(ask):
        return note(ask) + " " + " ".join(LONG.split()[:40])
    return note(ask) + " " + LONG[: ask.tokens_max * 4]


class Dawdling(ScriptedLlm):
    """Answers after a moment that only the seed knows."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(long_note)
        self._rng = rng

    async def complete(self, ask: Ask) -> Reply:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        return await super().complete(ask)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.proves("S-02", "G-01", "G-05", "G-38")
async def test_a_thousand_times_exactly_one_volume_at_the_check_boundary(tmp_path: Path):
    rng = random.Random(5)
    llm = Dawdling(rng)
    settings = {"check_interval": 5, "visible_floors": 4, "fold_every": 1, "mini_tokens": 240}
    settings |= {"volume_token_threshold": 1_000, "related": False}
    house = await app.build(tmp_path / "many.db", llm=llm, settings=settings)
    limit = asyncio.Semaphore(AT_ONCE)
    try:

        async def one(seed: int) -> None:
            async with limit:
                await _boundary(house, seed)

        await asyncio.gather(*(one(seed) for seed in range(RUNS)))
    finally:
        await house.close()
    volumes = [ask for ask in llm.asks if is_about_notes(ask)]
    assert len(volumes) == RUNS + RUNS // 10
    assert not any(PLACEHOLDER in str(ask.messages) for ask in llm.asks)


async def _boundary(house: app.House, seed: int) -> None:
    rng = random.Random(seed)
    service, ref = house.service, (await house.service.open_chat(f"run {seed}")).ref

    def said(turn: int) -> list[NewMessage]:
        roles = ("user", "assistant")
        return [NewMessage(roles[n % 2], f"⟦{n}⟧ {LONG}") for n in (2 * turn, 2 * turn + 1)]

    async def turns(first: int, last: int) -> None:
        """All but the last at once; that one message by message, after a moment each."""
        await service.append(ref, [m for turn in range(first, last) for m in said(turn)])
        for message in said(last):
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            await service.append(ref, [message])

    await turns(0, 6)  # five minis, and four floors in the tail
    await service.settle(ref, 60)
    found = [s async for s in service.summaries(ref)]
    minis = [s for s in found if s.kind == "mini"]
    (volume,) = [s for s in found if s.kind == "volume"]
    assert [marks(s.text) for s in minis] == [[2 * n, 2 * n + 1] for n in range(5)]
    assert volume.ordinal == 1
    assert volume.covers == tuple(s.id for s in minis)
    assert volume.message_count == 10
    assert (volume.first_pos, volume.last_pos) == (minis[0].first_pos, minis[-1].last_pos)
    prompt = await service.prompt(ref)
    assert shown(prompt) == (list(range(10, 14)), [], list(range(10)))
    if seed % 10 == 0:
        await turns(7, 11)
        await service.settle(ref, 60)
        later = [s async for s in service.summaries(ref) if s.kind == "volume"]
        assert [s.ordinal for s in later] == [1, 2]
        assert not set(later[0].covers) & set(later[1].covers)


# --- 4: deletion shifts floors


async def thirty_in_a_volume(here: Stage) -> tuple[Message, ...]:
    """Floors 1 to 60: a volume over 1 to 30, minis 31 to 50, the rest raw."""
    said = await here.say(1, 40)
    await here.settle()
    await here.archive()
    said += await here.say(41, 60)
    await here.settle()
    assert shown(await here.prompt()) == (ints(51, 60), ints(31, 50), ints(1, 30))
    return said


def ints(first: int, last: int, *but: int) -> list[int]:
    return [n for n in range(first, last + 1) if n not in but]


@pytest.mark.proves("S-04", "G-14", "G-24", "G-39")
async def test_deleted_floors_are_gone_from_the_prompt_and_shift_no_other_summary(tmp_path: Path):
    async with stage(tmp_path, visible_floors=10, max_unarchived_minis=100) as here:
        said = await thirty_in_a_volume(here)
        before = {s.id: s.covers for s in await here.summaries("mini")}
        here.llm.hang()
        await here.house.service.delete(here.ref, [said[11].id, said[34].id])
        prompt = await here.prompt()
        assert shown(prompt) == (ints(51, 60), ints(1, 50, 12, 35), [])
        text = str(prompt.messages)
        assert all(f"room {n} " not in text for n in (12, 35))
        assert prompt.trace.dropped == ()
        after = {s.id: s.covers for s in await here.summaries("mini")}
        gone = {s for s, covers in before.items() if set(covers) & {said[11].id, said[34].id}}
        assert after == {s: covers for s, covers in before.items() if s not in gone}
        places = [p async for p in here.house.service.places(here.ref, prompt)]
        assert [p.floor for p in places] == list(range(58))
        assert marks(places[11].message.body) == [13]
        here.llm.release()
        await here.settle()
        await here.check()


@pytest.mark.proves("S-04", "G-14", "G-24")
async def test_a_volume_that_lost_a_floor_is_written_anew_over_the_others(tmp_path: Path):
    async with stage(tmp_path, visible_floors=10, max_unarchived_minis=100) as here:
        said = await thirty_in_a_volume(here)
        await here.archive()
        assert shown(await here.prompt(WIDE + 1)) == (ints(51, 60), [], ints(1, 50))
        here.llm.hang()  # what is looked at next is what stands until it has answered
        await here.house.service.delete(here.ref, [said[11].id])
        assert shown(await here.prompt()) == (ints(51, 60), ints(1, 30, 12), ints(31, 50))
        here.llm.release()
        await here.settle()
        first, second = sorted(await here.summaries("volume"), key=lambda v: v.first_pos)
        assert (first.ordinal, first.message_count, marks(first.text)) == (1, 29, ints(1, 30, 12))
        assert (second.ordinal, second.message_count) == (2, 20)
        assert shown(await here.prompt()) == (ints(51, 60), [], ints(1, 50, 12))
        await here.check()


# --- 6: an edit inside an archived volume


@pytest.mark.proves("S-06", "G-24", "G-27")
async def test_an_edit_inside_a_volume_that_the_user_wrote(tmp_path: Path):
    async with stage(tmp_path, visible_floors=10, max_unarchived_minis=100) as here:
        said = await thirty_in_a_volume(here)
        service = here.house.service
        (volume,) = await here.summaries("volume")
        await here.archive()
        mine = "volume ⟦1⟧ in the user's own words"
        edited = await service.edit_summary(here.ref, volume.id, mine)
        assert mine in str((await here.prompt()).messages)
        changed = "Floor ⟦7⟧: the lamp of room 7 was never lit at all. " * 4
        here.llm.hang()
        await service.edit(here.ref, said[6].id, changed)
        prompt = await here.prompt()
        raw, minis, volumes = shown(prompt)
        assert (sorted(set(raw)), minis) == ([7, *ints(51, 60)], ints(1, 30, 7))
        assert volumes == ints(31, 50)
        assert prompt.trace.dropped == ()
        here.llm.release()
        await here.settle()
        await here.check()
        revisions = await here.house.store.revisions(here.ref, edited.id)
        assert revisions[-1].text == mine
        everything = [s async for s in service.summaries(here.ref) if s.kind == "volume"]
        assert mine in [s.text for s in everything if s.status == "ready"]
        (offered,) = [s for s in everything if s.status == "proposed"]
        assert marks(offered.text)[-1] == 30
        # Until the user has decided, the minis stand.
        raw, minis, volumes = shown(await here.prompt(WIDE + 1))
        assert (raw, sorted(set(minis)), volumes) == (ints(51, 60), ints(1, 30), ints(31, 50))
        await service.restore_summary(here.ref, offered.id)
        assert sorted(set(shown(await here.prompt())[2])) == ints(1, 50)
        await here.check()


# --- 22 and B-39: the window


async def two_volumes(here: Stage) -> tuple[Message, ...]:
    """Floors 1 to 100: volumes over 1 to 30 and 31 to 58, minis up to 80."""
    said = await here.say(1, 50)
    await here.settle()
    await here.archive()
    said += await here.say(51, 78)
    await here.settle()
    await here.archive()
    said += await here.say(79, 100)
    await here.settle()
    return said


@pytest.mark.proves("B-37", "B-38", "B-39", "G-40")
async def test_the_minis_shown_are_those_of_floors_59_to_80(tmp_path: Path):
    async with stage(tmp_path, visible_floors=20, max_unarchived_minis=100) as here:
        await two_volumes(here)
        one, two = await here.summaries("volume")
        assert [marks(one.text), marks(two.text)] == [ints(1, 30), ints(31, 58)]
        raw, minis, volumes = shown(await here.prompt())
        assert raw == ints(81, 100)
        assert minis == ints(59, 80)
        assert volumes == ints(1, 58)
        assert shown(await here.prompt()) == (raw, minis, volumes)
        await here.check()


@pytest.mark.proves("S-22", "G-30", "G-31", "G-112", "I2", "I12")
async def test_the_window_goes_up_and_down_over_two_volumes(tmp_path: Path):
    async with stage(tmp_path, visible_floors=20, max_unarchived_minis=100) as here:
        said = await two_volumes(here)
        hidden = ints(50, 52)
        await here.house.service.mark(
            here.ref, "hide", [said[n - 1].id for n in hidden], hidden_by="user"
        )
        await here.settle()
        for floors in (20, 60, 5, 1, 100):
            await here.set(visible_floors=floors)
            await here.settle()
            raw, minis, volumes = shown(await here.prompt())
            everything = [*volumes, *minis, *raw]
            assert sorted(everything) == ints(1, 100, *hidden), floors
            assert len(everything) == len(set(everything))
            assert raw == ints(1, 100, *hidden)[-floors:], floors
        await here.set(enabled=False)
        prompt = await here.prompt()
        assert shown(prompt) == (ints(1, 100, *hidden), [], [])


# --- 17: a thousand turns

PLANTED = {3: "the vault code is 4471", 250: "Mara's ship is the Heron", 600: "Tomas fears bells"}
BUDGET = 4_000


def keeping(ask: Ask) -> str:
    """A summariser that loses no planted fact, and little else."""
    text = " ".join(said for _, said in ask.material)
    kept = [f"Remember: {words}." for words in PLANTED.values() if words in text]
    return " ".join([*kept, f"They spoke of {len(text)} small things."])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.proves("G-45", "G-46", "I9")
async def test_a_thousand_turns_in_four_thousand_tokens(tmp_path: Path):
    async with stage(tmp_path, keeping, budget_tokens=BUDGET, visible_floors=20) as here:
        sizes: list[int] = []
        prompt: Prompt | None = None
        for turn in range(1, 1_001):
            planted = f" I tell you: {PLANTED[turn]}." if turn in PLANTED else ""
            user = NewMessage("user", f"Turn {turn}.{planted} " + "We walked along the quay. " * 6)
            await here.house.service.append(here.ref, [user])
            prompt = await here.prompt(None)
            assert prompt.tokens <= BUDGET, turn
            reply = NewMessage("assistant", f"Turn {turn}. " + "The tide was out and grey. " * 6)
            await here.house.service.append(here.ref, [reply])
            if turn % 10 == 0:
                await here.settle()
            if turn in (500, 1_000):
                sizes.append(_bytes(tmp_path))
        assert prompt is not None
        text = str(prompt.messages)
        assert [words for words in PLANTED.values() if words not in text] == []
        assert prompt.trace.dropped == ()
        asked = sorted(sum(len(m["content"]) for m in ask.messages) for ask in here.llm.asks)
        half = len(here.llm.asks) // 2
        late = max(sum(len(m["content"]) for m in a.messages) for a in here.llm.asks[half:])
        assert late <= 1.2 * max(
            sum(len(m["content"]) for m in a.messages) for a in here.llm.asks[:half]
        )
        assert asked[-1] < 4 * BUDGET
        assert sizes[1] <= 2.2 * sizes[0]
        assert len(await here.summaries("volume")) > 2
        await here.check()


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
