from __future__ import annotations

from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import pytest

from previously.settings import Settings
from previously.web.rest.wording import FIELDS, GROUPS
from tests.web.rest.rig import Rest, opened


def field(form: Any, name: str) -> dict[str, Any]:
    return next(one for one in form["fields"] if one["name"] == name)


def test_every_setting_has_its_words_in_both_languages():
    assert set(FIELDS) == {f.name for f in dataclass_fields(Settings)}
    assert {words.group for words in FIELDS.values()} <= set(GROUPS)
    assert all(any(ord(c) > 0x4E00 for c in words.help_zh) for words in FIELDS.values())


@pytest.mark.proves("A-34", "G-108")
async def test_a_value_comes_from_the_nearest_place_and_holds_at_once(either: Rest):
    chat = await either.chat(60)
    form = await either.get(f"chats/{chat}/settings")
    assert {g["title"]["zh"] for g in form["groups"]} >= {"上下文管理", "次级LLM API", "自动总结"}
    floors = field(form, "visible_floors")
    assert (floors["value"], floors["own"], floors["inherited_from"]) == (20, None, "default")
    assert (floors["minimum"], floors["maximum"], floors["type"]) == (1, 100, "whole")
    await either.patch("settings", {"visible_floors": 10, "mini_tokens": 60})
    floors = field(await either.get(f"chats/{chat}/settings"), "visible_floors")
    assert (floors["value"], floors["own"], floors["inherited_from"]) == (10, None, "global")
    changed = await either.patch(f"chats/{chat}/settings", {"visible_floors": 4})
    floors = field(changed, "visible_floors")
    assert (floors["value"], floors["own"], floors["inherited"]) == (4, 4, 10)
    await either.settle(chat)
    assert (await either.get(f"chats/{chat}"))["uncovered"] <= 5
    reset = await either.patch(f"chats/{chat}/settings", {"visible_floors": None})
    assert field(reset, "visible_floors")["value"] == 10
    other = await either.chat(40, "other")
    assert (await either.get(f"chats/{other}"))["uncovered"] == 10


async def test_settings_that_somebody_else_saved_are_not_written_over(rest: Rest):
    seen = {"If-Match": (await rest.call("GET", "settings")).etag}
    first = await rest.call("PATCH", "settings", json={"fold_every": 5}, headers=seen)
    assert first.status == 200
    late = await rest.call("PATCH", "settings", json={"fold_every": 9}, headers=seen)
    assert late.status == 409
    assert field(await rest.get("settings"), "fold_every")["value"] == 5


async def test_what_cannot_be_used_is_named_and_nothing_is_changed(rest: Rest):
    answer = await rest.call("PATCH", "settings", json={"fold_every": 5, "language": "klingon"})
    assert (answer.status, answer.body["field"]) == (422, "language")
    unknown = await rest.call("PATCH", "settings", json={"fold_evry": 5})
    assert unknown.body["field"] == "fold_evry"
    assert field(await rest.get("settings"), "fold_every")["own"] is None


PROFILE = {"name": "small/一", "model": "tiny", "base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.proves("A-39")
async def test_profiles_are_made_changed_and_removed_and_keys_never_come_back(either: Rest):
    made = await either.post("profiles", {**PROFILE, "api_key": "sk-very-secret"})
    assert (made["has_key"], made["key_kept"]) == (True, "here")
    (kept,) = either.keys.iterdir()
    assert kept.read_text() == "sk-very-secret"
    assert kept.stat().st_mode & 0o077 == 0
    path = f"profiles/{made['id']}"
    changed = await either.patch(
        path, {"model": "tiny-2", "price": {"input_usd": 1, "output_usd": 2}}
    )
    assert (changed["model"], changed["has_key"], changed["price_known"]) == ("tiny-2", True, True)
    for place in (path, "profiles", "settings", "/metrics"):
        assert b"very-secret" not in (await either.call("GET", place)).raw
    await either.patch(path, {"api_key": ""})
    assert (await either.get(path))["has_key"]
    assert not (await either.patch(path, {"api_key": None}))["has_key"]
    assert list(either.keys.iterdir()) == []
    await either.delete(path)
    assert (await either.get("profiles"))["items"] == []
    assert (await either.call("GET", path)).status == 404


@pytest.mark.proves("G-109")
async def test_a_profile_in_use_is_not_removed_without_a_word(rest: Rest):
    chat = await rest.chat()
    made = await rest.post("profiles", PROFILE)
    await rest.patch(f"chats/{chat}/settings", {"summary_profile": PROFILE["name"]})
    assert (await rest.get(f"profiles/{made['id']}"))["used_by"] == ["harbour"]
    refused = await rest.call("DELETE", f"profiles/{made['id']}")
    assert refused.status == 409
    assert "harbour" in refused.body["detail"]
    assert (await rest.call("DELETE", f"profiles/{made['id']}?force=true")).status == 204


async def test_a_profile_is_tried_out_in_words(rest: Rest):
    body = {"name": "up", "model": "m", "base_url": rest.upstream.url}
    good = await rest.post("profiles", body)
    assert (await rest.post(f"profiles/{good['id']}/test"))["ok"]
    bad = await rest.post("profiles", PROFILE)
    found = await rest.post(f"profiles/{bad['id']}/test")
    assert not found["ok"]
    assert found["says"]


async def test_a_profile_that_cannot_be_is_named_by_its_field(rest: Rest):
    answer = await rest.call(
        "POST", "profiles", json={**PROFILE, "base_url": "http://example.com/"}
    )
    assert (answer.status, answer.body["field"]) == (422, "base_url")
    await rest.post("profiles", PROFILE)
    twice = await rest.call("POST", "profiles", json=PROFILE)
    assert (twice.status, twice.body["field"]) == (422, "name")


async def test_usage_adds_up_and_knows_the_budget(rest: Rest):
    await rest.chat(30)
    for by in ("month", "profile", "chat"):
        found = await rest.get(f"usage?by={by}")
        assert found["by"] == by
        assert (found["spent_usd"], found["budget_usd"]) == (0, 5)


async def test_about_says_what_there_is(rest: Rest, tmp_path: Path):
    told = await rest.get("about")
    assert told["upstream"] == rest.upstream.url
    assert not told["token_needed"]
    assert [p["name"] for p in told["presets"] if p["is_default"]] == ["volumes"]
    (tmp_path / "b").mkdir()
    async with opened(tmp_path / "b" / "p.db", tmp_path, token="t") as guarded:
        assert (await guarded.call("GET", "about")).status == 401
