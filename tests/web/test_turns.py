from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from previously.errors import ChatNotFound
from previously.model import ChatRef, FoldKey, NewMessage, State
from previously.testing import Failure, ScriptedLlm
from tests.web.rig import Door, Talk, ask, opened, say, say_streaming, size

SMALL = {"budget_tokens": 700, "visible_floors": 4, "fold_every": 4}
HEAD = [
    {"role": "system", "content": "You are the keeper of a lighthouse."},
    {"role": "developer", "content": "Never leave the island."},
]

Say = Callable[[AsyncOpenAI, Talk, str], Awaitable[str]]


def words(turn: int) -> str:
    return f"On day {turn} the keeper wrote that {turn * 7} gulls came to the northern rock. " * 2


@pytest.mark.slow
@pytest.mark.parametrize("speak", [say, say_streaming])
async def test_sixty_turns_stay_within_the_budget_and_lose_nothing(
    tmp_path: Path, speak: Say
) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        client, talk = door.client(), list[Any](HEAD)
        for turn in range(60):
            await speak(client, talk, words(turn))
            sent = door.upstream.requests[-1].messages
            assert size(sent) <= SMALL["budget_tokens"]
            assert sent[:2] == HEAD
            assert sent[-1] == talk[-2]
        assert size(talk) > 4 * SMALL["budget_tokens"]
        assert await door.lines() == [(m["role"], m["content"]) for m in talk[2:]]
        states = {m.state for m in (await door.messages())[:-2]}
        assert states == {State.CONFIRMED}


async def test_a_budget_given_to_the_server_holds_for_every_chat(tmp_path: Path) -> None:
    async with opened(
        tmp_path, default_budget=400, settings={**SMALL, "visible_floors": 2}
    ) as door:
        client, talk = door.client(), Talk()
        for turn in range(12):
            await say(client, talk, words(turn))
            assert size(door.upstream.requests[-1].messages) <= 400


async def test_a_short_chat_is_forwarded_byte_for_byte(door: Door) -> None:
    raw = b'{ "messages": [{"role":"user","content":"\\u4f60\\u597d"}],\n "model": "m", "n": 1.50 }'
    async with door.http.post(door.url(), data=raw) as answer:
        assert answer.status == 200
    assert door.upstream.requests[-1].raw == raw


async def test_what_the_client_has_cut_off_is_still_in_the_prompt(door: Door) -> None:
    client, talk = door.client(), Talk()
    for turn in range(4):
        await say(client, talk, f"words {turn}")
    window: Talk = [*talk[-3:], {"role": "user", "content": "words 4"}]
    await client.chat.completions.create(model="m", messages=window)
    assert door.upstream.requests[-1].messages == [*talk, window[-1]]
    assert len(await door.messages()) == 10


@pytest.mark.proves("G-101")
async def test_the_same_words_twice_are_two_messages(door: Door) -> None:
    door.upstream.says("嗯。")
    client, talk = door.client(), Talk()
    for _ in range(5):
        await say(client, talk, "嗯。")
    assert await door.lines() == [("user", "嗯。"), ("assistant", "嗯。")] * 5


async def test_rerolls_are_variants_of_one_reply(door: Door) -> None:
    door.upstream.says(*(f"try {i}" for i in range(9)))
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    await say(client, talk, "two")
    first_prompt = door.upstream.requests[-1].messages
    for _ in range(3):
        del talk[-1]
        await ask(client, talk)
        assert door.upstream.requests[-1].messages == first_prompt
    assert await door.lines() == [
        ("user", "one"),
        ("assistant", "try 0"),
        ("user", "two"),
        ("assistant", "try 4"),
    ]
    bodies = door.rows("select body from variant order by idx")
    assert bodies == [("try 1",), ("try 2",), ("try 3",), ("try 4",)]


async def test_the_client_may_keep_an_earlier_variant(door: Door) -> None:
    door.upstream.says(*(f"try {i}" for i in range(9)))
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    del talk[-1]
    await ask(client, talk)
    talk[-1]["content"] = "try 0"
    await say(client, talk, "two")
    assert [body for _, body in await door.lines()] == ["one", "try 0", "two", "try 2"]
    assert len(door.rows("select * from variant")) == 2


