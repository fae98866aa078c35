"""Two chats from one: each goes its own way, and neither knows of the other."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from previously import Chat, app
from previously.errors import BadInput, ChatNotFound, Conflict, MessageNotFound, ReadOnly
from previously.model import BIRTH_MASK, Ask, ChatRef, Message, NewMessage, Prompt, key
from previously.model import Chat as ChatRecord
from previously.store import Branching
from previously.store.schema import variant
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener

SMALL = {"visible_floors": 3, "fold_every": 2}
BRANCHER = Path(__file__).with_name("brancher.py")


async def play(chat: Chat, turns: int, first: int = 0, what: str = "key") -> list[Message]:
    said: list[Message] = []
    for n in range(first, first + turns):
        said.append(await chat.append("user", f"In turn {n} I gave Mara the {what} {n}."))
        said.append(await chat.append("assistant", f"Mara hides the {what} {n} well."))
    return said


def text(prompt: Prompt) -> str:
    return json.dumps(prompt.messages, ensure_ascii=False)


async def bodies(chat: Chat) -> list[str]:
    return [m.body async for m in chat.messages()]


@pytest.mark.proves("G-25")
async def test_a_branch_knows_the_past_and_nothing_of_the_other_future(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("main")
        said = await play(chat, 10)
        await play(chat, 10, first=10, what="crown")
        await chat.settle()
        calls = len([s async for s in chat.summaries()])
        branch = await chat.branch("other", at=said[-1])
        await branch.settle()
        minis = [s.text async for s in branch.summaries()]
        assert 8 <= len(minis) <= 10
        assert minis == [s.text async for s in chat.summaries()][: len(minis)]
        assert len([s async for s in chat.summaries()]) == calls
        await play(branch, 10, first=10, what="sword")
        for one in (chat, branch):
            await one.settle()
        theirs, ours = text(await branch.prompt(50_000)), text(await chat.prompt(50_000))
        assert "crown" not in theirs
        assert "sword" not in ours
        assert "key 0" in theirs
        assert "key 0" in ours
        assert "sword 19" in theirs
        assert "crown 19" in ours


async def test_changing_one_chat_never_changes_the_other(open_memory: Opener):
    async with open_memory(llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("main")
        await play(chat, 8)
        await chat.settle()
        branch = await chat.branch("other")
        before = await bodies(chat)
        mine = [m async for m in branch.messages()]
        await branch.edit(mine[0], "I kept the lantern.")
        await branch.delete(mine[3])
        await branch.swipe(mine[5], "Mara laughs.")
        await branch.settle()
        assert await bodies(chat) == before
        assert "lantern" not in text(await chat.prompt(50_000))
        assert "lantern" in text(await branch.prompt(50_000))
        async for one in chat.messages():
            await chat.edit(one, "changed")
        assert "changed" not in await bodies(branch)


async def test_a_branch_pays_for_no_summary_again(open_memory: Opener):
    llm = ScriptedLlm()
    async with open_memory(llm=llm, settings=SMALL) as memory:
        chat = await memory.chat("main")
        await play(chat, 12)
        await chat.settle()
        asked = len(llm.asks)
        branch = await chat.branch("other")
        await branch.settle()
        assert len(llm.asks) == asked
        assert (await branch.prompt()).messages == (await chat.prompt()).messages


async def test_a_branch_of_a_branch_keeps_its_own_settings(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("main", settings={"budget_tokens": 700, **SMALL})
        await play(chat, 6)
        first = await chat.branch("first")
        second = await first.branch("second", at=[m async for m in first.messages()][3])
        await memory.chat("first", settings={"budget_tokens": 900})
        budgets = [(await c.prompt()).trace.budget_tokens for c in (chat, first, second)]
        assert budgets == [700, 900, 700]
        assert len(await bodies(second)) == 4


async def test_wrong_names_and_places_are_refused_and_leave_nothing(open_memory: Opener):
    async with open_memory() as memory:
        chat = await memory.chat("main")
        said = await play(chat, 2)
        await chat.delete(said[1])
        for name in ("main", " ", "x" * 201):
            with pytest.raises(BadInput):
                await chat.branch(name)
        with pytest.raises(MessageNotFound):
            await chat.branch("other", at=said[1])
    async with open_memory(read_only=True) as memory:
        with pytest.raises(ReadOnly):
            await (await memory.chat("main")).branch("other")
        with pytest.raises(ChatNotFound):
            await memory.chat("other")


@pytest.mark.parametrize("changes", [1, 2, 99])
async def test_a_source_that_changes_meanwhile_is_copied_again(tmp_path: Path, changes: int):
    house = await app.build(tmp_path / "story.db", worker=False)
    service, store = house.service, house.store
    chat = await service.open_chat("main")
    said = [NewMessage("user", f"message {n}") for n in range(4)]
    second = (await service.append(chat.ref, said))[1]
    finish, left = store.finish_branch, changes

    async def late(made: Branching) -> ChatRecord:
        nonlocal left
        if left:
            left -= 1
            await service.edit(chat.ref, second.id, f"edited, {left} to come")
        return await finish(made)

    store.finish_branch = late
    if changes < 3:
        branch = await service.branch(chat.ref, "other")
        found = [m.body async for m in service.messages(branch.ref)]
        assert found == ["message 0", "edited, 0 to come", "message 2", "message 3"]
    else:
        with pytest.raises(Conflict, match="try again"):
            await service.branch(chat.ref, "other")
        with pytest.raises(ChatNotFound):
            await service.find_chat("other")
    assert await store.unfinished() == 0
    await house.close()


async def test_turns_go_on_while_a_long_chat_is_copied(tmp_path: Path):
    house = await app.build(tmp_path / "story.db", worker=False)
    service = house.service
    chat = await service.open_chat("main")
    await service.append(chat.ref, [NewMessage("user", f"message {n}") for n in range(2_000)])
    copying = asyncio.create_task(service.branch(chat.ref, "other"))
    appended = 0
    while not copying.done():
        await service.append(chat.ref, [NewMessage("user", "later")])
        appended += 1
    branch = await copying
    assert appended > 3
    assert len([m async for m in service.messages(branch.ref)]) in range(2_000, 2_000 + appended)
    assert len([m async for m in service.messages(chat.ref)]) == 2_000 + appended
    await house.close()


# --- a random life, then a branch at a random place, then two lives


class Story:
    """Chats whose every text is unique, so that a prompt shows whose texts it holds."""

    def __init__(self, house: app.House) -> None:
        self.house = house
        self.count = 0
        self.said: dict[int, set[str]] = {}

    def text(self, ref: ChatRef) -> str:
        self.count += 1
        word = f"⟦{self.count}⟧"
        self.said.setdefault(ref.id, set()).add(word)
        return f"{word} and some words that make it longer"

    async def live(self, ref: ChatRef, steps: list[tuple[str, int]]) -> None:
        for what, where in steps:
            alive = [m async for m in self.house.service.messages(ref)]
            if what == "append" or not alive:
                said = [NewMessage(r, self.text(ref)) for r in ("user", "assistant")]
                await self.house.service.append(ref, said)
            else:
                await self.step(ref, what, alive[where % len(alive)].id, alive[0].id)

    async def step(self, ref: ChatRef, what: str, one: int, first: int) -> None:
        service = self.house.service
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "edit": lambda: service.edit(ref, one, self.text(ref)),
            "swipe": lambda: service.swipe(ref, one, self.text(ref)),
            "swipe back": lambda: service.swipe(ref, one, 0),
            "insert": lambda: service.insert(ref, [NewMessage("user", self.text(ref))], one),
            "move": lambda: service.move(ref, one, first),
            "delete": lambda: service.delete(ref, [one]),
            "hide": lambda: service.mark(ref, "hide", [one], hidden_by="user"),
            "undo": lambda: service.undo(ref),
            "prompt": lambda: service.prompt(ref, 1_500),
            "settle": lambda: service.settle(ref, 20),
        }
        await steps[what]()

    async def check(self, ref: ChatRef, alien: set[str]) -> None:
        prompt = text(await self.house.service.prompt(ref, 20_000))
        assert [word for word in alien if word in prompt] == []
        assert await self.house.store.is_sound(ref, "volumes")


OFTEN = ("append", "append", "append", "settle", "edit", "swipe", "move", "delete")
SELDOM = ("swipe back", "insert", "hide", "undo", "prompt")
WHAT = st.sampled_from((*OFTEN, *SELDOM))
STEPS = st.lists(st.tuples(WHAT, st.integers(0, 40)), max_size=14)


async def other_texts(house: app.House, ref: ChatRef) -> list[str]:
    """What messages of a chat have said before and may say again."""
    mine = variant.c.message_id.between(key(ref.id, 0), key(ref.id, BIRTH_MASK))
    found = await house.store._db.read(
        lambda conn: conn.execute(sa.select(variant).where(mine)).all()
    )
    return [row.body for row in found]


async def two_lives(
    before: list[tuple[str, int]], at: int, lives: tuple[list[tuple[str, int]], ...]
) -> None:
    def note(ask: Ask) -> str:
        return "note: " + plain_note(ask)

    with tempfile.TemporaryDirectory() as folder:
        house = await app.build(Path(folder) / "x.db", llm=ScriptedLlm(note), settings=SMALL)
        try:
            story, service = Story(house), house.service
            main = (await service.open_chat("main")).ref
            await story.live(main, [("append", 0)] * 4 + [("settle", 0)] + before)
            alive = [m async for m in service.messages(main)]
            last = at % len(alive) if alive else -1
            branch = await service.branch(main, "other", alive[last].id if alive else None)
            mine = [m async for m in service.messages(branch.ref)]
            assert [(m.body, m.hash, m.pos) for m in mine] == [
                (m.body, m.hash, m.pos) for m in alive[: last + 1]
            ]
            prefix = "".join([*(m.body for m in mine), *await other_texts(house, branch.ref)])
            future = story.said[main.id] - words(prefix)
            await story.check(branch.ref, future)
            await story.live(main, lives[0])
            await story.live(branch.ref, lives[1])
            own = story.said.get(branch.ref.id, set())
            await story.check(branch.ref, story.said[main.id] - words(prefix))
            await story.check(main, own)
            notes = "".join([s.text async for s in service.summaries(branch.ref)])
            assert words(notes) & future == set()
        finally:
            await house.close()


def words(prefix: str) -> set[str]:
    return set(re.findall(r"⟦\d+⟧", prefix))


@pytest.mark.slow
@pytest.mark.proves("G-25")
@pytest.mark.timeout(180)
@settings(max_examples=15)
@given(STEPS, st.integers(0, 40), st.tuples(STEPS, STEPS))
def test_whatever_happened_each_chat_shows_only_its_own_texts(
    before: list[tuple[str, int]], at: int, lives: tuple[list[tuple[str, int]], ...]
):
    asyncio.run(two_lives(before, at, lives))


# --- kill -9


async def long_memory(path: Path) -> None:
    house = await app.build(path, worker=False)
    chat = await house.service.open_chat("long")
    said = [NewMessage("user", f"message {n} " + "words " * 40) for n in range(3_000)]
    await house.service.append(chat.ref, said)
    await house.close()


def copied_so_far(path: Path) -> int | None:
    """How many messages an invisible chat has; None if there is no such chat."""
    raw = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        found = raw.execute("SELECT id FROM chat WHERE building").fetchone()
        count = "SELECT count(*) FROM message WHERE chat_id = ?"
        return None if found is None else raw.execute(count, found).fetchone()[0]
    finally:
        raw.close()


def killed_in_the_middle(path: Path) -> int | None:
    """How far the copy had come when its process was killed; None if it was too quick for us."""
    child = subprocess.Popen(
        [sys.executable, str(BRANCHER), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    while child.poll() is None and not copied_so_far(path):
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return copied_so_far(path)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_process_killed_while_branching_leaves_no_half_chat(tmp_path: Path):
    whole = tmp_path / "whole.db"
    await long_memory(whole)
    caught: list[int] = []
    for run in range(20):
        path = tmp_path / f"{run}.db"
        shutil.copy(whole, path)
        reached = await asyncio.to_thread(killed_in_the_middle, path)
        if reached is not None:
            caught.append(reached)
            await no_half_chat(path)
        if len(caught) == 3:
            break
    assert len(caught) == 3
    assert any(0 < n < 3_000 for n in caught)


async def no_half_chat(path: Path) -> None:
    reader = await app.build(path, read_only=True)
    assert [c.ref.name for c in await reader.store.chats("local", 10)] == ["long"]
    await reader.close()
    house = await app.build(path, worker=False)  # the next start: what was left is gone
    assert await house.store.unfinished() == 0
    assert [c.ref.name for c in await house.store.chats("local", 10)] == ["long"]
    chat = await house.service.find_chat("long")
    branch = await house.service.branch(chat.ref, "branch")
    assert len([m async for m in house.service.messages(branch.ref)]) == 3_000
    await house.close()
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM message").fetchone() == (6_000,)
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    raw.close()
