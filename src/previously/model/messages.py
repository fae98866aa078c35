"""What was said, and what a turn changes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from previously.errors import BadInput
from previously.model.keys import digest

BLANKS = " \t\r\n\f\v\u00a0\u3000"  # what may surround a text; the database trims the same set
ROLES = frozenset({"system", "user", "assistant", "tool"})
CLIENT = "client"  # hides a message by no longer sending it, and shows it by sending it again
HIDING = ("user", CLIENT)  # whose hiding keeps a message out of every prompt
# In `extra`, and never sent on:
IMPORTED = "previously:imported"  # what a file said of a message
ITEMS = "previously:items"  # the response items that it was, where the message cannot tell them
RESPONSE = "previously:response"  # the response that it belongs to


class Kind(StrEnum):
    """What a message is."""

    SPEECH = "speech"
    NOTICE = "notice"  # of the client's own making: kept, never shown to a model
    PLACEHOLDER = "summary_placeholder"


_SPEECH = Kind.SPEECH.value  # looked up once: this is asked of every message of every request


class State(StrEnum):
    """Whether the client has been seen to keep a message."""

    CANDIDATE = "candidate"
    CONFIRMED = "confirmed"


class Wire(dict[str, Any]):
    """A message as the OpenAI format has it; a plain copy of it is all that a client is shown."""

    origin: list[dict[str, Any]] | None = None  # the response items that it stands for


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What a client says; the store gives it identity and order."""

    role: str
    body: str
    name: str | None = None
    tool_calls: str | None = None  # JSON, as it will be serialised
    tool_call_id: str | None = None
    parts: str | None = None  # JSON of structured content; `body` is its text form
    present: frozenset[str] | None = None  # who was there; None: everybody
    state: State = State.CONFIRMED
    extra: str | None = None  # JSON object of the client's other fields

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            known = ", ".join(sorted(ROLES))
            raise BadInput(f"role {self.role!r} is none of {known}", field="role")

    @property
    def hash(self) -> bytes:
        """What a summary remembers of its source."""
        return digest(
            self.role, self.name, self.body, self.tool_calls, self.tool_call_id, self.parts
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One recorded final output."""

    id: int
    pos: int
    role: str
    body: str
    hash: bytes
    tokens: int
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    parts: str | None = None
    extra: str | None = None
    kind: str = Kind.SPEECH
    state: str = State.CONFIRMED
    hidden_by: str | None = None
    excluded: bool = False
    pinned: bool = False
    presence: int | None = None
    variant: int = 0
    version: int = 1
    created_at_ms: int = 0
    deleted_at_ms: int | None = None

    @property
    def speaker(self) -> str:
        """The name a reader would see in front of the text."""
        return self.name or self.role

    @property
    def shown(self) -> bool:
        """Whether a prompt may hold this message at all."""
        hidden = self.hidden_by is not None and self.hidden_by in HIDING
        return self.deleted_at_ms is None and not hidden and self.kind == _SPEECH

    @property
    def eligible(self) -> bool:
        """Whether a summary may and must stand for this message: one rule for every lane."""
        return (
            self.shown
            and not self.excluded
            and not self.pinned
            and self.state == State.CONFIRMED
            and bool(self.body.strip(BLANKS) or self.tool_calls)
        )

    def _extras(self) -> Wire:
        assert self.extra is not None
        out = Wire(json.loads(self.extra))
        out.pop(IMPORTED, None)
        out.pop(RESPONSE, None)
        out.origin = out.pop(ITEMS, None)
        out.setdefault("role", self.role)  # a client's own word for it comes back as it was
        return out

    def wire(self) -> Wire:
        """The message as the OpenAI format has it, with the client's own fields kept."""
        out = self._extras() if self.extra else Wire(role=self.role)
        if self.parts is not None:
            out["content"] = json.loads(self.parts)
        elif self.body or self.tool_calls is None:
            out["content"] = self.body
        if self.name is not None:
            out["name"] = self.name
        if self.tool_calls is not None:
            out["tool_calls"] = json.loads(self.tool_calls)
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        return out


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What a finished proxied turn changes: echoes confirmed, new messages, a reply."""

    after_id: int | None  # the newest message that the aligner saw…
    after_hash: bytes | None  # …and its text at that moment
    confirms: tuple[tuple[int, NewMessage | None], ...]  # the client's text, where it differs
    appends: tuple[NewMessage, ...]
    reply: NewMessage | None
    rerolls: int | None  # the message that the reply is another variant of
    others: tuple[NewMessage, ...] = ()  # replies that came beside it, for the client to choose
    grows: int | None = None  # the message that the reply goes on with
    edits: tuple[tuple[int, NewMessage], ...] = ()  # other words where they stood
    hides: tuple[int, ...] = ()  # missing between two that the client shows
    shows: tuple[int, ...] = ()  # hidden so before, and there again
    drops: tuple[int, ...] = ()  # gone from the end: the story goes on without them
    inserts: tuple[tuple[int, tuple[NewMessage, ...]], ...] = ()  # older ones, before which

    @property
    def mends(self) -> bool:
        """Whether it changes what is stored, beside adding to it."""
        return bool(self.edits or self.hides or self.shows or self.drops or self.inserts)

    def answered(self, replies: Sequence[NewMessage]) -> TurnRecord:
        """With its reply: the first; the others came beside it."""
        return replace(self, reply=replies[0], others=tuple(replies[1:]))

    @property
    def rewords(self) -> bool:
        """Whether a message that was in doubt gets the client's words for its own."""
        return any(text is not None for _, text in self.confirms)

    def beside(self, replies: Sequence[NewMessage]) -> TurnRecord:
        """With replies that may be chosen, while the one that is there stays."""
        return replace(self, reply=None, others=tuple(replies))

    def mending(self) -> TurnRecord:
        """Only that part."""
        return replace(
            self, confirms=(), appends=(), reply=None, others=(), rerolls=None, grows=None
        )
