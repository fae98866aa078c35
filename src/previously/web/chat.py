"""The chat completions interface: its messages are the ones that the house speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from previously.web.outgoing import Raw, Turn
from previously.web.sse import Words, choices_asked


class ChatCompletions:
    """`/v1/chat/completions`."""

    path = "/chat/completions"
    takes_marks = True

    def messages(self, fields: Mapping[str, Any]) -> list[Any] | None:
        """The request's own list."""
        found = fields.get("messages")
        return cast(list[Any], found) if isinstance(found, list) else None

    def sent(self, fields: Raw, messages: list[Raw] | None) -> Raw:
        """The request with these in the place of its list."""
        return fields if messages is None else {**fields, "messages": messages}

    def starts(self, fields: Mapping[str, Any]) -> bool:
        """A side question looks the same: the chat starts once the client shows a reply."""
        return False

    def hearing(self, fields: Mapping[str, Any], turn: Turn | None) -> Words:
        """A listener for as many choices as are asked for."""
        return Words(choices_asked(fields))