async def test_a_cleaned_echo_becomes_the_text_and_ours_stays_a_variant(door: Door) -> None:
    door.upstream.says("Keeper: The lamp is lit.\nUser: I")
    client, talk = door.client(), Talk()
    await say(client, talk, "Is it lit?")
    talk[-1]["content"] = "The lamp is lit."
    await say(client, talk, "Good.")
    kept = await door.messages()
    assert [m.body for m in kept][:3] == ["Is it lit?", "The lamp is lit.", "Good."]
    assert kept[1].state == State.CONFIRMED
    assert ("Keeper: The lamp is lit.\nUser: I",) in door.rows("select body from variant")
    assert door.upstream.requests[-1].messages == talk[:-1]


async def test_a_turn_is_a_candidate_until_the_client_shows_it_again(door: Door) -> None:
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    assert {m.state for m in await door.messages()} == {State.CANDIDATE}
    await say(client, talk, "two")
    states = [m.state for m in await door.messages()]
    assert states == [State.CONFIRMED, State.CONFIRMED, State.CANDIDATE, State.CANDIDATE]


STRANGE: list[tuple[object, str]] = [
    ([{"role": "user", "content": "another story"}], "does not continue"),
    ([{"role": "user", "content": "one"}, {"role": "assistant", "content": "x"}], "the beginning"),
    ([{"role": "system", "content": "only this"}], "no conversation"),
    ([{"role": "function", "name": "f", "content": "x"}], "function"),
    (["not an object"], "not an object"),
    ("no list", "no list"),
]


async def test_what_is_not_understood_passes_unchanged_and_leaves_no_mark(door: Door) -> None:
    await say(door.client(), [], "one")
    before = door.rows("select * from message")
    door.upstream.says("whatever")
    for messages, reason in STRANGE:
        raw = json.dumps({"model": "m", "messages": messages}).encode()
        async with door.http.post(door.url(), data=raw) as answer:
            assert answer.status == 200
            trace = answer.headers["x-previously-trace"]
        assert trace.startswith("pass-through: ")
        assert reason in trace
        assert door.upstream.requests[-1].raw == raw
    assert door.rows("select * from message") == before


async def test_no_chat_is_made_for_what_is_not_understood(door: Door) -> None:
    body = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
    async with door.http.post(door.url(), json=body):
        pass
    with pytest.raises(ChatNotFound):
        await door.house.service.find_chat("demo")


def delete_chat(door: Door) -> None:
    """As another program would."""
    with closing(sqlite3.connect(door.path)) as raw, raw:
        raw.execute("update chat set deleted_at = 1, name = 'gone'")


async def test_a_chat_that_was_deleted_starts_anew(door: Door) -> None:
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    await say(client, talk, "two")
    delete_chat(door)
    await say(client, talk, "three")
    assert [body for _, body in await door.lines()] == [m["content"] for m in talk]


async def test_another_story_may_take_the_name_of_a_deleted_chat(door: Door) -> None:
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    await say(client, talk, "two")
    delete_chat(door)
    await say(client, other := Talk(), "another story")
    await say(client, other, "that goes on")
    assert [body for _, body in await door.lines()] == [m["content"] for m in other]


@pytest.mark.parametrize("how", ["header", "body"])
async def test_recording_can_be_switched_off_for_a_request(door: Door, how: str) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "a secret"}]}
    headers: dict[str, str] = {}
    if how == "header":
        headers["X-Previously-Record"] = "off"
    else:
        body["previously"] = {"record": False}
    async with door.http.post(door.url(), json=body, headers=headers) as answer:
        assert "recording is off" in answer.headers["x-previously-trace"]
    assert door.rows("select * from chat") == []
    assert "previously" not in door.upstream.requests[-1].body


