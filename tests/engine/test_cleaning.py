"""A user's own rules clean what a model reads, as JavaScript runs them, and never hang anything."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from previously.engine.cleaning import Cleaner, fault_in
from previously.errors import BadInput
from previously.model import Cleaning, Task, Uncovered
from previously.settings import RULES_MAX, CleanupRule, Settings, checked, layered
from tests.core.makers import CHAT, message

HANGS = {"pattern": "(a+)+$", "flags": "", "replacement": ""}
LONG = "a" * 50_000 + "b"


def task(*bodies: str, **cleaning: object) -> Task:
    rules = json.dumps(cleaning.pop("rules", []))
    said = tuple(message(n, body=body) for n, body in enumerate(bodies, 2))
    wanted = Cleaning(rules=rules, **cleaning)  # pyright: ignore[reportArgumentType]
    return Task(
        chat=CHAT,
        lane="volumes",
        kind="mini",
        sources=said,
        context=(),
        tokens_max=100,
        language="en",
        uncovered=Uncovered((said,)),
        cleaning=wanted,
    )


async def bodies(made: Task) -> tuple[list[str], tuple[str, ...]]:
    read, wrong = await Cleaner().cleaned(made)
    assert read.id == made.id  # what is committed is about the same messages
    return [m.body for m in read.sources], wrong


@pytest.mark.proves("B-83", "B-140")
async def test_rules_run_in_order_as_in_javascript_and_a_bad_one_is_passed_over():
    rules = [
        {"pattern": "(\\w+)@(\\w+)", "flags": "g", "replacement": "$2 at $1 [$&]"},
        {"pattern": "(", "flags": "g", "replacement": "never"},
        {"pattern": "X", "flags": "", "replacement": "Y"},
        {"pattern": "(?<=at )(\\w+)", "flags": "gi", "replacement": "<$1>"},
    ]
    found, wrong = await bodies(task("a@b and c@d", "X and X", rules=rules))
    assert found == ["b at <a> [a@b] and d at <c> [c@d]", "Y and X"]
    assert wrong == ("clean-up rule failed: 2",)


@pytest.mark.proves("G-83")
async def test_flags_and_replacements_mean_what_they_mean_in_javascript():
    rules = [
        {"pattern": "(?<who>Ida)", "flags": "", "replacement": "$<who>!"},
        {"pattern": "cost", "flags": "i", "replacement": "$$5"},
        {"pattern": "^b.c$", "flags": "ms", "replacement": "<$&>"},
        {"pattern": "\\u{1F56F}", "flags": "gu", "replacement": "candle"},
        {"pattern": "Ida", "flags": "y", "replacement": "Eve"},
    ]
    found, wrong = await bodies(task("Ida, Ida: COST\nb\nc\n\U0001f56f\U0001f56f", rules=rules))
    assert (found, wrong) == (["Eve!, Ida: $5\n<b\nc>\ncandlecandle"], ())


async def test_tags_go_before_rules():
    rules = [{"pattern": "^one", "flags": "", "replacement": "ONE"}]
    found, wrong = await bodies(
        task("x <t>one</t>", "one <t>", start_tag="<t>", end_tag="</t>", rules=rules)
    )
    assert (found, wrong) == (["ONE", ""], ())


async def test_a_turn_of_which_nothing_would_be_left_is_read_as_it_is():
    found, _ = await bodies(task("<t></t>a", "<t></t>b", start_tag="<t>", end_tag="</t>"))
    assert found == ["<t></t>a", "<t></t>b"]


async def test_without_rules_nothing_is_touched():
    made = task("a", "b")
    assert await Cleaner().cleaned(made) == (made, ())


@pytest.mark.proves("G-82")
async def test_a_rule_that_never_ends_is_stopped_and_delays_nobody():
    cleaner = Cleaner()
    rules = [HANGS, {"pattern": "b", "flags": "g", "replacement": "c"}]
    running = asyncio.create_task(cleaner.cleaned(task(LONG, "b", rules=rules)))
    gaps: list[float] = []
    while not running.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        gaps.append(time.perf_counter() - before)
    read, wrong = running.result()
    assert wrong == ("clean-up rule stopped: 1",)
    assert [m.body[-1] for m in read.sources] == ["c", "c"]
    assert len(gaps) > 20  # the loop went round meanwhile
    began = time.process_time()
    assert (await cleaner.cleaned(task("b", "b", rules=rules)))[1] == ("clean-up rule stopped: 1",)
    assert time.process_time() - began < 0.15  # it is not tried again


async def test_a_text_too_long_for_rules_is_read_as_it_is():
    rules = [{"pattern": "a", "flags": "g", "replacement": "b"}]
    found, wrong = await bodies(task("a" * 300_000, "a", rules=rules))
    assert (found[0][:3], found[1], wrong) == ("aaa", "b", ())


@pytest.mark.proves("B-55", "B-56", "B-57")
def test_rules_are_checked_and_brought_to_one_form():
    assert (Settings().capture_start_tag, Settings().capture_end_tag) == ("", "")
    assert Settings().message_cleanup_regex == "[]"
    taken = checked({"message_cleanup_regex": [{"pattern": "a"}]})["message_cleanup_regex"]
    assert json.loads(taken) == [{"pattern": "a", "flags": "g", "replacement": ""}]
    assert checked({"message_cleanup_regex": taken})["message_cleanup_regex"] == taken
    assert checked({"message_cleanup_regex": ""})["message_cleanup_regex"] == "[]"
    for wrong in (
        "{",
        {"pattern": "a"},
        [{"pattern": ""}],
        [{"flags": "g"}],
        [{"pattern": "a", "flags": "gg"}],
        [{"pattern": "a", "flags": "z"}],
        [{"pattern": 1}],
        [{"pattern": "a", "more": "b"}],
        [{"pattern": "a" * 5_000}],
        [{"pattern": "a"}] * (RULES_MAX + 1),
        [{"pattern": "a" * 4_000}] * 10,
    ):
        with pytest.raises(BadInput):
            checked({"message_cleanup_regex": wrong})
        assert layered({"message_cleanup_regex": wrong})[1] == ("message_cleanup_regex",)


def test_what_is_wrong_with_a_rule_is_said():
    assert fault_in(CleanupRule("a+")) == ""
    assert "SyntaxError" in fault_in(CleanupRule("("))
