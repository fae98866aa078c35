"""What was sent last is kept per chat, and finds the chat again."""

from __future__ import annotations

import json

import pytest

from previously.model import Doubted, NewMessage, Passed, Sent, Weight
from previously.store import sending
from previously.store.sql import SqlStore
from tests.store.test_contract import chat_with


async def test_the_newest_replaces_what_was_known(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 2)
    assert await store.last_sent(chat.ref) is None
    await store.keep_sent([Sent(chat.ref.id, "a", "{}", 1)])
    newer = Sent(chat.ref.id, "b", '{"x": 1}', 2)
    await store.keep_sent([newer])
    assert await store.last_sent(chat.ref) == newer


async def test_what_was_seen_of_a_client_since_leaves_the_rest_as_it_is(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 2)
    other, _ = await chat_with(store, 2, "nothing was sent here")
    await store.keep_sent([Sent(chat.ref.id, "a", '{"model": "m", "habit": {"spots": {}}}', 1)])
    doubts = {chat.ref.id: Doubted({"spots": {"x": 1}}), other.ref.id: Doubted({"spots": {}})}
    await store.keep_sent([], doubts)
    kept = await store.last_sent(chat.ref)
    assert kept is not None
    assert (kept.tail_key, kept.sent_at_ms) == ("a", 1)
    assert json.loads(kept.facts) == {"model": "m", "habit": {"spots": {"x": 1}}}
    assert await store.last_sent(other.ref) is None


async def test_requests_that_passed_are_counted_until_the_next_turn(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 2)
    other, _ = await chat_with(store, 2, "nothing was sent here")
    assert await store.passed_on(chat.ref) is None
    await store.keep_sent([Sent(chat.ref.id, "a", "{}", 1)])
    for at_ms, reason in ((2, "too little"), (3, "mixed")):
        doubt = Doubted({}, Passed(at_ms, reason, at_ms))
        await store.keep_sent([], {chat.ref.id: doubt, other.ref.id: doubt})
    assert await store.passed_on(chat.ref) == Passed(5, "mixed", 3)
    assert await store.passed_on(other.ref) == Passed(5, "mixed", 3)
    again = {chat.ref.id: Doubted({}, Passed(1, "again", 5)), chat.ref.id + 99: Doubted({})}
    await store.keep_sent([Sent(chat.ref.id, "b", "{}", 4)], again)
    assert await store.passed_on(chat.ref) == Passed(1, "again", 5)
    await store.keep_sent([Sent(chat.ref.id, "b", "{}", 6)])
    assert await store.passed_on(chat.ref) is None
    assert await store.passed_on(other.ref) == Passed(5, "mixed", 3)


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


def weighed(*pieces: str, tokens: int = 10) -> Weight:
    layers = {"tail": tokens * len(pieces)}
    return Weight(
        tokens * len(pieces), 99, 1_000, layers, tuple((piece, tokens) for piece in pieces)
    )


def sent(chat_id: int, *pieces: str, at_ms: int = 1) -> Sent:
    facts = json.dumps({"pieces": pieces})
    return Sent(chat_id, "", facts, at_ms, weighed(*pieces))


async def test_every_prompt_is_weighed_against_the_one_before(store: SqlStore) -> None:
    chat, _ = await chat_with(store, 2)
    await store.keep_sent([sent(chat.ref.id, "a", "b"), sent(chat.ref.id, "a", "b", "c", at_ms=2)])
    await store.append(chat.ref, [NewMessage("user", "more words")])
    await store.keep_sent([sent(chat.ref.id, "a", "x", "c", at_ms=3)])
    turns = await store.sent_turns(chat.ref, 1 << 30, 10)
    assert [turn.n for turn in turns] == [1, 2, 3]
    assert [turn.same_tokens for turn in turns] == [0, 20, 10]
    assert [turn.layers["tail"] for turn in turns] == [20, 30, 30]
    assert [turn.sent_at_ms for turn in turns] == [1, 2, 3]
    sizes = [m.tokens for m in await store.page(chat.ref, -1, 10)]
    assert [turn.chat_tokens for turn in turns] == [sum(sizes[:2]), sum(sizes[:2]), sum(sizes)]
    assert [turn.n for turn in await store.sent_turns(chat.ref, 3, 1)] == [2]


async def test_only_the_newest_turns_are_kept(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TURNS_KEPT", 3)
    chat, _ = await chat_with(store, 2)
    for n in range(5):
        await store.keep_sent([sent(chat.ref.id, str(n))])
    assert [turn.n for turn in await store.sent_turns(chat.ref, 1 << 30, 10)] == [3, 4, 5]
