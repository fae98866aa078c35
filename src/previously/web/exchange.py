"""One request for a turn, as it came and as it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request

from previously.web import marks
from previously.web.outgoing import Outgoing, Raw
from previously.web.routing import Target


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and where it goes."""

    request: Request
    raw: bytes
    fields: Raw  # the body, without our own object
    ours: Mapping[str, Any] | None  # our own object; None: there is none
    target: Target
    name: str | None = None  # of the chat

    @property
    def messages(self) -> list[Any] | None:
        found = self.fields.get("messages")
        return cast(list[Any], found) if isinstance(found, list) else None

    @property
    def streams(self) -> bool:
        return self.fields.get("stream") is True

    def body(self, outgoing: Outgoing) -> bytes:
        """What is sent: the very bytes that came, if nothing in them has to change."""
        fields = dict(self.fields)
        messages = self._marked(outgoing)
        if messages is not None:
            fields["messages"] = messages
        if self.target.model and fields.get("model") != self.target.model:
            fields["model"] = self.target.model
        elif messages is None and self.ours is None:
            return self.raw
        return _encoded(fields)

    def _marked(self, outgoing: Outgoing) -> list[Raw] | None:
        """The messages with cache marks, where the upstream's profile asks for them."""
        profile = self.target.profile
        if profile is None or not profile.cache_marks or outgoing.prompt is None:
            return outgoing.messages
        if marks.has_marks(self.raw):
            return outgoing.messages
        blocks = outgoing.prompt.trace.blocks
        at = marks.places(len(outgoing.head), blocks)
        return marks.marked(outgoing.rendered(blocks), at, profile.cache_marks)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be sent
        return json.dumps(body, separators=(",", ":")).encode()
