"""Every answer is paid for once."""

from __future__ import annotations

import asyncio

import pytest

from previously.engine import Engine
from previously.errors import ModelUnavailable
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
