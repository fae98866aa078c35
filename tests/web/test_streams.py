from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openai import APIError

from previously.model import Prompt, State
from previously.testing import Failure
from previously.web import proxy, relay, sending, serve
from tests.web.rig import Door, Talk, ask, opened, say, say_streaming, until

LONG = "The lamp turned over the dark water, and nobody came. " * 8


def body(*words: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": one} for one in words]
    return {"model": "m", "messages": messages, "stream": True}


async def read_some(answer: aiohttp.ClientResponse, events: int) -> str:
    """The words of the first few events."""
    told = ""
    for _ in range(events):
        line = b""
        while not line.startswith(b"data: "):
            line = await answer.content.readline()
        told += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return told


async def test_the_turn_is_on_disk_before_the_last_event(door: Door) -> None:
    async def slow(*args: Any) -> None:
        await asyncio.sleep(0.2)
        await door.house.store.record_turn(*args)

    door.break_store(record_turn=slow)
    async with door.http.post(door.url(), json=body("one")) as answer:
        assert answer.content_type == "text/event-stream"
        async for line in answer.content:
            if line.startswith(b"data: [DONE]"):
                break
        found = door.rows("select role, body, state from message order by pos")
    assert found == [
        ("user", "one", "candidate"),
        ("assistant", "I have read 1 messages.", "candidate"),
    ]


async def test_words_arrive_while_the_upstream_still_speaks(door: Door) -> None:
    door.upstream.says(LONG)
    door.upstream.piece_delay_s = 0.02
    async with door.http.post(door.url(), json=body("one")) as answer:
        told = await read_some(answer, 4)
    assert told == LONG[:24]


async def test_the_bytes_of_a_stream_are_not_touched(door: Door) -> None:
    stream = (
        b": keep-alive\n\n"
        b'data: {"choices":[{"index":0,"delta":{"reasoning":"hm"}}],"x":1}\r\n\r\n'
        b'event: message\nid: 7\ndata: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
        b'data: {"choices":[{"index":1,"delta":{"content":"other choice"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"lo"},\ndata: "finish_reason":"stop"}]}\n\n'
        b"data: not json\n\n"
        b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n'
        b"data: [DONE]\n\n: goodbye\n\n"
    )
    door.upstream.says(Failure(200, stream, {"content-type": "text/event-stream"}))
    async with door.http.post(door.url(), json=body("one")) as answer:
        assert await answer.read() == stream
    assert await door.lines() == [("user", "one"), ("assistant", "Hello")]


async def test_a_stream_without_its_closing_event_is_kept(door: Door) -> None:
    door.upstream.sends_done = False
    client, talk = door.client(), Talk()
    await say_streaming(client, talk, "one")
    assert await door.lines() == [("user", "one"), ("assistant", "I have read 1 messages.")]


async def test_a_stream_that_breaks_looks_broken_and_its_words_are_a_candidate(door: Door) -> None:
    door.upstream.says(LONG)
    door.upstream.cut_after_pieces = 5
    async with door.http.post(door.url(), json=body("one")) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    kept = await door.messages()
    assert [m.body for m in kept] == ["one", LONG[:32]]
    assert kept[1].state == State.CANDIDATE


async def test_a_stream_that_breaks_before_a_word_leaves_no_turn(door: Door) -> None:
    door.upstream.cut_after_pieces = 1
    async with door.http.post(door.url(), json=body("one")) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    assert await door.messages() == []
    door.upstream.cut_after_pieces = None
    client, talk = door.client(), Talk()
    await say_streaming(client, talk, "one, in other words")
    assert len(await door.messages()) == 2


async def stopped(door: Door) -> str:
    """The user presses stop; what the client had read by then."""
    door.upstream.says(LONG)
    door.upstream.piece_delay_s = 0.02
    async with aiohttp.ClientSession() as session:
        answer = await session.post(door.url(), json=body("one"))
        told = await read_some(answer, 5)
        answer.close()
    await until(lambda: len(door.rows("select * from message")) == 2)
    door.upstream.piece_delay_s = 0
    return told


@pytest.mark.proves("G-107")
async def test_a_client_that_leaves_ends_the_work_and_the_part_is_not_final(door: Door) -> None:
    told = await stopped(door)
    await until(lambda: door.upstream.abandoned == 1)
    kept = await door.messages()
    assert kept[1].body.startswith(told)
    assert len(kept[1].body) < len(LONG)
    assert not kept[1].eligible


@pytest.mark.proves("G-107")
async def test_a_part_that_the_client_keeps_becomes_final(door: Door) -> None:
    told = await stopped(door)
    talk: Talk = [{"role": "user", "content": "one"}, {"role": "assistant", "content": told}]
    await say(door.client(), talk, "go on")
    kept = await door.messages()
    assert (kept[1].body, kept[1].state) == (told, State.CONFIRMED)


@pytest.mark.proves("G-107")
async def test_a_part_that_is_asked_again_gives_way(door: Door) -> None:
    await stopped(door)
    door.upstream.says("Whole.")
    await ask(door.client(), [{"role": "user", "content": "one"}])
    assert await door.lines() == [("user", "one"), ("assistant", "Whole.")]


async def leave_a_stream_and_ask(door: Door, talk: Talk, asked: str) -> None:
    """The first answer is still on its way when the client asks again, and is left after that."""
    await say(door.client(), talk, "zero")
    door.upstream.says(LONG, "Whole.")
    door.upstream.piece_delay_s = 0.02
    first = {**body(), "messages": [*talk, {"role": "user", "content": "one"}]}
    async with aiohttp.ClientSession() as session:
        answer = await session.post(door.url(), json=first)
        await read_some(answer, 5)
        await say_streaming(door.client(), talk, asked)
        answer.close()
        await until(lambda: door.upstream.abandoned == 1)
    door.upstream.piece_delay_s = 0


async def test_a_stream_that_was_left_takes_nothing_from_what_was_asked_after_it(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    talk: Talk = []
    await leave_a_stream_and_ask(door, talk, "something else")
    await until(lambda: "overtaken" in caplog.text)
    assert await door.lines() == [(m["role"], m["content"]) for m in talk]


async def test_a_stream_that_was_left_is_a_variant_of_what_was_asked_again(door: Door) -> None:
    talk: Talk = []
    await leave_a_stream_and_ask(door, talk, "one")
    await until(lambda: len(door.rows("select * from variant")) == 2)
    assert await door.lines() == [(m["role"], m["content"]) for m in talk]


async def test_an_error_inside_a_stream_reaches_the_client(door: Door) -> None:
    stream = b'data: {"error":{"message":"overloaded","code":529}}\n\ndata: [DONE]\n\n'
    door.upstream.says(Failure(200, stream, {"content-type": "text/event-stream"}))
    with pytest.raises(APIError, match="overloaded"):
        await say_streaming(door.client(), [], "one")
    assert await door.messages() == []


async def test_a_server_that_is_stopped_keeps_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "GRACE_S", 0)
    async with aiohttp.ClientSession() as session:
        async with opened(tmp_path) as door:
            door.upstream.says(LONG)
            door.upstream.piece_delay_s = 0.02
            answer = await session.post(door.url(), json=body("one"))
            told = await read_some(answer, 5)
        answer.close()
        kept = [row[0] for row in door.rows("select body from message order by pos")]
    assert kept[0] == "one"
    assert kept[1].startswith(told)


async def test_streams_of_equal_requests_make_one_turn(door: Door) -> None:
    door.upstream.says(*(f"try {i}" for i in range(9)))
    door.upstream.piece_delay_s = 0.01
    client = door.client()
    await asyncio.gather(*(say_streaming(client, [], "one") for _ in range(5)))
    assert len(await door.messages()) == 2
    assert len(door.rows("select * from variant")) == 5


async def test_what_says_that_a_reply_is_whole_leaves_after_the_commit(door: Door) -> None:
    async def slow(*args: Any) -> None:
        await asyncio.sleep(0.2)
        await door.house.store.record_turn(*args)

    door.break_store(record_turn=slow)
    door.upstream.sends_done = False
    async with door.http.post(door.url(), json=body("one")) as answer:
        async for line in answer.content:
            if b'"finish_reason": "stop"' in line:
                break
        assert len(door.rows("select * from message")) == 2


async def test_words_after_their_own_end_are_kept(door: Door) -> None:
    stream = (
        b'data: {"choices":[{"delta":{"content":"Hel"},"finish_reason":"stop"}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    door.upstream.says(Failure(200, stream, {"content-type": "text/event-stream"}))
    async with door.http.post(door.url(), json=body("one")) as answer:
        assert await answer.read() == stream
    assert await door.lines() == [("user", "one"), ("assistant", "Hello")]


async def test_a_server_that_is_stopped_lets_streams_end(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:
        async with opened(tmp_path) as door:
            door.upstream.says(LONG)
            door.upstream.piece_delay_s = 0.01
            answer = await session.post(door.url(), json=body("one"))
            await read_some(answer, 3)
            rest = asyncio.create_task(answer.read())
        assert (await rest).endswith(b"data: [DONE]\n\n")
        assert door.rows("select body from message order by pos")[1] == (LONG,)


@pytest.mark.slow
async def test_a_client_that_takes_nothing_is_let_go(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "CLIENT_STALL_S", 0.2)
    door.upstream.says("x" * 8_000_000)
    answer = await door.http.post(door.url(), json=body("one"))
    await until(lambda: len(door.rows("select * from message")) == 2)
    with pytest.raises(aiohttp.ClientError):
        await answer.read()


def held(kind: type) -> int:
    return sum(isinstance(one, kind) for one in gc.get_objects())


async def test_a_reply_on_its_way_holds_no_prompt(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be hundreds of them, for minutes; what was sent is told afterwards all the same."""
    monkeypatch.setattr(proxy, "SLIM_AFTER_S", 0.01)
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.01)
    before = held(Prompt)
    door.upstream.says(LONG[:150])
    door.upstream.piece_delay_s = 0.02
    async with door.http.post(door.url(), json=body("one")) as answer:
        await read_some(answer, 4)
        await until(lambda: held(Prompt) == before)
        await answer.read()
    await until(lambda: bool(door.rows("select facts from sent")))
    ((facts,),) = door.rows("select facts from sent")
    assert json.loads(facts)["blocks"]


async def test_a_stream_that_was_left_is_let_go_of(door: Door) -> None:
    """Whatever its HTTP client has raised: some of that is one object for all streams."""
    for _ in range(2):
        await stopped(door)
    async with asyncio.timeout(5):
        while held(relay.Relay):
            await asyncio.sleep(0.02)
            gc.collect()


@pytest.fixture
def kept_garbage() -> Generator[list[Any]]:
    """What a look for cycles finds, kept for whoever looks at it."""
    usual, found = gc.get_threshold(), list[Any]()
    yield found
    gc.set_debug(0)
    gc.garbage.clear()
    gc.set_threshold(*usual)
    gc.unfreeze()


async def test_a_process_that_serves_need_not_look_for_turns_to_let_go_of(
    door: Door, kept_garbage: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.01)
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    gc.collect()
    serve.only_serves()
    assert gc.get_freeze_count() > 10_000
    gc.set_debug(gc.DEBUG_SAVEALL)
    for turn in range(4):
        await (say_streaming if turn % 2 else say)(client, talk, f"and then {turn}")
    await door.settle()
    await until(lambda: len(door.rows("select * from sent_turn")) == 5)
    gc.collect()
    kept_garbage += gc.garbage
    kinds = {type(one).__name__ for one in kept_garbage}
    assert kinds.isdisjoint({"Exchange", "Outgoing", "Prompt", "Block", "NewMessage", "Message"})
    assert not any(isinstance(one, dict) and "messages" in one for one in kept_garbage)
