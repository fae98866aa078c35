"""What was sent last is kept per chat, and finds the chat again."""

from __future__ import annotations

from previously.model import Sent
from previously.store.sql import SqlStore
from tests.store.test_contract import chat_with


async def test_the_newest_replaces_what_was_known(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 2)
    assert await store.last_sent(chat.ref) is None
    await store.keep_sent([Sent(chat.ref.id, "a", "{}", 1)])
    newer = Sent(chat.ref.id, "b", '{"x": 1}', 2)
    await store.keep_sent([newer])
    assert await store.last_sent(chat.ref) == newer


async def test_a_chat_is_found_by_its_newest_key_and_only_by_its_owner(store: SqlStore) -> None:
    one, _ = await chat_with(store, 2, "one")
    two, _ = await chat_with(store, 2, "two")
    await store.keep_sent([Sent(two.ref.id, "b", "{}", 1), Sent(one.ref.id, "a", "{}", 1)])
    assert await store.chats_by_tail("local", ["x", "a"]) == [one.ref]
    assert await store.chats_by_tail("local", ["b", "a"]) == [two.ref, one.ref]
    assert await store.chats_by_tail("other", ["a"]) == []
    await store.keep_sent([Sent(one.ref.id, "c", "{}", 1)])
    assert await store.chats_by_tail("local", ["a"]) == []


async def test_a_chat_that_is_gone_is_passed_over(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 1)
    await store.keep_sent([Sent(chat.ref.id + 99, "a", "{}", 1), Sent(chat.ref.id, "a", "{}", 1)])
    assert await store.chats_by_tail("local", ["a"]) == [chat.ref]
