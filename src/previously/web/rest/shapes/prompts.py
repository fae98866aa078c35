"""The next prompt, and those that were sent."""

from __future__ import annotations

from pydantic import Field, JsonValue

from previously.web.rest.shapes.common import Id, Told


class Block(Told):
    place: str = Field(
        examples=["carried", "standing", "cover", "raw", "tail", "fragment", "pending"]
    )
    role: str
    name: str | None
    text: str
    tokens: int
    messages: list[Id]
    summaries: list[Id]
    first_floor: int | None
    last_floor: int | None


class Dropped(Told):
    """Messages that the prompt leaves out."""

    first_floor: int
    before_floor: int
    reason: str


class Recalled(Told):
    message: Id
    floor: int
    score: float
    reason: str
    text: str


class Fold(Told):
    version: int
    reason: str
    tail_floor: int | None = Field(description="Where the verbatim tail begins.")
    stale: bool


class SentBlock(Told):
    place: str
    tokens: int
    messages: list[Id]
    summaries: list[Id]
    text: str | None = Field(description="What its ids hold now; only if it was asked for.")


class LastSent(Told):
    """What went upstream for the newest turn: sizes and ids; texts only if they are asked for."""

    sent_at_ms: int
    model: str
    tokens: int
    client_tokens: int
    budget_tokens: int | None
    fold: int | None
    trace: str = Field(description="What was made of the request, in words.")
    own_messages: int = Field(description="Of the client's own, in front of the blocks.")
    blocks: list[SentBlock]


class SentTurn(Told):
    """What one prompt has weighed."""

    n: int
    sent_at_ms: int
    tokens: int
    layers: dict[str, int] = Field(description="Tokens by place.")
    budget_tokens: int
    client_tokens: int = Field(description="What the client had sent, and would have without us.")
    chat_tokens: int = Field(description="What the whole chat weighed by then.")
    same_tokens: int = Field(description="Its beginning that the prompt before had too.")


class SentTurns(Told):
    items: list[SentTurn] = Field(description="Oldest first.")
    older: int | None = Field(description="`before` for the ones before these; none: no more.")


class Prompt(Told):
    tokens: int
    budget_tokens: int
    chat_tokens: int = Field(description="What the whole chat would weigh.")
    layers: dict[str, int] = Field(description="Tokens by place.")
    blocks: list[Block]
    dropped: list[Dropped]
    notes: list[str]
    recalled: list[Recalled]
    fold: Fold
    sent_at_ms: int | None = Field(description="When the newest turn went upstream.")
    same_blocks: int = Field(description="How many blocks from the start were sent by then too.")
    messages: list[dict[str, JsonValue]] = Field(description="As OpenAI's format has them.")
