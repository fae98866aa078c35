from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.web.rest.rig import Rest, spoken


async def floors_of(rest: Rest, chat: str, query: str) -> list[int]:
    return [m["floor"] for m in (await rest.get(f"chats/{chat}/messages?{query}"))["items"]]


@pytest.mark.proves("D-57a", "D-57d")
async def test_pages_by_number_and_by_floor(either: Rest):
    chat = await either.chat(25)
    assert await floors_of(either, chat, "limit=10") == list(range(15, 25))
    assert await floors_of(either, chat, "limit=10&before_floor=15") == list(range(5, 15))
    assert await floors_of(either, chat, "limit=10&before_floor=5") == list(range(5))
    assert await floors_of(either, chat, "limit=10&page=1") == list(range(10))
    assert await floors_of(either, chat, "limit=10&page=3") == list(range(20, 25))
    assert await floors_of(either, chat, "limit=10&page=4") == []
    assert await floors_of(either, chat, "limit=10&before_floor=0") == []
    page = await either.get(f"chats/{chat}/messages?limit=10&page=2")
    assert (page["total"], page["older"], page["newer"]) == (25, 10, 20)


async def test_floors_stay_right_when_messages_go_come_and_move(either: Rest):
    chat = await either.chat(12)
    ids = [m["id"] for m in (await either.get(f"chats/{chat}/messages"))["items"]]
    for gone in (0, 4, 5, 11):
        await either.delete(f"chats/{chat}/messages/{ids[gone]}")
    await either.post(
        f"chats/{chat}/messages", {"role": "user", "text": "between", "before": ids[7]}
    )
    await either.post(f"chats/{chat}/messages/{ids[1]}/move", {"before": ids[10]})
    order = [ids[2], ids[3], ids[6], None, ids[7], ids[8], ids[9], ids[1], ids[10]]
    page = await either.get(f"chats/{chat}/messages")
    assert [m["floor"] for m in page["items"]] == list(range(9))
    assert [m["id"] for m in page["items"] if m["text"] != "between"] == [i for i in order if i]
    assert page["items"][3]["text"] == "between"
    for floor in range(9):
        one = await either.get(f"chats/{chat}/messages?from_floor={floor}&limit=1")
        assert one["items"] == [page["items"][floor]]
        alone = await either.get(f"chats/{chat}/messages/{page['items'][floor]['id']}")
        assert alone["floor"] == floor


async def test_any_floor_is_found_whatever_was_taken_out(rest: Rest):
    dice = random.Random(7)
    store = rest.house.store
    for number in range(12):
        made = await rest.house.service.open_chat(f"chat {number}")
        stored = await rest.house.service.append(made.ref, spoken(20))
        gone = set(dice.sample(range(20), number + 3))
        await rest.house.service.delete(made.ref, [stored[i].id for i in gone])
        live = [m for i, m in enumerate(stored) if i not in gone]
        for floor in range(len(live)):
            page = await store.floor_page(made.ref, floor, 3)
            assert [m.id for m in page.messages] == [m.id for m in live[floor : floor + 3]]
            assert page.total == len(live)
        found = await store.floors(made.ref, [m.pos for m in live])
        assert [found[m.pos] for m in live] == list(range(len(live)))
        assert (await store.floor_page(made.ref, len(live), 3)).messages == ()


async def test_each_floor_says_how_the_next_prompt_represents_it(rest: Rest):
    chat = await rest.chat(60)
    ids = [m["id"] for m in (await rest.get(f"chats/{chat}/messages?limit=100"))["items"]]
    await rest.patch(f"chats/{chat}/messages/{ids[50]}", {"hidden": True})
    await rest.patch(f"chats/{chat}/messages/{ids[3]}", {"pinned": True})
    await rest.patch(f"chats/{chat}/messages/{ids[5]}", {"excluded": True})
    await rest.settle(chat)
    page = await rest.get(f"chats/{chat}/messages?limit=100")
    places: list[Mapping[str, Any]] = [m["place"] for m in page["items"]]
    assert places[50] == {"how": "hidden", "summary": None, "by": "user", "reason": ""}
    assert places[3]["how"] == "standing"
    assert places[5]["how"] == "dropped"
    assert places[5]["reason"]
    assert places[59]["how"] == "verbatim"
    assert places[10]["how"] == "summary"
    prompt = await rest.get(f"chats/{chat}/prompt")
    shown = {s for block in prompt["blocks"] for s in block["summaries"]}
    assert {p["summary"] for p in places if p["how"] == "summary"} <= shown
    cover = await rest.get(f"summaries/{places[10]['summary']}")
    assert cover["first_floor"] <= 10 <= cover["last_floor"]
    assert cover["shown"]


