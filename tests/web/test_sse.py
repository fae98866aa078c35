from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.web.sse import Tap, Words, choices_asked, replies_in


def event(delta: dict[str, Any], end: str = "\n") -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': delta}]})}{end}{end}".encode()


STREAM = (
    b": comment\n\n"
    + event({"role": "assistant", "content": ""})
    + event({"content": "你好 "}, "\r\n")
    + event({"content": "there"}, "\r")
    + event({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f"}}]})
    + event({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]})
    + event({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "g"}}]})
    + event({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]})
    + (FINISH := b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n')
    + b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_cut_into_chunks_gives_the_same_words_and_the_same_bytes(cuts: list[int]) -> None:
    tap, passed = Tap(Words()), b""
    edges = [0, *sorted(cuts), len(STREAM)]
    for start, end in itertools.pairwise(edges):
        passed += tap.feed(STREAM[start:end])
    assert passed == STREAM[: STREAM.index(FINISH)]
    (said,) = tap.end()
    assert said.body == "你好 there"
    calls = json.loads(said.tool_calls or "")
    assert [(c["id"], c["function"]["arguments"]) for c in calls] == [
        ("c1", '{"a": 1}'),
        ("c2", ""),
    ]
    assert tap.ripe
    assert passed + tap.rest() == STREAM


def test_what_comes_after_the_closing_event_is_held_with_it() -> None:
    tap = Tap(Words())
    assert tap.feed(b"data: [DONE]\n\nmore") == b""
    assert tap.feed(b" and more") == b""
    assert tap.rest() + tap.rest() == b"data: [DONE]\n\nmore and more"


def test_words_after_their_own_end_are_heard_too() -> None:
    tap = Tap(Words())
    finish = b'data: {"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}\n\n'
    assert tap.feed(finish) == b""
    assert tap.ripe
    assert tap.rest() == finish
    more = event({"content": "B"})
    assert tap.feed(more) == more
    (said,) = tap.end()
    assert said.body == "AB"


def test_a_stream_that_ends_in_the_middle_of_an_event_keeps_its_words() -> None:
    tap = Tap(Words())
    tap.feed(event({"content": "Hel"}) + event({"content": "lo"}).rstrip())
    (said,) = tap.end()
    assert said.body == "Hello"


def test_a_line_without_end_is_passed_on_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("previously.web.sse.LINE_BYTES_MAX", 64)
    tap = Tap(Words())
    assert tap.feed(b"data: " + b"x" * 64) == b"data: " + b"x" * 64
    assert tap.rest() == b""


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    words = Words()
    for call in (
        {"id": "c1", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c2", "function": {"name": "g", "arguments": "{"}},
        {"function": {"arguments": "}"}},
    ):
        words.hear(json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode())
    (said,) = words.replies()
    calls = json.loads(said.tool_calls or "")
    assert [(c["id"], c["function"]["arguments"]) for c in calls] == [("c1", "{}"), ("c2", "{}")]


FIELDS = [
    *("choices", "delta", "message", "content", "tool_calls", "function", "id", "index"),
    *("arguments", "name", "text", "type", "finish_reason"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_no_shape_of_an_answer_breaks_the_listener(shape: Any) -> None:
    body = json.dumps(shape).encode()
    replies_in(body)
    replies_in(json.dumps({"choices": [{"message": shape}]}).encode())
    words = Words(2)
    words.hear(body)
    words.hear(json.dumps({"choices": [{"delta": shape}]}).encode())
    words.hear(json.dumps({"choices": [{"delta": {"tool_calls": [shape]}}]}).encode())
    words.replies()


@pytest.mark.parametrize(
    ("content", "text"),
    [("x", "x"), ([{"type": "thinking"}, {"type": "text", "text": "x"}], "x"), (None, None)],
)
def test_only_final_words_are_a_reply(content: object, text: str | None) -> None:
    message = {"role": "assistant", "content": content, "reasoning_content": "hm", "audio": None}
    said = replies_in(json.dumps({"choices": [{"message": message}]}).encode())
    assert [one.body for one in said] == ([] if text is None else [text])
    assert all(one.extra is None for one in said)


def choice(index: int, text: str = "", *, ends: bool = False) -> bytes:
    told = {"index": index, "delta": {"content": text}, "finish_reason": "stop" if ends else None}
    return f"data: {json.dumps({'choices': [told]})}\n\n".encode()


@pytest.mark.parametrize("order", [[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
def test_choices_come_in_any_order_and_are_whole_together(order: list[int]) -> None:
    tap, said = Tap(Words(2)), ["", ""]
    for index in order:
        said[index] += "ab"[index]
        assert tap.feed(choice(index, "ab"[index])) != b""
    assert tap.feed(choice(1, ends=True)) != b""
    assert tap.feed(choice(0, ends=True)) == b""
    assert [one.body for one in tap.end()] == ["aa", "bb"]


def test_a_server_that_gives_fewer_choices_is_whole_with_its_last_event() -> None:
    tap = Tap(Words(3))
    assert tap.feed(choice(0, "alone", ends=True)) != b""
    assert tap.feed(b"data: [DONE]\n\n") == b""
    assert [one.body for one in tap.end()] == ["alone"]


@pytest.mark.parametrize(
    ("asked", "count"), [(None, 1), (0, 1), (-3, 1), ("4", 1), (2, 2), (True, 1), (9_999, 128)]
)
def test_how_many_choices_are_asked_for(asked: object, count: int) -> None:
    assert choices_asked({"n": asked}) == count
