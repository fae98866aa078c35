"""Nothing that somebody wrote becomes markup, and nothing is asked of anybody but this server."""

from __future__ import annotations

import urllib.request

import pytest
from playwright.sync_api import Page, Request, expect

from tests.ui.conftest import Open
from tests.ui.serving import Server

PAYLOADS = [
    "<script>window.__xss = 1</script>",
    "<img src=x onerror='window.__xss = 2'>",
    "<svg onload='window.__xss = 3'></svg>",
    "[click](javascript:window.__xss=4)",
    "![pixel](http://evil.example/pixel.png)",
    "<iframe src='http://evil.example/'></iframe>",
    "<div style='position:fixed;inset:0;background:red'>over everything</div>",
    "<a href='http://evil.example' onmouseover='window.__xss = 5'>here</a>",
    "{{constructor.constructor('window.__xss = 6')()}}",
    '"><b id="broken-out">bold</b>',
]
MARKUP = ".prose :is(script, img, svg, iframe, style, form, [style], [onerror]), #broken-out"


def _still_safe(page: Page) -> None:
    assert page.evaluate("window.__xss ?? null") is None
    assert page.locator(MARKUP).count() == 0
    assert page.locator("a[href^='javascript']").count() == 0


@pytest.mark.proves("G-87")
def test_no_text_field_becomes_markup_and_no_stranger_is_asked(
    server: Server, open_page: Open
) -> None:
    chat = server.chat(f"chat {PAYLOADS[1]}", PAYLOADS * 6)
    server.api("PATCH", f"chats/{chat}", {"title": PAYLOADS[0] + PAYLOADS[2]})
    server.api(
        "POST",
        "profiles",
        {"name": "odd", "base_url": "http://127.0.0.1:9/v1", "model": PAYLOADS[1]},
    )
    first = server.api("GET", f"chats/{chat}/summaries")["items"][0]["id"]
    server.api("PATCH", f"summaries/{first}", {"text": "\n".join(PAYLOADS)})
    template = "\n".join([*PAYLOADS[:8], "{{NEW_HISTORY}}"])
    server.api("PATCH", f"chats/{chat}/settings", {"mini_prompt": template})
    asked: list[str] = []

    def heard(request: Request) -> None:
        if not request.url.startswith(server.url):
            asked.append(request.url)

    page = open_page("about:blank")
    page.on("request", heard)
    for tab in ("start", "chats", "history", "summaries", "prompt", "charts", "tasks", "settings"):
        page.goto(f"{server.url}/#tab={tab}&chat={chat}")
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator(".bones")).to_have_count(0)
        _still_safe(page)
    page.goto(f"{server.url}/#tab=history&chat={chat}")
    expect(page.locator(".floor").last).to_contain_text("<b id=")
    page.get_by_role("searchbox").fill("click")
    expect(page.locator(".hit").first).to_be_visible()
    _still_safe(page)
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="Edit floor 0", exact=True).click()
    expect(page.get_by_label("Text of floor 0")).to_have_value(PAYLOADS[0])
    _still_safe(page)
    page.goto(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    page.get_by_role("button", name="Ask the model too").first.click()
    expect(page.locator('[data-tried="answer"]')).to_be_visible()
    page.locator(".tried summary").click()
    expect(page.locator('[data-tried="message"]').last).to_contain_text("<script>")
    _still_safe(page)
    assert asked == []


def test_a_link_in_a_message_says_nothing_about_this_page(server: Server, open_page: Open) -> None:
    chat = server.chat("links", ["[a page](https://example.org/a), [mail](mailto:a@example.org)"])
    page = open_page(f"{server.url}/#tab=history&chat={chat}")
    link = page.get_by_role("link", name="a page")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(page.get_by_role("link", name="mail")).to_have_count(0)


@pytest.mark.parametrize("path", ["/", "/icon.svg"])
def test_only_our_own_scripts_may_run(server: Server, path: str) -> None:
    with urllib.request.urlopen(server.url + path, timeout=10) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_server_that_does_not_answer_is_said_with_a_way_on(
    server: Server, open_page: Open
) -> None:
    page = open_page(f"{server.url}/#tab=history&chat=c999")
    expect(page.get_by_role("alert")).to_contain_text("no such chat")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
