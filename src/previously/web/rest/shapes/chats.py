"""Chats."""

from __future__ import annotations

from pydantic import ConfigDict, Field, JsonValue

from previously.service import NAME_CHARS_MAX
from previously.web.rest.shapes.common import Asked, Id, Name, Told


class Chat(Told):
    """A chat as a list shows it."""

    id: Id
    name: str = Field(description="Its name in addresses: /c/NAME/v1.")
    title: str
    preset: str = Field(examples=["volumes"])
    lane: str = Field(examples=["volumes"])
    messages: int
    summaries_written: int = Field(description="Every summary ever written, revisions too.")
    recording: bool = Field(description="Off: proxied turns pass through and leave no mark.")
    recalculating: bool
    branch_of: Id | None
    character: str | None = Field(description="Whose settings hold where it has none of its own.")
    revision: int = Field(description="Grows with every change; the id of live events.")
    created_at_ms: int
    active_at_ms: int = Field(description="When its newest message was recorded.")
    deleted_at_ms: int | None
    base_path: str = Field(examples=["/c/harbour/v1"])


class Passed(Told):
    """Requests that went on as they came since the newest turn, and of which nothing is stored."""

    requests: int
    reason: str = Field(description="Why the last of them was not understood.")
    at_ms: int


class ChatFull(Chat):
    """One chat, with what takes a look at all of it."""

    tokens: int = Field(description="Of all its messages together.")
    summaries: int = Field(description="That are valid now.")
    proposals: int = Field(description="New texts that wait to be accepted or rejected.")
    uncovered: int = Field(description="Messages that no summary stands for.")
    working: bool = Field(description="Somebody is writing about it at this moment.")
    due: bool = Field(description="Something has changed since the background last looked.")
    wishes: list[str] = Field(examples=[["backfill"]])
    passed: Passed | None = Field(description="Of its client, without effect; none: nothing.")


class ChatPage(Told):
    items: list[Chat]
    next: str | None = Field(description="The cursor of the next page.")


class NewChat(Asked):
    name: Name
    preset: str | None = Field(default=None, max_length=80, examples=["volumes"])
    character: Name | None = None
    settings: dict[str, JsonValue] | None = None
    continue_from: Id | None = Field(
        default=None,
        description="Begin with the memory of this chat, and its preset and settings; no messages.",
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "harbour"}]})


class ChatChange(Asked):
    title: Name | None = None
    preset: str | None = Field(default=None, max_length=80)
    recording: bool | None = None
    character: str | None = Field(
        default=None, max_length=NAME_CHARS_MAX, description="Empty: nobody's."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "At the harbour"}]})


class Branch(Asked):
    name: Name
    at: Id | None = Field(default=None, description="The last message to copy; none: all.")
