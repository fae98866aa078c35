from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from previously.align.ending import NO_MATCH
from previously.formats import openai
from previously.model import NewMessage
from previously.testing import ScriptedLlm
from previously.web import sending
from tests.web.rest.rig import Rest, opened, spoken

PRICE = {"input_usd": 1, "output_usd": 9}


async def test_a_chat_is_made_listed_changed_and_found_again(either: Rest):
    chat = await either.chat(30)
    await either.patch(f"chats/{chat}", {"title": "At the harbour"})
    (listed,) = (await either.get("chats"))["items"]
    assert listed["id"] == chat
    assert listed["name"] == "harbour"
    assert listed["title"] == "At the harbour"
    assert listed["messages"] == 30
    assert listed["lane"] == "volumes"
    assert listed["active_at_ms"] >= listed["created_at_ms"]
    full = await either.get(f"chats/{chat}")
    assert full["summaries"] == 5
    assert full["uncovered"] == 20
    assert full["tokens"] > 300
    assert (await either.get("chats?q=HARBOUR"))["items"]
    assert not (await either.get("chats?q=desert"))["items"]


async def test_a_chat_tells_what_went_on_as_it_came(either: Rest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.01)
    chat = await either.chat(30)
    assert (await either.get(f"chats/{chat}"))["passed"] is None
    other = [{"role": "user", "content": "Is the pass open?"}] * 3
    body = {"model": "m", "messages": other}
    assert (await either.call("POST", "/c/harbour/v1/chat/completions", json=body)).status == 200
    async with asyncio.timeout(10):
        while (told := (await either.get(f"chats/{chat}"))["passed"]) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert told["requests"] == 1
    assert told["reason"] == NO_MATCH
    assert told["at_ms"] > 0


async def test_a_name_is_taken_once(rest: Rest):
    await rest.chat()
    answer = await rest.call("POST", "chats", json={"name": "harbour"})
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.body["field"] == "name"
    assert answer.body["next"]


