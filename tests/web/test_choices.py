"""Several replies to one request: one is kept, the client chooses which."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from previously.model import State
from previously.testing import Failure
from tests.web.rig import Door, Talk, opened, say

SAID = ("It rains.", "It snows.", "It is clear.")


def answer(texts: Sequence[str]) -> Any:
    """What a server says to a request for several choices, whole or as a stream."""

    def said(body: dict[str, Any]) -> Failure:
        if body.get("stream"):
            kind = {"content-type": "text/event-stream"}
            return Failure(
                200, b"".join(map(_event, _interleaved(texts))) + b"data: [DONE]\n\n", kind
            )
        choices = [
            {"index": i, "message": {"role": "assistant", "content": t}, "finish_reason": "stop"}
            for i, t in enumerate(texts)
        ]
        return Failure(200, json.dumps({"id": "x", "choices": choices[::-1]}).encode())

    return said


def _interleaved(texts: Sequence[str]) -> list[dict[str, Any]]:
    pieces = itertools.zip_longest(*([*t.split(" ")] for t in texts))
    said = [
        {"index": i, "delta": {"content": piece if k == 0 else f" {piece}"}, "finish_reason": None}
        for k, row in enumerate(pieces)
        for i, piece in reversed(list(enumerate(row)))
        if piece is not None
    ]
    return [*said, *({"index": i, "delta": {}, "finish_reason": "stop"} for i in range(len(texts)))]


def _event(choice: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'id': 'x', 'choices': [choice]})}\n\n".encode()


async def ask_for_three(door: Door, talk: Talk, *, stream: bool) -> list[str]:
    door.upstream.answer = answer(SAID)
    create: Any = door.client().chat.completions.create
    got = await create(model="m", messages=talk, n=3, stream=stream)
    told = ["", "", ""]
    if not stream:
        for one in got.choices:
            told[one.index] = one.message.content
        return told
    async for chunk in got:
        for one in chunk.choices:
            told[one.index] += one.delta.content or ""
    return told


async def variants(door: Door) -> list[str]:
    last = next(m for m in reversed(await door.messages()) if m.role == "assistant")
    ref = (await door.house.service.find_chat("demo")).ref
    return [v.body for v in await door.house.store.variants(ref, last.id)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chosen", [0, 1, 2])
async def test_the_choice_that_the_client_keeps_is_the_reply(
    tmp_path: Path, stream: bool, chosen: int
) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        await say(door.client(), talk, "Good morning.")
        talk.append({"role": "user", "content": "How is the weather?"})
        assert await ask_for_three(door, talk, stream=stream) == list(SAID)
        assert (await door.lines())[-1] == ("assistant", SAID[0])
        assert await variants(door) == list(SAID)
        talk.append({"role": "assistant", "content": SAID[chosen]})
        door.upstream.says("Yes.")
        await say(door.client(), talk, "Shall we go out?")
        kept = await door.messages()
        assert [m.body for m in kept[-3:]] == [SAID[chosen], "Shall we go out?", "Yes."]
        assert kept[-3].state == State.CONFIRMED
        assert len(kept) == len(talk)
        ref = (await door.house.service.find_chat("demo")).ref
        offered = await door.house.store.variants(ref, kept[-3].id)
        assert [v.body for v in offered] == list(SAID)
        assert kept[-3].variant == chosen
        assert door.rows("select count(*) from message_revision") == [(0,)]  # nothing was edited


async def test_a_choice_that_is_made_later_is_that_variant_and_can_be_taken_back(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        await say(door.client(), talk, "Good morning.")
        talk.append({"role": "user", "content": "How is the weather?"})
        await ask_for_three(door, talk, stream=False)
        talk.append({"role": "assistant", "content": SAID[0]})
        door.upstream.says("Yes.", "Of course.")
        await say(door.client(), talk, "Shall we go out?")
        talk[3]["content"] = SAID[2]
        await say(door.client(), talk, "Now?")
        kept = await door.messages()
        assert [(m.body, m.variant) for m in kept[3:4]] == [(SAID[2], 2)]
        ref = (await door.house.service.find_chat("demo")).ref
        assert [v.body for v in await door.house.store.variants(ref, kept[3].id)] == list(SAID)
        await door.house.service.undo(ref)
        assert [(m.body, m.variant) for m in (await door.messages())[3:4]] == [(SAID[0], 0)]


async def test_several_replies_to_a_turn_that_is_asked_again_join_its_variants(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        await say(door.client(), talk, "Good morning.")
        door.upstream.says("Who knows?")
        await say(door.client(), talk, "How is the weather?")
        del talk[-1]
        await ask_for_three(door, talk, stream=True)
        assert (await door.lines())[-1] == ("assistant", SAID[0])
        assert await variants(door) == ["Who knows?", *SAID]


def _calls(name: str) -> Any:
    function = {"name": "look", "arguments": f'{{"where":"{name}"}}'}
    return [{"id": f"call_{name}", "type": "function", "function": function}]


def answer_with_calls(body: dict[str, Any]) -> Failure:
    """Two choices, each of which calls a tool in its own way."""
    names = ("north", "south")
    if not body.get("stream"):
        choices = [
            {
                "index": i,
                "message": {"role": "assistant", "content": None, "tool_calls": _calls(name)},
                "finish_reason": "tool_calls",
            }
            for i, name in enumerate(names)
        ]
        return Failure(200, json.dumps({"id": "x", "choices": choices}).encode())
    begun: list[dict[str, Any]] = [
        {"index": i, "delta": {"tool_calls": [{"index": 0, **_calls(name)[0]}]}}
        for i, name in reversed(list(enumerate(names)))
    ]
    ended: list[dict[str, Any]] = [
        {"index": i, "delta": {}, "finish_reason": "tool_calls"} for i in range(2)
    ]
    events = b"".join(map(_event, [*begun, *ended])) + b"data: [DONE]\n\n"
    return Failure(200, events, {"content-type": "text/event-stream"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chosen", ["north", "south"])
async def test_the_call_that_the_client_answers_is_the_one_that_was_made(
    tmp_path: Path, stream: bool, chosen: str
) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        await say(door.client(), talk, "Good morning.")
        talk.append({"role": "user", "content": "What do you see?"})
        door.upstream.answer = answer_with_calls
        create: Any = door.client().chat.completions.create
        got = await create(model="m", messages=talk, n=2, stream=stream)
        if stream:
            _ = [chunk async for chunk in got]
        talk.append({"role": "assistant", "content": None, "tool_calls": _calls(chosen)})
        talk.append({"role": "tool", "tool_call_id": f"call_{chosen}", "content": "Two ships."})
        door.upstream.says("Two ships.", "Gone.")
        talk.append({"role": "assistant", "content": await _told(door, talk)})
        await say(door.client(), talk, "And now?")
        kept = [m for m in await door.messages() if m.shown]
        assert [m.role for m in kept] == [m["role"] for m in talk]
        assert f"call_{chosen}" in (kept[3].tool_calls or "")
        assert kept[4].tool_call_id == f"call_{chosen}"
        sent = door.upstream.requests[-1].messages
        assert [m.get("tool_calls") for m in sent][3] == _calls(chosen)


async def _told(door: Door, talk: Talk) -> str:
    create: Any = door.client().chat.completions.create
    answer = await create(model="m", messages=talk)
    return answer.choices[0].message.content
