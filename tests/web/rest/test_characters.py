"""Settings of a character: above those of all chats, below a chat's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from previously import Memory
from tests.web.rest.rig import Rest
from tests.web.rest.test_settings import field
from tests.web.rig import Talk, opened, say


async def floors_of(rest: Rest, chat: str) -> tuple[Any, ...]:
    found = field(await rest.get(f"chats/{chat}/settings"), "visible_floors")
    return found["value"], found["own"], found["inherited"], found["inherited_from"]


async def test_a_characters_settings_hold_for_all_its_chats(either: Rest):
    mine, other = await either.chat(60), await either.chat(60, "other")
    await either.patch("settings", {"visible_floors": 18})
    await either.patch(f"chats/{mine}", {"character": "Mara"})
    form = await either.patch("settings?character=Mara", {"visible_floors": 6})
    assert (form["scope"], form["character"]) == ("character", "Mara")
    assert field(form, "visible_floors")["inherited"] == 18
    assert await floors_of(either, mine) == (6, None, 6, "character")
    assert await floors_of(either, other) == (18, None, 18, "global")
    await either.settle(mine)
    await either.settle(other)
    assert (await either.get(f"chats/{mine}"))["uncovered"] == 6  # it holds, it is not only said
    assert (await either.get(f"chats/{other}"))["uncovered"] == 18
    await either.patch(f"chats/{mine}/settings", {"visible_floors": 4})
    assert await floors_of(either, mine) == (4, 4, 6, "character")
    await either.patch(f"chats/{mine}/settings", {"visible_floors": None})
    await either.patch("settings?character=Mara", {"visible_floors": None})
    assert await floors_of(either, mine) == (18, None, 18, "global")


async def test_a_chat_may_change_its_character_or_have_none(either: Rest):
    chat = (await either.post("chats", {"name": "inn", "character": "Mara"}))["id"]
    await either.patch("settings?character=Mara", {"visible_floors": 6})
    await either.patch("settings?character=托马斯", {"visible_floors": 8})
    assert (await floors_of(either, chat))[0] == 6
    await either.patch(f"chats/{chat}", {"character": "托马斯"})
    assert (await floors_of(either, chat))[0] == 8
    named = (await either.get("characters"))["items"]
    assert named == [{"name": "Mara", "chats": 0}, {"name": "托马斯", "chats": 1}]
    assert (await either.patch(f"chats/{chat}", {"character": ""}))["character"] is None
    assert (await floors_of(either, chat))[0] == 20
    wrong = await either.call("PATCH", f"chats/{chat}", json={"character": "a\nb", "title": "x"})
    assert (wrong.status, wrong.body["field"]) == (422, "character")
    assert (await either.get(f"chats/{chat}"))["title"] == "inn"


async def test_a_branch_and_a_continued_chat_stay_with_their_character(rest: Rest):
    chat = await rest.chat(6)
    await rest.patch(f"chats/{chat}", {"character": "Mara"})
    branch = await rest.post(f"chats/{chat}/branch", {"name": "twig"})
    new = await rest.post("chats", {"name": "new", "continue_from": chat})
    assert (branch["character"], new["character"]) == ("Mara", "Mara")
    third = await rest.post("chats", {"name": "third", "continue_from": chat, "character": "Tomas"})
    assert third["character"] == "Tomas"


async def test_a_profile_that_a_character_uses_is_not_removed_without_a_word(rest: Rest):
    made = await rest.post(
        "profiles", {"name": "small", "model": "tiny", "base_url": "http://127.0.0.1:9/v1"}
    )
    await rest.patch("settings?character=Mara", {"summary_profile": "small"})
    assert (await rest.get(f"profiles/{made['id']}"))["used_by"] == ["Mara"]
    assert (await rest.call("DELETE", f"profiles/{made['id']}")).status == 409


@pytest.mark.parametrize("named", ["header", "body"])
async def test_a_client_names_the_character_of_a_new_chat(tmp_path: Path, named: str) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        told = {"extra_headers": {"X-Previously-Character": "%E7%8E%9B%E6%8B%89"}}
        if named == "body":
            told = {"extra_body": {"previously": {"char": "玛拉"}}}
        await say(door.client("inn"), talk, "你好。", **told)
        assert door.rows("SELECT character FROM chat") == [("玛拉",)]
        ref = (await door.house.service.find_chat("inn")).ref
        await door.house.service.set_character(ref, "托马斯")
        await say(door.client("inn"), talk, "再来一杯。", **told)
        assert door.rows("SELECT character FROM chat") == [("托马斯",)]  # a user's choice stays
        group = {"extra_body": {"previously": {"char": "玛拉", "group": "玛拉, 托马斯"}}}
        await say(door.client("group"), [], "大家好。", **group)
        assert door.rows("SELECT character FROM chat WHERE name = 'group'") == [(None,)]
        sent = door.upstream.requests[-1]
        assert "previously" not in sent.body


async def test_a_program_names_it_too(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m.db") as memory:
        chat = await memory.chat("inn")
        await chat.set_character("Mara")
        await memory.change_settings({"visible_floors": 3, "fold_every": 1}, character="Mara")
        for n in range(8):
            await chat.append("user", f"A longer line about the candles of day {n} and more.")
            await chat.append("assistant", f"Noted, and lit with care on the evening of day {n}.")
        await chat.settle()
        tail = [b for b in (await chat.prompt()).trace.blocks if b.place == "tail"]
        assert len(tail) <= 4
        await memory.change_settings({"enabled": False})
        assert [b.place for b in (await chat.prompt()).trace.blocks].count("cover") == 0
