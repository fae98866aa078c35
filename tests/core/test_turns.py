from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.model import Message
from previously.text.turns import (
    TURN_MESSAGES_MAX,
    TURN_TOKENS_MAX,
    calls_of,
    groups,
    pending_start,
    tail_start,
    turns,
)
from tests.core.makers import message, talk


def calling(n: int, *ids: str) -> Message:
    return message(n, "assistant", "", tool_calls=json.dumps([{"id": i} for i in ids]))


def result(n: int, of: str) -> Message:
    return message(n, "tool", "done", tool_call_id=of)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Users, replies, and calls whose results come in any order, some of them never."""
    out: list[Message] = []
    for _ in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["user", "assistant", "call", "system"]))
        if kind != "call":
            out.append(message(len(out) + 2, kind))
            continue
        ids = [f"c{len(out)}-{k}" for k in range(draw(st.integers(1, 3)))]
        out.append(calling(len(out) + 2, *ids))
        for answered in draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]:
            out.append(result(len(out) + 2, answered))
    return out


@given(conversations())
def test_groups_and_turns_only_cut_and_lose_nothing(said: list[Message]):
    assert [m for group in groups(said) for m in group] == said
    closed, rest = turns(said)
    assert [m for turn in (*closed, rest) for m in turn] == said


@given(conversations(), st.integers(1, 12), st.integers(0, 200))
@pytest.mark.proves("E-15")
def test_the_tail_never_starts_inside_a_call_and_its_results(
    said: list[Message], messages_min: int, tokens_max: int
):
    start = tail_start(said, messages_min, tokens_max)
    assert 0 <= start <= len(said)
    called = {i for m in said[:start] for i in calls_of(m)}
    assert not [m for m in said[start:] if m.tool_call_id in called]


@given(conversations(), st.integers(1, 12), st.integers(0, 200))
@pytest.mark.proves("G-61")
def test_the_pending_turn_is_always_in_the_tail(
    said: list[Message], messages_min: int, tokens_max: int
):
    assert tail_start(said, messages_min, tokens_max) <= pending_start(said)


def test_a_turn_ends_with_a_reply_that_calls_no_tool():
    said = [
        message(2, "user"),
        calling(3, "a", "b"),
        result(4, "b"),
        result(5, "a"),
        message(6, "assistant"),
        message(7, "assistant"),
        message(8, "user"),
    ]
    closed, rest = turns(said)
    assert [len(t) for t in closed] == [5, 1]
    assert rest == (said[6],)


def test_a_log_without_replies_is_cut_into_turns_by_its_length():
    closed, rest = turns([message(n, "user") for n in range(30)])
    assert [len(t) for t in closed] == [TURN_MESSAGES_MAX, TURN_MESSAGES_MAX]
    assert len(rest) == 6


def test_a_log_without_replies_is_cut_into_turns_by_its_size():
    closed, rest = turns([message(n, "user", tokens=TURN_TOKENS_MAX // 2) for n in range(3)])
    assert [len(t) for t in closed] == [2]
    assert len(rest) == 1


def test_an_unanswered_call_keeps_its_turn_open_however_long_it_is():
    said = [message(n, "user") for n in range(TURN_MESSAGES_MAX - 1)] + [calling(40, "a")]
    assert turns(said) == ([], tuple(said))


def test_a_result_without_its_call_stands_alone():
    assert len(groups([message(2), result(3, "nobody")])) == 2


def test_what_waits_for_a_reply_reaches_back_to_the_words_that_asked():
    said = [message(2, "user"), message(3, "assistant"), message(4, "user"), calling(5, "a")]
    assert pending_start([*said, result(6, "a")]) == 2
    assert pending_start(said[:2]) == 2
    assert pending_start([]) == 0


def test_the_tail_keeps_its_messages_and_no_more():
    said = talk(100)
    assert tail_start(said, 20, 10_000) == 80
    assert tail_start(said, 19, 10_000) == 80
    assert tail_start(said[:10], 20, 10_000) == 0


def test_the_tail_is_shorter_where_messages_are_large():
    said = talk(100, tokens=100)
    assert tail_start(said, 20, 1_000) == 90
    assert tail_start(said, 20, 1) == 98


def test_the_last_turn_is_kept_whole_whatever_its_size():
    said = [*talk(4), message(6, "user", tokens=9_000)]
    assert tail_start(said, 1, 10) == 4
    assert tail_start(said[:4], 1, 1) == 2


def test_a_turn_ends_where_other_people_are_present():
    first = [message(2, presence=1), message(4, presence=1)]
    second = [message(6, presence=2), message(7, presence=2)]
    closed, rest = turns([*first, *second])
    assert [[m.presence for m in turn] for turn in closed] == [[1, 1], [2, 2]]
    assert rest == ()
