"""Messages as clients send them: read once, in one form, and what they weigh.

An SDK that echoes a message may add nulls, an `index` or another order of keys; none of that may
make it look like another message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from previously.errors import BadInput
from previously.measure import message_tokens
from previously.model import ITEMS, Message, NewMessage
from previously.text.clean import clean

ATTACHMENT_TOKENS = 1_000  # providers charge an image or file by its size on screen, not its bytes
SEALED_CHARS_PER_TOKEN = 4  # of thoughts that only their provider can read
LABEL_CHARS_MAX = 80
PLAIN_KEPT = 4_096  # messages that were read lately…
PLAIN_CHARS_MAX = 4_096  # …and are no longer than this
COUNTED_KEPT = 256  # messages whose size was asked for lately

OWN_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_PLAIN_ROLES = tuple(role for role, known in _ROLES.items() if role == known)


def tokens_of(said: NewMessage) -> int:
    """Its size, counting what is serialised; an attachment counts a flat price."""
    count = _counted if len(said.body) <= PLAIN_CHARS_MAX and said.tool_calls is None else _count
    tokens = count(said.role, said.body, said.name, said.tool_calls)
    if said.extra is not None and ITEMS in said.extra:
        tokens += sum(map(_sealed_tokens, as_list(as_object(json.loads(said.extra)).get(ITEMS))))
    if said.parts is None:
        return tokens
    return tokens + ATTACHMENT_TOKENS * len(attachments(said.parts))


def as_stored(new: NewMessage, number: int, pos: int) -> Message:
    """A new message as it will be stored, under a key and at a place that are only lent to it."""
    return Message(
        id=number,
        pos=pos,
        role=new.role,
        body=new.body,
        hash=new.hash,
        tokens=tokens_of(new),
        name=new.name,
        tool_calls=new.tool_calls,
        tool_call_id=new.tool_call_id,
        parts=new.parts,
        extra=new.extra,
        state=new.state,
    )


def _count(role: str, body: str, name: str | None, tool_calls: str | None) -> int:
    return message_tokens(role, body, name=name, tool_calls=tool_calls)


# A new message is weighed for the prompt, for the client and for the store, one after the other.
_counted = lru_cache(maxsize=COUNTED_KEPT)(_count)


def _sealed_tokens(item: object) -> int:
    """What a response item weighs that is neither words nor a call: those are counted already."""
    fields = as_object(item)
    if "role" in fields or "call_id" in fields:
        return 0
    tokens = len(json.dumps(fields, ensure_ascii=False)) // SEALED_CHARS_PER_TOKEN
    return tokens if fields.get("type") == "reasoning" else min(tokens, ATTACHMENT_TOKENS)


def parse(raw: Mapping[str, Any]) -> NewMessage:
    """One message of an OpenAI request; `BadInput` if it is of a kind that cannot be kept."""
    given, content = raw.get("role"), raw.get("content")
    if len(raw) == 2 and isinstance(content, str) and given in _PLAIN_ROLES:
        # Nearly every message of nearly every request.
        kept = len(content) <= PLAIN_CHARS_MAX
        return _plain_message(given, content) if kept else NewMessage(given, clean(content))
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise BadInput(f"messages of the role {given!r} cannot be remembered", field="role")
    extra = {k: v for k, v in raw.items() if k not in OWN_FIELDS and v is not None}
    if given != role:
        extra["role"] = given
    return NewMessage(
        role=role,
        body=clean(text_of(content)),
        name=_text(raw, "name"),
        tool_calls=_tool_calls(raw.get("tool_calls")),
        tool_call_id=_text(raw, "tool_call_id"),
        parts=_json(cast(object, content)) if isinstance(content, list) else None,
        extra=_json(extra) if extra else None,
    )


@lru_cache(maxsize=PLAIN_KEPT)
def _plain_message(role: str, content: str) -> NewMessage:
    """A client sends the same messages again with every request: each is read once."""
    return NewMessage(role, clean(content))


def as_object(value: object) -> dict[str, Any]:
    """A JSON object, or an empty one in the place of anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A JSON list, or an empty one in the place of anything else."""
    return cast(list[Any], value) if isinstance(value, list) else []


def text_of(content: object) -> str:
    """What a reader sees of a message's content: its text, and a marker for all else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadInput("a message's content is a text or a list of parts", field="content")
    return "\n".join(map(_part_text, as_list(cast(object, content))))


