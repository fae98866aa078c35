"""A chat of ten thousand floors is as easy to walk about in as one of ten."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.ui.conftest import Open
from tests.ui.serving import Server

FLOORS = 10_000
ROWS_MAX = 60  # in the document at once, however long the list


@pytest.mark.proves("D-57d")
def test_ten_thousand_floors(server: Server, open_page: Open) -> None:
    texts = [f"Floor {n}: {'the lamp is lit again. ' * (1 + n % 5)}" for n in range(FLOORS)]
    chat = server.chat("long", texts, settle=False)
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    expect(page.locator('[data-floor="9999"]')).to_be_visible()
    expect(page.get_by_label("Page", exact=True).first).to_have_value("100")
    assert page.locator(".floor").count() == 100

    number = page.get_by_role("spinbutton").first
    number.fill("37")
    number.press("Enter")
    expect(page.locator('[data-floor="3600"]')).to_be_visible()
    assert "page=37" in page.url

    page.get_by_role("button", name="One long list").click()
    rows = page.locator(".vlist")
    expect(rows.locator('[data-floor="0"]')).to_be_visible()
    for share in (0.25, 0.5, 0.75, 1.0):
        rows.evaluate("(each, share) => { each.scrollTop = each.scrollHeight * share }", share)
        expect(rows.locator(".floor .prose").first).to_be_visible()
        assert rows.locator(".item").count() <= ROWS_MAX
    expect(rows.locator('[data-floor="9999"]')).to_be_visible()
