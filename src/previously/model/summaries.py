"""Records that stand for others: summaries, and what an earlier chat has handed on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

EXTRACTIVE = "extractive"  # the summariser that is no model
PINNED = "pinned"  # the kind of what a chat carries over word for word
REST = "rest"  # the kind of what had no summary yet when it was carried over


class SummaryStatus(StrEnum):
    """Where a summary stands in its own history of revisions."""

    READY = "ready"
    PROPOSED = "proposed"  # waits for the user, who had edited what it would replace
    SUPERSEDED = "superseded"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Summary:
    """An immutable record of a lane that stands for its sources."""

    id: int
    lane: str
    kind: str
    level: int
    ordinal: int
    text: str
    tokens: int
    hash: bytes
    first_pos: int
    last_pos: int
    message_count: int
    status: str = SummaryStatus.READY
    valid: bool = True
    covered_by: int | None = None
    edited_by_user: bool = False
    pinned: bool = False
    created_at_ms: int = 0
    provenance: str | None = None  # JSON: model, prompt, profile, sizes
    presence: int | None = None  # the set of those who were there, as its messages have it
    covers: tuple[int, ...] = ()  # keys of the messages it stands for, where they were asked for

    @property
    def is_extract(self) -> bool:
        """Whether it only quotes."""
        return json.loads(self.provenance or "{}").get("model") == EXTRACTIVE


@dataclass(frozen=True, slots=True)
class NewCarried:
    """What one chat hands on to another that continues it."""

    text: str
    tokens: int
    lane: str
    kind: str  # of the record that said so; `pinned` for a message, `rest` for what had none yet
    is_extract: bool
    present: frozenset[str] | None  # who was there; None: everybody
    from_chat: int
    from_title: str
    from_record: int | None  # the summary's or message's key in that chat, where there is one


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier chat has handed on: shown, never summarised, covering nothing."""

    id: int
    text: str
    tokens: int
    lane: str
    kind: str
    is_extract: bool
    presence: int | None
    from_chat: int
    from_title: str
    from_record: int | None
    created_at_ms: int = 0

    @property
    def stands(self) -> bool:
        """Whether it gives way to nothing but the budget itself, as a pinned message."""
        return self.kind == PINNED
