"""What a search has found."""

from __future__ import annotations

from pydantic import Field

from previously.web.rest.shapes.common import Id, Told


class Snippet(Told):
    text: str
    marks: list[tuple[int, int]] = Field(description="Where the query stands in it, in characters.")


class Hit(Told):
    chat: Id
    chat_title: str
    message: Id
    floor: int
    role: str
    name: str | None
    score: float
    reason: str
    terms: list[str]
    snippet: Snippet


class Hits(Told):
    items: list[Hit]