def attachments(parts: str) -> list[dict[str, Any]]:
    """The parts of a structured content that are no text."""
    held = [as_object(part) for part in json.loads(parts)]
    return [part for part in held if part and _plain_text(part) is None]


def _text(raw: Mapping[str, Any], field: str) -> str | None:
    value = raw.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadInput(f"a message's {field} is a text", field=field)
    return clean(value)


def _json(value: object) -> str:
    return clean(json.dumps(value, ensure_ascii=False))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise BadInput("a part of a message is an object", field="content")
    fields = as_object(cast(object, part))
    text = _plain_text(fields)
    return _marker(fields) if text is None else text


def _plain_text(part: Mapping[str, Any]) -> str | None:
    for field in ("text", "refusal"):
        if isinstance(part.get(field), str):
            return part[field]
    return None


def _marker(part: Mapping[str, Any]) -> str:
    """A stand-in that names the attachment and never holds any of its data."""
    kind = str(part.get("type") or "attachment")
    held = part.get(kind)
    if kind == "image_url":
        return _labelled("image", _image_name(as_object(held).get("url", held)))
    if kind == "input_audio":
        return _labelled("audio", as_object(held).get("format"))
    if kind == "file":
        return _labelled("file", as_object(held).get("filename"))
    return _labelled(kind, None)


def _labelled(kind: str, name: object) -> str:
    label = name[-LABEL_CHARS_MAX:] if isinstance(name, str) else ""
    return f"[{kind}: {label}]" if label else f"[{kind}]"


def _image_name(url: object) -> str:
    if not isinstance(url, str):
        return ""
    if url.startswith("data:"):
        return url[5:LABEL_CHARS_MAX].partition(";")[0].partition(",")[0]
    try:
        path = urlsplit(url).path  # a query may hold a signature: it is no name
    except ValueError:
        return ""
    return unquote(path.rstrip("/").rpartition("/")[2])


def _tool_calls(raw: object) -> str | None:
    if not raw:
        return None
    if not isinstance(raw, list):
        raise BadInput("a message's tool_calls is a list", field="tool_calls")
    return _json([_tool_call(as_object(call)) for call in as_list(cast(object, raw))])


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(call.get("type") or "function")
    held: Any = call.get(kind)
    if kind == "function":
        function = as_object(held)
        if not function:
            raise BadInput("a tool call names its function", field="tool_calls")
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else _json(given or {})
        held = {"name": str(function.get("name") or ""), "arguments": arguments}
    return {"id": str(call.get("id") or ""), "type": kind, kind: held}


def told_calls(tool_calls: str, language: str = "en") -> str:
    """Tool calls as a reader would tell them: a name, and what it was given."""
    calls = (as_object(call.get("function")) for call in json.loads(tool_calls))
    return "\n".join(_told(call, language) for call in calls)


def _told(function: Mapping[str, Any], language: str) -> str:
    name = function.get("name") or ("a tool" if language == "en" else "一个工具")
    given = function.get("arguments")
    try:
        values = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        values = given
    if isinstance(values, dict):
        pairs = cast("dict[str, Any]", values).items()
        values = ", ".join(f"{k} = {_plain(v)}" for k, v in pairs)
    if language == "zh":
        return f"调用了 {name}：{values}" if values else f"调用了 {name}"
    return f"called {name} with {values}" if values else f"called {name}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
