"""A request that is not understood goes on as it came, and whoever looks at the chat is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from previously.align.ending import NO_MATCH
from previously.errors import StoreUnavailable
from previously.model import Passed
from previously.web import sending
from tests.web.rig import Door, Talk, ask, opened, say, until

OTHER: Talk = [
    {"role": "user", "content": "Which of the seven passes is open in March?"},
    {"role": "assistant", "content": "Only the one behind the mill."},
    {"role": "user", "content": "Then we leave on Monday."},
]


async def ask_another_story(door: Door, chat: str = "demo") -> None:
    await ask(door.client(chat), [*OTHER])


async def told_a_story(door: Door, turns: int = 4) -> Talk:
    talk: Talk = []
    for number in range(turns):
        await say(door.client(), talk, f"On day {number} the keeper counted {number * 7} gulls.")
    return talk


async def passed(folder: Path) -> Passed | None:
    """What a server finds that is started now: the one before has written down the rest."""
    async with opened(folder) as door:
        return await door.house.store.passed_on((await door.house.service.find_chat("demo")).ref)


async def test_another_story_under_the_same_name_is_counted_until_this_one_goes_on(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as door:
        talk = await told_a_story(door)
    assert await passed(tmp_path) is None
    async with opened(tmp_path) as door:
        await ask_another_story(door)
        await ask_another_story(door)
        assert len(await door.messages()) == len(talk)
    found = await passed(tmp_path)
    assert found is not None
    assert (found.requests, found.reason) == (2, NO_MATCH)
    async with opened(tmp_path) as door:
        await ask_another_story(door)
    found = await passed(tmp_path)
    assert found is not None
    assert found.requests == 3
    async with opened(tmp_path) as door:
        await say(door.client(), talk, "What did I count on day 2?")
    assert await passed(tmp_path) is None


@pytest.mark.parametrize("last", ["story", "other"])
async def test_what_comes_in_one_breath_is_told_by_what_came_last(
    tmp_path: Path, last: str
) -> None:
    async with opened(tmp_path) as door:
        talk = await told_a_story(door)
        await ask_another_story(door)
        await say(door.client(), talk, "What did I count on day 2?")
        if last == "other":
            await ask_another_story(door)
    found = await passed(tmp_path)
    assert (found.requests if found else 0) == (1 if last == "other" else 0)


async def test_a_name_without_a_chat_and_a_chat_that_is_paused_count_nothing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as door:
        await ask(door.client("nobody"), OTHER[:2])
        await told_a_story(door)
        ref = (await door.house.service.find_chat("demo")).ref
        await door.house.service.set_recording(ref, on=False)
        await ask_another_story(door)
    assert await passed(tmp_path) is None


async def test_nothing_is_counted_twice_that_cannot_be_written_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.01)
    tries: list[Any] = []

    async def fails(*given: Any) -> None:
        tries.append(given)
        raise StoreUnavailable("the disk is full")

    async with opened(tmp_path) as door:
        await told_a_story(door)
        await asyncio.sleep(0.1)
        door.break_store(keep_sent=fails)
        await ask_another_story(door)
        await until(lambda: len(tries) > 0)
        await ask_another_story(door)
        door.break_store()
    found = await passed(tmp_path)
    assert found is not None
    assert found.requests == 2
    async with opened(tmp_path) as door:
        ref = (await door.house.service.find_chat("demo")).ref
        assert len(await door.house.store.sent_turns(ref, 1 << 30, 9)) == 4


async def test_whoever_follows_the_chat_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.01)
    async with opened(tmp_path) as door:
        await told_a_story(door)
        await asyncio.sleep(0.1)
        ref = (await door.house.service.find_chat("demo")).ref
        heard: list[int] = []
        with door.house.service.listening(heard.append):
            await ask_another_story(door)
            await until(lambda: ref.id in heard)
