"""What went upstream: sizes and ids, no texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """What went upstream for a chat's newest turn: sizes and ids, no texts."""

    chat_id: int
    tail_key: str  # finds the chat of a request that names none
    facts: str  # JSON
    sent_at_ms: int
    weight: Weight | None = None  # None: it is not drawn in any chart


@dataclass(frozen=True, slots=True)
class Passed:
    """Requests of a chat's client that went on as they came, since its newest turn."""

    requests: int
    reason: str  # why the last of them was not understood
    at_ms: int


@dataclass(frozen=True, slots=True)
class Doubted:
    """What was seen of a chat's client since its newest turn."""

    habit: Mapping[str, Any] | None  # None: nothing new
    passed: Passed | None = None  # beyond what is written down already; None: nothing


@dataclass(frozen=True, slots=True)
class Weight:
    """What one prompt has weighed, and of what pieces it was."""

    tokens: int
    client_tokens: int
    budget_tokens: int
    layers: Mapping[str, int]
    pieces: tuple[tuple[str, int], ...]  # in order: what tells it from others, and its tokens


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A prompt that was sent, as a chart shows it."""

    n: int
    tokens: int
    client_tokens: int
    chat_tokens: int  # what the whole chat weighed by then
    budget_tokens: int
    same_tokens: int  # the beginning that it had in common with the one before
    layers: Mapping[str, int]
    sent_at_ms: int
