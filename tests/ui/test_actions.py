"""The main things one does on each tab, once, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.ui.conftest import Open
from tests.ui.serving import Server, Upstream

SAID = [
    f"On day {n} Mara counts {n + 7} candles and writes to the harbour master about lamp {n}."
    for n in range(90)
]


def floor(page: Page, n: int) -> Locator:
    return page.locator(f'[data-floor="{n}"]')


def test_the_sample_story_is_one_click_away(server: Server, open_page: Open) -> None:
    page = open_page(f"{server.url}/")
    page.get_by_role("button", name="Open the sample story").click()
    expect(page.locator("h1")).to_have_text("History")
    expect(floor(page, 415)).to_be_visible()
    expect(page.locator('[data-how="verbatim"]').first).to_be_visible()
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="Open the sample story").click()
    expect(floor(page, 415)).to_be_visible()
    names = [chat["name"] for chat in server.api("GET", "chats")["items"]]
    assert names.count("demo-en") == 1  # opened again, not made again
    assert "demo-en-2" not in names


def test_the_base_url_is_there_to_be_copied(server: Server, open_page: Open) -> None:
    page = open_page(f"{server.url}/")
    page.get_by_label("Name of the chat").fill("雨夜 1")
    address = f"{server.url}/c/%E9%9B%A8%E5%A4%9C%201/v1"
    expect(page.locator(".copy code", has_text=address)).to_be_visible()
    page.get_by_role("button", name="Open WebUI").click()
    expect(page.get_by_text(f"URL: {address}")).to_be_visible()
    page.get_by_role("button", name="Python").click()
    expect(page.locator("pre")).to_contain_text("from openai import OpenAI")


def test_chats_are_made_found_renamed_branched_put_away(server: Server, open_page: Open) -> None:
    server.chat("harbour", SAID[:6])
    page = open_page(f"{server.url}/#tab=chats")
    page.get_by_role("button", name="New chat").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("lighthouse")
    dialog.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("Nothing was said yet")).to_be_visible()

    page.get_by_role("link", name="Chats").click()
    page.get_by_role("searchbox", name="Search in all chats").fill("candles")
    page.locator(".hit", has_text="harbour").first.click()
    expect(page.locator(".floor.here")).to_be_visible()

    page.get_by_role("link", name="Chats").click()
    page.get_by_role("button", name="Actions for “harbour”").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Title").fill("The harbour")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".chat-card", has_text="The harbour")).to_be_visible()

    page.get_by_role("button", name="Actions for “The harbour”").click()
    page.get_by_role("button", name="Branch").click()
    page.get_by_role("dialog").get_by_label("Name").fill("another ending")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".floor")).to_have_count(6)

    page.get_by_role("link", name="Chats").click()
    page.get_by_role("button", name="Actions for “another ending”").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".chat-card", has_text="another ending")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".chat-card", has_text="another ending")).to_be_visible()


def test_a_chat_is_removed_for_good_only_on_demand(server: Server, open_page: Open) -> None:
    chat = server.chat("to purge", SAID[:2])
    server.api("DELETE", f"chats/{chat}")
    page = open_page(f"{server.url}/#tab=chats")
    page.locator(".deleted summary").click()
    line = page.locator(".deleted li", has_text="to purge")
    line.get_by_role("button", name="Delete for good").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete for good").click()
    expect(line).to_have_count(0)
    assert "to purge" not in str(server.api("GET", "chats?deleted=true"))


def test_files_are_brought_in_and_a_bad_one_is_named(
    server: Server, open_page: Open, tmp_path: Path
) -> None:
    good, bad = tmp_path / "from a file.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps({"role": "user", "content": "Hello from a file."}))
    bad.write_text("{nonsense")
    page = open_page(f"{server.url}/#tab=chats")
    page.get_by_label("Choose files").first.set_input_files([good])
    expect(page.locator(".chat-card", has_text="from a file")).to_be_visible()
    page.get_by_label("Choose files").first.set_input_files([bad])
    expect(page.get_by_role("alert")).to_contain_text("bad.jsonl")


def test_a_chat_is_taken_along_as_a_file(server: Server, open_page: Open) -> None:
    server.chat("to export", SAID[:3])
    page = open_page(f"{server.url}/#tab=chats")
    page.get_by_role("button", name="Actions for “to export”").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export: OpenAI messages").click()
    assert Path(download.value.path()).read_text(encoding="utf-8").count("\n") == 3


@pytest.mark.proves("D-57b", "D-57c", "D-57e")
def test_floors_are_edited_hidden_pinned_deleted_and_brought_back(
    server: Server, open_page: Open
) -> None:
    chat = server.chat("floors", SAID)
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    expect(floor(page, 0)).to_have_attribute("data-how", "summary")
    expect(floor(page, 89)).to_have_attribute("data-how", "verbatim")

    page.get_by_role("button", name="Edit floor 89").click()
    page.get_by_label("Text of floor 89").fill("**Bold** and <b>not bold</b>")
    page.keyboard.press("Control+Enter")
    expect(floor(page, 89).locator("strong")).to_have_text("Bold")
    expect(floor(page, 89).locator(".prose")).to_contain_text("<b>not bold</b>")

    page.get_by_role("button", name="More for floor 88").click()
    page.get_by_role("button", name="Hide from prompts").click()
    expect(floor(page, 88)).to_have_attribute("data-how", "hidden")
    expect(floor(page, 88)).to_contain_text("Hidden by you")
    page.get_by_role("button", name="Undo").first.click()

    page.get_by_role("button", name="More for floor 3", exact=True).click()
    page.get_by_role("button", name="Pin").click()
    expect(floor(page, 3)).to_have_attribute("data-how", "standing")

    page.get_by_role("button", name="More for floor 87").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".floor")).to_have_count(89)
    page.get_by_role("button", name="Undo").last.click()
    expect(page.locator(".floor")).to_have_count(90)

    page.get_by_role("searchbox").fill("46 candles")
    page.locator(".hit").first.click()
    expect(page.locator(".floor.here")).to_have_attribute("data-floor", "39")
    page.get_by_role("button", name="Summary of floor 39").click()
    expect(page.locator("h1")).to_have_text("Summaries")
    expect(page.locator(".node.chosen")).to_be_visible()


def test_swipes_are_turned(server: Server, open_page: Open) -> None:
    chat = server.chat("swipes", SAID[:4])
    last = server.api("GET", f"chats/{chat}/messages")["items"][-1]["id"]
    server.api("POST", f"chats/{chat}/messages/{last}/swipe", {"text": "Another ending."})
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    expect(floor(page, 3)).to_contain_text("2/2")
    floor(page, 3).get_by_role("button", name="Variant before").click()
    expect(floor(page, 3)).to_contain_text("On day 3")
    floor(page, 3).get_by_role("button", name="Next variant").click()
    expect(floor(page, 3)).to_contain_text("Another ending.")


@pytest.mark.proves("A-52", "G-27")
def test_summaries_are_edited_protected_compared_and_restored(
    server: Server, open_page: Open
) -> None:
    chat = server.chat("summaries", SAID)
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    first = page.locator(".node").first
    before = first.locator("> .plain-text").inner_text()
    first.get_by_role("button", name=re.compile("^Edit ")).click()
    first.get_by_role("textbox").fill("Mara counted candles, in my own words.")
    first.get_by_role("button", name="Save").click()
    expect(first.locator("> .plain-text")).to_have_text("Mara counted candles, in my own words.")
    expect(first.get_by_text("Your words")).to_be_visible()

    first.get_by_role("button", name=re.compile("^More for ")).click()
    first.get_by_role("button", name="Revisions").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("ins").first).to_be_visible()
    expect(dialog.locator("del").first).to_be_visible()
    dialog.get_by_role("button", name="Restore").first.click()
    expect(first.locator("> .plain-text")).to_have_text(before)

    page.get_by_role("button", name="Write anew").click()
    expect(page.get_by_role("dialog")).to_contain_text("written anew")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()


@pytest.mark.proves("A-51")
def test_a_summary_is_asked_for_at_once(server: Server, open_page: Open) -> None:
    chat = server.chat("at once", SAID[:12])
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    expect(page.get_by_text("No summaries yet")).to_be_visible()
    page.get_by_role("button", name="Summarise now").click()
    expect(page.locator(".node").first).to_be_visible()


def test_minis_are_archived_by_hand(server: Server, open_page: Open) -> None:
    chat = server.chat("by hand", SAID[:60])
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    expect(page.get_by_role("heading", name=re.compile("^Mini")).first).to_be_visible()
    page.get_by_role("button", name="Archive by hand").click()
    expect(page.get_by_role("heading", name="Volume 1")).to_be_visible()
    page.get_by_role("button", name="Parts of Volume 1").click()
    expect(page.get_by_role("heading", name=re.compile("^Mini")).first).to_be_visible()


@pytest.mark.proves("G-27")
def test_a_proposal_waits_for_its_reader(server: Server, open_page: Open) -> None:
    chat = server.chat("proposal", SAID)
    mini = server.api("GET", f"chats/{chat}/summaries?show=top")["items"][0]
    server.api("PATCH", f"summaries/{mini['id']}", {"text": "My own words."})
    message = server.api("GET", f"chats/{chat}/messages?from_floor={mini['first_floor']}&limit=1")
    first = message["items"][0]["id"]
    server.api("PATCH", f"chats/{chat}/messages/{first}", {"text": "Rewritten."})
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    expect(page.get_by_role("heading", name="A new text is proposed").first).to_be_visible()
    page.get_by_role("button", name="Accept").first.click()
    expect(page.get_by_role("heading", name="A new text is proposed")).to_have_count(0)


def test_the_prompt_is_assembled_anew_as_the_slider_moves(server: Server, open_page: Open) -> None:
    chat = server.chat("prompt", SAID)
    page = open_page(f"{server.url}/#tab=prompt&chat={chat}")
    expect(page.locator('[data-place="cover"]').first).to_be_visible()
    whole = page.locator(".block").count()
    page.get_by_label("Budget").evaluate(
        "each => { each.value = 150; each.dispatchEvent(new Event('input', { bubbles: true })) }"
    )
    expect(page.locator(".block")).not_to_have_count(whole)
    expect(page.get_by_text("Left out").first).to_be_visible()
    page.get_by_role("button", name="Back to the chat's own budget").click()
    expect(page.locator(".block")).to_have_count(whole)

    page.get_by_role("searchbox").fill("lamp 5")
    expect(page.get_by_role("heading", name="Called up from long ago")).to_be_visible()


def test_the_prefix_that_can_come_from_a_cache_is_marked(server: Server, open_page: Open) -> None:
    chat = server.chat("prefix", SAID)
    page = open_page(f"{server.url}/#tab=prompt&chat={chat}")
    expect(page.locator(".block").first).to_be_visible()
    server.api("POST", f"chats/{chat}/messages", {"role": "user", "text": "And then?"})
    expect(page.locator(".prefix-line")).to_be_visible()
    expect(page.get_by_text("And then?")).to_be_visible()


def test_tasks_say_why_they_wait_and_go_when_told(server: Server, open_page: Open) -> None:
    server.api(
        "POST",
        "profiles",
        {
            "name": "nowhere",
            "base_url": f"{server.url}/nowhere/v1",  # answers 404 to everything
            "model": "m",
            "window_tokens": 8000,
        },
    )
    chat = server.api(
        "POST", "chats", {"name": "stuck", "settings": {"summary_profile": "nowhere"}}
    )["id"]
    for n, text in enumerate(SAID[:50]):
        role = ("user", "assistant")[n % 2]
        server.api("POST", f"chats/{chat}/messages", {"role": role, "text": text})
    page = open_page(f"{server.url}/#tab=tasks")
    card = page.locator(".task", has_text="stuck").first
    expect(card).to_contain_text(re.compile("try|tries"))
    card.get_by_role("button", name="Try now").click()
    card.get_by_role("button", name="Cancel").click()
    expect(page.locator('.task[data-state="cancelled"]').first).to_be_visible()
    page.get_by_role("button", name="Summarise all that piled up").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Calls")


@pytest.mark.proves("A-34", "G-108")
def test_settings_are_saved_inherited_and_reset(server: Server, open_page: Open) -> None:
    chat = server.chat("settings", SAID[:2])
    page = open_page(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    field = page.locator('[data-setting="visible_floors"]')
    expect(field).to_contain_text("As built in")
    field.get_by_role("spinbutton").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(field).to_contain_text("Set here")
    page.reload()
    expect(field.get_by_role("spinbutton")).to_have_value("7")
    field.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Save").click()
    expect(field).to_contain_text("As built in")
    expect(field.get_by_role("spinbutton")).to_have_value("20")

    field.get_by_role("spinbutton").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").first).to_be_visible()


@pytest.mark.proves("A-39")
def test_a_model_is_added_and_tested_and_its_key_never_comes_back(
    server: Server, open_page: Open
) -> None:
    page = open_page(f"{server.url}/#tab=settings")
    page.get_by_role("button", name="Add a model").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("spare")
    dialog.get_by_label("Base URL").fill("http://127.0.0.1:9/v1")
    dialog.get_by_label("Model").fill("small")
    dialog.get_by_label("Context window").fill("8000")
    dialog.get_by_label("Key").fill("sk-never-shown")
    dialog.get_by_role("button", name="Save").click()
    profile = page.locator(".profile", has_text="spare")
    expect(profile).to_contain_text("Key kept")
    profile.get_by_role("button", name="Test").click()
    expect(profile.get_by_role("status")).to_be_visible()
    page.get_by_role("button", name="Edit spare").click()
    expect(page.get_by_label("Key")).to_have_value("")
    assert "sk-never-shown" not in page.content()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    chat = server.chat("with a profile", SAID[:2])
    page.goto(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    expect(page.get_by_role("textbox", name="Character")).to_be_visible()  # the chat's own form
    context = page.get_by_role("region", name="Context management")
    context.get_by_label("Summary profile").select_option("spare")
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    assert saved.value.ok
    expect(context.locator('[data-setting="summary_profile"]')).to_contain_text("Set here")
    fields = server.api("GET", f"chats/{chat}/settings")["fields"]
    assert next(f["own"] for f in fields if f["name"] == "summary_profile") == "spare"
    assert "sk-never-shown" not in json.dumps(server.api("GET", "profiles"))


def test_charts_have_the_same_numbers_as_a_table(server: Server, open_page: Open) -> None:
    chat = server.chat("charts", SAID)
    page = open_page(f"{server.url}/#tab=charts&chat={chat}")
    expect(page.locator(".chart svg rect").first).to_be_visible()
    expect(page.get_by_text("This fills as your client talks")).to_be_visible()
    page.get_by_text("The same as a table").first.click()
    whole = server.api("GET", f"chats/{chat}/prompt")["chat_tokens"]
    expect(page.locator("table").first).to_contain_text(f"{whole:,}")


@pytest.fixture
def proxied(upstream: Upstream, tmp_path: Path) -> Generator[Server]:
    """A server with a model behind its proxy."""
    running = Server(tmp_path / "data", upstream.url)
    yield running
    running.stop()


def test_every_turn_is_drawn_against_going_without(proxied: Server, open_page: Open) -> None:
    chat = proxied.chat("turns", SAID)
    page = open_page(f"{proxied.url}/#tab=charts&chat={chat}")
    expect(page.get_by_text("This fills as your client talks")).to_be_visible()
    proxied.talk("turns", ["And then?", "What of the candles?", "Who wrote to whom?"])
    chart = page.locator(".chart", has_text="Prompts that were sent")
    expect(chart.locator("svg g:has(rect.bar)")).to_have_count(3)  # drawn as they come
    turns = proxied.api("GET", f"chats/{chat}/turns")["items"]
    chart.get_by_text("The same as a table").click()
    rows = chart.locator("tbody tr")
    expect(rows).to_have_count(3)
    for row, turn in zip(rows.all(), turns, strict=True):
        for tokens in (*turn["layers"].values(), turn["chat_tokens"]):
            expect(row).to_contain_text(f"{tokens:,}")
        assert sum(turn["layers"].values()) == turn["tokens"] < turn["chat_tokens"]
    expect(page.get_by_text(re.compile("The last 3 turns took .* less"))).to_be_visible()
    cached = page.locator(".chart", has_text="may have in its cache")
    expect(cached.locator("rect.bar")).to_have_count(3)
    assert [turn["same_tokens"] > 0 for turn in turns] == [False, True, True]

    page.get_by_role("link", name="Prompt").click()
    expect(page.locator(".prefix-line")).to_be_visible()  # against what was sent, not seen
    page.get_by_text("What the last turn sent").click()
    expect(page.locator("[data-sent]").first).to_be_visible()
    sent = proxied.api("GET", f"chats/{chat}/sent")
    expect(page.locator("[data-sent]")).to_have_count(len(sent["blocks"]))
    assert all(block["text"] is None for block in sent["blocks"])
    page.get_by_role("button", name="Show the words").click()
    expect(page.locator('[data-sent="tail"] .plain-text').first).to_contain_text("Mara")


def test_ones_own_words_are_checked_tried_and_saved(server: Server, open_page: Open) -> None:
    chat = server.chat("templates", SAID)
    page = open_page(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    field = page.locator('[data-setting="mini_prompt"]')
    words = field.get_by_role("textbox")
    words.fill("Retell it. {{NONSENSE}}")
    expect(field.get_by_text("{{NEW_HISTORY}} is missing.")).to_be_visible()
    expect(field.get_by_text("{{NONSENSE}} means nothing here.")).to_be_visible()
    expect(field.get_by_role("button", name="Ask the model too")).to_be_disabled()
    words.fill("In one line: ")
    field.get_by_role("button", name="{{NEW_HISTORY}}").click()
    expect(words).to_have_value("In one line: {{NEW_HISTORY}}")
    field.get_by_role("button", name="Show the request for “templates”").click()
    expect(field.locator('[data-tried="message"]').last).to_contain_text("In one line: ===")
    expect(field.locator('[data-tried="message"]').last).to_contain_text("Mara counts")
    field.get_by_role("button", name="Ask the model too").click()
    expect(field.locator('[data-tried="answer"]')).to_contain_text("Mara")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    page.reload()
    expect(words).to_have_value("In one line: {{NEW_HISTORY}}")
    field.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Save").click()
    expect(words).to_have_value("")
    field.get_by_role("button", name="Start from ours").click()
    expect(words).to_have_value(re.compile("You keep the memory"))


def test_what_is_changed_while_the_rest_is_saved_stays(server: Server, open_page: Open) -> None:
    chat = server.chat("hasty", SAID[:2])
    page = open_page(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    floors = page.locator('[data-setting="visible_floors"]').get_by_role("spinbutton")
    every = page.locator('[data-setting="fold_every"]').get_by_role("spinbutton")
    held: list[Route] = []
    page.route(
        f"**/chats/{chat}/settings",
        lambda route: held.append(route) if route.request.method == "PATCH" else route.continue_(),
    )
    floors.fill("31")
    page.get_by_role("button", name="Save").click()
    every.fill("17")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    expect(floors).to_have_value("31")
    expect(every).to_have_value("17")
    fields = server.api("GET", f"chats/{chat}/settings")["fields"]
    assert {f["name"]: f["own"] for f in fields if f["own"] is not None} == {"visible_floors": 31}


def test_a_summary_is_deleted_and_brought_back(server: Server, open_page: Open) -> None:
    chat = server.chat("gone", SAID)
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    nodes = page.locator(".node")
    expect(nodes.first).to_be_visible()
    last = nodes.last
    name = last.get_by_role("heading").inner_text()
    last.get_by_role("button", name=f"More for {name}").click()
    last.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


@pytest.mark.proves("D-51", "D-57d")
def test_pages_are_as_long_as_the_setting_says(server: Server, open_page: Open) -> None:
    chat = server.chat("pages", [f"Floor {n}" for n in range(250)], settle=False)
    page = open_page(f"{server.url}/#tab=history&chat={chat}&page=1")
    for number, (count, first) in enumerate([(100, 0), (100, 100), (50, 200)], 1):
        box = page.get_by_role("spinbutton").first
        box.fill(str(number))
        box.press("Enter")
        expect(floor(page, first)).to_be_visible()
        expect(page.locator(".floor")).to_have_count(count)
    server.api("PATCH", f"chats/{chat}/settings", {"history_page_size": 40})
    page.goto(f"{server.url}/#tab=history&chat={chat}&page=7")
    page.reload()
    expect(page.locator(".floor")).to_have_count(10)
    expect(floor(page, 240)).to_be_visible()


DROP = """
(box) => {
  const data = new DataTransfer();
  const line = JSON.stringify({ role: "user", content: "Dropped words." });
  data.items.add(new File([line], "dropped story.jsonl"));
  for (const kind of ["dragover", "drop"]) {
    box.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
  }
}
"""


def test_a_file_is_dropped_and_recording_paused(server: Server, open_page: Open) -> None:
    page = open_page(f"{server.url}/#tab=chats")
    expect(page.locator(".drop")).to_be_visible()
    page.locator(".drop").evaluate(DROP)
    card = page.locator(".chat-card", has_text="dropped story")
    expect(card).to_be_visible()
    expect(page.get_by_text("Imported: dropped story, 1 floor")).to_be_visible()
    for action, mark in (("Pause recording", 1), ("Go on recording", 0)):
        card.get_by_role("button", name="Actions for “dropped story”").click()
        page.get_by_role("button", name=action).click()
        expect(card.get_by_text("Recording is paused")).to_have_count(mark)
    card.get_by_role("button", name="Actions for “dropped story”").click()
    page.get_by_role("button", name="Way of remembering").click()
    expect(page.locator("[data-cost]")).to_contain_text("costs nothing now")


@pytest.mark.proves("B-115", "B-116", "B-117", "B-118", "B-119", "B-145")
def test_a_reader_of_chinese_finds_the_settings_by_their_names(
    server: Server, chinese: Page
) -> None:
    chat = server.chat("设置", SAID[:2])
    address = f"{server.url}/#tab=settings&chat={chat}&scope=chat"
    numbers = {
        "显示楼层数": ("visible_floors", 20, 500, 100),
        "检查间隔": ("check_interval", 20, 1, 5),
        "Token 阈值": ("volume_token_threshold", 8_000, 9_000, 9_000),
    }
    flags = {"自动小总结": "auto_mini_summary", "自动大总结": "auto_volume_summary"}
    chinese.goto(address)
    for label, (_, held, wanted, _) in numbers.items():
        expect(chinese.get_by_label(label, exact=True)).to_have_value(str(held))
        chinese.get_by_label(label, exact=True).fill(str(wanted))
    for label in flags:
        chinese.get_by_label(label, exact=True).uncheck()
    before = server.api("GET", f"chats/{chat}")
    chinese.get_by_role("button", name="放弃").click()  # changes nothing
    expect(chinese.get_by_label("显示楼层数", exact=True)).to_have_value("20")
    assert all(
        field["own"] is None for field in server.api("GET", f"chats/{chat}/settings")["fields"]
    )
    for label, (_, _, wanted, _) in numbers.items():
        chinese.get_by_label(label, exact=True).fill(str(wanted))
    for label in flags:
        chinese.get_by_label(label, exact=True).uncheck()
    chinese.get_by_role("button", name="保存").click()
    for label, (_, _, _, clamped) in numbers.items():
        expect(chinese.get_by_label(label, exact=True)).to_have_value(str(clamped))
    found = {
        field["name"]: field["own"]
        for field in server.api("GET", f"chats/{chat}/settings")["fields"]
    }
    assert {name: found[name] for name, *_ in numbers.values()} == {
        name: clamped for name, _, _, clamped in numbers.values()
    }
    assert [found[name] for name in flags.values()] == [False, False]
    server.settle(chat)
    after = server.api("GET", f"chats/{chat}")
    assert {**after, "revision": 0} == {**before, "revision": 0}, "what was recorded is untouched"


@pytest.mark.proves("B-124", "B-125", "B-126", "B-127")
def test_a_reader_of_chinese_names_a_model(server: Server, chinese: Page) -> None:
    chinese.goto(f"{server.url}/#tab=settings")
    chinese.get_by_role("button", name="添加模型").click()
    dialog = chinese.get_by_role("dialog")
    dialog.get_by_label("名字").fill("第二")
    dialog.get_by_label("API 源").select_option("anthropic")
    expect(dialog.get_by_label("API 源").locator("option:checked")).to_contain_text("claude")
    dialog.get_by_label("API 源").select_option("openai")
    dialog.get_by_label("API URL").fill("http://127.0.0.1:9/v1")
    expect(dialog.get_by_label("模型名称")).to_have_attribute("placeholder", "如 gpt-4")
    dialog.get_by_label("模型名称").fill("gpt-4")
    expect(dialog.get_by_label("API Key")).to_have_attribute("type", "password")
    dialog.get_by_label("API Key").fill("sk-never-echoed")
    dialog.get_by_role("button", name="保存").click()
    chinese.get_by_role("button", name="编辑 第二").click()
    expect(chinese.get_by_label("API URL")).to_have_value("http://127.0.0.1:9/v1")
    expect(chinese.get_by_label("模型名称")).to_have_value("gpt-4")
    expect(chinese.get_by_label("API Key")).to_have_value("")
    assert "sk-never-echoed" not in json.dumps(server.api("GET", "profiles"))


@pytest.mark.proves("B-122")
def test_minis_are_archived_by_hand_in_chinese(server: Server, chinese: Page) -> None:
    chat = server.chat("归档", SAID[:60])
    chinese.goto(f"{server.url}/#tab=summaries&chat={chat}")
    by_hand = chinese.get_by_role("group", name="手动操作")
    by_hand.get_by_role("button", name="手动归档").click()
    expect(chinese.get_by_role("heading", name="卷 1")).to_be_visible()
    server.settle(chat)
    tail = server.api("GET", f"chats/{chat}/prompt")["fold"]["tail_floor"]
    top = server.api("GET", f"chats/{chat}/summaries")["items"]
    volumes = [one for one in top if one["kind"] == "volume"]
    assert volumes
    assert all(one["last_floor"] < tail for one in volumes), "what is visible is not archived"


def test_what_the_month_cannot_pay_is_asked_about_first(
    proxied: Server, upstream: Upstream, open_page: Open
) -> None:
    proxied.api(
        "POST",
        "profiles",
        {
            "name": "dear",
            "base_url": upstream.url,
            "model": "m",
            "window_tokens": 8_000,
            "price": {"input_usd": 1_000, "output_usd": 1_000},
        },
    )
    chat = proxied.chat("dear", SAID[:12])
    own = {"summary_profile": "dear", "monthly_budget_usd": 0}
    proxied.api("PATCH", f"chats/{chat}/settings", own)
    page = open_page(f"{proxied.url}/#tab=summaries&chat={chat}")
    page.get_by_role("button", name="Summarise now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("More than this month's budget")
    expect(dialog).to_contain_text("$0.00 left")
    dialog.get_by_role("button", name="Cancel").click()
    assert proxied.api("GET", f"chats/{chat}")["wishes"] == []
    page.get_by_role("button", name="Summarise now").click()
    dialog.get_by_role("button", name="Do it anyway").click()
    expect(page.get_by_text("Every closed turn is being summarised.")).to_be_visible()
    proxied.settle(chat)
    assert proxied.api("GET", "usage?by=chat")["items"][0]["calls"] > 0


def test_what_went_on_as_it_came_is_told_where_one_looks_for_it(
    proxied: Server, open_page: Open
) -> None:
    chat = proxied.chat("harbour", ["The lamp is lit.", "And the keeper sleeps."])
    page = open_page(f"{proxied.url}/#tab=history&chat={chat}")
    expect(page.locator(".floor").first).to_be_visible()
    told = page.locator("[data-passed]")
    expect(told).to_have_count(0)
    other = [{"role": "user", "content": "Is the pass open?"}] * 3
    proxied.ask("harbour", other)
    expect(told).to_contain_text("1 request passed on unchanged")
    expect(told).to_contain_text("does not continue what is stored")
    proxied.ask("harbour", other)
    expect(told).to_contain_text("2 requests")
    page.goto(f"{proxied.url}/#tab=prompt&chat={chat}")
    expect(told).to_contain_text("2 requests")
    proxied.talk("harbour", ["Wake him."])
    expect(told).to_have_count(0)


def test_an_address_of_no_chat_leads_to_those_there_are(server: Server, open_page: Open) -> None:
    server.chat("here", ["The lamp is lit."])
    page = open_page(f"{server.url}/#tab=history&chat=elsewhere")
    page.get_by_role("link", name="All chats").click()
    expect(page.get_by_text("here", exact=True).first).to_be_visible()
