"""The server itself, and who may talk to it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from previously.web.rest.shapes.common import Asked, Id, Name, Told


class Preset(Told):
    name: str
    lane: str
    is_default: bool


class About(Told):
    """What a page needs to know before anything else."""

    version: str
    upstream: str | None
    token_needed: bool
    may_keep_keys: bool
    presets: list[Preset]
    formats_in: list[str]
    formats_out: list[str]


class Login(Asked):
    token: Annotated[str, Field(min_length=1, max_length=4_096)]


class LoggedIn(Told):
    scopes: list[str]


class Token(Told):
    id: Id
    name: str
    scopes: list[str]
    created_at_ms: int


class Tokens(Told):
    items: list[Token]


class NewToken(Asked):
    name: Name
    scopes: list[Literal["read", "write", "admin"]] = Field(min_length=1, max_length=3)

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "monitor", "scopes": ["read"]}]}
    )


class TokenMade(Token):
    token: str = Field(description="Shown this once.")
