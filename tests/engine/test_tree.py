"""Material larger than the model's window: parted, noted, made into one."""

from __future__ import annotations

import json
import random

import pytest

from previously.engine import Engine, Limits, text_request
from previously.engine.tree import LEARNT_SHARE
from previously.errors import BadInput, DraftRejected, ModelUnavailable, TooLong
from previously.measure import count_tokens
from previously.model import Ask, Message, Reply, digest
from previously.testing import ScriptedLlm, plain_note
from previously.text.lines import lines_of
from tests.core.makers import message
from tests.engine.makers import (
    SECRET,
    Shelf,
    Windowed,
    drafted,
    engine,
    is_merge,
    request_tokens,
    run,
    said,
)


def hashed(ask: Ask) -> str:
    """A note that differs whenever what it is about differs."""
    return f"Note {digest(str(ask.material)).hex()}."


def read_by(asks: list[Ask]) -> list[list[tuple[str, str]]]:
    return [list(ask.material) for ask in asks if not is_merge(ask)]


def with_tools(rng: random.Random, count: int) -> list[Message]:
    """Messages with random groups of one to three calls and their results."""
    messages: list[Message] = []
    while len(messages) < count:
        n = len(messages) + 2
        body = " ".join(f"m{n}k{k}" for k in range(rng.randint(4, 20)))
        calls = rng.randint(1, 3)
        if rng.random() < 0.3 and len(messages) + 1 + calls <= count:
            ids = [f"c{n}-{i}" for i in range(calls)]
            made = [
                {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                for i in ids
            ]
            messages.append(message(n, "assistant", body, tool_calls=json.dumps(made)))
            messages += [
                message(n + 1 + k, "tool", f"r{n}k{k} " * 5, tool_call_id=i)
                for k, i in enumerate(ids)
            ]
        else:
            messages.append(message(n, "", body))
    return messages


@pytest.mark.proves("E-17")
async def test_what_fits_is_asked_about_once():
    llm = Windowed(8_000)
    draft = await run(llm, [said(n) for n in range(1, 5)])
    assert len(llm.asks) == 1
    assert draft.stats["chunk_count"] == 1
    assert draft.stats["max_depth"] == 0
    assert draft.stats["merges"] == 0
    assert draft.stats["truncated"] is False
    assert draft.spent == (llm.asks[0].hash,)


@pytest.mark.proves("G-63")
async def test_what_cannot_fit_is_parted_before_anything_is_asked():
    llm = Windowed(1_500)
    messages = [said(n) for n in range(1, 33)]
    draft = await run(llm, messages)
    assert llm.refused == []
    assert draft.stats["too_long"] == 0
    assert all(request_tokens(a) + a.tokens_max <= 1_500 for a in llm.asks)
    leaves = read_by(llm.asks)
    assert sorted(x for leaf in leaves for x in leaf) == sorted(
        (m.speaker, m.body) for m in messages
    )
    assert draft.stats["chunk_count"] == len(leaves)


@pytest.mark.proves("E-18", "G-63")
async def test_an_unknown_window_is_found_without_asking_every_parent_in_vain():
    llm = Windowed(1_500, says=False)
    draft = await run(llm, [said(n) for n in range(1, 65)])
    chunks = draft.stats["chunk_count"]
    assert chunks >= 16
    assert len(llm.refused) == draft.stats["too_long"] <= 8  # one for each halving, not each parent
    assert (
        draft.stats["calls"] == len(llm.asks) == len(llm.refused) + chunks + draft.stats["merges"]
    )


async def test_a_window_that_the_model_names_is_used_at_once():
    llm = Windowed(1_500, says=False, names=True)
    await run(llm, [said(n) for n in range(1, 65)])
    assert len(llm.refused) == 1
    assert LEARNT_SHARE < 1


async def test_a_window_that_is_smaller_than_stated_is_learnt_from_few_refusals():
    llm = Windowed(2_500, says=False)
    llm.window_tokens = 8_000
    draft = await run(llm, [said(n) for n in range(1, 257)])
    assert draft.stats["truncated"] is False
    assert draft.stats["chunk_count"] > 30
    assert len(llm.refused) <= 12  # of those that ran side by side, for each halving


@pytest.mark.proves("E-18")
async def test_any_other_failure_is_the_callers():
    llm = ScriptedLlm([ModelUnavailable("rate limit: tokens per minute exceeded")])
    with pytest.raises(ModelUnavailable):
        await run(llm, [said(n) for n in range(1, 9)])
    assert len(llm.asks) == 1


@pytest.mark.proves("E-18")
async def test_without_bisecting_too_long_is_the_callers():
    llm = Windowed(1_500)
    with pytest.raises(TooLong):
        await run(llm, [said(n) for n in range(1, 33)], bisect=False)
    assert len(llm.asks) == 1


@pytest.mark.proves(
    "E-18", "E-19", "E-20", "E-21", "E-26", "E-37", "E-38", "E-39", "E-40", "E-41", "E-35"
)
@pytest.mark.parametrize("seed", range(5))
async def test_tool_groups_stay_whole_and_order_is_kept(seed: int):
    messages = with_tools(random.Random(seed), 64)
    lines = {line.text: line for line in lines_of(messages)}
    llm = Windowed(1_250, hashed)
    limits = {"depth_max": 6, "messages_min": 4, "fan_in": 2, "split_inside_message": False}
    draft = await run(llm, messages, **limits)
    stats = draft.stats
    leaves = [a for a in llm.asks if not is_merge(a)]
    merges = [a for a in llm.asks if is_merge(a)]
    for leaf in leaves:
        assert not lines[leaf.material[0][1]].joined
    notes = {hashed(leaf): [text for _, text in leaf.material] for leaf in leaves}
    for merge in merges:  # in the order of the calls: children come before their parents
        assert len(merge.material) == 2
        notes[hashed(merge)] = [x for _, part in merge.material for x in notes[part]]
    assert notes[draft.text] == [line.text for line in lines_of(messages)]
    assert stats["chunk_count"] == len(leaves) > 4
    assert stats["merges"] == len(merges) == len(leaves) - 1
    assert merges[-1].tokens_max == draft.task.tokens_max
    assert 2 <= stats["max_depth"] <= 6
    assert stats["truncated"] is False
    assert stats["input_tokens"] == sum(line.tokens for line in lines.values())
    assert stats["output_tokens"] == draft.tokens == count_tokens(draft.text)
    assert stats["compression_ratio"] == round(draft.tokens / stats["input_tokens"], 4)
    assert stats["algorithm"] == "bisect_v1"
    assert [m.id for m in draft.task.sources] == [m.id for m in messages]


@pytest.mark.proves("E-22", "E-25", "E-39", "G-59")
async def test_at_the_depth_limit_head_and_tail_are_read_and_the_loss_is_recorded():
    messages = [said(n) for n in range(1, 33)]
    llm = Windowed(1_500)
    draft = await run(llm, messages, depth_max=0)
    assert len(llm.asks) == 1
    assert draft.stats["truncated"] is True
    shown = json.dumps(llm.asks[0].messages)
    lost = set(draft.stats["truncated_messages"])
    assert messages[0].id not in lost
    assert messages[-1].id not in lost
    assert lost == {m.id for m in messages if m.body not in shown}
    llm = Windowed(1_500)
    draft = await run(llm, messages, depth_max=1)
    assert draft.stats["chunk_count"] == 2
    assert draft.stats["max_depth"] == 1
    assert draft.stats["truncated"] is True  # through the merge


@pytest.mark.proves("E-23")
async def test_a_stretch_with_fewer_messages_than_the_minimum_is_not_parted():
    three = [said(n, 400) for n in range(1, 4)]
    limits = {"messages_min": 4, "split_inside_message": False}
    draft = await run(Windowed(1_500), three, **limits)
    assert draft.stats["chunk_count"] == 1
    assert draft.stats["truncated"] is True
    four = [said(n, 100) for n in range(1, 5)]
    draft = await run(Windowed(2_200), four, **limits)
    assert draft.stats["chunk_count"] == 2
    assert draft.stats["truncated"] is False


@pytest.mark.proves("E-24", "E-25")
async def test_one_indivisible_group_is_truncated_if_text_may_not_be_split():
    made = json.dumps(
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    )
    group = [
        message(2, "assistant", "Looking it up.", tool_calls=made),
        message(3, "tool", "word " * 4_000, tool_call_id="c"),
    ]
    llm = Windowed(1_500)
    draft = await run(llm, group, split_inside_message=False)
    assert len(llm.asks) == 1
    assert draft.stats["truncated_messages"] == [group[1].id]
    draft = await run(Windowed(1_500), group)
    assert draft.stats["truncated"] is False


@pytest.mark.proves("S-13", "E-24", "E-25", "G-59", "G-60")
async def test_one_giant_message_is_split_where_no_character_breaks():
    family, flag = "\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e8\U0001f1f3"
    units = (
        f"白娅在第{n}级台阶下藏了银币{family}，林川{flag}答应保密e\u0301" for n in range(8_000)
    )
    giant = message(2, body="".join(units)[:200_000])
    llm = Windowed(8_000, hashed)
    draft = await run(llm, [giant])
    leaves = read_by(llm.asks)
    assert draft.stats["truncated"] is False
    assert draft.stats["chunk_count"] == len(leaves) > 10
    pieces = {leaf[0][1] for leaf in leaves}
    assert "".join(_in_order(giant.body, pieces)) == giant.body
    for piece in pieces:
        assert piece[0] not in "\u200d\u0301\U0001f1f3"
        assert not piece.endswith("\u200d")
    llm = Windowed(8_000, hashed)
    draft = await run(llm, [giant], split_inside_message=False)
    assert len(llm.asks) == 1
    assert draft.stats["truncated_messages"] == [giant.id]
    shown = llm.asks[0].material[0][1]
    assert shown.startswith(giant.body[:100])
    assert shown.endswith(giant.body[-100:])


def _in_order(body: str, pieces: set[str]) -> list[str]:
    """The pieces as they follow each other in the text; equal ones may be needed twice."""
    found: list[str] = []
    at = 0
    while at < len(body):
        piece = max((p for p in pieces if body.startswith(p, at)), key=len)
        found.append(piece)
        at += len(piece)
    return found


@pytest.mark.proves("E-18", "G-64")
async def test_after_a_partial_failure_only_what_is_missing_is_asked_again():
    messages = [said(n) for n in range(1, 33)]
    broken = {"yes"}

    def answer(ask: Ask) -> str | Exception:
        if broken and any(f"w{n}x" in ask.material[-1][1] for n in range(25, 33)):
            return ModelUnavailable("rate limit: tokens per minute exceeded")
        return hashed(ask)

    shelf = Shelf()
    first = Windowed(1_500, answer)
    with pytest.raises(ModelUnavailable, match="rate limit"):
        await drafted(engine(first, shelf), messages)
    assert shelf.kept
    arrived = {ask.hash for ask in first.asks} & set(shelf.kept)
    broken.clear()
    second = Windowed(1_500, answer)
    draft = await drafted(engine(second, shelf), messages)
    assert not arrived & {ask.hash for ask in second.asks}
    whole = Windowed(1_500, hashed)
    assert (await run(whole, messages)).text == draft.text
    assert len(arrived) + len(second.asks) == len(whole.asks)
    assert draft.stats["calls"] == len(second.asks)
    assert draft.usage.output_tokens == sum(count_tokens(hashed(a)) for a in whole.asks)


@pytest.mark.proves("G-63")
async def test_the_call_budget_is_kept_and_what_it_cannot_pay_for_is_truncated():
    messages = [said(n) for n in range(1, 129)]
    for calls_max in (1, 2, 3, 7, 20):
        llm = Windowed(1_500)
        draft = await run(llm, messages, calls_max=calls_max)
        assert len(llm.asks) <= calls_max
        assert draft.stats["truncated"] is True
    llm = Windowed(1_500, lambda _: "")
    with pytest.raises(DraftRejected, match="has made its 1 calls"):
        await run(llm, messages[:2], calls_max=1)


async def test_a_window_too_small_for_anything_ends_the_run_without_a_call():
    llm = Windowed(200)
    with pytest.raises(TooLong, match="too small"):
        await run(llm, [said(n) for n in range(1, 33)])
    assert llm.asks == []
    llm = Windowed(200, says=False)
    with pytest.raises(TooLong, match="too small"):
        await run(llm, [said(n) for n in range(1, 33)])
    assert len(llm.asks) < 20


async def test_merging_finds_its_way_when_notes_do_not_fit_either():
    """The model takes each stretch, but refuses every merge of more than two notes."""

    def answer(ask: Ask) -> str | Exception:
        if is_merge(ask) and len(ask.material) > 2:
            return TooLong("too long")
        return hashed(ask)

    llm = ScriptedLlm(answer, window_tokens=8_000)
    draft = await run(llm, [said(n, 300) for n in range(1, 33)])
    assert draft.stats["truncated"] is False
    leaves = sum(not is_merge(ask) for ask in llm.asks)
    assert draft.stats["merges"] == leaves - 1


async def test_two_notes_that_do_not_fit_together_are_cut_and_that_is_said():
    def answer(ask: Ask) -> str | Exception:
        if is_merge(ask) and sum(count_tokens(t) for _, t in ask.material) > 90:
            return TooLong("too long")
        return " ".join(f"Fact {k} of it." for k in range(12))

    llm = ScriptedLlm(answer, window_tokens=3_000)
    messages = [said(n, 150) for n in range(1, 5)]
    draft = await run(llm, messages)
    assert draft.stats["truncated"] is True
    assert set(draft.stats["truncated_messages"]) == {m.id for m in messages}
    never = ScriptedLlm(
        lambda ask: TooLong("no") if is_merge(ask) else "A short note.", window_tokens=3_000
    )
    with pytest.raises(TooLong, match="too small"):
        await run(never, messages)


@pytest.mark.proves("G-55")
async def test_a_long_answer_is_shortened_once_and_then_cut():
    long = " ".join(f"Fact number {k} is kept." for k in range(60))
    messages = [said(n) for n in range(1, 5)]
    llm = ScriptedLlm([long, "A proper note."])
    draft = await run(llm, messages)
    assert draft.text == "A proper note."
    assert draft.stats["shortened"] == 1
    assert long in llm.asks[1].messages[1]["content"]
    assert len(draft.spent) == 2
    llm = ScriptedLlm([long, long])
    draft = await run(llm, messages)
    assert draft.tokens <= 180
    assert draft.text.endswith("is kept.")
    assert "cut to size at a sentence" in draft.stats["flags"]
    assert len(llm.asks) == 2


@pytest.mark.proves("G-66")
async def test_a_cut_off_answer_is_asked_for_shorter_and_then_kept_up_to_its_last_sentence():
    cut = Reply("Mira hid the coins. Jonas prom", "m", finish="length")
    llm = ScriptedLlm([cut, cut])
    shelf = Shelf()
    draft = await drafted(engine(llm, shelf), [said(n) for n in range(1, 5)])
    assert draft.text == "Mira hid the coins."
    assert "shorter one is needed" in llm.asks[1].messages[-1]["content"]
    assert any(flag.startswith("cut off") for flag in draft.stats["flags"])
    assert set(draft.spent) == set(shelf.kept)


async def test_answers_refused_twice_are_forgotten_and_others_are_kept():
    shelf = Shelf()
    with pytest.raises(DraftRejected, match="empty"):
        await drafted(engine(ScriptedLlm(["", ""]), shelf), [said(1), said(2)])
    assert shelf.kept == {}


async def test_a_run_ends_at_its_deadline_with_what_had_arrived():
    shelf = Shelf()
    llm = Windowed(1_500, hashed)
    llm.delay_s = 0.2
    with pytest.raises(ModelUnavailable, match=r"more than 0\.5 s"):
        await drafted(engine(llm, shelf, deadline_s=0.5), [said(n) for n in range(1, 129)])
    assert 0 < len(shelf.kept) < 16
    assert llm.waiting == 0


async def test_time_is_taken_from_the_clock_that_is_handed_in():
    ticks = iter([1_000, 1_250])
    made = Engine(ScriptedLlm(), None, SECRET, limits=Limits(), clock_ms=lambda: next(ticks))
    draft = await drafted(made, [said(1), said(2)])
    assert draft.stats["duration_ms"] == 250


async def test_a_plain_text_needs_no_chat():
    book = "\n\n".join(f"Chapter {n}. " + "The road went on. " * 40 for n in range(60))
    llm = Windowed(1_800, hashed)
    made = Engine(llm, None, SECRET)
    for preset in ("rolling", "volumes", "plot", "recap", "session"):
        result = await made.summarise(text_request(book, preset=preset, tokens_max=200))
        assert result.stats["truncated"] is False
        assert result.stats["chunk_count"] > 4
    with pytest.raises(BadInput, match="nothing to summarise"):
        text_request(" \n", preset="recap", tokens_max=200)
    with pytest.raises(BadInput, match="unknown preset"):
        text_request("x", preset="novel", tokens_max=200)


async def test_an_extract_needs_no_tree():
    from previously.llm.extractive import Extractive  # noqa: PLC0415

    made = Engine(Extractive(), None, SECRET)
    text = "\n\n".join(f"Mira paid {n} coins to Jonas." for n in range(10, 400))
    result = await made.summarise(text_request(text, preset="recap", tokens_max=120))
    assert result.tokens <= 120
    assert result.stats["chunk_count"] == 1


def test_the_default_answer_of_a_scripted_model_is_no_copy():
    assert plain_note(Ask((), (("Mira", "one two"),), 3, "en"))
