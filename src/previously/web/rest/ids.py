"""Opaque ids: what kind of thing, in which chat, which one. Nobody but this module reads them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from previously.errors import (
    BadInput,
    ChatNotFound,
    MessageNotFound,
    ProfileNotFound,
    SummaryNotFound,
    TaskNotFound,
)
from previously.model import BIRTH_BITS, birth, key

# Keys of more digits than these are no keys of any database.
_CHAT = re.compile(r"c([1-9]\d{0,8})", re.ASCII)
_RECORD = re.compile(r"([msk])([1-9]\d{0,8})-([1-9]\d{0,8})", re.ASCII)
_TASK = re.compile(r"t([1-9]\d{0,8})-([0-9a-f]{32})", re.ASCII)


def chat_id(chat_key: int) -> str:
    """A chat."""
    return f"c{chat_key}"


def message_id(record_key: int) -> str:
    """A message."""
    return f"m{record_key >> BIRTH_BITS}-{birth(record_key)}"


def summary_id(record_key: int) -> str:
    """A summary."""
    return f"s{record_key >> BIRTH_BITS}-{birth(record_key)}"


def carried_id(record_key: int) -> str:
    """Something that an earlier chat has handed on."""
    return f"k{record_key >> BIRTH_BITS}-{birth(record_key)}"


def task_id(chat_key: int, task: str) -> str:
    """A task."""
    return f"t{chat_key}-{task}"


def profile_id(name: str) -> str:
    """A profile: its name, in letters that any address can hold."""
    return "p" + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def chat_key(text: str) -> int:
    """The key in a chat's id."""
    found = _CHAT.fullmatch(text)
    if found is None:
        raise ChatNotFound(f"{text!r} is no chat's id")
    return int(found[1])


def _record_key(text: str, letter: str) -> int | None:
    found = _RECORD.fullmatch(text)
    if found is None or found[1] != letter:
        return None
    return key(int(found[2]), int(found[3]))


def message_key(text: str) -> int:
    """The key in a message's id."""
    found = _record_key(text, "m")
    if found is None:
        raise MessageNotFound(f"{text!r} is no message's id")
    return found


def summary_key(text: str) -> int:
    """The key in a summary's id."""
    found = _record_key(text, "s")
    if found is None:
        raise SummaryNotFound(f"{text!r} is no summary's id")
    return found


def carried_key(text: str) -> int:
    """The key in the id of something that was carried over."""
    found = _record_key(text, "k")
    if found is None:
        raise SummaryNotFound(f"{text!r} is the id of nothing that was carried over")
    return found


def chat_of(record_key: int) -> int:
    """The chat that a message or summary belongs to."""
    return record_key >> BIRTH_BITS


def task_key(text: str) -> tuple[int, str]:
    """The chat and the task in a task's id."""
    found = _TASK.fullmatch(text)
    if found is None:
        raise TaskNotFound(f"{text!r} is no task's id")
    return int(found[1]), found[2]


def profile_name(text: str) -> str:
    """The name in a profile's id."""
    try:
        raw = text.removeprefix("p") + "=" * (-(len(text) - 1) % 4)
        name = base64.urlsafe_b64decode(raw.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        name = ""
    if not text.startswith("p") or not name or profile_id(name) != text:
        raise ProfileNotFound(f"{text!r} is no profile's id")
    return name


def cursor(*parts: int) -> str:
    """Where a list goes on."""
    raw = json.dumps(parts, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_cursor(text: str, count: int) -> tuple[int, ...]:
    """What `cursor` wrote down."""
    try:
        raw: Any = json.loads(base64.urlsafe_b64decode(text.encode("ascii") + b"=="))
        parts = tuple(raw)
    except (ValueError, TypeError, RecursionError):
        parts = ()
    whole = all(isinstance(p, int) and not isinstance(p, bool) and abs(p) < 1 << 63 for p in parts)
    if len(parts) != count or not whole:
        raise BadInput("this cursor is not one that a list has given out", field="cursor")
    return parts
