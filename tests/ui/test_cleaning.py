"""What of a message is summarised, and the newest reply on demand, from the page."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.ui.serving import Server

SAID = ["今晚谁守灯？", "<正文>托马斯守灯。</正文>状态：7"] * 3


def own(server: Server, chat: str) -> dict[str, object]:
    fields = server.api("GET", f"chats/{chat}/settings")["fields"]
    return {field["name"]: field["own"] for field in fields}


@pytest.mark.proves("B-120", "B-128", "B-129")
def test_tags_and_rules_are_set_in_a_table(server: Server, chinese: Page) -> None:
    chat = server.chat("清洗", SAID)
    chinese.goto(f"{server.url}/#tab=settings&chat={chat}&scope=chat")
    chinese.get_by_label("内容捕获标签：开始", exact=True).fill("<正文>")
    chinese.get_by_label("内容捕获标签：结束", exact=True).fill("</正文>")
    section = chinese.locator('[data-setting="message_cleanup_regex"]')
    section.get_by_text("消息清洗").click()
    section.get_by_role("button", name="添加正则").click()
    table = section.get_by_role("table", name="正则列表")
    expect(table.get_by_role("columnheader")).to_have_text(["正则", "标志", "替换为", "删除正则"])
    expect(table.get_by_label("标志 1")).to_have_value("g")
    table.get_by_label("正则 1", exact=True).fill("(")
    chinese.get_by_role("button", name="保存").click()
    expect(section.get_by_role("alert")).to_contain_text("SyntaxError")
    table.get_by_label("正则 1", exact=True).fill("守灯")
    table.get_by_label("替换为 1").fill("值夜")
    section.get_by_role("button", name="添加正则").click()
    table.get_by_label("正则 2", exact=True).fill("今晚")
    chinese.get_by_role("button", name="保存").click()
    expect(chinese.get_by_role("button", name="保存")).to_have_count(0)
    kept = own(server, chat)
    assert (kept["capture_start_tag"], kept["capture_end_tag"]) == ("<正文>", "</正文>")
    rules = json.loads(str(kept["message_cleanup_regex"]))
    assert [rule["pattern"] for rule in rules] == ["守灯", "今晚"]
    assert rules[0] == {"pattern": "守灯", "flags": "g", "replacement": "值夜"}
    chinese.reload()
    section.get_by_role("button", name="删除第 1 条正则").click()
    chinese.get_by_role("button", name="保存").click()
    expect(chinese.get_by_role("button", name="保存")).to_have_count(0)
    rules = json.loads(str(own(server, chat)["message_cleanup_regex"]))
    assert [rule["pattern"] for rule in rules] == ["今晚"]


@pytest.mark.proves("B-121")
def test_the_newest_reply_is_summarised_by_hand(server: Server, chinese: Page) -> None:
    chat = server.chat("手动", SAID)
    assert server.api("GET", f"chats/{chat}")["uncovered"] == 6
    chinese.goto(f"{server.url}/#tab=summaries&chat={chat}")
    by_hand = chinese.get_by_role("group", name="手动操作")
    by_hand.get_by_role("button", name="手动总结").click()
    expect(chinese.locator(".node").last).to_be_visible()
    server.settle(chat)
    assert server.api("GET", f"chats/{chat}")["uncovered"] == 0
    newest = server.api("GET", f"chats/{chat}/messages")["items"][-1]
    (cover,) = server.api("GET", f"chats/{chat}/messages/{newest['id']}")["covers"]
    assert newest["floor"] == server.api("GET", f"summaries/{cover}")["last_floor"]
