"""Models that summarise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from previously.web.rest.shapes.common import Asked, Id, Told


class Price(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_usd: float = Field(ge=0, le=1_000_000)
    output_usd: float = Field(ge=0, le=1_000_000)
    cached_usd: float | None = Field(default=None, ge=0, le=1_000_000)


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    at_once: int | None = Field(default=None, ge=1, le=1_000_000)
    per_minute: int | None = Field(default=None, ge=1, le=1_000_000)


class Profile(Told):
    id: Id
    name: str
    source: str
    base_url: str
    model: str
    window_tokens: int | None
    output_tokens: int
    temperature: float | None
    timeout_s: float
    price: Price | None
    price_known: bool = Field(description="From here, or from the table of known models.")
    limits: Limits
    stream: bool
    cache_marks: str = Field(description="Whose marks the proxy sets in prompts; empty: none.")
    params: dict[str, JsonValue]
    has_key: bool = Field(description="Keys go in and never come out.")
    key_kept: Literal["here", "environment", "file"] | None
    used_by: list[str] = Field(description="Titles of chats that name it; `*`: all chats.")
    trouble: str | None = Field(description="Why another one is asked instead, until it is mended.")
    version: int


class Profiles(Told):
    items: list[Profile]


class ProfileFields(Asked):
    source: Literal["openai", "anthropic", "extractive"] = "openai"
    base_url: str = Field(default="", max_length=2_000)
    model: str = Field(default="", max_length=200)
    window_tokens: int | None = Field(default=None, ge=256, le=100_000_000)
    output_tokens: int = Field(default=1_024, ge=1, le=100_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    timeout_s: float = Field(default=120.0, gt=0, le=3_600)
    price: Price | None = None
    limits: Limits = Limits()
    stream: bool = False
    cache_marks: Literal["", "anthropic", "openai"] = ""
    params: dict[str, JsonValue] = Field(default={})
    api_key: str | None = Field(
        default=None,
        max_length=4_096,
        description="Written only. Missing or empty: as it is. To remove it, send null.",
    )


class NewProfile(ProfileFields):
    name: Annotated[str, Field(min_length=1, max_length=80, examples=["main"])]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "main",
                    "base_url": "http://127.0.0.1:11434/v1",
                    "model": "qwen3",
                    "window_tokens": 32768,
                }
            ]
        }
    )


class ProfileChange(ProfileFields):
    """Fields that are not sent stay as they are."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "qwen3:32b"}]})


class Finding(Told):
    ok: bool
    says: list[str]
    answer: str