async def test_lists_go_on_where_they_ended(either: Rest):
    made = [await either.chat(name=f"chat {n}") for n in range(7)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = await either.get(f"chats?limit=3{cursor}")
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == made[::-1]


async def test_a_deleted_chat_gives_up_its_name_and_comes_back(either: Rest):
    chat = await either.chat(30)
    await either.delete(f"chats/{chat}")
    assert (await either.call("GET", f"chats/{chat}")).status == 404
    assert (await either.get("chats"))["items"] == []
    (gone,) = (await either.get("chats?deleted=true"))["items"]
    assert (gone["id"], gone["name"], gone["messages"]) == (chat, "harbour", 30)
    other = await either.chat(name="harbour")
    refused = await either.call("POST", f"chats/{chat}/restore")
    assert refused.body["field"] == "name"
    await either.delete(f"chats/{other}")
    back = await either.post(f"chats/{chat}/restore")
    assert (back["name"], back["messages"], back["summaries"]) == ("harbour", 30, 5)


@pytest.mark.proves("G-109")
async def test_a_deleted_chat_takes_no_more_messages_and_is_worked_on_no_more(tmp_path: Path):
    llm = ScriptedLlm()
    async with opened(tmp_path / "p.db", tmp_path, llm=llm) as rest:
        chat = await rest.chat(30)
        ref = await rest.ref(chat)
        asked = len(llm.asks)
        await rest.delete(f"chats/{chat}")
        with pytest.raises(Exception, match="gone"):
            await rest.house.service.append(ref, spoken(2))
        await asyncio.sleep(0.1)
        assert len(llm.asks) == asked
        assert (await rest.get("tasks"))["items"] == []
        assert (await rest.get("search?q=lantern"))["items"] == []


@pytest.mark.proves("G-109")
async def test_a_purged_chat_leaves_nothing_behind(either: Rest):
    chat = await either.chat(60)
    await either.patch(f"chats/{chat}/settings", {"visible_floors": 5})
    await either.delete(f"chats/{chat}?purge=true")
    assert (await either.get("chats?deleted=true"))["items"] == []
    assert (await either.call("POST", f"chats/{chat}/restore")).status == 404
    left = await either.house.store._db.read(
        lambda conn: {
            table: conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("chat", "message", "summary", "link", "setting", "work", "term_count")
        }
    )
    assert set(left.values()) == {0}, left


async def test_a_branch_is_a_copy_up_to_a_message(rest: Rest):
    chat = await rest.chat(30)
    page = await rest.get(f"chats/{chat}/messages?from_floor=9&limit=1")
    at = page["items"][0]["id"]
    made = await rest.post(f"chats/{chat}/branch", {"name": "another way", "at": at})
    assert (made["messages"], made["branch_of"]) == (10, chat)


async def test_a_paused_chat_passes_turns_on_and_keeps_none(rest: Rest):
    chat = await rest.chat(4)
    await rest.patch(f"chats/{chat}", {"recording": False})
    talk = [{"role": m.role, "content": m.body} for m in spoken(4)]
    talk.append({"role": "user", "content": "And then?"})
    url = "/c/harbour/v1/chat/completions"
    answer = await rest.call("POST", url, json={"model": "m", "messages": talk})
    assert answer.status == 200
    assert "paused" in answer.headers["X-Previously-Trace"]
    assert (await rest.get(f"chats/{chat}"))["messages"] == 4
    await rest.patch(f"chats/{chat}", {"recording": True})
    await rest.call("POST", url, json={"model": "m", "messages": talk})
    assert (await rest.get(f"chats/{chat}"))["messages"] == 6


async def test_an_export_is_imported_again_as_it_was(rest: Rest):
    lines = b"".join(
        openai_line(one)
        for one in (
            {"role": "system", "content": "Be brief.", "note": {"from": "elsewhere"}},
            {"role": "user", "content": "灯塔\n在哪里？", "name": "Mara"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "content": "north", "tool_call_id": "x"},
        )
    )
    made = await rest.post_raw("import?name=first", lines)
    assert made["messages"] == 4
    exported = await rest.call("GET", f"chats/{made['chat']['id']}/export")
    assert exported.headers["Content-Disposition"].startswith("attachment")
    again = await rest.post_raw("import?name=second", exported.raw)
    second = await rest.call("GET", f"chats/{again['chat']['id']}/export?format=openai")
    assert second.raw == exported.raw
    assert [said.hash for said in openai.read(exported.raw.decode())] == [
        said.hash for said in openai.read(lines.decode())
    ]


CALL = {"id": "x", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def openai_line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


async def test_a_bad_file_is_named_by_its_line_and_leaves_no_chat(rest: Rest):
    answer = await rest.call(
        "POST", "import?name=bad", data=b'{"role":"user","content":"a"}\nnonsense'
    )
    assert answer.status == 422
    assert "line 2" in answer.body["detail"]
    assert (await rest.get("chats"))["items"] == []


@pytest.mark.proves("G-110")
async def test_a_long_import_waits_for_a_backfill_that_says_what_it_takes(tmp_path: Path):
    llm = ScriptedLlm()
    async with opened(tmp_path / "p.db", tmp_path, llm=llm) as rest:
        lines = b"".join(openai_line({"role": m.role, "content": m.body}) for m in spoken(500))
        made = await rest.post_raw("import?name=long", lines)
        chat = made["chat"]["id"]
        assert made["held"]
        plan = await rest.post(f"chats/{chat}/backfill", {"dry_run": True})
        assert plan["calls"] >= 60  # four minis to a call, and volumes
        assert plan["messages"] == 480
        assert not plan["begun"]
        held = (await rest.get(f"tasks?chat={chat}"))["items"]
        assert {task["state"] for task in held} == {"held"}
        assert llm.asks == []
        assert (await rest.post(f"chats/{chat}/backfill", {"dry_run": False}))["begun"]
        assert (await rest.delete(f"chats/{chat}/backfill"))["begun"]


@pytest.mark.proves("G-79")
async def test_work_by_hand_asks_before_it_goes_beyond_the_month(tmp_path: Path):
    async with opened(tmp_path / "p.db", tmp_path) as rest:
        lines = b"".join(openai_line({"role": m.role, "content": m.body}) for m in spoken(60))
        made = await rest.post_raw("import?name=dear", lines)
        chat = made["chat"]["id"]
        paid = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price": PRICE}
        await rest.post("profiles", {"name": "main", "source": "openai", **paid})
        await rest.patch(f"chats/{chat}/settings", {"monthly_budget_usd": 0})
        for noun in ("run", "archive", "backfill"):
            body = {"dry_run": False} if noun == "backfill" else {}
            asked = await rest.call("POST", f"chats/{chat}/{noun}", json=body)
            assert asked.status == 402, noun
            assert asked.body["type"] == "urn:previously:ask-first"
            assert "beyond_budget" in asked.body["next"]
        told = await rest.post(f"chats/{chat}/run", {"beyond_budget": True})
        assert told["begun"]


async def test_the_sample_story_needs_no_model(rest: Rest):
    made = await rest.post("sample", {"language": "zh"})
    assert made["messages"] > 400
    assert not made["held"]
    await rest.settle(made["chat"]["id"])
    assert (await rest.get(f"chats/{made['chat']['id']}"))["summaries"] > 100
    assert (await rest.post("sample", {"language": "zh"}))["chat"]["name"] == "demo-zh-2"


async def test_a_post_with_a_key_is_done_once(rest: Rest):
    more = {"json": {"name": "once"}, "headers": {"Idempotency-Key": "a1"}}
    first, second = await asyncio.gather(
        rest.call("POST", "chats", **more), rest.call("POST", "chats", **more)
    )
    assert (first.status, second.status) == (201, 201)
    assert first.body == second.body
    assert ["Idempotency-Replayed" in one.headers for one in (first, second)].count(True) == 1
    other = await rest.call("POST", "chats", json={"name": "x"}, headers=more["headers"])
    assert other.status == 409
    assert len((await rest.get("chats"))["items"]) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_key_is_honoured_after_a_restart_and_by_another_server(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    location: Path | str = tmp_path / "p.db"
    if kind == "postgres":
        location = str(request.getfixturevalue("postgres_url"))
    more = {"json": {"name": "once"}, "headers": {"Idempotency-Key": "a1"}}
    async with opened(location, tmp_path) as rest:
        first = await rest.call("POST", "chats", **more)
        if kind == "postgres":
            async with opened(location, tmp_path) as other:
                assert (await other.call("POST", "chats", **more)).body == first.body
    async with opened(location, tmp_path) as rest:
        again = await rest.call("POST", "chats", **more)
        assert (again.status, again.body) == (201, first.body)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.headers["Content-Type"] == "application/json"
        other = await rest.call("POST", "chats", json={"name": "x"}, headers=more["headers"])
        assert other.status == 409
        assert len((await rest.get("chats"))["items"]) == 1


async def test_no_kept_answer_shows_a_token_or_what_was_purged(rest: Rest):
    chat = await rest.chat()
    headers = {"Idempotency-Key": "a1"}
    said = {"role": "user", "text": "a very private word"}
    await rest.call("POST", f"chats/{chat}/messages", json=said, headers=headers)
    asked = {"name": "monitor", "scopes": ["read"]}
    token = (await rest.call("POST", "tokens", json=asked, headers=headers)).body["token"]
    await rest.delete(f"chats/{chat}?purge=true")
    raw = b"".join(path.read_bytes() for path in rest.keys.parent.glob("previously.db*"))
    assert raw
    assert token.encode() not in raw
    kept = await rest.house.store.claim_answer("any", "")
    assert kept is None
    again = await rest.call("POST", f"chats/{chat}/messages", json=said, headers=headers)
    assert again.status == 404


async def test_what_went_wrong_under_a_key_may_go_right_the_next_time(rest: Rest):
    headers = {"Idempotency-Key": "a1"}
    assert (await rest.call("POST", "chats", json={"name": ""}, headers=headers)).status == 422
    assert (await rest.call("POST", "chats", json={"name": "y"}, headers=headers)).status == 201


async def test_a_recalculating_chat_is_left_alone(rest: Rest):
    chat = await rest.chat()
    await rest.call("PUT", f"chats/{chat}/recalculating")
    await rest.house.service.append(await rest.ref(chat), spoken(40))
    await rest.settle(chat)
    assert (await rest.get(f"chats/{chat}"))["summaries"] == 0
    await rest.delete(f"chats/{chat}/recalculating")
    await rest.settle(chat)
    assert (await rest.get(f"chats/{chat}"))["summaries"] > 0


async def test_a_chat_that_was_changed_meanwhile_is_not_written_over(rest: Rest):
    chat = await rest.chat()
    seen = (await rest.call("GET", f"chats/{chat}")).etag
    await rest.house.service.append(await rest.ref(chat), [NewMessage("user", "hello")])
    stale = await rest.call(
        "PATCH", f"chats/{chat}", json={"title": "mine"}, headers={"If-Match": seen}
    )
    assert stale.status == 409
    assert (await rest.get(f"chats/{chat}"))["title"] == "harbour"
