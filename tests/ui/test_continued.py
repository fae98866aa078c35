"""Going on in a new chat, and settings of a character, from the page."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from tests.ui.conftest import Open
from tests.ui.serving import Server

SAID = [f"On day {n} Mara counts {n + 7} candles for lamp {n}." for n in range(60)]


def test_a_chat_goes_on_in_a_new_one_that_knows_it(server: Server, open_page: Open) -> None:
    old = server.chat("first winter", SAID)
    server.settle(old)
    page = open_page(f"{server.url}/#tab=chats")
    page.get_by_role("button", name="Actions for “first winter”").click()
    page.get_by_role("button", name="Continue in a new chat").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("second winter")
    dialog.get_by_role("button", name="Save").click()
    carried = page.locator("[data-carried]")
    expect(carried.get_by_role("heading")).to_have_text("Carried over from “first winter”")
    expect(carried).to_contain_text("candles for lamp 59")
    new = next(c for c in server.api("GET", "chats")["items"] if c["name"] == "second winter")
    assert new["messages"] == 0

    rows = carried.get_by_role("listitem")
    expect(rows.first).to_be_visible()
    count = rows.count()
    gone = rows.last.locator("p").inner_text()
    rows.last.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Take out").click()
    expect(rows).to_have_count(count - 1)
    left = server.api("GET", f"chats/{new['id']}/carried")["items"]
    assert gone not in [item["text"] for item in left]

    page.goto(f"{server.url}/#tab=prompt&chat={new['id']}")
    expect(page.get_by_text("Carried over").first).to_be_visible()


def test_settings_of_a_character_hold_for_its_chats(server: Server, open_page: Open) -> None:
    chat = server.chat("hers", SAID[:4])
    page = open_page(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    page.get_by_role("textbox", name="Character").fill("Mara")
    page.get_by_role("button", name="Set character").click()
    page.get_by_role("link", name="Chats of Mara").click()
    expect(page.get_by_role("textbox", name="Character")).to_have_count(0)
    own = page.locator('[data-setting="visible_floors"]')
    expect(own).to_contain_text("As built in")
    own.get_by_role("spinbutton").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(own).to_contain_text("Set here")
    page.goto(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    expect(own.get_by_role("spinbutton")).to_have_value("7")
    expect(own).to_contain_text("From its character")
    form = server.api("GET", f"chats/{chat}/settings")
    assert form["character"] == "Mara"


def test_who_looks_elsewhere_while_settings_are_saved_sees_what_is_there(
    server: Server, open_page: Open
) -> None:
    chat = server.chat("theirs", SAID[:4])
    server.api("PATCH", f"chats/{chat}", {"character": "Odo"})
    page = open_page(f"{server.url}/#tab=settings&character=Odo&chat={chat}")
    floors = page.locator('[data-setting="visible_floors"]')
    held: list[Route] = []
    page.route(
        "**/settings?character=Odo",
        lambda route: held.append(route) if route.request.method == "PATCH" else route.continue_(),
    )
    floors.get_by_role("spinbutton").fill("9")
    page.get_by_role("button", name="Save").click()
    while not held:
        page.wait_for_timeout(20)
    page.goto(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    expect(floors).to_contain_text("As built in")
    held[0].continue_()
    expect(floors).to_contain_text("From its character")
    expect(floors.get_by_role("spinbutton")).to_have_value("9")
