"""What a client's requests have shown of it outlives the process that saw them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.rig import Door, Talk, ask, opened, say

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
