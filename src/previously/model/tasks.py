"""Due work with its exact sources, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from itertools import pairwise
from typing import Any

from previously.model.asking import Usage
from previously.model.chats import ChatRef
from previously.model.keys import digest
from previously.model.messages import Message
from previously.model.snapshots import Uncovered
from previously.model.summaries import Summary


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What of a message a summarising model is given; false if it is given all."""

    start_tag: str = ""
    end_tag: str = ""
    rules: str = "[]"  # as the setting has them

    def __bool__(self) -> bool:
        return bool(self.start_tag or self.end_tag) or self.rules != "[]"


@dataclass(frozen=True, slots=True)
class Task:
    """Due work with its exact sources: messages, or summaries. It cannot be built with a gap."""

    chat: ChatRef
    lane: str
    kind: str
    sources: tuple[Message, ...]
    context: tuple[str, ...]
    tokens_max: int
    language: str
    uncovered: InitVar[Uncovered]
    replaces: int | None = None  # the summary it is written anew for
    children: tuple[Summary, ...] = ()  # what it reads instead of messages, oldest first
    template: str = ""  # the user's own words to ask with; empty: ours
    cleaning: Cleaning = Cleaning()
    id: str = field(init=False, default="")

    def __post_init__(self, uncovered: Uncovered) -> None:
        if bool(self.sources) == bool(self.children):
            raise ValueError("a task reads messages, or summaries")
        if len({thing.presence for thing in (*self.sources, *self.children)}) > 1:
            raise ValueError("a task reads what the same people were there for")
        if self.sources:
            self._check_sources(uncovered)
        else:
            self._check_children(uncovered)
        things = (*self.sources, *self.children)
        hashes = (part for thing in things for part in (str(thing.id), thing.hash))
        anew = "" if self.replaces is None else str(self.replaces)
        object.__setattr__(self, "id", digest(self.lane, self.kind, anew, *hashes).hex())

    def _check_sources(self, uncovered: Uncovered) -> None:
        if uncovered.between(self.sources[0], self.sources[-1]) != self.sources:
            raise ValueError("a task reads every uncovered message between its ends, in order")

    def _check_children(self, uncovered: Uncovered) -> None:
        if any(child.level > self.children[0].level for child in self.children):
            raise ValueError("a task reads no summary of a higher level than its first")
        if any(a.last_pos >= b.first_pos for a, b in pairwise(self.children)):
            raise ValueError("a task reads summaries in order")
        first, last = self.children[0].first_pos, self.children[-1].last_pos
        if any(first <= m.pos <= last for run in uncovered.runs for m in run):
            raise ValueError("a message between these summaries has none of its own")


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer that was accepted and waits for its commit."""

    task: Task
    text: str
    tokens: int
    provenance: Mapping[str, Any]
    usage: Usage
    stats: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how its run went
    spent: tuple[str, ...] = ()  # requests whose kept answers have served their purpose


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model's yes or no about a task; nothing is written but that it was said."""

    task: Task
    yes: bool
