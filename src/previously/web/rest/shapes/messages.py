"""Messages, and how the next prompt has them."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from previously.web.rest.shapes.common import Asked, Id, Role, Text, Told

MARKED_MAX = 1_000  # messages that are changed in one step


class Touched(Told):
    """How many messages a step has changed."""

    messages: int
    revision: int


How = Literal["verbatim", "standing", "summary", "hidden", "dropped"]


class Place(Told):
    """How the next prompt represents a message."""

    how: How
    summary: Id | None = Field(default=None, description="The summary that stands for it.")
    by: str | None = Field(default=None, description="Who hides it.")
    reason: str = Field(default="", description="Why it is left out.")


class Message(Told):
    id: Id
    floor: int
    role: str
    name: str | None
    text: str
    kind: str
    state: str = Field(description="candidate: the client has not been seen to keep it yet.")
    tokens: int
    hidden_by: str | None
    excluded: bool
    pinned: bool
    variant: int
    variants: int
    version: int
    created_at_ms: int
    tool_calls: list[JsonValue] | None
    tool_call_id: str | None
    has_parts: bool = Field(description="Its content is structured; the text is what is shown.")
    place: Place


class Variant(Told):
    index: int
    text: str
    tokens: int
    created_at_ms: int


class MessageFull(Message):
    all_variants: list[Variant]
    covers: list[Id] = Field(description="Summaries that stand for it, smallest first.")


class MessagePage(Told):
    items: list[Message]
    total: int
    first_floor: int
    older: int | None = Field(description="`before_floor` of the page before; none: the start.")
    newer: int | None = Field(description="`from_floor` of the page after; none: the end.")


class NewMessage(Asked):
    role: Role
    text: Text
    name: str | None = Field(default=None, max_length=200)
    before: Id | None = Field(default=None, description="Put it in front of this message.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"role": "user", "text": "Meet me at the harbour."}]}
    )


class MessageChange(Asked):
    text: Text | None = None
    hidden: bool | None = None
    excluded: bool | None = None
    pinned: bool | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "At the old harbour."}]})


class Marks(Asked):
    """The same change for several messages, in one step that one undo takes back."""

    ids: list[Id] = Field(min_length=1, max_length=MARKED_MAX)
    hidden: bool | None = None
    excluded: bool | None = None
    pinned: bool | None = None
    deleted: Literal[True] | None = None


class Swipe(Asked):
    """Another variant: one of those it has, or a new text."""

    variant: int | None = Field(default=None, ge=0, le=1_000_000)
    text: Text | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"variant": 1}]})


class Move(Asked):
    before: Id | None = Field(description="None: to the end.")
