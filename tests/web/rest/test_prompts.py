from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from previously.testing import ScriptedLlm
from tests.web.rest.rig import Rest, opened


async def test_the_prompt_is_shown_in_blocks_with_all_that_it_leaves_out(either: Rest):
    chat = await either.chat(120)
    prompt = await either.get(f"chats/{chat}/prompt?budget_tokens=700")
    assert prompt["tokens"] <= 700 < prompt["chat_tokens"]
    assert sum(block["tokens"] for block in prompt["blocks"]) == prompt["tokens"]
    assert sum(prompt["layers"].values()) == prompt["tokens"]
    assert [m["content"] for m in prompt["messages"]] == [b["text"] for b in prompt["blocks"]]
    tail = [b for b in prompt["blocks"] if b["place"] in ("tail", "pending")]
    assert tail[-1]["last_floor"] == 119
    assert prompt["fold"]["tail_floor"] is not None
    again = await either.get(f"chats/{chat}/prompt?budget_tokens=700")
    assert again == prompt, "a look moves nothing"
    small = await either.get(f"chats/{chat}/prompt?budget_tokens=300")
    assert small["tokens"] <= 300


async def test_a_question_about_the_past_shows_what_it_calls_up(rest: Rest):
    chat = await rest.chat(120)
    while await rest.house.store.index_some(256, ripe=False):
        pass
    prompt = await rest.get(f"chats/{chat}/prompt?query=lantern+13")
    floors = {hit["floor"] for hit in prompt["recalled"]}
    assert 13 in floors
    assert all(hit["score"] >= 0 and hit["reason"] for hit in prompt["recalled"])


async def test_a_budget_that_is_too_small_is_named(rest: Rest):
    chat = await rest.chat(1)
    answer = await rest.call("GET", f"chats/{chat}/prompt?budget_tokens=1")
    assert (answer.status, answer.body["field"]) == (422, "budget_tokens")
    assert answer.body["errors"][0]["ctx"] == {"ge": 256}


async def test_a_failed_task_says_why_and_when_it_is_tried_again(tmp_path: Path):
    said = ["I cannot help with that."]
    llm = ScriptedLlm(lambda ask: said[0] if said else f"They met. {ask.material[0][1]}")
    async with opened(tmp_path / "p.db", tmp_path, llm=llm) as rest:
        chat = await rest.chat(22)
        (task,) = (await rest.get("tasks"))["items"]
        assert (task["state"], task["kind"], task["chat"]) == ("waiting", "mini", chat)
        assert (task["first_floor"], task["last_floor"]) == (0, 1)
        assert task["reason"]
        assert task["tries"] == 1
        assert task["next_try_ms"]
        await rest.call("POST", f"tasks/{task['id']}/cancel")
        (left,) = (await rest.get(f"tasks?chat={chat}"))["items"]
        assert left["state"] == "cancelled"
        said.clear()
        await rest.call("POST", f"tasks/{task['id']}/retry")
        await rest.settle(chat)
        assert (await rest.get(f"tasks?chat={chat}"))["items"] == []
        gone = await rest.call("POST", f"tasks/{task['id']}/retry")
        assert gone.status == 404


async def test_events_tell_of_every_change(either: Rest):
    chat = await either.chat()
    async with either.session.get(f"{either.address}/api/events") as stream:
        assert stream.content_type == "text/event-stream"
        events = _events(stream)
        assert (await anext(events))["event"] == "hello"
        await either.post(f"chats/{chat}/messages", {"role": "user", "text": "hello"})
        async with asyncio.timeout(5):
            told = await anext(events)
        assert told["event"] == "chat"
        data = json.loads(told["data"])
        assert data["chat"] == chat
        assert told["id"] == str(data["revision"])
        await either.delete(f"chats/{chat}")
        async with asyncio.timeout(5):
            while told["event"] != "gone":
                told = await anext(events)


