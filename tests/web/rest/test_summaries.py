from __future__ import annotations

import asyncio

import pytest

from tests.web.rest.rig import Rest


@pytest.mark.proves("A-52")
async def test_the_tree_leads_from_the_top_down_to_the_floors(either: Rest):
    chat = await either.chat(160)
    top = (await either.get(f"chats/{chat}/summaries"))["items"]
    assert top[0]["level"] == 1
    assert [s["first_floor"] for s in top] == sorted(s["first_floor"] for s in top)
    assert [s["first_floor"] for s in top[1:]] == [s["last_floor"] + 1 for s in top[:-1]]
    below = (await either.get(f"chats/{chat}/summaries?parent={top[0]['id']}"))["items"]
    assert len(below) == top[0]["children"]
    assert {s["parent"] for s in below} == {top[0]["id"]}
    mini = await either.get(f"summaries/{below[0]['id']}")
    assert mini["source_messages"] == [f"m{chat[1:]}-1", f"m{chat[1:]}-2"]
    everything: list[str] = []
    cursor = ""
    while True:
        page = await either.get(f"chats/{chat}/summaries?show=all&limit=30{cursor}")
        everything += [s["id"] for s in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    full = await either.get(f"chats/{chat}")
    assert len(everything) == len(set(everything)) == full["summaries_written"]


@pytest.mark.proves("G-27")
async def test_your_own_words_stand_until_you_say_otherwise(either: Rest):
    chat = await either.chat(30)
    first = (await either.get(f"chats/{chat}/summaries"))["items"][0]
    mine = await either.patch(f"summaries/{first['id']}", {"text": "They met."})
    assert (mine["text"], mine["edited_by_user"], mine["status"]) == ("They met.", True, "ready")
    late = await either.call("PATCH", f"summaries/{first['id']}", json={"text": "No."})
    assert late.status == 409
    await either.post(f"chats/{chat}/rebuild", {})
    await either.settle(chat)
    assert (await either.get(f"summaries/{mine['id']}"))["status"] == "ready"
    texts = (await either.get(f"summaries/{mine['id']}/revisions"))["items"]
    assert [s["text"] for s in texts] == [first["text"], "They met."]
    back = await either.post(f"summaries/{first['id']}/restore")
    assert (back["text"], back["status"]) == (first["text"], "ready")


@pytest.mark.parametrize(("accept", "status"), [(True, "ready"), (False, "deleted")])
async def test_a_new_text_over_an_edited_one_waits_to_be_decided(
    rest: Rest, accept: bool, status: str
):
    chat = await rest.chat(30)
    first = (await rest.get(f"chats/{chat}/summaries"))["items"][0]
    await rest.patch(f"summaries/{first['id']}", {"text": "Mine."})
    await rest.patch(f"chats/{chat}/messages/m{chat[1:]}-1", {"text": "A lantern fell."})
    async with asyncio.timeout(20):
        while (await rest.get(f"chats/{chat}"))["proposals"] == 0:
            await rest.settle(chat)
            await asyncio.sleep(0.2)
    (proposed,) = (await rest.get(f"chats/{chat}/summaries?show=proposed"))["items"]
    path = f"summaries/{proposed['id']}/proposal"
    assert (await rest.post(path, {"accept": accept}))["status"] == status
    assert (await rest.call("POST", path, json={"accept": accept})).status == 409
    assert (await rest.get(f"chats/{chat}"))["proposals"] == 0


@pytest.mark.proves("A-51")
async def test_summaries_are_written_now_on_request(rest: Rest):
    chat = await rest.chat(10)
    assert (await rest.get(f"chats/{chat}"))["summaries"] == 0
    assert (await rest.post(f"chats/{chat}/run", {"lane": "volumes"}))["begun"]
    await rest.settle(chat)
    minis = (await rest.get(f"chats/{chat}"))["summaries"]
    assert minis == 4
    await rest.patch(f"chats/{chat}/settings", {"visible_floors": 1})
    await rest.post(f"chats/{chat}/archive")
    await rest.settle(chat)
    kinds = {s["kind"] for s in (await rest.get(f"chats/{chat}/summaries?show=all"))["items"]}
    assert kinds == {"mini", "volume"}
    wrong = await rest.call("POST", f"chats/{chat}/run", json={"lane": "plot"})
    assert (wrong.status, wrong.body["field"]) == (422, "lane")


async def test_a_rebuild_says_first_what_it_would_write_anew(rest: Rest):
    chat = await rest.chat(40)
    before = (await rest.get(f"chats/{chat}"))["summaries"]
    start = (await rest.get(f"chats/{chat}/messages?from_floor=10&limit=1"))["items"][0]["id"]
    whole = await rest.post(f"chats/{chat}/rebuild", {"dry_run": True})
    part = await rest.post(f"chats/{chat}/rebuild", {"dry_run": True, "from": start})
    assert (whole, part) == (
        {"summaries": before, "begun": False},
        {"summaries": before - 5, "begun": False},
    )
    assert (await rest.post(f"chats/{chat}/rebuild", {"from": start}))["begun"]
    await rest.settle(chat)
    assert (await rest.get(f"chats/{chat}"))["summaries_written"] == before + 5
    assert not (await rest.delete(f"chats/{chat}/rebuild"))["begun"]


async def test_an_empty_summary_is_refused(rest: Rest):
    chat = await rest.chat(30)
    first = (await rest.get(f"chats/{chat}/summaries"))["items"][0]
    answer = await rest.call("PATCH", f"summaries/{first['id']}", json={"text": "  "})
    assert (answer.status, answer.body["field"]) == (422, "text")


@pytest.mark.parametrize("level", [0, 1])
async def test_a_deleted_summary_gives_way_to_what_it_stood_for_and_can_come_back(
    either: Rest, level: int
):
    chat = await either.chat(160)
    top = (await either.get(f"chats/{chat}/summaries"))["items"]
    one = next(s for s in top if s["level"] == level)
    answer = await either.call("DELETE", f"summaries/{one['id']}")
    assert answer.status == 204
    await either.settle(chat)
    left = (await either.get(f"chats/{chat}/summaries?limit=500"))["items"]
    over = [s for s in left if s["first_floor"] <= one["first_floor"] <= s["last_floor"]]
    assert one["id"] not in {s["id"] for s in left}
    assert {s["level"] for s in over} == ({0} if level else set())
    ref = await either.ref(chat)
    assert await either.house.store.is_sound(ref, "volumes")
    page = await either.get(f"chats/{chat}/messages?from_floor={one['first_floor']}&limit=1")
    how = page["items"][0]["place"]["how"]
    assert how == ("summary" if level else "verbatim") or page["items"][0]["place"]["reason"]
    assert (await either.call("DELETE", f"summaries/{one['id']}")).status == 409
    back = await either.post(f"summaries/{one['id']}/restore")
    assert back["status"] == "ready"
    await either.settle(chat)
    again = (await either.get(f"chats/{chat}/summaries"))["items"]
    assert [s["id"] for s in again] == [s["id"] for s in top]
    assert await either.house.store.is_sound(ref, "volumes")
