"""What upstreams send: JSON, JSON inside JSON, event streams, pages of HTML; read with patience.

Everything here takes what it can use and passes over the rest; nothing here judges.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from previously.text.wire import as_list, as_object

TEXT_CHARS_MAX = 64 * 1024
DEPTH_MAX = 12
LEAVES_MAX = 1_000
SAID_CHARS_MAX = 300

NAME_KEYS = frozenset({"code", "type", "error_code", "error_type", "errortype", "status", "name"})
"""Fields that name an error; all other texts are sentences."""

Leaf = tuple[str, str | int]

_SAID_KEYS = frozenset({"message", "msg", "error", "detail", "errormessage", "description", ""})

# Validators quote what they were sent. What a user said is no evidence.
_QUOTED_KEYS = frozenset(
    {"input", "inputs", "prompt", "messages", "content", "contents", "request", "request_body"}
)

_JSON_OPENING = re.compile(r"""\{\s*["}]|\[\s*[{"]""")
_TITLE = re.compile(r"<title>(.*?)</title>", re.I | re.S)
_LINE_END = re.compile(r"\r\n|\r|\n")


def leaves(body: object) -> list[Leaf]:
    """Every text and number of an error's body, with the key it stands under in small letters."""
    if isinstance(body, bytes | bytearray):
        body = body.decode("utf-8", "replace")
    return list(islice(_leaves("", body, 0), LEAVES_MAX))


def _leaves(key: str, value: object, depth: int) -> Iterator[Leaf]:
    if depth > DEPTH_MAX or key in _QUOTED_KEYS:
        return
    if isinstance(value, str):
        yield from _text_leaves(key, value[:TEXT_CHARS_MAX], depth)
    elif isinstance(value, int):
        yield key, value
    elif isinstance(value, Mapping):
        for name, part in cast(Mapping[Any, object], value).items():
            yield from _leaves(str(name).casefold(), part, depth + 1)
    elif isinstance(value, list):
        for part in cast(list[object], value):
            yield from _leaves(key, part, depth + 1)


def _text_leaves(key: str, text: str, depth: int) -> Iterator[Leaf]:
    """A text, or what gateways put into one: the JSON of the server behind them."""
    start, inner = _first_json(text)
    if inner is None:
        yield key, text
        return
    if text[:start].strip():
        yield key, text[:start]
    yield from _leaves("", inner, depth + 1)


def _first_json(text: str) -> tuple[int, object]:
    opening = _JSON_OPENING.search(text)
    if opening is None:
        return 0, None
    try:
        return opening.start(), json.JSONDecoder().raw_decode(text, opening.start())[0]
    except (ValueError, RecursionError):
        return 0, None


def said(body: object) -> str:
    """The sentences of an error's body in one short line."""
    sentences: dict[str, None] = {}
    for key, value in leaves(body):
        if isinstance(value, str) and key in _SAID_KEYS:
            title = _TITLE.search(value)
            line = " ".join((title[1] if title else value).split())
            if line and not line.startswith("<"):
                sentences[line] = None
    text = ": ".join(islice(sentences, 3))
    return text if len(text) <= SAID_CHARS_MAX else text[:SAID_CHARS_MAX] + "…"


def first_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer, whatever stands before or behind it; None if there is none."""
    text = raw.decode("utf-8", "replace")
    _, value = _first_json(text)
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def is_stream(raw: bytes) -> bool:
    """Whether an answer is an event stream, asked for or not."""
    opening = raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:6]
    return opening.startswith((b"data:", b"event:", b":", b"id:"))


def events(raw: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of an event stream; pings, comments and half an event are passed over."""
    data: list[str] = []
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for line in (*_LINE_END.split(text), ""):
        if line.startswith("data:"):
            data.append(line[len("data:") :])
        elif not line and data:
            event = _object("\n".join(data))
            data.clear()
            if event:
                yield event


def _object(text: str) -> dict[str, Any]:
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def as_text(content: object) -> str:
    """A content that is a text, or a list of parts of which some are."""
    if isinstance(content, str):
        return content
    parts = (
        part if isinstance(part, str) else as_object(part).get("text") for part in as_list(content)
    )
    return "".join(part for part in parts if isinstance(part, str))


def as_count(value: object) -> int:
    """A number of tokens; 0 for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(0, int(value))
