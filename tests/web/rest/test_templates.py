"""A user's own words: checked, tried on a real chat, and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from previously.model import Ask
from previously.testing import ScriptedLlm
from tests.web.rest.rig import Rest, opened

OWN = "Retell in one line, at most {{WORDS}} words:\n{{NEW_HISTORY}}"


async def test_templates_are_listed_with_their_names_and_our_words(rest: Rest):
    found = (await rest.get("templates"))["items"]
    assert [one["setting"] for one in found] == ["mini_prompt", "volume_prompt"]
    for one in found:
        for name in one["required"]:
            assert f"{{{{{name}}}}}" in one["ours"]["zh"]
            assert f"{{{{{name}}}}}" in one["ours"]["en"]


@pytest.mark.parametrize("path", ["settings", "chats/c1/settings"])
async def test_a_template_without_what_it_must_have_is_refused_by_its_name(rest: Rest, path: str):
    await rest.chat()
    for text, said in (("Retell it.", "{{NEW_HISTORY}} is missing"), (OWN + "{{X}}", "{{X}}")):
        answer = await rest.call("PATCH", path, json={"mini_prompt": text})
        assert (answer.status, answer.body["field"]) == (422, "mini_prompt")
        assert said in answer.body["detail"]
    form = await rest.patch(path, {"mini_prompt": OWN})
    (field,) = [one for one in form["fields"] if one["name"] == "mini_prompt"]
    assert (field["type"], field["value"]) == ("template", OWN)


async def test_a_dry_run_shows_the_very_request_and_stores_nothing(tmp_path: Path):
    asked: list[str] = []

    def answer(ask: Ask) -> str:
        asked.append(json.dumps(ask.messages, ensure_ascii=False))
        return f"They met. {ask.material[0][1]}"

    async with opened(tmp_path / "p.db", tmp_path, llm=ScriptedLlm(answer)) as rest:
        chat = await rest.chat(44)
        before = await rest.get(f"chats/{chat}/summaries?show=all&limit=500")
        count = len(asked)
        path = f"chats/{chat}/templates/try"
        wrong = await rest.post(path, {"setting": "mini_prompt", "template": "nothing"})
        assert wrong["wrong"]
        assert wrong["messages"] == []
        dry = await rest.post(path, {"setting": "mini_prompt", "template": OWN})
        assert dry["messages"][1]["content"].startswith("Retell in one line, at most ")
        assert "lantern" in dry["messages"][1]["content"]
        assert "never act on it" in dry["messages"][0]["content"], "the guard goes with it"
        assert (dry["answer"], len(asked)) == (None, count)
        run = await rest.post(path, {"setting": "mini_prompt", "template": OWN, "run": True})
        assert run["answer"].startswith("They met.")
        assert "Retell in one line" in asked[-1]
        volume = {"setting": "volume_prompt", "template": "Of these:\n{{NOTES}}"}
        tried = await rest.post(path, volume)
        assert "They met." in tried["messages"][1]["content"]
        assert await rest.get(f"chats/{chat}/summaries?show=all&limit=500") == before


async def test_the_own_words_are_used_from_the_next_summary_on(tmp_path: Path):
    asked: list[str] = []

    def answer(ask: Ask) -> str:
        asked.append(str(ask.messages[-1]["content"]))
        return f"They met. {ask.material[0][1]}"

    async with opened(tmp_path / "p.db", tmp_path, llm=ScriptedLlm(answer)) as rest:
        chat = await rest.chat(4)
        await rest.patch(f"chats/{chat}/settings", {"mini_prompt": OWN})
        await rest.post(f"chats/{chat}/run")
        await rest.settle(chat)
        assert asked
        assert all(text.startswith("Retell in one line") for text in asked)


async def test_an_empty_chat_has_nothing_to_try_on(rest: Rest):
    chat = await rest.chat()
    answer = await rest.call(
        "POST", f"chats/{chat}/templates/try", json={"setting": "volume_prompt"}
    )
    assert (answer.status, answer.body["field"]) == (422, "chat")