@pytest.mark.proves("D-57b", "D-57c")
async def test_a_message_is_edited_deleted_and_brought_back(either: Rest):
    chat = await either.chat(30)
    message = (await either.get(f"chats/{chat}/messages?from_floor=2&limit=1"))["items"][0]
    path = f"chats/{chat}/messages/{message['id']}"
    edited = await either.patch(path, {"text": "She never came."})
    assert (edited["text"], edited["version"]) == ("She never came.", 2)
    touched = await either.delete(path)
    assert touched["messages"] == 1
    assert (await either.call("GET", path)).status == 404
    assert (await either.get(f"chats/{chat}/messages"))["total"] == 29
    await either.post(f"chats/{chat}/undo")
    assert (await either.get(path))["text"] == "She never came."
    await either.post(f"chats/{chat}/undo")
    assert (await either.get(path))["text"] == message["text"]
    assert (await either.post(f"chats/{chat}/undo"))["messages"] == 0


async def test_two_tabs_on_one_floor_cannot_write_over_each_other(either: Rest):
    chat = await either.chat(2)
    message = (await either.get(f"chats/{chat}/messages"))["items"][0]
    path = f"chats/{chat}/messages/{message['id']}"
    seen = {"If-Match": (await either.call("GET", path)).etag}
    assert (await either.call("PATCH", path, json={"text": "mine"}, headers=seen)).status == 200
    late = await either.call("PATCH", path, json={"text": "yours"}, headers=seen)
    assert late.status == 409
    assert late.body["type"] == "urn:previously:conflict"
    assert (await either.call("DELETE", path, headers=seen)).status == 409
    assert (await either.get(path))["text"] == "mine"


async def test_texts_and_marks_change_in_one_step(rest: Rest):
    chat = await rest.chat(4)
    message = (await rest.get(f"chats/{chat}/messages"))["items"][0]
    path = f"chats/{chat}/messages/{message['id']}"
    changed = await rest.patch(path, {"text": "new", "pinned": True, "excluded": True})
    assert (changed["text"], changed["pinned"], changed["excluded"]) == ("new", True, True)
    await rest.post(f"chats/{chat}/undo")
    back = await rest.get(path)
    assert (back["text"], back["pinned"], back["excluded"]) == (message["text"], False, False)
    assert (await rest.call("PATCH", path, json={})).status == 422


async def test_several_messages_change_together(rest: Rest):
    chat = await rest.chat(6)
    ids = [m["id"] for m in (await rest.get(f"chats/{chat}/messages"))["items"]]
    told = await rest.patch(f"chats/{chat}/messages", {"ids": ids[:3], "hidden": True})
    assert told["messages"] == 3
    await rest.patch(f"chats/{chat}/messages", {"ids": ids[3:], "deleted": True})
    left = await rest.get(f"chats/{chat}/messages")
    assert [m["hidden_by"] for m in left["items"]] == ["user"] * 3
    await rest.post(f"chats/{chat}/undo")
    assert (await rest.get(f"chats/{chat}/messages"))["total"] == 6


async def test_swipes_are_kept_and_chosen_by_number(rest: Rest):
    chat = await rest.chat(2)
    message = (await rest.get(f"chats/{chat}/messages"))["items"][1]
    path = f"chats/{chat}/messages/{message['id']}"
    swiped = await rest.post(f"{path}/swipe", {"text": "Another ending."})
    assert (swiped["variant"], swiped["variants"]) == (1, 2)
    assert [v["text"] for v in swiped["all_variants"]] == [message["text"], "Another ending."]
    assert (await rest.post(f"{path}/swipe", {"variant": 0}))["text"] == message["text"]
    assert (await rest.call("POST", f"{path}/swipe", json={"variant": 9})).status == 422
    assert (await rest.call("POST", f"{path}/swipe", json={})).status == 422


@pytest.mark.parametrize("message", ["m1-99", "m7-1", "x", "s1-1", "m1-0", "m1-99999999999999"])
async def test_an_id_that_means_nothing_is_not_found(rest: Rest, message: str):
    chat = await rest.chat(1)
    for method in ("GET", "DELETE"):
        answer = await rest.call(method, f"chats/{chat}/messages/{message}")
        assert answer.status == 404
        assert answer.body["type"] == "urn:previously:message-not-found"


async def test_a_message_of_another_chat_cannot_be_reached_through_this_one(rest: Rest):
    mine, other = await rest.chat(1), await rest.chat(1, "other")
    foreign = (await rest.get(f"chats/{other}/messages"))["items"][0]["id"]
    assert (await rest.call("GET", f"chats/{mine}/messages/{foreign}")).status == 404
    answer = await rest.call("PATCH", f"chats/{mine}/messages/{foreign}", json={"text": "x"})
    assert answer.status == 404