async def _events(stream: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    found: dict[str, str] = {}
    async for raw in stream.content:
        line = raw.decode().rstrip("\n")
        if not line and found:
            yield found
            found = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value


@pytest.mark.timeout(20)
async def test_a_server_that_stops_ends_its_streams(tmp_path: Path):
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as browser:
        async with opened(tmp_path / "p.db", tmp_path) as rest:
            stream = await browser.get(f"{rest.address}/api/events")
            assert await stream.content.readline() == b"event: hello\n"
            began_s = loop.time()
        took_s = loop.time() - began_s
        stream.close()
    assert took_s < 5.0, "it would wait for the stream much longer"


async def test_search_finds_floors_in_one_chat_and_in_all(rest: Rest):
    chat = await rest.chat(30)
    await rest.chat(30, "other")
    everywhere = (await rest.get("search?q=lantern 7"))["items"]
    assert {hit["chat_title"] for hit in everywhere} == {"harbour", "other"}
    (first, *_) = (await rest.get(f"search?q=lantern 7&chat={chat}"))["items"]
    assert (first["floor"], first["chat"]) == (7, chat)
    start, end = first["snippet"]["marks"][0]
    assert first["snippet"]["text"][start:end]


async def test_figures_are_exposed_without_words(rest: Rest):
    await rest.chat(30)
    body = {"model": "m", "messages": [{"role": "user", "content": "a secret word"}]}
    await rest.call("POST", "/c/talk/v1/chat/completions", json=body)
    text = (await rest.call("GET", "/metrics")).raw.decode()
    assert 'previously_turns_total{memory="on"} 1' in text
    assert "previously_messages 32" in text
    assert "previously_summaries 5" in text
    assert 'previously_request_seconds_count{door="rest"}' in text
    assert "secret" not in text
    assert (await rest.call("GET", "/readyz")).status == 200


@pytest.mark.proves("G-90")
async def test_what_is_kept_of_a_turn_and_what_is_logged_has_no_words_in_it(
    rest: Rest, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, logger="previously")
    chat = await rest.chat(60, name="private")
    secret = "the key lies under the blue stone"
    said = [{"role": "user", "content": secret}]
    body = {"model": "m", "messages": said, "previously": {"managed": True}}
    async with rest.session.post(
        f"{rest.address}/c/private/v1/chat/completions", json=body
    ) as answer:
        assert answer.status == 200
        await answer.read()
    turns: list[Any] = []
    async with asyncio.timeout(20):
        while not turns:
            turns = (await rest.get(f"chats/{chat}/turns"))["items"]
    await rest.settle(chat)
    (turn,) = turns
    assert sum(turn["layers"].values()) == turn["tokens"] < turn["chat_tokens"]
    sent = await rest.get(f"chats/{chat}/sent")
    kept = json.dumps([turns, sent], ensure_ascii=False)
    ref = await rest.ref(chat)
    stored = await rest.house.store.last_sent(ref)
    assert stored is not None
    for words in (secret, "lantern", "Saltmouth"):
        assert words not in kept
        assert words not in stored.facts
        assert words not in caplog.text
    told = await rest.get(f"chats/{chat}/sent?text=true")
    assert "lantern" in json.dumps(told), "words are given to whoever asks for them"


async def test_an_estimate_passes_over_a_task_that_was_cancelled(tmp_path: Path):
    llm = ScriptedLlm(lambda _: "I cannot help with that.")
    async with opened(tmp_path / "p.db", tmp_path, llm=llm) as rest:
        chat = await rest.chat(50)
        tasks = (await rest.get(f"tasks?chat={chat}"))["items"]
        await rest.call("POST", f"tasks/{tasks[0]['id']}/cancel")
        found = await rest.post(f"chats/{chat}/backfill", {"dry_run": True})
        assert found["kinds"]["mini"] == len(tasks) - 1
        assert found["messages"] == sum(len(task["messages"]) for task in tasks[1:])
