"""Summaries, and what is asked for by hand."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from previously.web.rest.shapes.common import Asked, Id, Told


class Summary(Told):
    id: Id
    chat: Id
    lane: str
    kind: str = Field(examples=["mini", "volume", "era"])
    level: int
    ordinal: int
    text: str
    tokens: int
    first_floor: int
    last_floor: int
    messages: int
    status: Literal["ready", "proposed", "superseded", "deleted"]
    valid: bool
    edited_by_user: bool
    is_extract: bool
    parent: Id | None
    children: int = Field(description="Summaries that it is made of; a mini has none.")
    model: str | None
    flags: list[str] = Field(description="What is doubtful about it.")
    created_at_ms: int


class SummaryFull(Summary):
    source_messages: list[Id]
    source_summaries: list[Id]
    shown: bool = Field(description="It stands in the next prompt.")


class SummaryPage(Told):
    items: list[Summary]
    next: str | None


class SummaryChange(Asked):
    text: Annotated[str, Field(min_length=1, max_length=100_000)]

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "They met again."}]})


class Proposal(Asked):
    accept: bool


class Wish(Asked):
    """Work that is asked for by hand."""

    beyond_budget: bool = Field(
        default=False, description="Do it even if it costs more than the month has left."
    )


class Archive(Wish):
    pass


class Run(Wish):
    lane: str | None = Field(default=None, max_length=80)
    latest: bool = Field(default=False, description="Up to and including the newest reply.")


class Rebuild(Wish):
    lane: str | None = Field(default=None, max_length=80)
    from_message: Id | None = Field(default=None, alias="from")
    dry_run: bool = False

    model_config = ConfigDict(
        populate_by_name=True, json_schema_extra={"examples": [{"dry_run": True}]}
    )


class Rebuilding(Told):
    summaries: int = Field(description="That are to be written anew; yours are left alone.")
    begun: bool


class Backfill(Wish):
    dry_run: bool = True


class Estimate(Told):
    """What a backfill is expected to take."""

    model: str
    messages: int
    calls: int
    calls_max: int = Field(description="If the model cannot answer for several exchanges at once.")
    kinds: dict[str, int]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="None: nobody knows the price.")
    cost_max_usd: float | None = Field(description="With as many calls as there may be.")
    seconds: float
    measured: bool = Field(description="The time comes from this chat's own summaries.")
    budget_left_usd: float | None = Field(description="Of this month; None: no limit can hold.")
    begun: bool


class Begun(Told):
    """Something goes on in the background; events tell when it is done."""

    begun: bool
    revision: int