async def test_unknown_fields_survive_in_both_directions(tmp_path: Path) -> None:
    reply = b'{"choices":[{"message":{"content":"ok","odd":[1]},"index":0}],  "z" : 1e3}'
    async with opened(tmp_path, settings=SMALL) as door:
        client, talk = door.client(), Talk()
        for turn in range(12):
            await say(client, talk, words(turn))
        talk[-1]["reasoning_content"] = "kept"
        talk.append({"role": "user", "content": "now", "cache_control": {"type": "ephemeral"}})
        door.upstream.says(Failure(200, reply, {"content-type": "application/json"}))
        body = {"messages": talk, "model": "m", "future": {"a": [1, None]}, "previously": {"x": 1}}
        async with door.http.post(door.url(), json=body) as answer:
            assert await answer.read() == reply
        sent = door.upstream.requests[-1].body
        assert sent["future"] == {"a": [1, None]}
        assert "previously" not in sent
        assert sent["messages"][-1] == talk[-1]
        assert sent["messages"][-2] == talk[-2]
        assert (await door.lines())[-1] == ("assistant", "ok")


async def test_the_answer_says_what_was_done(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        client, talk = door.client("%E6%9E%97%E6%9C%88%20%2F%201"), list[Any](HEAD)
        for turn in range(12):
            talk.append({"role": "user", "content": words(turn)})
            answer = await client.chat.completions.with_raw_response.create(
                model="m", messages=talk
            )
            told = answer.headers
            assert told["x-previously-chat"] == "%E6%9E%97%E6%9C%88%20%2F%201"
            assert int(told["x-previously-client-tokens"]) == size(talk)
            sent = door.upstream.requests[-1].messages
            assert size(sent) <= int(told["x-previously-prompt-tokens"]) <= 700
            assert told["x-previously-trace"].startswith("append; fold " if turn else "first; ")
            reply = (answer.parse()).choices[0].message.content
            talk.append({"role": "assistant", "content": reply})
        assert [c.ref.name for c in await door.house.store.chats("local", 9)] == ["林月 / 1"]


CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"day": "1"}'}},
    {"id": "c2", "type": "function", "function": {"name": "wind", "arguments": '{"day": "2"}'}},
]


def with_tools(body: dict[str, Any]) -> Any:
    if body["messages"][-1]["role"] == "tool":
        return "High tide at noon."
    return {"content": None, "tool_calls": CALLS}


