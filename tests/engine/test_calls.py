"""Every answer is paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from previously.engine import Engine, calls
from previously.errors import ModelUnavailable, StoreUnavailable
from previously.llm.metered import Metered, Terms
from previously.model import ChatRef, Reply, Usage
from previously.testing import ScriptedLlm
from tests.engine.makers import SECRET, Shelf, Windowed, drafted, engine, said

MESSAGES = [said(1), said(2)]


async def test_equal_calls_on_their_way_share_one_answer():
    llm = ScriptedLlm()
    llm.hang()
    made = engine(llm)
    runs = [asyncio.create_task(drafted(made, MESSAGES)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert llm.waiting == 1
    llm.release()
    drafts = await asyncio.gather(*runs)
    assert len(llm.asks) == 1
    assert len({draft.text for draft in drafts}) == 1


async def test_a_call_ends_when_the_last_who_wants_it_has_gone():
    llm = ScriptedLlm()
    llm.hang()
    made = engine(llm)
    runs = [asyncio.create_task(drafted(made, MESSAGES)) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert llm.waiting == 1
    runs[0].cancel()
    await asyncio.sleep(0.01)
    assert llm.waiting == 1
    runs[1].cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert llm.waiting == 0


async def test_an_answer_is_kept_for_the_model_that_gave_it():
    class Profiled(ScriptedLlm):
        identity = "profile 1, temperature 0"

    shelf = Shelf()
    first = Profiled()
    await drafted(engine(first, shelf), MESSAGES)
    same = Profiled(name="renamed")
    await drafted(engine(same, shelf), MESSAGES)
    assert same.asks == []
    other = ScriptedLlm()
    await drafted(engine(other, shelf), MESSAGES)
    assert len(other.asks) == 1
    assert {ask.asked_of for ask in (*first.asks, *other.asks)} == {Profiled.identity, "scripted"}


class SlowShelf(Shelf):
    """Writes only when it is told to."""

    def __init__(self, *faults: Exception) -> None:
        super().__init__()
        self.began, self.may_write = asyncio.Event(), asyncio.Event()
        self.faults = list(faults)

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        self.began.set()
        await self.may_write.wait()
        if self.faults:
            raise self.faults.pop()
        await super().keep_paid(ref, request_hash, reply, sources)


@pytest.mark.proves("G-64")
async def test_an_answer_that_has_come_is_kept_although_nobody_waits_any_more():
    llm, shelf = ScriptedLlm(), SlowShelf()
    run = asyncio.create_task(drafted(engine(llm, shelf), MESSAGES))
    await shelf.began.wait()
    run.cancel()
    await asyncio.sleep(0)
    shelf.may_write.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(shelf.kept) == 1
    await drafted(engine(llm, shelf), MESSAGES)
    assert len(llm.asks) == 1


async def test_an_answer_waits_for_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "KEEP_PAUSE_S", 0.001)
    llm, shelf = ScriptedLlm(), SlowShelf(StoreUnavailable("away"), StoreUnavailable("away"))
    shelf.may_write.set()
    await drafted(engine(llm, shelf), MESSAGES)
    assert len(llm.asks) == len(shelf.kept) == 1


class Book:
    """A ledger that can be slow, and away."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.began, self.may_write = asyncio.Event(), asyncio.Event()

    async def reserve(self, estimate: int | None, limit: int | None) -> int | None:
        return 1

    async def settle(self, entry: int, used: Usage, cost_micros: int | None) -> None:
        self.began.set()
        await self.may_write.wait()
        if self.fault:
            raise self.fault

    async def cancel(self, entry: int) -> None:
        raise AssertionError("the call was answered")


async def test_an_answer_is_not_given_up_for_its_entry_in_the_ledger():
    away = Book(StoreUnavailable("away"))
    away.may_write.set()
    llm, shelf = ScriptedLlm(), Shelf()
    await drafted(engine(Metered(llm, Terms(), away), shelf), MESSAGES)
    assert len(shelf.kept) == 1

    slow = Book()
    other = Shelf()
    run = asyncio.create_task(drafted(engine(Metered(llm, Terms(), slow), other), MESSAGES))
    await slow.began.wait()
    run.cancel()
    await asyncio.sleep(0)
    slow.may_write.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(other.kept) == 1


@pytest.mark.proves("G-63", "G-64")
async def test_what_is_on_its_way_when_another_call_fails_still_arrives_and_is_kept():
    messages = [said(n) for n in range(1, 33)]
    failing = {"left": 1}

    def answer(_: object) -> str | Exception:
        failing["left"] -= 1
        return ModelUnavailable("503") if failing["left"] == 0 else "A note on it."

    shelf = Shelf()
    llm = Windowed(1_500, answer)
    llm.delay_s = 0.02
    with pytest.raises(ModelUnavailable):
        await drafted(engine(llm, shelf), messages)
    assert len(llm.asks) == 4  # those that ran side by side; none was begun after the failure
    assert len(shelf.kept) == 3
    assert llm.waiting == 0


async def test_a_kept_answer_names_every_message_it_was_made_from():
    shelf = Shelf()
    messages = [said(n) for n in range(1, 33)]
    draft = await drafted(engine(Windowed(1_500), shelf), messages)
    assert len(draft.spent) == 1
    _, sources = shelf.kept[draft.spent[0]]
    assert sources == tuple(m.id for m in messages)
    inner = [s for h, (_, s) in shelf.kept.items() if h not in draft.spent]
    assert {i for sources in inner for i in sources} == {m.id for m in messages}
    assert len(inner) == draft.stats["calls"] - 1


async def test_without_a_shelf_nothing_is_kept():
    llm = ScriptedLlm()
    made = Engine(llm, None, SECRET)
    await drafted(made, MESSAGES)
    await drafted(made, MESSAGES)
    assert len(llm.asks) == 2
