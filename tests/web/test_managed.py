"""Managed chats: the client sends what is new, and the model reads the whole story."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from previously.model import NewMessage, State
from previously.testing import Failure
from tests.web.rig import Door, opened, size
from tests.web.test_turns import CALLS, SMALL, with_tools, words

HEAD = {"role": "system", "content": "You are the keeper of a lighthouse."}


async def send(door: Door, *messages: dict[str, Any], **more: Any) -> str:
    """A managed request; what was done."""
    body = {"model": "m", "messages": list(messages), "previously": {"managed": True}, **more}
    async with door.http.post(door.url(), json=body) as answer:
        await answer.read()
        return answer.headers["x-previously-trace"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_the_model_reads_what_the_client_no_longer_sends(door: Door) -> None:
    for turn in range(3):
        trace = await send(door, HEAD, user(f"words {turn}"))
        assert trace.startswith("managed append")
    sent = door.upstream.requests[-1].messages
    assert sent[0] == HEAD
    assert [m["content"] for m in sent[1:] if m["role"] == "user"] == [
        f"words {turn}" for turn in range(3)
    ]
    assert len(sent) == 6
    assert "previously" not in door.upstream.requests[-1].body


@pytest.mark.slow
async def test_sixty_turns_stay_within_the_budget_and_are_confirmed(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        for turn in range(60):
            await send(door, HEAD, user(words(turn)))
            assert size(door.upstream.requests[-1].messages) <= SMALL["budget_tokens"]
        kept = await door.messages()
    assert len(kept) == 120
    assert {m.state for m in kept[:-1]} == {State.CONFIRMED}


async def test_the_same_words_twice_are_two_messages(door: Door) -> None:
    for _ in range(3):
        await send(door, user("嗯。"))
    assert [m.body for m in await door.messages()][::2] == ["嗯。"] * 3


async def test_no_new_words_ask_the_last_turn_again(door: Door) -> None:
    door.upstream.says(*(f"try {i}" for i in range(9)))
    await send(door, user("one"))
    await send(door, user("two"))
    before = door.upstream.requests[-1].messages
    assert (await send(door)).startswith("managed reroll")
    assert door.upstream.requests[-1].messages == before
    assert [body for _, body in await door.lines()] == ["one", "try 0", "two", "try 2"]


async def test_a_turn_that_failed_is_asked_by_sending_it_again(door: Door) -> None:
    await send(door, user("one"))
    door.upstream.says(Failure(500, b"{}"), "Two.")
    await send(door, user("two"))
    assert len(await door.messages()) == 2
    await send(door, user("two"))
    assert [body for _, body in await door.lines()][2:] == ["two", "Two."]


async def test_tools_work_without_a_history(door: Door) -> None:
    door.upstream.answer = with_tools
    await send(door, user("When is high tide?"))
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "noon"} for c in CALLS]
    await send(door, *results)
    roles = [m.role for m in await door.messages()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert [m["role"] for m in door.upstream.requests[-1].messages] == roles[:-1]


async def test_what_was_recorded_meanwhile_stays_in_front(door: Door) -> None:
    await send(door, user("one"))
    await asyncio.gather(*(send(door, user(f"at once {i}")) for i in range(4)))
    kept = [body for _, body in await door.lines()]
    assert len(kept) == 10
    assert sorted(kept[2::2]) == [f"at once {i}" for i in range(4)]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [([], "nothing to answer"), (["x"], "not an object"), ([{"role": "x"}], "cannot")],
)
async def test_what_cannot_be_kept_passes_through(
    door: Door, messages: list[Any], reason: str
) -> None:
    assert reason in await send(door, *messages)
    assert door.rows("select * from message") == []


async def test_a_library_and_a_managed_client_share_a_chat(door: Door) -> None:
    chat = await door.house.service.open_chat("demo")
    await door.house.service.append(
        chat.ref, [NewMessage("user", "from a program"), NewMessage("assistant", "noted")]
    )
    await send(door, user("and from a client"))
    sent = [m["content"] for m in door.upstream.requests[-1].messages]
    assert sent == ["from a program", "noted", "and from a client"]
