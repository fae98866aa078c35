"""Files of OpenAI messages: what is read, and how a bad one is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from previously import formats
from previously.errors import BadInput
from previously.formats import openai
from previously.model import IMPORTED, Message, NewMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
TALK: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "name": "Ida", "content": "When does it turn? 潮", "mood": "curious", "n": 3},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "ten past four"},
    {"role": "assistant", "content": [{"type": "text", "text": "Ten past four."}]},
]


def as_array(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False, indent=2)


def as_lines(messages: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(m, ensure_ascii=False) for m in messages) + "\n\n"


def stored(said: NewMessage) -> Message:
    return Message(1, 1, said.role, said.body, said.hash, 1, extra=said.extra, name=said.name)


@pytest.mark.parametrize("written", [as_array, as_lines, json.dumps])
def test_both_ways_of_writing_read_the_same(written: Callable[[list[dict[str, Any]]], str]):
    text = written(TALK)
    assert openai.fits(text)
    said = list(openai.read(text))
    assert [m.role for m in said] == ["system", "user", "assistant", "tool", "assistant"]
    assert [m.body for m in said][1::2] == ["When does it turn? 潮", "ten past four"]
    assert said[1].name == "Ida"
    assert json.loads(said[2].tool_calls or "")[0]["id"] == said[3].tool_call_id == "c1"
    assert said[4].body == "Ten past four."


def test_fields_that_the_format_does_not_have_are_kept_and_never_sent():
    said = list(openai.read(as_lines(TALK)))
    assert json.loads(said[1].extra or "")[IMPORTED] == {"mood": "curious", "n": 3}
    assert stored(said[1]).wire() == {
        "role": "user",
        "content": "When does it turn? 潮",
        "name": "Ida",
    }
    assert stored(said[0]).wire() == {"role": "developer", "content": "Be brief."}
    assert said[3].extra is None


BAD = [
    ('{"role": "user", "content": "a"}\n\n{"role": "user", \n', "line 3 is no JSON"),
    ('{"role": "user", "content": "a"}\n[1]\n', "line 2 is no JSON object"),
    (
        '{"role": "user", "content": "a"}\n{"role": "narrator", "content": "b"}',
        "line 2: .*narrator",
    ),
    ('{"role": "user", "content": "a"}\n{"content": "b"}', "line 2: .*role"),
    ('{"role": "user", "content": 7}', "line 1: .*content"),
    ('[\n {"role": "user",\n  "content": "a"},\n {"role": "x"}\n]', "line 4: .*'x'"),
    ('[\n {"role": "user", "content": "a"}\n {"role": "user"}]', "line 3: a comma"),
    ('[\n {"role": "user", "content": "a"},\n {"role": oops}]', "line 3 is no JSON"),
    ('[{"role": "user", "content": "a"}]\n[]', "line 1: something stands behind"),
    ('[{"role": "user", "content": "a"}', "line 1: a comma or the end"),
    ('[{"role": "user", "content": "a"},\n', "line 2 is no JSON"),
    ('{"role": "user", "content": ' + "[" * 100_000, "line 1 is nested too deeply"),
]


@pytest.mark.parametrize(("text", "says"), BAD, ids=range(len(BAD)))
def test_what_is_wrong_names_file_and_line(text: str, says: str, tmp_path: Path):
    path = tmp_path / "talk.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=f"talk.json: {says}"):
        list(formats.read(path, formats.load(path)))


@pytest.mark.parametrize("text", ["", "once upon a time", '{"entries": {}}', "[1, 2]", "<html>"])
def test_a_file_of_another_kind_is_refused_by_its_content(text: str, tmp_path: Path):
    path = tmp_path / "talk.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"talk\.jsonl is in none of the formats .* openai"):
        list(formats.read(path, formats.load(path)))


def test_an_empty_array_holds_nothing():
    assert openai.fits(" [ ] ")
    assert list(openai.read("[]")) == []


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path):
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        formats.load(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'[{"role": "user",\n "content": "caf\xe9"}]')
    with pytest.raises(BadInput, match=r"latin\.json: line 2 is not UTF-8"):
        formats.load(tmp_path / "latin.json")


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    path = tmp_path / "talk.json"
    path.write_bytes(b"\xef\xbb\xbf" + as_array(TALK).encode())
    assert len(list(formats.read(path, formats.load(path)))) == len(TALK)


def test_a_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "FILE_BYTES_MAX", 1 << 20)
    (tmp_path / "big.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(BadInput, match="more than 1 MB"):
        formats.load(tmp_path / "big.json")
