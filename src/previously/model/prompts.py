"""The next prompt and the account of how it came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from previously.model.folds import Fold, Item, Shown
from previously.model.messages import Message


@dataclass(frozen=True, slots=True)
class Recalled:
    """A message of long ago that the pending turn calls up, and why."""

    message: Message
    floor: int
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Recall:
    """All that a turn calls up, and what stands beside that, best first."""

    found: tuple[Recalled, ...] = ()


class Block(NamedTuple):  # one for every message of a prompt: the cheapest of what cannot change
    """One piece of a prompt with its source, place and size."""

    place: str  # carried | standing | cover | raw | tail | fragment | pending
    wire: Mapping[str, Any]
    tokens: int
    sources: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages that the prompt leaves out, and why: everything from one position up to another."""

    from_pos: int
    before_pos: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What went into a prompt, what did not, and why."""

    budget_tokens: int
    tokens: int
    fold: Fold
    blocks: tuple[Block, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...] = ()
    recalled: tuple[Recalled, ...] = ()  # what the fragments quote


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages ready to send, with their trace."""

    messages: list[dict[str, Any]]
    tokens: int
    trace: Trace


def wire_all(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """The blocks as plain messages that a caller may change."""
    return [dict(block.wire) for block in blocks]


def total_tokens(things: Sequence[Shown | Block]) -> int:
    """The sum of their sizes."""
    return sum([thing.tokens for thing in things])  # a list: asked several times in every turn
