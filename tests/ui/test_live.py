"""The page follows the server: what arrives, what two people change, a server that goes away."""

from __future__ import annotations

import signal

from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.conftest import Open
from tests.ui.serving import Server

SAID = [f"On day {n} Mara counts {n + 7} candles at the harbour." for n in range(60)]

# A page cannot be hidden by a test; it can be told that it is.
HIDING = """
let seen = 'visible';
Object.defineProperty(document, 'visibilityState', { get: () => seen });
window.__show = (value) => { seen = value; document.dispatchEvent(new Event('visibilitychange')); };
"""


def test_a_summary_appears_while_one_looks(server: Server, open_page: Open) -> None:
    chat = server.chat("live", SAID[:2])
    page = open_page(f"{server.url}/#tab=summaries&chat={chat}")
    expect(page.get_by_text("No summaries yet")).to_be_visible()
    for n, text in enumerate(SAID[2:50]):
        role = ("user", "assistant")[n % 2]
        server.api("POST", f"chats/{chat}/messages", {"role": role, "text": text})
    expect(page.locator(".node").first).to_be_visible()


def test_two_tabs_on_one_floor_end_in_a_question_not_in_a_loss(
    server: Server, open_page: Open
) -> None:
    chat = server.chat("two tabs", SAID[:4])
    address = f"{server.url}/#tab=history&chat={chat}"
    mine, theirs = open_page(address), open_page(address)
    for page in (mine, theirs):
        page.get_by_role("button", name="Edit floor 1").click()
    mine.get_by_label("Text of floor 1").fill("What I wrote.")
    theirs.get_by_label("Text of floor 1").fill("What they wrote.")
    theirs.get_by_role("button", name="Save").click()
    expect(theirs.get_by_text("What they wrote.")).to_be_visible()
    expect(mine.get_by_label("Text of floor 1")).to_have_value("What I wrote.")

    mine.get_by_role("button", name="Save").click()
    dialog = mine.get_by_role("dialog")
    expect(dialog).to_contain_text("Changed elsewhere meanwhile")
    expect(dialog).to_contain_text("What they wrote.")
    dialog.get_by_role("button", name="Save mine").click()
    expect(mine.locator(".floor", has_text="What I wrote.")).to_be_visible()
    expect(theirs.locator(".floor", has_text="What I wrote.")).to_be_visible()  # told by an event


def test_a_server_killed_in_mid_edit_costs_no_word(server: Server, open_page: Open) -> None:
    chat = server.chat("killed", SAID[:4])
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    page.get_by_role("button", name="Edit floor 2").click()
    page.get_by_label("Text of floor 2").fill("Half a sentence that")
    server.stop(signal.SIGKILL)
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your words are kept here")).to_be_visible()
    server.start()
    expect(page.get_by_text("The server cannot be reached")).to_have_count(0)
    expect(page.get_by_label("Text of floor 2")).to_have_value("Half a sentence that")

    page.reload()  # even now
    expect(page.get_by_label("Text of floor 2")).to_have_value("Half a sentence that")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".floor", has_text="Half a sentence that")).to_be_visible()
    expect(page.get_by_label("Text of floor 2")).to_have_count(0)


def test_an_open_page_does_not_hold_the_server_up(server: Server, open_page: Open) -> None:
    alone_s = server.stop()
    server.start()
    chat = server.chat("stop", SAID[:2])
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    expect(page.locator(".floor").first).to_be_visible()
    took_s = server.stop()
    server.start()
    assert took_s < alone_s + 2.5  # a stream that is waited for takes three seconds more


def test_a_hidden_page_gives_its_connection_back_and_catches_up(
    server: Server, context: BrowserContext, open_page: Open
) -> None:
    context.add_init_script(HIDING)
    chat = server.chat("hidden", SAID[:4])
    pages: list[Page] = []
    for _ in range(8):  # a browser has six connections to a server
        if pages:
            pages[-1].evaluate("__show('hidden')")
        pages.append(open_page(f"{server.url}/#tab=history&chat={chat}"))
        expect(pages[-1].locator(".floor").first).to_be_visible()
    message = server.api("GET", f"chats/{chat}/messages")["items"][0]["id"]
    server.api("PATCH", f"chats/{chat}/messages/{message}", {"text": "While you slept."})
    expect(pages[-1].get_by_text("While you slept.")).to_be_visible()
    expect(pages[0].get_by_text("While you slept.")).to_have_count(0)
    pages[0].evaluate("__show('visible')")
    expect(pages[0].get_by_text("While you slept.")).to_be_visible()
