"""The Responses interface, as OpenAI's own client speaks it, with a memory behind it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from previously.model import RESPONSE, NewMessage, State
from previously.testing import Failure
from tests.web import test_turns
from tests.web.rig import Door, openai_client, opened, until
from tests.web.test_turns import SMALL, words

CALLS: Any = test_turns.CALLS
TOOLS: Any = [
    {
        "type": "function",
        "name": "tide",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
]
THOUGHT: Any = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA" + "x" * 400,
}


def message(text: str, **more: Any) -> dict[str, Any]:
    part: Any = {"type": "output_text", "text": text, "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**said, "content": [part], **more}


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def plain(items: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(i.get("role", i.get("type")), i.get("content")) for i in items]


def any_client(door: Door) -> Any:
    """Its overloads cannot see through what is put together here."""
    return door.client()


def anywhere(door: Door) -> Any:
    """A client that names no chat."""
    made = openai_client(f"http://127.0.0.1:{door.port}/v1")
    door.stack.push_async_callback(made.close)
    return made


# Whole inputs


async def test_an_answer_reaches_the_official_client_and_the_chat(door: Door) -> None:
    door.upstream.says("Aye.")
    made = await door.client().responses.create(model="m", input="Is there a light?")
    assert made.output_text == "Aye."
    assert made.id.startswith("resp_")
    assert made.id != "resp_fake"
    assert made.usage is not None
    assert await door.lines() == [("user", "Is there a light?"), ("assistant", "Aye.")]
    sent = door.upstream.requests[-1]
    assert sent.path == "/v1/responses"
    assert sent.body == {"model": "m", "input": "Is there a light?", "store": False}


def ask_in_a_thread(door: Door) -> str:
    with OpenAI(base_url=door.url(""), api_key="k", max_retries=0) as client:
        return client.responses.create(model="m", input="Hello.").output_text


async def test_the_synchronous_client_works_too(door: Door) -> None:
    assert await asyncio.to_thread(ask_in_a_thread, door) == "I have read 1 messages."


async def test_a_stream_has_one_id_and_is_kept_before_it_ends(door: Door) -> None:
    door.upstream.says("The lamp burns low tonight.")
    ids: set[str] = set()
    told, kinds = "", []
    stream = await any_client(door).responses.create(
        model="m", input="How is the lamp?", stream=True
    )
    async for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            told += event.delta
        if event.type == "response.completed":
            assert event.response.usage is not None
            assert door.rows("select count(*) from message") == [(2,)]
        if hasattr(event, "response"):
            ids.add(event.response.id)
    assert told == "The lamp burns low tonight."
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"
    assert len(ids) == 1
    assert ids != {"resp_fake"}
    assert [body for _, body in await door.lines()] == ["How is the lamp?", told]


async def test_the_clients_own_helper_for_streams_is_content(door: Door) -> None:
    """It checks every event against those before."""
    door.upstream.says({"content": "One moment.", "tool_calls": CALLS}, '{"hour": 12}')
    client = any_client(door)
    async with client.responses.stream(model="m", input="High tide?", tools=TOOLS) as stream:
        whole = await stream.get_final_response()
    assert whole.output_text == "One moment."
    assert [i.call_id for i in whole.output[1:]] == [c["id"] for c in CALLS]
    results = [{"type": "function_call_output", "call_id": c["id"], "output": "12"} for c in CALLS]
    asked: Any = {"input": results, "previous_response_id": whole.id, "text_format": Tide}
    async with client.responses.stream(model="m", **asked) as stream:
        whole = await stream.get_final_response()
    assert whole.output_parsed == Tide(hour=12)
    assert [m.role for m in await door.messages()][-2:] == ["tool", "assistant"]


async def test_a_whole_input_is_aligned_turn_by_turn(door: Door) -> None:
    client: Any = door.client()
    talk: Any = [{"role": "developer", "content": "Be brief."}]
    for turn in range(3):
        talk.append(user(f"words {turn}"))
        made = await client.responses.create(model="m", input=list(talk), instructions="Be kind.")
        talk += [item.model_dump(exclude_none=True) for item in made.output]
    assert [body for role, body in await door.lines() if role == "user"] == [
        "words 0",
        "words 1",
        "words 2",
    ]
    assert len(await door.messages()) == 6
    sent = door.upstream.requests[-1]
    assert sent.body["instructions"] == "Be kind."
    assert sent.items == talk[:-1]


@pytest.mark.proves("E-07", "E-55", "E-56")
async def test_old_turns_are_replaced_by_summaries(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        client, talk = any_client(door), list[Any]()
        for turn in range(24):
            talk.append(user(words(turn)))
            made = await client.responses.create(model="m", input=list(talk), store=False)
            talk += [item.model_dump(exclude_none=True) for item in made.output]
            await door.settle()
        sent = door.upstream.requests[-1]
        assert len(sent.items) < len(talk) / 2
        assert sent.items[0]["type"] == "message"
        assert sent.items[0]["role"] == "system"
        assert sent.items[-1] == talk[-2]
        assert len(await door.messages()) == 48
        tail = [item for item in sent.items if item in talk]
        assert tail == talk[len(talk) - 1 - len(tail) : -1]


async def test_parallel_calls_and_their_results_are_kept_in_pairs(door: Door) -> None:
    door.upstream.says({"tool_calls": CALLS}, "At noon.")
    client, talk = any_client(door), [user("When is high tide?")]
    made = await client.responses.create(model="m", input=talk, tools=TOOLS)
    calls = [item for item in made.output if item.type == "function_call"]
    assert [c.call_id for c in calls] == [c["id"] for c in CALLS]
    talk += [item.model_dump(exclude_none=True) for item in calls]
    talk += [
        {"type": "function_call_output", "call_id": c.call_id, "output": "noon"} for c in calls
    ]
    made = await client.responses.create(model="m", input=talk, tools=TOOLS)
    assert made.output_text == "At noon."
    roles = [m.role for m in await door.messages()]
    assert roles == ["user", "assistant", *["tool"] * len(CALLS), "assistant"]
    assert door.upstream.requests[-1].items == talk


class Tide(BaseModel):
    hour: int


async def test_structured_output_is_parsed(door: Door) -> None:
    door.upstream.says('{"hour": 12}')
    made = await door.client().responses.parse(model="m", input="When?", text_format=Tide)
    assert made.output_parsed == Tide(hour=12)
    assert door.upstream.requests[-1].body["text"]["format"]["type"] == "json_schema"


async def test_sealed_thoughts_come_back_as_they_were(door: Door) -> None:
    output: Any = [THOUGHT, message("It is late.")]
    door.upstream.says({"output": output}, "Good night.")
    client = any_client(door)
    await client.responses.create(model="m", input="What time is it?", reasoning={"effort": "low"})
    assert door.upstream.requests[-1].body["include"] == ["reasoning.encrypted_content"]
    talk: Any = [user("What time is it?"), *output, user("Then good night.")]
    await client.responses.create(model="m", input=talk)
    assert door.upstream.requests[-1].items == talk
    assert [m.body for m in await door.messages()][1] == "It is late."


async def test_a_thought_that_is_only_named_is_not_asked_for(door: Door) -> None:
    named: Any = {"type": "reasoning", "id": "rs_2", "summary": []}
    talk: Any = [user("One?"), named, message("One."), user("Two?")]
    await door.client().responses.create(model="m", input=talk)
    sent = door.upstream.requests[-1].items
    assert [item.get("type") for item in sent] == [None, "message", None]
    assert all("id" not in item for item in sent)


async def test_what_is_left_in_mid_stream_is_kept(door: Door) -> None:
    door.upstream.says("A long story about the sea and the ships that sail on it.")
    door.upstream.piece_delay_s = 0.05
    body = {"model": "m", "input": "Tell me.", "stream": True}
    async with door.http.post(door.url("/responses"), json=body) as answer:
        read = b""
        while b"output_text.delta" not in read:
            read += await answer.content.readany()
    await until(lambda: door.rows("select count(*) from message") == [(2,)])
    told = (await door.lines())[1][1]
    assert told
    assert "A long story about the sea and the ships that sail on it.".startswith(told)


async def test_items_that_are_only_named_are_heard_as_well(door: Door) -> None:
    """As llama.cpp streams them: no item has a number, and no event either."""
    item = message("", content=[])
    told: list[Any] = [{"type": "response.created", "response": {"id": "r", "object": "response"}}]
    told.append({"type": "response.output_item.added", "item": item})
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Half a "}
    told += [delta, delta]
    events = b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in told)
    door.upstream.says(Failure(200, events, {"content-type": "text/event-stream"}))
    body = {"model": "m", "input": "Tell me.", "stream": True}
    async with door.http.post(door.url("/responses"), json=body) as answer:
        await answer.read()
    assert (await door.lines())[1] == ("assistant", "Half a Half a ")


async def test_an_upstream_without_the_interface_says_so_itself(door: Door) -> None:
    door.upstream.says(Failure(404, b'{"error":{"message":"no such route"}}'))
    with pytest.raises(openai.NotFoundError, match="no such route"):
        await door.client().responses.create(model="m", input="Hello.")
    with pytest.raises(openai.NotFoundError, match="no such route"):
        await anywhere(door).responses.create(model="m", input="Hello.")
    assert door.rows("select * from message") == []
    assert door.rows("select name from chat where name like 'resp-%'") == []


async def test_a_fault_in_memory_does_not_break_the_chat(door: Door) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the disk is gone")

    door.break_store(glance=broken, find_chat=broken, newest=broken)
    made = await door.client().responses.create(model="m", input="Still there?")
    assert made.output_text == "I have read 1 messages."


@pytest.mark.proves("E-10")
async def test_too_long_an_input_is_compacted_and_sent_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        client, talk = any_client(door), list[Any]()
        for turn in range(12):
            talk.append(user(words(turn)))
            made = await client.responses.create(model="m", input=list(talk))
            talk += [item.model_dump(exclude_none=True) for item in made.output]
        door.upstream.window_tokens = 700
        talk.append(user("And what of the keeper?"))
        raw = await client.responses.with_raw_response.create(model="m", input=list(talk))
        assert "overflow_retry" in raw.headers["x-previously-trace"]
        assert door.upstream.requests[-1].items[-1] == talk[-1]
        assert len(await door.messages()) == 26


async def test_no_try_parts_a_call_from_its_result(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        client, name = any_client(door), None
        for turn in range(6):
            door.upstream.says({"output": [{**THOUGHT, "id": f"rs_{turn}"}, *calls(turn)]}, "Noon.")
            more: Any = {"previous_response_id": name} if name else {}
            made = await client.responses.create(model="m", input=words(turn), **more)
            found = [{"type": "function_call_output", "call_id": c["call_id"], "output": "noon"}
                     for c in calls(turn)]  # fmt: skip
            made = await client.responses.create(
                model="m", input=found, previous_response_id=made.id
            )
            name = made.id
        door.upstream.window_tokens, before = 1, len(door.upstream.requests)
        with pytest.raises(openai.BadRequestError, match="does not fit") as caught:
            await client.responses.create(model="m", input="And now?", previous_response_id=name)
        tries = door.upstream.requests[before:]
        assert "halved to" in caught.value.response.headers["x-previously-trace"]
        for sent in tries:
            made_calls = [i["call_id"] for i in sent.items if i["type"] == "function_call"]
            results = [i["call_id"] for i in sent.items if i["type"] == "function_call_output"]
            assert made_calls == results
            for n, item in enumerate(sent.items):
                if item["type"] == "reasoning":
                    assert sent.items[n + 1]["type"] == "function_call"
            assert sent.items[-1]["content"] == "And now?"


def calls(turn: int) -> list[dict[str, Any]]:
    made = {"type": "function_call", "name": "tide", "arguments": "{}", "status": "completed"}
    return [{**made, "id": f"fc_{turn}_{n}", "call_id": f"call_{turn}_{n}"} for n in range(2)]


async def test_an_overflow_in_the_first_event_is_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        client, talk = any_client(door), list[Any]()
        for turn in range(8):
            talk.append(user(words(turn)))
            made = await client.responses.create(model="m", input=list(talk))
            talk += [item.model_dump(exclude_none=True) for item in made.output]
        error = {"type": "error", "code": "context_length_exceeded", "message": "too long"}
        event = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
        door.upstream.says(Failure(200, event, {"content-type": "text/event-stream"}), "Fits.")
        talk.append(user("And now?"))
        stream = await client.responses.create(model="m", input=list(talk), stream=True)
        told = "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])
        assert told == "Fits."


# From a response by its name


async def test_a_client_that_sends_only_what_is_new_is_understood(door: Door) -> None:
    client = anywhere(door)
    developer = {"role": "developer", "content": "Talk like a sailor."}
    first: Any = [developer, user("one")]
    made = await client.responses.create(model="m", input=first, instructions="Only now.")
    for turn in ("two", "three"):
        made = await client.responses.create(
            model="m", input=turn, previous_response_id=made.id, instructions="Briefly."
        )
    sent = door.upstream.requests[-1]
    assert "previous_response_id" not in sent.body
    assert sent.body["store"] is False
    assert sent.body["instructions"] == "Briefly."
    assert sent.items[0] == developer
    assert [c for r, c in plain(sent.items) if r == "user"] == ["one", "two", "three"]
    assert len(sent.items) == 6
    (name,) = [name for (name,) in door.rows("select name from chat")]
    kept = await door.messages(name)
    assert [m.body for m in kept if m.role == "user"] == ["one", "two", "three"]
    assert {m.state for m in kept[:-1]} == {State.CONFIRMED}


async def test_the_answer_names_what_it_goes_on_from(door: Door) -> None:
    client = any_client(door)
    one = await client.responses.create(model="m", input="one")
    two = await client.responses.create(model="m", input="two", previous_response_id=one.id)
    assert two.previous_response_id == one.id
    assert two.id != one.id


async def test_a_name_outlives_the_server(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        made = await door.client().responses.create(model="m", input="one")
    async with opened(tmp_path) as door:
        await door.client().responses.create(model="m", input="two", previous_response_id=made.id)
        sent = door.upstream.requests[-1].items
        assert [c for r, c in plain(sent) if r == "user"] == ["one", "two"]


@pytest.mark.proves("E-57", "E-58")
async def test_results_alone_find_their_calls(door: Door) -> None:
    door.upstream.says({"tool_calls": CALLS}, "At noon.", "Yes.")
    client = any_client(door)
    made = await client.responses.create(model="m", input="High tide?", tools=TOOLS)
    results: Any = [
        {"type": "function_call_output", "call_id": c["id"], "output": "noon"} for c in CALLS
    ]
    made = await client.responses.create(
        model="m", input=results, previous_response_id=made.id, tools=TOOLS
    )
    await client.responses.create(model="m", input="Sure?", previous_response_id=made.id)
    sent = door.upstream.requests[-1].items
    calls: Any = [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in CALLS]
    assert sent[1 : 1 + len(CALLS)] == calls
    assert sent[1 + len(CALLS) : 1 + 2 * len(CALLS)] == results
    assert plain(sent)[-2:] == [("assistant", "At noon."), ("user", "Sure?")]


async def test_sealed_thoughts_are_supplied_with_their_answer(door: Door) -> None:
    output: Any = [THOUGHT, message("It is late.")]
    door.upstream.says({"output": output}, "Good night.")
    client = any_client(door)
    made = await client.responses.create(model="m", input="What time is it?")
    await client.responses.create(model="m", input="Good night.", previous_response_id=made.id)
    assert door.upstream.requests[-1].items[1:3] == output


@pytest.mark.parametrize(
    "name", ["resp_67ccd2bed1ec8190", "resp_000000000001p" + "0" * 32, "x", 7, ""]
)
async def test_an_unknown_name_is_never_guessed(door: Door, name: Any) -> None:
    client = any_client(door)
    await client.responses.create(model="m", input="one")
    before = len(door.upstream.requests)
    with pytest.raises(openai.NotFoundError) as caught:
        await client.responses.create(model="m", input="two", previous_response_id=name)
    assert caught.value.code == "previous_response_not_found"
    assert len(door.upstream.requests) == before
    assert len(await door.messages()) == 2


async def test_the_response_says_which_chat_it_is(door: Door) -> None:
    made = await door.client("mine").responses.create(model="m", input="one")
    more: Any = {"previous_response_id": made.id, "prompt_cache_key": "all of us"}
    await door.client("yours").responses.create(model="m", input="two", **more)
    assert len(await door.messages("mine")) == 4
    assert door.rows("select count(*) from chat") == [(1,)]


async def test_another_first_message_is_another_conversation(door: Door) -> None:
    """A program that is started twice under one base URL, and knows only names."""
    for run in range(3):
        made = await any_client(door).responses.create(model="m", input=f"run {run}")
        for turn in ("more", "and more"):
            made = await any_client(door).responses.create(
                model="m", input=turn, previous_response_id=made.id
            )
        sent = door.upstream.requests[-1].items
        assert [c for r, c in plain(sent) if r == "user"] == [f"run {run}", "more", "and more"]
    assert len(await door.messages()) == 6
    assert door.rows("select count(*) from chat where name like 'demo-%'") == [(2,)]


async def test_a_paused_chat_keeps_nothing_and_says_so(door: Door) -> None:
    made = await any_client(door).responses.create(model="m", input="one")
    await any_client(door).responses.create(model="m", input="two", previous_response_id=made.id)
    chat = await door.house.service.find_chat("demo")
    await door.house.service.set_recording(chat.ref, on=False)
    with pytest.raises(openai.ConflictError, match="paused"):
        await any_client(door).responses.create(
            model="m", input="three", previous_response_id=made.id
        )
    await any_client(door).responses.create(model="m", input="something else")
    assert door.rows("select count(*) from chat") == [(1,)]
    assert len(await door.messages()) == 4


async def test_a_name_of_another_owner_is_unknown(door: Door) -> None:
    made = await door.client().responses.create(model="m", input="one")
    await door.house.store.ensure_chat("somebody", "theirs", "volumes", "volumes")
    ((theirs,),) = door.rows("select id from chat where owner = 'somebody'")
    foreign = f"resp_{theirs:012x}{made.id[17:]}"
    with pytest.raises(openai.NotFoundError):
        await anywhere(door).responses.create(model="m", input="two", previous_response_id=foreign)


async def test_an_older_response_is_gone_on_from_and_so_is_the_newer_one(door: Door) -> None:
    door.upstream.says(*(f"reply {i}" for i in range(9)))
    client = any_client(door)

    async def go(words: str, after: str | None = None) -> str:
        more: Any = {"previous_response_id": after} if after else {}
        return (await client.responses.create(model="m", input=words, **more)).id

    one = await go("one")
    two = await go("two", one)
    three = await go("three", two)
    other = await go("or else", one)
    sent = door.upstream.requests[-1].items
    assert [c for _, c in plain(sent)] == ["one", "reply 0", "or else"]
    await go("four", three)
    sent = door.upstream.requests[-1].items
    assert [c for _, c in plain(sent)] == [
        "one", "reply 0", "two", "reply 1", "three", "reply 2", "four",
    ]  # fmt: skip
    await go("and then", other)
    sent = door.upstream.requests[-1].items
    assert [c for _, c in plain(sent)] == ["one", "reply 0", "or else", "reply 3", "and then"]
    kept = [m.body for m in await door.messages() if m.shown]
    assert kept == ["one", "reply 0", "or else", "reply 3", "and then", "reply 5"]


async def test_the_same_question_again_is_no_duplicate(door: Door) -> None:
    client = any_client(door)
    one = await client.responses.create(model="m", input="one")
    for _ in range(3):
        await client.responses.create(model="m", input="two", previous_response_id=one.id)
    sent = door.upstream.requests[-1].items
    assert [c for r, c in plain(sent) if r == "user"] == ["one", "two"]
    assert [m.body for m in await door.messages() if m.shown and m.role == "user"] == ["one", "two"]


async def test_a_whole_input_goes_on_where_names_have_branched(door: Door) -> None:
    door.upstream.says(*(f"reply {i}" for i in range(9)))
    client = any_client(door)
    one = await client.responses.create(model="m", input="one")
    await client.responses.create(model="m", input="two", previous_response_id=one.id)
    await client.responses.create(model="m", input="or else", previous_response_id=one.id)
    told = ["one", "reply 0", "or else", "reply 2"]
    talk = [{"role": ("user", "assistant")[n % 2], "content": t} for n, t in enumerate(told)]
    talk.append(user("go on"))
    made = await client.responses.create(model="m", input=talk)
    assert door.upstream.requests[-1].items == talk
    shown = [m.body for m in await door.messages() if m.shown]
    assert shown == [*told, "go on", "reply 3"]
    await client.responses.create(model="m", input="more", previous_response_id=made.id)
    sent = door.upstream.requests[-1].items
    assert [c for _, c in plain(sent)] == [*told, "go on", "reply 3", "more"]


async def test_branches_that_are_asked_at_once_do_not_mix(door: Door) -> None:
    client = any_client(door)
    one = await client.responses.create(model="m", input="one")
    door.upstream.piece_delay_s = 0.01

    async def branch(number: int) -> str:
        words = f"branch {number}"
        made = await client.responses.create(model="m", input=words, previous_response_id=one.id)
        return made.id

    ids = await asyncio.gather(*(branch(n) for n in range(24)))
    for request in door.upstream.requests[1:]:
        assert len(request.items) == 3
    shown = [m.body for m in await door.messages() if m.shown]
    assert len(shown) == 4
    assert shown[2].startswith("branch")
    for number, name in enumerate(ids):
        await client.responses.create(model="m", input="more", previous_response_id=name)
        sent = door.upstream.requests[-1].items
        asked = [c for r, c in plain(sent) if r == "user"]
        assert asked == ["one", f"branch {number}", "more"]


async def test_a_branch_that_is_recorded_meanwhile_stays_out_of_the_prompt(door: Door) -> None:
    client = any_client(door)
    one = await client.responses.create(model="m", input="one")
    chat = await door.house.service.find_chat("demo")
    extra = json.dumps({RESPONSE: {"id": "another", "after": one.id}})
    others = [NewMessage(role, "meanwhile", extra=extra) for role in ("user", "assistant")]
    load = door.house.store.load

    async def late(*given: Any, **more: Any) -> Any:
        if others:
            await door.house.store.append(chat.ref, others)  # as another process would
            others.clear()
        return await load(*given, **more)

    door.break_store(load=late)
    made = await client.responses.create(model="m", input="two", previous_response_id=one.id)
    sent = door.upstream.requests[-1].items
    assert [c for r, c in plain(sent) if r == "user"] == ["one", "two"]
    await client.responses.create(model="m", input="three", previous_response_id=made.id)
    sent = door.upstream.requests[-1].items
    assert [c for r, c in plain(sent) if r == "user"] == ["one", "two", "three"]


async def test_old_turns_fold_behind_names_as_well(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        client, name = any_client(door), None
        for turn in range(24):
            more: Any = {"previous_response_id": name} if name else {}
            name = (await client.responses.create(model="m", input=words(turn), **more)).id
            await door.settle()
        sent = door.upstream.requests[-1].items
        assert len(sent) < 24
        assert sent[0]["role"] == "system"
        assert sent[-1]["content"] == words(23)


async def test_a_branch_knows_nothing_of_what_the_others_have_told(tmp_path: Path) -> None:
    """Neither their messages, nor a summary of them, nor a line that is called up."""
    async with opened(tmp_path, settings=SMALL) as door:
        client, ids = any_client(door), list[str]()
        door.upstream.answer = lambda _: "Noted in the log of the lighthouse, as ever."

        async def go(words: str, after: str | None) -> str:
            more: Any = {"previous_response_id": after} if after else {}
            made = await client.responses.create(model="m", input=words, **more)
            await door.settle()
            return made.id

        for turn in range(24):
            told = f"Candle secret{turn}x was given to Mara on the pier. " * 4
            ids.append(await go(told, ids[-1] if ids else None))
        question = "Which candle secret was given to Mara on the pier?"
        for number, name in ((3, ids[3]), (12, ids[12]), (23, ids[23])):
            await go(question, name)
            sent = json.dumps(door.upstream.requests[-1].items)
            known = {int(n) for n in re.findall(r"secret(\d+)x", sent)}
            assert number in known
            assert known <= set(range(number + 1))


async def test_without_memory_a_name_is_refused_not_guessed(door: Door) -> None:
    made = await door.client().responses.create(model="m", input="one")

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the disk is gone")

    door.break_store(newest=broken)
    before = len(door.upstream.requests)
    with pytest.raises(openai.InternalServerError) as caught:
        await door.client().responses.create(model="m", input="two", previous_response_id=made.id)
    assert caught.value.code == "memory_failed"
    assert len(door.upstream.requests) == before


# What else can be asked


async def test_a_response_can_be_read_again(door: Door) -> None:
    door.upstream.says("Aye.")
    client = anywhere(door)
    made = await client.responses.create(model="m", input="one")
    again = await client.responses.retrieve(made.id)
    assert (again.id, again.output_text, again.model) == (made.id, "Aye.", "m")
    with pytest.raises(openai.APIStatusError) as caught:
        await client.responses.delete(made.id)
    assert caught.value.status_code == 501
    assert (await door.http.get(f"http://127.0.0.1:{door.port}/v1/responses/resp_fake")).ok
    assert door.upstream.requests[-1].path == "/v1/responses/resp_fake"
    gone = made.id[:-1] + ("0" if made.id[-1] != "0" else "1")
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(gone)


@pytest.mark.parametrize(
    "more",
    [
        {"conversation": "conv_1"},
        {"previous_response_id": "resp_1", "background": True},
        {"previous_response_id": "resp_1", "extra_headers": {"X-Previously-Record": "off"}},
    ],
)
async def test_what_cannot_be_done_is_said(door: Door, more: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await door.client().responses.create(model="m", input="x", **more)
    assert caught.value.code == "unsupported_parameter"
    assert door.upstream.requests == []


@pytest.mark.parametrize("said", [["hi"], [[]], [{}], 7, None, [{"type": "x"}], [{"role": 1}]])
async def test_what_cannot_be_read_is_the_upstreams_to_judge(door: Door, said: Any) -> None:
    body = {"model": "m", "input": said, "store": False}
    for stored in (False, True):
        body["store"] = stored
        async with door.http.post(door.url("/responses"), json=body) as answer:
            assert (answer.status, await answer.read()) != (500, b"")
        assert door.upstream.requests[-1].body["input"] == said
    assert door.rows("select * from message where role = 'user'") == []


async def test_work_in_the_background_is_the_upstreams(door: Door) -> None:
    made = await door.client().responses.create(model="m", input="x", background=True, store=True)
    assert made.id == "resp_fake"
    assert door.upstream.requests[-1].body["store"] is True
    assert door.rows("select * from message") == []


async def test_both_interfaces_share_a_chat(door: Door) -> None:
    door.upstream.says({"output": [THOUGHT, message("It is late.")]}, "Indeed.")
    client = any_client(door)
    await client.responses.create(model="m", input="What time is it?")
    talk: Any = [user("What time is it?"), {"role": "assistant", "content": "It is late."}]
    await client.chat.completions.create(model="m", messages=[*talk, user("Really?")])
    assert door.upstream.requests[-1].messages == [*talk, user("Really?")]
    assert len(await door.messages()) == 4
    body = {"model": "m", "messages": [user("Sure?")], "previously": {"managed": True}}
    async with door.http.post(door.url(), json=body) as answer:
        await answer.read()
    sent = door.upstream.requests[-1].messages
    assert all(set(m) == {"role", "content"} for m in sent)
