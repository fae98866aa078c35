"""One call for several minis: each answer goes its own way from the moment it arrives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from previously.engine import Engine, Tact
from previously.engine.together import PAUSE_FIRST, fitting
from previously.errors import TooLong
from previously.model import Ask, Draft, Message, Reply, Task, Usage
from previously.testing import Line, ScriptedLlm, plain_note
from tests.core.makers import message
from tests.engine.makers import SECRET, Shelf, engine, request_tokens, task


def turn(n: int, words: int = 30) -> tuple[Message, ...]:
    said = " ".join(f"w{n}x{k}" for k in range(words))
    asked = message(2 * n, "user", f"Question {n}: {said}?")
    return asked, message(2 * n + 1, "assistant", f"Answer {n}: {said}.")


def waiting(count: int) -> list[Task]:
    return [task(turn(n), tokens_max=40) for n in range(1, count + 1)]


async def drafts(made: Engine, tasks: Sequence[Task]) -> list[Draft]:
    """Run one after the other, as a runner does: each in the company of all behind it."""
    found = [await made.run(one, tasks[n:]) for n, one in enumerate(tasks)]
    assert all(isinstance(draft, Draft) for draft in found)
    return [draft for draft in found if isinstance(draft, Draft)]


async def test_four_that_wait_are_asked_for_in_one_call():
    llm, shelf = ScriptedLlm(), Shelf()
    tasks = waiting(4)
    found = await drafts(engine(llm, shelf), tasks)
    (ask,) = llm.asks
    assert len(ask.parts) == 4
    for n, draft in enumerate(found, 1):
        assert f"Question {n}" in draft.text
        assert f"Question {n + 1}" not in draft.text
    assert [d.stats["calls"] for d in found] == [1, 0, 0, 0]
    for draft in found:
        assert draft.provenance["request"] in draft.spent
        shelf.kept.pop(str(draft.provenance["request"]))
    assert shelf.kept == {}  # what is left after the commits


async def test_what_it_cost_is_shared_between_them():
    usage = Usage(103, 41, 7, 2)

    text = "".join(f"[{n}] Somebody asked question {n}.\n" for n in range(1, 5))
    said = Reply(text, "scripted", usage=usage)
    found = await drafts(engine(ScriptedLlm([said], parted=False)), waiting(4))
    for field in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
        assert sum(getattr(d.usage, field) for d in found) == getattr(usage, field)


async def test_a_part_that_is_refused_is_asked_for_alone():
    def answer(ask: Ask) -> Line:
        if ask.parts:
            return "[1] One asked.\n[2] I'm sorry, but I can't help with that.\n[3] Three asked."
        return plain_note(ask)

    llm = ScriptedLlm(answer, parted=False)
    found = await drafts(engine(llm), waiting(3))
    assert [d.text for d in found[::2]] == ["One asked.", "Three asked."]
    assert found[1].text.startswith("user: Question 2")
    assert [len(ask.parts) for ask in llm.asks] == [3, 0]
    assert found[1].stats["asked_again"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        "Everybody asked and was answered.",
        "[1] One.\n[3] Three.",
        "[1] One.\n[2] Two.\n[3] Three.\n[4] Four.\n[5] Five.",
        "",
        TooLong("maximum context length exceeded"),
        Reply("[1] One.\n[2] Tw", "scripted", finish="content_filter"),
    ],
)
async def test_what_cannot_be_taken_apart_is_used_for_nothing(bad: Line):
    llm = ScriptedLlm(lambda ask: bad if ask.parts else plain_note(ask), parted=False)
    shelf = Shelf()
    found = await drafts(engine(llm, shelf), waiting(4))
    assert [f"Question {n}" in d.text for n, d in enumerate(found, 1)] == [True] * 4
    assert len(llm.asks) == 1 + 4
    assert len(shelf.kept) == 4


async def test_an_answer_that_broke_off_keeps_what_is_whole():
    def answer(ask: Ask) -> Line:
        if ask.parts:
            return Reply("[1] One asked.\n[2] Two asked.\n[3] Three as", "scripted", "length")
        return plain_note(ask)

    llm = ScriptedLlm(answer, parted=False)
    found = await drafts(engine(llm), waiting(3))
    assert [d.text for d in found[:2]] == ["One asked.", "Two asked."]
    assert found[2].text.startswith("user: Question 3")
    assert len(llm.asks) == 2


async def test_a_model_that_cannot_is_left_alone_for_a_while_and_longer_each_time():
    llm = ScriptedLlm(lambda ask: "Well." if ask.parts else plain_note(ask), parted=False)
    tact, shelf = Tact(), Shelf()
    count = 4 * PAUSE_FIRST
    tasks = waiting(count)
    for n, one in enumerate(tasks):  # a new engine each time, as the runner has it
        await Engine(llm, shelf, SECRET, tact=tact).run(one, tasks[n : n + 4])
    together = [n for n, ask in enumerate(llm.asks) if ask.parts]
    assert together == [0, PAUSE_FIRST + 2, 3 * PAUSE_FIRST + 4]
    tact.note("scripted", parted=True)
    assert tact.allows("scripted")


async def test_an_answer_on_the_shelf_is_used_by_whoever_comes_next():
    llm, shelf = ScriptedLlm(), Shelf()
    tasks = waiting(3)
    await engine(llm, shelf).run(tasks[0], tasks)
    await drafts(engine(llm, shelf), tasks[1:])
    assert len(llm.asks) == 1


async def test_other_words_in_one_turn_spoil_the_answer_to_that_one_only():
    llm, shelf = ScriptedLlm(), Shelf()
    tasks = waiting(3)
    await engine(llm, shelf).run(tasks[0], tasks)
    asked, answered = turn(2)
    other = message(answered.id, "assistant", "Answer 2: something else altogether.")
    tasks[1] = task((asked, other), tokens_max=40)
    found = await drafts(engine(llm, shelf), tasks)
    assert found[1].text.startswith("user: Question 2")
    assert [len(ask.parts) for ask in llm.asks] == [3, 0]  # the third has its answer already
    assert ("assistant", other.body) in llm.asks[1].material
    assert [len(d.spent) for d in found] == [1, 1, 1]


async def test_another_model_size_or_language_is_not_answered_from_the_shelf():
    llm, shelf = ScriptedLlm(), Shelf()
    tasks = waiting(2)
    await engine(llm, shelf).run(tasks[0], tasks)
    await engine(ScriptedLlm(name="other"), shelf).run(tasks[1])
    larger = task(turn(2), tokens_max=80)
    await engine(llm, shelf).run(larger)
    assert len(llm.asks) == 2


async def test_a_summariser_without_cost_is_asked_singly():
    class Free(ScriptedLlm):
        costs = False

    llm = Free()
    await drafts(engine(llm), waiting(3))
    assert [ask.parts for ask in llm.asks] == [()] * 3


async def test_no_more_are_asked_for_than_the_window_has_room_for():
    tasks = waiting(8)
    (alone, room) = (tasks[0], 0)
    assert fitting(tasks, None) == tuple(tasks)
    assert fitting(tasks, 100) == (alone,)
    for window in range(600, 6_000, 300):
        llm = ScriptedLlm(window_tokens=window)
        await engine(llm).run(tasks[0], tasks)
        parts = len(llm.asks[0].parts)
        assert request_tokens(llm.asks[0]) + llm.asks[0].tokens_max <= window
        assert parts >= room
        room = parts
    assert room == 8


def test_long_turns_have_a_call_of_their_own():
    long = [task(turn(n, words=700)) for n in range(1, 4)]
    assert len(fitting(long, None)) == 1


async def test_a_script_that_is_cut_off_at_one_of_them_leaves_out_that_one_and_what_follows():
    """As a model would: nobody writes on behind where an answer broke off."""

    def answer(ask: Ask) -> Line:
        cut = "Question 3" in ask.messages[-1]["content"] and len(llm.asks) == 1
        return Reply("Broken", "scripted", "length") if cut else plain_note(ask)

    llm = ScriptedLlm(answer)
    found = await drafts(engine(llm), waiting(4))
    assert len(llm.asks) == 2  # the two that are left, once more
    assert len(llm.asks[1].parts) == 2
    assert all(f"Question {n}" in draft.text for n, draft in enumerate(found, 1))
