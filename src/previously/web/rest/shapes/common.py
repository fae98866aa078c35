"""What every shape is made of, and the shape of an error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from previously.service import BODY_CHARS_MAX, NAME_CHARS_MAX

Id = Annotated[str, Field(min_length=1, max_length=120, examples=["c1"])]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, examples=["harbour"])]
Text = Annotated[str, Field(max_length=BODY_CHARS_MAX)]
Role = Literal["system", "user", "assistant", "tool"]


class Asked(BaseModel):
    """The body of a request: a field that nobody knows is a mistake, and said so."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Told(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldError(Told):
    """What is wrong with one field, in a form that a page can word in its own language."""

    field: str
    type: str = Field(examples=["greater_than_equal"])
    detail: str
    ctx: dict[str, JsonValue] = {}


class Problem(Told):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:previously:chat-not-found"])
    title: str = Field(examples=["There is no such chat"])
    status: int = Field(examples=[404])
    detail: str
    field: str | None = None
    next: str = Field(description="What to do about it.")
    errors: list[FieldError] = []
