"""What is asked for, who is at it, and what has become of it so far."""

from __future__ import annotations

from dataclasses import dataclass

from previously.model.chats import ChatRef
from previously.model.keys import START
from previously.model.messages import Message
from previously.model.summaries import Summary


@dataclass(frozen=True, slots=True)
class Intent:
    """Something that a user asked for and that state alone cannot imply."""

    id: int
    lane: str
    kind: str  # run: all that is closed, now; rebuild: write anew; backfill: all that piled up
    from_pos: int = START
    before_id: int = 0  # summaries born before this are the ones to write anew
    beyond_budget: bool = False  # whoever asked was told what it costs and wants it anyway


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A summary that is to be written anew from the same messages."""

    intent_id: int
    summary: Summary
    sources: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one chat for a while; a higher fence ends it."""

    ref: ChatRef
    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class WorkState:
    """How far the background work of one chat has come."""

    rev: int
    done_rev: int
    due_at_ms: int | None
    leased: bool


CANCELLED = "cancelled"  # the user's verdict on a task, which no run writes over


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a task so far."""

    task_id: str
    lane: str
    verdict: str
    error_class: str
    error_text: str
    tries: int
    not_before_ms: int
