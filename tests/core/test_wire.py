from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.errors import BadInput
from previously.measure import message_tokens
from previously.model import Message, NewMessage
from previously.text.wire import ATTACHMENT_TOKENS, parse, tokens_of, told_calls

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}


def stored(said: NewMessage) -> Message:
    return Message(
        id=1,
        pos=1,
        role=said.role,
        body=said.body,
        hash=said.hash,
        tokens=tokens_of(said),
        name=said.name,
        tool_calls=said.tool_calls,
        tool_call_id=said.tool_call_id,
        parts=said.parts,
        extra=said.extra,
    )


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "你好", "name": "Bob"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": "so", "tool_calls": [CALL], "reasoning": "because"},
        {"role": "tool", "content": "found", "tool_call_id": "c1"},
        {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]},
    ],
)
def test_a_message_comes_back_as_it_was_sent(raw: dict[str, object]) -> None:
    assert stored(parse(raw)).wire() == raw


def test_an_echo_with_an_index_and_nulls_has_the_same_hash() -> None:
    sent = parse({"role": "assistant", "content": None, "tool_calls": [CALL]})
    echo = parse(
        {
            "audio": None,
            "refusal": None,
            "tool_calls": [
                {
                    "index": 0,
                    "function": {"arguments": '{"at": 1}', "name": "look", "parsed": None},
                    "type": "function",
                    "id": "c1",
                }
            ],
            "content": "",
            "role": "assistant",
        }
    )
    assert echo.hash == sent.hash
    assert echo.extra is None


def test_no_content_is_an_empty_text() -> None:
    assert parse({"role": "assistant", "content": None}).body == ""
    assert parse({"role": "assistant"}).body == ""


def test_unknown_fields_are_kept_and_do_not_change_the_hash() -> None:
    plain = parse({"role": "assistant", "content": "x"})
    rich = parse({"role": "assistant", "content": "x", "reasoning_content": "why", "none": None})
    assert rich.hash == plain.hash
    assert json.loads(rich.extra or "") == {"reasoning_content": "why"}


def test_a_developer_message_counts_as_system_and_remembers_its_name() -> None:
    said = parse({"role": "developer", "content": "be brief"})
    assert said.role == "system"
    assert json.loads(said.extra or "") == {"role": "developer"}


@pytest.mark.parametrize("role", ["function", "", "narrator", None, 3, ["user"]])
def test_a_role_that_cannot_be_kept_is_refused(role: object) -> None:
    with pytest.raises(BadInput, match="role"):
        parse({"role": role, "content": "x"})


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user", "content": 3},
        {"role": "user", "content": {"text": "x"}},
        {"role": "user", "content": [3]},
        {"role": "user", "content": "x", "name": 3},
        {"role": "assistant", "tool_calls": {"a": 1}},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": "f"}]},
        {"role": "tool", "content": "x", "tool_call_id": 3},
    ],
)
def test_a_message_of_another_shape_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        parse(raw)


@pytest.mark.parametrize(
    ("part", "marker"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x.org/a/cat.png?k=s"}}, "cat.png"),
        ({"type": "image_url", "image_url": {"url": "https://x.org/%E7%8C%AB.png"}}, "猫.png"),
        (IMAGE, "image/png"),
    ],
)
@pytest.mark.proves("G-117")
def test_an_image_is_named_in_the_text_and_kept_beside_it(
    part: dict[str, object], marker: str
) -> None:
    said = parse({"role": "user", "content": [{"type": "text", "text": "look:"}, part]})
    assert said.body == f"look:\n[image: {marker}]"
    assert json.loads(said.parts or "")[1] == part


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "[audio: wav]"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}}, "[file: a.pdf]"),
        ({"type": "refusal", "refusal": "I will not."}, "I will not."),
        ({"type": "image_url", "image_url": {"url": 3}}, "[image]"),
        ({"type": "image_url", "image_url": {"url": "http://[x"}}, "[image]"),
        ({"type": "hologram", "hologram": "AAAA"}, "[hologram]"),
        ({}, "[attachment]"),
        ("plain", "plain"),
    ],
)
@pytest.mark.proves("G-117")
def test_every_kind_of_part_has_a_text_form_without_its_data(part: object, text: str) -> None:
    assert parse({"role": "user", "content": [part]}).body == text


def test_an_attachment_weighs_a_flat_price_whatever_its_bytes() -> None:
    said = parse({"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]})
    text_only = message_tokens("user", said.body)
    assert tokens_of(said) == text_only + ATTACHMENT_TOKENS


def test_a_custom_tool_call_is_kept() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    said = parse({"role": "assistant", "tool_calls": [call]})
    assert json.loads(said.tool_calls or "") == [call]


def test_arguments_that_are_no_text_become_one() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}
    said = parse({"role": "assistant", "tool_calls": [call]})
    assert json.loads(said.tool_calls or "")[0]["function"]["arguments"] == '{"a": 1}'


@given(st.text(st.characters(codec=None, categories=None), max_size=20))
def test_any_text_becomes_one_that_a_database_can_hold(text: str) -> None:
    said = parse({"role": "user", "content": [{"type": "text", "text": text}], "note": text})
    for kept in (said.body, said.parts or "", said.extra or ""):
        kept.encode("utf-8")
        assert "\x00" not in kept


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"city": "Braga", "days": 3}', "called weather with city = Braga, days = 3"),
        ('{"where": {"x": 1}}', 'called weather with where = {"x": 1}'),
        ("{}", "called weather"),
        ("", "called weather"),
        ("not json", "called weather with not json"),
        (None, "called weather"),
    ],
)
def test_a_call_is_told_in_words(arguments: str | None, told: str):
    call = {"id": "a", "function": {"name": "weather", "arguments": arguments}}
    assert told_calls(json.dumps([call])) == told


def test_a_call_without_a_name_is_still_told():
    assert told_calls('[{"id": "a"}, {"function": {"name": "f"}}]') == "called a tool\ncalled f"


def test_a_size_that_was_counted_before_is_that_of_the_same_message() -> None:
    body = "the lamp turned over the dark water"
    call = '[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]'
    said = NewMessage("assistant", body)
    others = [replace(said, name="Mira"), replace(said, tool_calls=call), replace(said, body="no")]
    others.append(replace(said, parts='[{"type": "image_url", "image_url": {"url": "x"}}]'))
    sizes = [tokens_of(one) for one in (said, *others)]
    assert len(set(sizes)) == len(sizes)
    assert sizes == [tokens_of(one) for one in (said, *others)]
    assert tokens_of(said) == message_tokens("assistant", body)