@pytest.mark.parametrize("streaming", [False, True])
async def test_tool_calls_and_their_results_make_one_story(door: Door, streaming: bool) -> None:
    door.upstream.answer = with_tools
    client, talk = door.client(), Talk([{"role": "user", "content": "When is high tide?"}])
    if streaming:
        async with client.chat.completions.stream(model="m", messages=talk) as stream:
            message = (await stream.get_final_completion()).choices[0].message
    else:
        message = (
            (await client.chat.completions.create(model="m", messages=talk)).choices[0].message
        )
    talk.append(message.model_dump())  # with the nulls and the indexes that the SDK adds
    for call in CALLS:
        talk.append({"role": "tool", "tool_call_id": call["id"], "content": f"{call['id']} done"})
    await ask(client, talk)
    await say(client, talk, "Thanks.")
    kept = await door.messages()
    assert [m.role for m in kept[:5]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert json.loads(kept[1].tool_calls or "") == CALLS
    assert kept[3].tool_call_id == "c2"
    assert {m.state for m in kept[:5]} == {State.CONFIRMED}
    assert len(kept) == 7


async def test_the_synchronous_client_works_too(door: Door) -> None:
    def talk_to_it() -> None:
        talk: Talk = []
        with OpenAI(base_url=door.url(""), api_key="k", max_retries=0) as client:
            assert [m.id for m in client.models.list()] == ["fake"]
            for number in range(3):
                talk.append({"role": "user", "content": f"words {number}"})
                answer = client.chat.completions.create(model="m", messages=talk)
                reply = answer.choices[0].message.content
                talk.append({"role": "assistant", "content": reply})

    await asyncio.to_thread(talk_to_it)
    assert len(await door.messages()) == 6


async def test_many_equal_requests_at_once_make_one_turn(door: Door) -> None:
    door.upstream.says(*(f"try {i}" for i in range(9)))
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    await asyncio.gather(*(say(client, list(talk), "two") for _ in range(6)))
    kept = [body for _, body in await door.lines()]
    assert kept[:3] == ["one", "try 0", "two"]
    assert len(kept) == 4
    assert len(door.rows("select * from variant")) == 6


async def test_of_different_requests_at_once_one_is_kept_whole(door: Door) -> None:
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    talks = [list(talk) for _ in range(4)]
    await asyncio.gather(*(say(client, t, f"branch {i}") for i, t in enumerate(talks)))
    kept = await door.lines()
    assert len(kept) == 4
    assert kept in [[(m["role"], m["content"]) for m in t] for t in talks]


async def test_a_prompt_never_shows_a_turn_that_was_recorded_meanwhile(door: Door) -> None:
    client, talk = door.client(), Talk()
    await say(client, talk, "one")

    async def overtaken(ref: ChatRef, key: FoldKey, limit: int) -> Any:
        found = await door.house.store.glance(ref, key, limit)
        door.break_store()
        await door.house.store.append(ref, [NewMessage("user", "from elsewhere")])
        return found

    door.break_store(glance=overtaken)
    await say(client, talk, "two")
    assert door.upstream.requests[-1].messages == talk[:-1]
    assert [body for _, body in await door.lines()] == ["one", talk[1]["content"], "from elsewhere"]


@pytest.mark.proves("A-02")
async def test_a_summariser_that_hangs_delays_no_turn(tmp_path: Path) -> None:
    llm = ScriptedLlm()
    llm.hang()
    async with opened(tmp_path, llm=llm, settings=SMALL) as door:
        client, talk = door.client(), Talk()
        for turn in range(20):
            await say(client, talk, words(turn))
        assert llm.waiting == 1
        assert len(await door.messages()) == 40
        assert size(door.upstream.requests[-1].messages) <= SMALL["budget_tokens"]
        llm.release()
        await door.settle()
        await say(client, talk, "and now")
        assert "Day" in json.dumps(door.upstream.requests[-1].messages).replace("day", "Day")


@pytest.mark.proves("G-117")
async def test_no_image_data_reaches_the_summariser(tmp_path: Path) -> None:
    llm = ScriptedLlm()
    async with opened(tmp_path, llm=llm, settings={"visible_floors": 1, "fold_every": 1}) as door:
        image = {"url": "data:image/png;base64," + "QUJD" * 500}
        parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": image}]
        client, talk = door.client(), Talk([{"role": "user", "content": parts}])
        await ask(client, talk)
        for turn in range(4):
            await say(client, talk, f"words {turn}")
        await door.settle()
        asked = json.dumps([[list(a.messages), a.material] for a in llm.asks])
        assert "[image: image/png]" in asked
        assert "QUJD" not in asked
        assert door.upstream.requests[0].messages[0]["content"] == parts


async def test_a_narrators_line_and_a_deep_note_outlast_the_messages_beside_them(
    tmp_path: Path,
) -> None:
    """Neither is remembered: so they must go on for as long as the client sends them."""
    note = {"role": "system", "content": "[Author note: keep it dark.]"}
    night = {"role": "system", "content": "The night falls."}
    async with opened(tmp_path, settings={"visible_floors": 4, "fold_every": 2}) as door:
        client, talk, sent = door.client(), Talk(), Talk()
        for turn in range(12):
            talk += [night] if turn == 2 else []
            talk.append({"role": "user", "content": words(turn)})
            asked: Talk = [*talk[:-10], note, *talk[-10:]] if len(talk) > 10 else list(talk)
            await ask(client, asked)
            talk.append(asked[-1])
            await door.settle()
            sent = door.upstream.requests[-1].messages
            assert sent.count(night) == (turn >= 2)
            assert sent.count(note) == (len(asked) > 12)
        assert len(sent) < len(talk) - 8  # most of it is folded by now
        spoken = [(m["role"], m["content"]) for m in talk if m["role"] != "system"]
        assert await door.lines() == spoken
