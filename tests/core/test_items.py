"""Response items as messages and back: nothing is lost, nothing that belongs together is parted."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from previously.model import ITEMS, Message, Wire, digest
from previously.text.items import Told, build_stateless_items, instructions, messages_of, usable
from previously.text.turns import groups
from previously.text.wire import parse, tokens_of

Items = list[dict[str, Any]]


def stored(told: list[Any]) -> list[Message]:
    """What the store would give back."""
    made: list[Message] = []
    for n, one in enumerate(told, 1):
        said = parse(one)
        fields = ("name", "tool_calls", "tool_call_id", "parts", "extra")
        more = {name: getattr(said, name) for name in fields}
        size = tokens_of(said)
        made.append(Message(n, n, said.role, said.body, digest(str(n)), size, **more))
    return made


# The table


SYSTEM: Any = {"role": "system", "content": "So far: they met."}
CALL: Any = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}},
    ],
}


@pytest.mark.proves("E-55", "E-56", "E-57", "E-58")
@pytest.mark.parametrize(
    ("messages", "items"),
    [
        ([SYSTEM], [{"type": "message", "role": "system", "content": "So far: they met."}]),
        (
            [{"role": "user", "content": "Hello."}],
            [{"type": "message", "role": "user", "content": "Hello."}],
        ),
        (
            [{"role": "assistant", "content": "Hi."}],
            [{"type": "message", "role": "assistant", "content": "Hi."}],
        ),
        (
            [CALL],
            [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "x"},
            ],
        ),
        (
            [
                CALL,
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": "2"},
            ],
            [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "x"},
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {"type": "custom_tool_call_output", "call_id": "b", "output": "2"},
            ],
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:y"}},
                    ],
                }
            ],
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is this?"},
                        {"type": "input_image", "image_url": "data:x", "detail": "low"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:y"},
                    ],
                }
            ],
        ),
        (
            [{"role": "user", "name": "Mara", "content": "Hello."}],
            [{"type": "message", "role": "user", "content": "Mara: Hello."}],
        ),
    ],
)
def test_every_kind_of_message_has_its_item(messages: list[Any], items: Items) -> None:
    assert build_stateless_items(messages) == items


def test_the_requests_own_instructions_are_no_item() -> None:
    assert build_stateless_items([instructions("Be kind.")]) == []


def test_plain_words_are_kept_once() -> None:
    part: Any = {"type": "output_text", "text": "Hi.", "annotations": []}
    said = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
    (told,) = messages_of([{**said, "content": [part]}])
    assert ITEMS not in told
    assert parse(told).extra is None


def test_one_answer_is_one_message_and_two_of_a_client_are_two() -> None:
    of_model = [
        {"type": "message", "id": f"m{i}", "role": "assistant", "content": "a"} for i in (1, 2)
    ]
    assert [m["content"] for m in messages_of(of_model)] == ["aa"]
    of_client = [{"role": "assistant", "content": "a"} for _ in range(2)]
    assert [m["content"] for m in messages_of(of_client)] == ["a", "a"]


def test_edited_words_go_before_the_items_that_they_were() -> None:
    thought: Any = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sealed"}
    said = {"type": "message", "id": "m", "role": "assistant", "content": "Old words."}
    wire = stored(messages_of([thought, said]))[0].wire()
    assert build_stateless_items([wire]) == [thought, said]
    wire["content"] = "New words."
    assert build_stateless_items([wire]) == [
        {"type": "message", "role": "assistant", "content": "New words."}
    ]


def test_what_an_upstream_would_have_to_look_up_is_left_out_with_its_names() -> None:
    named: Any = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": None}
    call = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f", "arguments": "{}"}
    kept = {k: v for k, v in call.items() if k != "id"}
    assert usable([named, call]) == [kept]
    assert usable([{"type": "item_reference", "id": "msg_1"}]) == []
    open_thought = {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text"}]}
    assert usable([open_thought, call]) == [open_thought, call]


def test_a_sealed_thought_weighs_something() -> None:
    said = {"type": "message", "id": "m", "role": "assistant", "content": "Hi."}
    thought: Any = {"type": "reasoning", "id": "r", "encrypted_content": "x" * 4_000}
    (light,), (heavy,) = messages_of([said]), messages_of([thought, said])
    assert tokens_of(parse(heavy)) - tokens_of(parse(light)) > 900


# Every input

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)


# Made once, not at every draw: that would cost more than what is tried with them.
parts = st.lists(
    st.one_of(
        texts.map(lambda t: {"type": "input_text", "text": t}),
        texts.map(lambda t: {"type": "input_image", "image_url": f"data:{t}", "detail": "auto"}),
        texts.map(lambda t: {"type": "input_file", "file_id": t}),
        texts.map(lambda t: {"type": "something_new", "held": t}),
    ),
    min_size=1,
    max_size=3,
)
contents: st.SearchStrategy[Any] = texts | parts
roles = st.sampled_from(["user", "user", "system", "developer"])


RESULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "function_call": ({"name": "f", "arguments": '{"a": 1}'}, {"output": "one"}),
    "custom_tool_call": ({"name": "g", "input": "x"}, {"output": "two"}),
    "computer_call": (
        {"action": {"type": "click", "x": 1, "y": 2}, "pending_safety_checks": []},
        {"output": {"type": "computer_screenshot", "image_url": "data:z"}},
    ),
    "shell_call": ({"action": {"commands": ["ls"]}}, {"output": [{"stdout": "a", "stderr": ""}]}),
}
kinds = st.lists(st.sampled_from(list(RESULTS)), max_size=3)


@st.composite
def asked(draw: st.DrawFn) -> Items:
    item = {"role": draw(roles), "content": draw(contents)}
    return [{"type": "message", **item} if draw(st.booleans()) else item]


@st.composite
def answered(draw: st.DrawFn) -> Items:
    """One answer of a model, with the results of its calls."""
    n = draw(st.integers(0, 10**9))
    made: Items = []
    results: Items = []
    if draw(st.booleans()):
        sealed: Any = {"encrypted_content": draw(texts), "summary": []}
        made.append({"type": "reasoning", "id": f"rs_{n}", **sealed})
    if draw(st.booleans()):
        made.append({"type": "web_search_call", "id": f"ws_{n}", "status": "completed"})
    calls = draw(kinds)
    if draw(st.booleans()) or not calls:
        part: Any = {"type": "output_text", "text": draw(texts), "annotations": []}
        if draw(st.booleans()):
            part["annotations"] = [{"type": "url_citation", "url": "https://example.org"}]
        said = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed"}
        made.append({**said, "content": [part]})
    for k, kind in enumerate(calls):
        call_id = f"call_{n}_{k}"
        fields, result = RESULTS[kind]
        made.append({"type": kind, "id": f"i_{n}_{k}", "call_id": call_id, **fields})
        results.append({"type": f"{kind}_output", "call_id": call_id, **result})
    if not draw(st.booleans()):
        results.reverse()
    return [*made, *results]


def in_order(pieces: list[Items]) -> Items:
    """One after the other; no two calls have the same id."""
    return [
        {k: f"{n}_{v}" if k == "call_id" else v for k, v in item.items()}
        for n, piece in enumerate(pieces)
        for item in piece
    ]


inputs = st.lists(st.one_of(asked(), answered()), max_size=8).map(in_order)


@pytest.mark.proves("E-56", "E-57", "E-58")
@settings(max_examples=300, deadline=None)
@given(inputs)
def test_a_request_comes_out_as_it_went_in(items: Items) -> None:
    before = json.dumps(items)
    told = messages_of(items)
    assert all(isinstance(one, Told) for one in told)
    assert json.dumps(build_stateless_items(told)) == before


@settings(max_examples=300, deadline=None)
@given(inputs)
def test_what_is_stored_tells_the_same_items(items: Items) -> None:
    wires = [m.wire() for m in stored(messages_of(items))]
    assert not any(key.startswith("previously:") for wire in wires for key in dict(wire))
    again = build_stateless_items(wires)
    assert len(again) == len(items)
    for ours, theirs in zip(again, items, strict=True):
        kept = {k: v for k, v in theirs.items() if k in ours}
        kind = ours.get("type", "message")
        assert kind == theirs.get("type", "message")
        if kind in ("reasoning", "web_search_call", "computer_call", "shell_call"):
            assert ours == theirs  # what cannot be told from a message is kept letter by letter
        assert {k: _plain(v) for k, v in ours.items() if k in theirs} == {
            k: _plain(v) for k, v in kept.items()
        }


def _plain(value: Any) -> Any:
    """A text, however it is wrapped."""
    held: Any = value
    if isinstance(value, list) and len(held) == 1 and "text" in held[0]:
        return held[0]["text"] if not held[0].get("annotations") else held
    return held


@settings(max_examples=300, deadline=None)
@given(inputs)
def test_no_cut_between_messages_parts_what_belongs_together(items: Items) -> None:
    told = messages_of(items)
    home = {id(item): n for n, one in enumerate(told) for item in one.origin}
    for item, following in itertools.pairwise(items):
        if item.get("type") in ("reasoning", "web_search_call"):
            assert home[id(item)] == home[id(following)]
    group_of = {m.id - 1: g for g, group in enumerate(groups(stored(told))) for m in group}
    calls = {
        i["call_id"]: home[id(i)]
        for i in items
        if str(i.get("type")).endswith("_call") and "call_id" in i
    }
    for item in items:
        if str(item.get("type")).endswith("_output"):
            assert group_of[home[id(item)]] == group_of[calls[item["call_id"]]]


words_of_items = st.sampled_from(
    ["type", "role", "content", "id", "call_id", "output", "message", "reasoning", "assistant",
     "user", "function_call", "function_call_output", "mcp_approval_request", "input_text", "text",
     "tool_calls", "image_url", "input_image", "encrypted_content", "item_reference", "summary"]
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | words_of_items | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words_of_items, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(st.lists(anything, max_size=5))
def test_nothing_that_a_client_sends_breaks_the_reading(items: list[Any]) -> None:
    before = json.dumps(items)
    sent = build_stateless_items(messages_of(items))
    assert json.dumps(items) == before
    held: list[Items] = [[one] for one in items if isinstance(one, dict)]
    if all(usable(one) == one for one in held):
        assert sent == items


junks = st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=12)


@given(st.lists(junks, max_size=4))
def test_what_is_no_item_is_left_as_it_is(junk: list[Any]) -> None:
    assert messages_of(junk) == junk


def test_a_copy_shows_nothing_of_the_items() -> None:
    wire = Wire(role="user", content="x")
    wire.origin = [{"role": "user"}]
    assert json.loads(json.dumps(dict(wire))) == {"role": "user", "content": "x"}
