"""What a fake upstream may be told to say, and what it does in the place of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """An upstream's refusal."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


class Trouble(StrEnum):
    """What an upstream does in the place of an answer."""

    HANG = "hang"  # says nothing until its client leaves
    RESET = "reset"  # breaks the connection half-way through its answer
    HALF = "half"  # ends half-way through its answer as if that were all
    GARBAGE = "garbage"  # says that all is well, and nothing that can be read


# A text, a whole assistant message as OpenAI has it (for a response also `output`, its items), a
# refusal, or worse.
Answer = str | Mapping[str, Any] | Failure | Trouble
GARBAGE = b"\x00\xff<html>It works!</html>{"


def refusal(status: int, kind: str, message: str, **headers: str) -> Failure:
    """A refusal that the clients of both providers can read; `retry_after="3"` is a header."""
    error = {"type": kind, "code": kind, "message": message, "param": None}
    body = json.dumps({"type": "error", "error": error}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status, body, {"content-type": "application/json", **named})


def count_messages(body: Mapping[str, Any]) -> str:
    """The answer of an upstream without a script."""
    asked = body.get("messages", body.get("input"))
    return f"I have read {1 if isinstance(asked, str) else len(asked or ())} messages."
