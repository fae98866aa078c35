"""A streamed reply, listened to while it passes: its bytes go on unchanged, its words add up.

What tells the client that the reply is whole, its finish reason or the closing `[DONE]`, is held
back until whoever listens lets it go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from previously.errors import BadInput
from previously.model import NewMessage
from previously.text.wire import as_list, as_object, parse
from previously.web.dialect import Hearing
from previously.web.outgoing import Turn

LINE_BYTES_MAX = 16 * 1024 * 1024
CHOICES_MAX = 128  # replies to one request that are kept, as many as OpenAI gives

_Slot = dict[str, Any]


class Tap:
    """Feed it chunks as they come; it returns what may go on to the client now: whole events."""

    def __init__(self, words: Hearing, *, holds: bool = True) -> None:
        self.ripe = False  # the reply is whole; the event that says so is held back
        self.words = words
        self._line = b""  # not yet ended
        self._event: list[bytes] = []  # lines of the event that is not yet ended
        self._data: list[bytes] = []  # what those lines say
        self._held = b""  # the event that ends the reply
        self._after = b""  # what came behind it
        self._let_go = not holds

    def feed(self, chunk: bytes) -> bytes:
        """The whole events so far, up to the one that ends the reply."""
        if self.ripe and not self._let_go:
            self._after += chunk
            return b""
        lines = (self._line + chunk).splitlines(keepends=True)
        self._line = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        passed: list[bytes] = []
        for index, line in enumerate(lines):
            self._event.append(line)
            if not self._ends_event(line):
                continue
            if self.ripe and not self._let_go:
                self._held = self._told()
                self._after = b"".join((*lines[index + 1 :], self._line))
                self._event, self._line = [], b""
                return b"".join(passed)
            passed.append(self._told())
            self._event = []
        if len(self._line) + sum(map(len, self._event)) > LINE_BYTES_MAX:
            passed += (*self._event, self._line)  # no longer worth understanding, but passing on
            self._event, self._data, self._line = [], [], b""
        return b"".join(passed)

    def end(self) -> tuple[NewMessage, ...]:
        """The stream is over, wherever it broke off: what was said."""
        if self._line:
            self._ends_event(self._line)
        self._end_of_event()
        return self.words.replies()

    def rest(self) -> bytes:
        """What was held back, or what the stream broke off with; from now on all passes."""
        self._let_go = True
        if self._held:
            held, after = self._held, self._after
            self._held = self._after = b""
            return held + self.feed(after)
        left = b"".join((*self._event, self._line))
        self._event, self._line = [], b""
        return left

    def _told(self) -> bytes:
        return self.words.retold(b"".join(self._event))

    def _ends_event(self, line: bytes) -> bool:
        text = line.rstrip(b"\r\n")
        if not text:
            self._end_of_event()
            return True
        if text.startswith(b"data:"):
            data = text[5:].strip()
            if data == b"[DONE]":
                self._end_of_event()
                self.ripe = True
                return True
            self._data.append(data)
        return False

    def _end_of_event(self) -> None:
        if self._data:
            self.words.hear(b"\n".join(self._data))
            self._data = []
            self.ripe = self.ripe or self.words.whole


class Words:
    """The choices of a reply, put together from their deltas, which come in any order."""

    def __init__(self, count: int = 1) -> None:
        self.whole = False  # every choice that was asked for has ended
        self._count = count
        self._choices: dict[int, _Choice] = {}

    def hear(self, data: bytes) -> None:
        """One event. What cannot be understood is passed over, as a client would."""
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return
        for choice in map(as_object, as_list(as_object(event).get("choices"))):
            index = choice.get("index", 0)
            if isinstance(index, int) and 0 <= index < self._count:
                self._choices.setdefault(index, _Choice()).take(choice)
                if choice.get("finish_reason"):
                    self.whole = sum(c.ended for c in self._choices.values()) == self._count

    def retold(self, event: bytes) -> bytes:
        """The event as it came."""
        return event

    def signed(self, turn: Turn) -> Turn:
        """The turn as it is."""
        return turn

    def read(self, body: bytes) -> tuple[bytes, tuple[NewMessage, ...]]:
        """A reply in one piece, as it came."""
        return body, replies_in(body)

    def replies(self) -> tuple[NewMessage, ...]:
        """What was said so far, the first choice first; those that say nothing are left out."""
        said = (choice.reply() for _, choice in sorted(self._choices.items()))
        return tuple(one for one in said if one is not None)


class _Choice:
    """One of them."""

    def __init__(self) -> None:
        self.ended = False
        self._text: list[str] = []
        self._calls: dict[int, _Slot] = {}

    def take(self, choice: Mapping[str, Any]) -> None:
        self.ended = self.ended or bool(choice.get("finish_reason"))
        delta = as_object(choice.get("delta"))
        self._text.append(_spoken(delta.get("content")))
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_object(call))

    def _add_call(self, call: Mapping[str, Any]) -> None:
        """Calls arrive in pieces under their index; some servers leave the index out."""
        index = call.get("index")
        if not isinstance(index, int):
            index = len(self._calls) if call.get("id") else max(0, len(self._calls) - 1)
        slot = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        slot["id"] = call.get("id") or slot["id"]
        function = as_object(call.get("function"))
        for field in ("name", "arguments"):
            piece = function.get(field)
            slot[field] += piece if isinstance(piece, str) else ""

    def reply(self) -> NewMessage | None:
        """What was said so far; None if that is nothing."""
        calls = [
            {"id": s["id"], "function": {"name": s["name"], "arguments": s["arguments"]}}
            for _, s in sorted(self._calls.items())
        ]
        return _reply({"content": "".join(self._text), "tool_calls": calls})


def replies_in(body: bytes) -> tuple[NewMessage, ...]:
    """The choices of a reply that came in one piece, as far as they are to be kept."""
    try:
        choices = [as_object(choice) for choice in as_list(as_object(json.loads(body))["choices"])]
    except (ValueError, KeyError, RecursionError):
        return ()
    known = [c for c in choices if isinstance(c.get("index", 0), int)][:CHOICES_MAX]
    known.sort(key=lambda c: c.get("index", 0))
    said = (_reply(as_object(c.get("message"))) for c in known)
    return tuple(one for one in said if one is not None)


def choices_asked(fields: Mapping[str, Any]) -> int:
    """How many replies a request asks for, to choose from."""
    count = fields.get("n")
    return min(count, CHOICES_MAX) if isinstance(count, int) and count > 1 else 1


def _reply(message: Mapping[str, Any]) -> NewMessage | None:
    """Final words only: reasoning and whatever else a server adds is no part of the chat."""
    text = _spoken(message.get("content"))
    try:
        said = parse(
            {"role": "assistant", "content": text, "tool_calls": message.get("tool_calls")}
        )
    except BadInput:
        return None
    return said if said.body.strip() or said.tool_calls else None


def _spoken(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = [as_object(part).get("text") for part in as_list(content)]
    return "".join(text for text in parts if isinstance(text, str))
