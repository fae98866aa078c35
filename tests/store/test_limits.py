"""Limits on model calls, counted in the database: they hold over every process that shares it."""

from __future__ import annotations

import asyncio

from previously.llm.limited import Limited, Limits
from previously.model import Ask, Reply
from previously.store.limits import BURST_S
from previously.store.sql import SqlStore
from previously.testing import ScriptedLlm
from tests.store.conftest import Clock

ASK = Ask(({"role": "user", "content": "x"},), (("user", "x"),), 10, "en")
LEASE_MS = 1_000


async def test_no_more_calls_at_once_than_the_limit(store: SqlStore):
    limits = (2, None)
    assert await store.take_place("p", "a", limits, LEASE_MS) == 0
    assert await store.take_place("p", "b", limits, LEASE_MS) == 0
    assert await store.take_place("p", "c", limits, LEASE_MS) > 0
    assert await store.take_place("other", "c", limits, LEASE_MS) == 0
    await store.give_place_back("p", "a")
    assert await store.take_place("p", "c", limits, LEASE_MS) == 0


async def test_the_place_of_a_dead_process_becomes_free(store: SqlStore, clock: Clock):
    assert await store.take_place("p", "dead", (1, None), LEASE_MS) == 0
    clock.now_ms += LEASE_MS - 1
    assert await store.take_place("p", "next", (1, None), LEASE_MS) > 0
    clock.now_ms += 1
    assert await store.take_place("p", "next", (1, None), LEASE_MS) == 0


async def test_the_rate_allows_a_burst_and_then_one_call_per_interval(
    store: SqlStore, clock: Clock
):
    limits = (None, 60)  # one a second
    taken = 0
    while (wait := await store.take_place("p", f"h{taken}", limits, LEASE_MS)) == 0:
        taken += 1
    assert taken == BURST_S
    clock.now_ms += wait - 2
    assert await store.take_place("p", "early", limits, LEASE_MS) > 0
    clock.now_ms += 2
    assert await store.take_place("p", "on time", limits, LEASE_MS) == 0
    assert await store.take_place("p", "next", limits, LEASE_MS) > 900


async def test_over_a_minute_the_rate_is_what_was_asked_for(store: SqlStore, clock: Clock):
    limits, calls, end_ms = (None, 30), 0, clock.now_ms + 60_000
    while clock.now_ms < end_ms:
        wait = await store.take_place("p", f"h{calls}", limits, LEASE_MS)
        calls += wait == 0
        clock.now_ms += wait
    assert 30 <= calls <= 30 + 30 * BURST_S / 60


async def test_callers_wait_their_turn(store: SqlStore):
    running, most = 0, 0

    class Watched(ScriptedLlm):
        async def complete(self, ask: Ask) -> Reply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await super().complete(ask)
            finally:
                running -= 1

    llm = Watched(delay_s=0.02)
    limited = [Limited(llm, Limits(at_once=2), store) for _ in range(3)]  # as three processes
    await asyncio.gather(*(limited[i % 3].complete(ASK) for i in range(9)))
    assert len(llm.asks) == 9
    assert most == 2


async def test_a_cancelled_call_gives_its_place_back(store: SqlStore):
    llm = ScriptedLlm()
    llm.hang()
    limited = Limited(llm, Limits(at_once=1), store)
    call = asyncio.create_task(limited.complete(ASK))
    while not llm.waiting:  # noqa: ASYNC110 - it has no event for it
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    llm.release()
    assert (await asyncio.wait_for(limited.complete(ASK), 5)).text
