"""Answers that are given again are bounded in number and in time, whoever has made them."""

from __future__ import annotations

import pytest

from previously.store import answers
from previously.store.sql import SqlStore
from tests.store.conftest import Clock


async def test_one_makes_the_answer_and_all_others_get_it(store: SqlStore) -> None:
    assert await store.claim_answer("slot", "asked") is None
    being_made = await store.claim_answer("slot", "asked")
    assert being_made is not None
    assert being_made.status is None
    await store.keep_answer("slot", 201, "[]", b"made")
    known = await store.claim_answer("slot", "another")
    assert known is not None
    assert (known.request, known.status, known.body) == ("asked", 201, b"made")


async def test_what_is_given_up_or_too_old_is_made_again(store: SqlStore, clock: Clock) -> None:
    assert await store.claim_answer("slot", "asked") is None
    await store.drop_answer("slot")
    assert await store.claim_answer("slot", "asked") is None
    clock.now_ms += answers.CLAIM_MS + 1  # its maker has died
    assert await store.claim_answer("slot", "asked") is None
    await store.keep_answer("slot", 200, "[]", b"")
    clock.now_ms += answers.KEPT_MS
    assert await store.claim_answer("slot", "asked") is not None
    clock.now_ms += 1
    assert await store.claim_answer("slot", "asked") is None


async def test_the_oldest_give_way(
    store: SqlStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = answers._OLDEST_KEPT.offset(3)
    monkeypatch.setattr(answers, "_OLDEST_KEPT", few)
    for n in range(6):
        clock.now_ms += 1
        assert await store.claim_answer(f"slot {n}", "asked") is None
        await store.keep_answer(f"slot {n}", 200, "[]", b"")
    known = [await store.claim_answer(f"slot {n}", "asked") for n in range(6)]
    assert [one is None for one in known] == [True, True, True, False, False, False]
