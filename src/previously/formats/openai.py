"""OpenAI messages: a JSON array of them, or one to a line (JSONL); read, and written by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from previously.errors import BadInput
from previously.model import IMPORTED, Message, NewMessage
from previously.text.clean import clean
from previously.text.wire import OWN_FIELDS, parse

NAME = "openai"

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_BEGINS = re.compile(r"\s*\[?\s*\{")
_EMPTY = re.compile(r"\s*\[\s*\]\s*")
_ROLE = re.compile(r'"role"\s*:')


def fits(text: str) -> bool:
    """Objects with a role, in an array or line by line."""
    return bool(_BEGINS.match(text) and _ROLE.search(text)) or bool(_EMPTY.fullmatch(text))


def read(text: str) -> Iterator[NewMessage]:
    """Every message; fields that the format does not have are kept beside it."""
    places = _elements(text) if text.lstrip().startswith("[") else _lines(text)
    for line, value in places:
        if not isinstance(value, dict):
            raise BadInput(f"line {line} is no JSON object", field="file")
        try:
            yield message_of(cast("dict[str, Any]", value))
        except BadInput as error:
            raise BadInput(f"line {line}: {error}", field=error.field) from error


def message_of(raw: Mapping[str, Any]) -> NewMessage:
    """One message; what the format does not have is kept beside it and never sent to a model."""
    said = parse({name: value for name, value in raw.items() if name in OWN_FIELDS})
    others = {name: value for name, value in raw.items() if name not in OWN_FIELDS}
    if not others:
        return said
    extra = {**json.loads(said.extra or "{}"), IMPORTED: others}
    return replace(said, extra=clean(json.dumps(extra, ensure_ascii=False)))


def line_of(message: Message) -> str:
    """One message as a line that `read` reads again, with what other programs had said of it."""
    extra: dict[str, Any] = json.loads(message.extra) if message.extra else {}
    others = cast("dict[str, Any]", extra.get(IMPORTED, {}))
    return json.dumps({**others, **message.wire()}, ensure_ascii=False) + "\n"


def _lines(text: str) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, _decoded(line.strip(), 0, number)[0]


def _elements(text: str) -> Iterator[tuple[int, object]]:
    """The values of an array, each with the line that it begins in."""
    at = _skip(text, text.index("[") + 1)
    line, counted = 1, 0
    while text[at : at + 1] != "]":
        line += text.count("\n", counted, at)
        counted = at
        value, at = _decoded(text, at, line)
        yield line, value
        at = _skip(text, at)
        if text[at : at + 1] not in (",", "]"):
            line += text.count("\n", counted, at)
            raise BadInput(f"line {line}: a comma or the end of the array is missing", field="file")
        if text[at] == ",":
            at = _skip(text, at + 1)
    if text[at + 1 :].strip():
        raise BadInput(
            f"line {text.count(chr(10), 0, at) + 1}: something stands behind the array",
            field="file",
        )


def _decoded(text: str, at: int, line: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        inside = text.count("\n", at, error.pos)
        raise BadInput(f"line {line + inside} is no JSON: {error.msg}", field="file") from error
    except RecursionError as error:
        raise BadInput(f"line {line} is nested too deeply", field="file") from error


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()
