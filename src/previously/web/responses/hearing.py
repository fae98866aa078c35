"""An answer in items, listened to on its way; the client knows it by an id of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from previously.errors import BadInput
from previously.model import RESPONSE, NewMessage
from previously.text.clean import clean
from previously.text.items import answer_of
from previously.text.wire import as_list, as_object, parse
from previously.web.exchange import encoded
from previously.web.outgoing import Turn

Raw = dict[str, Any]

ENDED = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXT_DELTAS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}


class Listener:
    """The items of an answer, put together as they come."""

    def __init__(self, link: Mapping[str, Any] | None, previous: object = None) -> None:
        self.whole = False
        self._link = link  # what is kept of the response with its reply; None: it is not ours
        self._previous = previous
        self._items: dict[int | str, Raw] = {}  # in the order in which they began
        self._done: set[int | str] = set()

    # Heard

    def hear(self, data: bytes) -> None:
        """One event. What cannot be understood is passed over, as a client would."""
        try:
            event = as_object(json.loads(data))
        except (ValueError, RecursionError):
            return
        kind, at = str(event.get("type")), _place(event)
        if kind in ENDED:
            self._end(as_object(event.get("response")))
        elif at is None:
            return
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[at] = dict(as_object(event.get("item")))
            if kind.endswith("done"):
                self._done.add(at)
        elif kind in _TEXT_DELTAS:
            self._say(at, _TEXT_DELTAS[kind], event.get("delta"))

    def _say(self, at: int | str, kind: str, delta: object) -> None:
        if at in self._done or not isinstance(delta, str):
            return
        item = self._items.setdefault(at, {"type": "message", "role": "assistant"})
        part = {"type": "output_text" if kind == "text" else kind, kind: ""}
        content = [as_object(one) for one in as_list(item.get("content"))] or [part]
        content[-1] = {**content[-1], kind: str(content[-1].get(kind, "")) + delta}
        item["content"] = content

    def _end(self, response: Mapping[str, Any]) -> None:
        self.whole = True
        output = [as_object(item) for item in as_list(response.get("output"))]
        if output:
            self._items = dict(enumerate(output))
            self._done = set(self._items)

    def replies(self) -> tuple[NewMessage, ...]:
        """What was said so far; a call that was not said to its end was not made."""
        items = [
            item
            for at, item in self._items.items()
            if at in self._done or item.get("type") == "message"
        ]
        return self._kept(items)

    def _kept(self, items: list[Raw]) -> tuple[NewMessage, ...]:
        try:
            said = parse(answer_of(items))
        except BadInput:
            return ()
        if not said.body.strip() and not said.tool_calls:
            return ()
        return (said if self._link is None else linked(said, self._link),)

    # Told

    def retold(self, event: bytes) -> bytes:
        """The event, under our own id where it names the response."""
        if self._link is None or b'"response"' not in event:
            return event
        lines = event.splitlines(keepends=True)
        data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
        try:
            told = as_object(json.loads(data))
        except (ValueError, RecursionError):
            return event
        response = told.get("response")
        if not isinstance(response, dict):
            return event
        told["response"] = self._ours(as_object(told["response"]))
        others = b"".join(line for line in lines if not line.startswith(b"data:")).rstrip(b"\r\n")
        head = others + b"\n" if others else b""
        return head + b"data: " + encoded(told) + b"\n\n"

    def signed(self, turn: Turn) -> Turn:
        """The turn with all that is new in it under the response that it leads to."""
        if self._link is None:
            return turn
        link = {name: self._link[name] for name in ("id", "after")}
        history = tuple(linked(m, link) for m in turn.history) if turn.managed else turn.history
        appends = tuple(linked(m, link) for m in turn.record.appends)
        return replace(turn, history=history, record=replace(turn.record, appends=appends))

    def read(self, body: bytes) -> tuple[bytes, tuple[NewMessage, ...]]:
        """An answer in one piece."""
        try:
            response = as_object(json.loads(body))
        except (ValueError, RecursionError):
            return body, ()
        replies = self._kept([as_object(item) for item in as_list(response.get("output"))])
        if self._link is None or not replies:
            return body, replies
        return encoded(self._ours(response)), replies

    def _ours(self, response: Raw) -> Raw:
        assert self._link is not None
        return {**response, "id": self._link["id"], "previous_response_id": self._previous}


def _place(event: Mapping[str, Any]) -> int | str | None:
    """Which item an event is about; some servers only name it."""
    named = event.get("item_id", as_object(event.get("item")).get("id"))
    found = event.get("output_index", named)
    return found if isinstance(found, int | str) else None


def linked(said: NewMessage, link: Mapping[str, Any]) -> NewMessage:
    """A message with the response that it belongs to."""
    extra: Raw = {**(json.loads(said.extra) if said.extra else {}), RESPONSE: dict(link)}
    return replace(said, extra=clean(json.dumps(extra, ensure_ascii=False)))
