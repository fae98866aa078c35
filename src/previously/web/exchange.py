"""One request for a turn, as it came and as it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from previously.align import Hints
from previously.web import marks
from previously.web.dialect import Dialect
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
    dialect: Dialect
    messages: list[Any] | None  # what it says; None: nothing that could be read
    name: str | None = None  # of the chat
    after: str | None = None  # the response of that chat that it goes on from

    @property
    def streams(self) -> bool:
        return self.fields.get("stream") is True

    @property
    def hints(self) -> Hints:
        """What the client says of its own request."""
        kind = self.request.headers.get("x-previously-type", "")
        return Hints.read(self.ours or {}, kind, self.streams)

    def body(self, outgoing: Outgoing) -> bytes:
        """What is sent: the very bytes that came, if nothing in them has to change."""
        fields = self.dialect.sent(self.fields, self._marked(outgoing))
        if self.target.model and fields.get("model") != self.target.model:
            fields = {**fields, "model": self.target.model}
        elif fields is self.fields and self.ours is None:
            return self.raw
        return encoded(fields)

    def _marked(self, outgoing: Outgoing) -> list[Raw] | None:
        """The messages with cache marks, where the upstream's profile asks for them."""
        profile = self.target.profile
        if profile is None or not profile.cache_marks or outgoing.prompt is None:
            return outgoing.messages
        if not self.dialect.takes_marks:
            return outgoing.messages
        if marks.has_marks(self.raw):
            return outgoing.messages
        blocks = outgoing.prompt.trace.blocks
        at = outgoing.layout.moved(marks.places(len(outgoing.head), blocks), blocks)
        return marks.marked(outgoing.rendered(blocks), at, profile.cache_marks)


def encoded(body: Mapping[str, Any]) -> bytes:
    """JSON as it is sent."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be sent
        return json.dumps(body, separators=(",", ":")).encode()
