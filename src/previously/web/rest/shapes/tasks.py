"""Due work, and how far the background has come."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from previously.web.rest.shapes.common import Id, Told

TaskStateName = Literal["due", "running", "waiting", "failed", "cancelled", "held"]


class Task(Told):
    id: Id
    chat: Id
    chat_title: str
    kind: str
    state: TaskStateName
    reason: str = Field(description="Why it waits or failed, in words.")
    messages: list[Id]
    summaries: list[Id]
    first_floor: int | None
    last_floor: int | None
    tries: int
    error: str = Field(description="The class of the last error.")
    next_try_ms: int | None


class Work(Told):
    """How far the background has come with one chat."""

    chat: Id
    chat_title: str
    uncovered: int
    summaries: int
    working: bool
    due: bool
    next_look_ms: int | None
    wishes: list[str]


class Tasks(Told):
    items: list[Task]
    work: list[Work]
    more: bool = Field(description="There are more than are listed.")
