"""Chats that come in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from previously.web.rest.shapes.chats import Chat
from previously.web.rest.shapes.common import Asked, Told


class Imported(Told):
    chat: Chat
    messages: int
    held: bool = Field(description="Summaries wait for a backfill, which costs.")


class Sample(Asked):
    language: Literal["en", "zh"] = "en"
