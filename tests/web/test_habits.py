"""What a client's requests have shown of it outlives the process that saw them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.rig import Door, Talk, ask, opened, say
from tests.web.tavern import Row, Tavern

NOTE = {"role": "assistant", "content": "[The lantern burns low.]"}


async def turn(door: Door, talk: Talk, words: str) -> None:
    """The client puts a note of its own in front of what was said last, as a reply."""
    asked: Talk = [*talk, *([NOTE] if talk else []), {"role": "user", "content": words}]
    await ask(door.client(), asked)
    talk += asked[-2:]


def said(talk: Talk) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in talk]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_note_that_comes_to_stand_where_a_reply_was_is_not_that_reply(
    tmp_path: Path, restarted: bool
) -> None:
    talk: Talk = []
    async with opened(tmp_path) as door:
        for number in range(5):
            await turn(door, talk, f"question {number}")
        assert await door.lines() == said(talk)
        if not restarted:
            await _go_on_without_the_last_reply(door, talk)
    if restarted:
        async with opened(tmp_path) as door:
            await _go_on_without_the_last_reply(door, talk)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_note_that_was_not_understood_at_first_is_known_after_a_restart(
    tmp_path: Path, restarted: bool
) -> None:
    talk: Talk = []
    async with opened(tmp_path) as door:
        for number in range(4):
            await say(door.client(), talk, f"question {number}")
        await ask(door.client(), [*talk, NOTE, {"role": "user", "content": "one more"}])
        assert await door.lines() == said(talk)  # it may be an instruction
        if not restarted:
            await _go_on_in_other_words(door, talk)
    if restarted:
        async with opened(tmp_path) as door:
            await _go_on_in_other_words(door, talk)


async def _go_on_in_other_words(door: Door, talk: Talk) -> None:
    """The note stands where the last reply was, which is hidden."""
    del talk[-1]
    await ask(door.client(), [*talk, NOTE, {"role": "user", "content": "something else"}])
    assert not any(NOTE["content"] in m.body for m in await door.messages())


async def _go_on_without_the_last_reply(door: Door, talk: Talk) -> None:
    del talk[-1]
    await turn(door, talk, "something else")
    await turn(door, talk, "and more")
    shown = [(m.role, m.body) for m in await door.messages() if m.shown]
    assert shown == said(talk)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_to_what_was_not_understood_is_known_when_it_comes_back(
    tmp_path: Path, stream: bool, restarted: bool
) -> None:
    """A user says two things in a row for the first time, and then sends without saying anything:
    what stands last may begin a reply, but for having been passed on as a whole one."""
    async with opened(tmp_path) as door:
        client = Tavern(door, stream=stream)
        for number in range(4):
            await client.say(f"question {number}", f"answer {number}")
        client.rows.append(Row(client.user, "two things", "user"))
        await client.say("in a row", "one answer\n\nto both")
        assert client.traces[-1].startswith("pass-through: a new message may be an instruction")
        if not restarted:
            await _go_on_unasked(client)
    if restarted:
        async with opened(tmp_path) as door:
            client.door = door
            await _go_on_unasked(client)


async def _go_on_unasked(client: Tavern) -> None:
    client.door.upstream.says("and one more")
    await client.post(client.prompt("Alice"), previously={"type": "normal"})
    assert client.traces[-1].startswith("append")
    kept = [(m.role, m.body) for m in await client.door.messages() if m.shown]
    assert kept == [*client.holds(), ("assistant", "and one more")]


async def test_a_reply_that_grew_while_nothing_was_understood_is_known_as_it_is(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as door:
        client = Tavern(door, window=6)
        for number in range(4):
            await client.say(f"question {number}", f"answer {number}")
        client.rows.append(Row(client.user, "two things", "user"))
        await client.say("in a row", "one answer")
        await client.grow(", and more of it")
        client.rows.append(Row(client.user, "two more", "user"))
        await client.say("things in a row", "another answer")
        assert [trace[:4] for trace in client.traces[-3:]] == ["pass"] * 3
        await client.say("the end", "done")
        kept = [(m.role, m.body) for m in await door.messages() if m.shown]
        assert kept == client.holds()


async def test_another_story_under_the_same_name_is_never_joined_to_a_chat(tmp_path: Path) -> None:
    """One address for all chats of a client, as a user may set it up: the second one has no memory,
    and the server says so, however long it goes on."""
    async with opened(tmp_path) as door:
        first, second = Tavern(door), Tavern(door)
        for number in range(5):
            await first.say(
                f"the first question, number {number}", f"the first answer, no. {number}"
            )
        for number in range(8):
            await second.say(f"of something else {number}", f"another answer, number {number}")
        assert all(trace.startswith("pass") for trace in second.traces)
        kept = [(m.role, m.body) for m in await door.messages() if m.shown]
        assert kept == first.holds()
        await first.say("back again", "welcome")
        kept = [(m.role, m.body) for m in await door.messages() if m.shown]
        assert kept == first.holds()
