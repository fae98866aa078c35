"""The index: fed, asked, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from previously.model import ChatRef, Message


@dataclass(frozen=True, slots=True)
class TermStats:
    """What ranking needs to know about a chat: nothing of any other chat is in it."""

    messages: int = 0  # in the index
    tokens: int = 0  # of those messages together
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # how many hold each term
    indexed_to: tuple[int, int] = (0, 1)  # revision, and the birth number that comes next
    behind: bool = False  # something is not in the index yet


class Candidate(NamedTuple):
    """A message that may answer a query: as much of it as ranking needs."""

    id: int
    pos: int
    tokens: int
    created_at_ms: int
    presence: int | None
    body: str


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at the index gave: all that ranking needs."""

    stats: TermStats
    terms: tuple[str, ...]  # those of the query that were chosen
    candidates: tuple[Candidate, ...]


class Search(Protocol):
    """What can be found in a chat."""

    async def index_some(self, limit: int, *, ripe: bool = True) -> int: ...

    async def forget_terms(self, ref: ChatRef) -> None: ...

    async def term_stats(self, ref: ChatRef, terms: Sequence[str]) -> TermStats: ...

    async def term_candidates(
        self, ref: ChatRef, terms: Sequence[str], stats: TermStats, limit: int, before_pos: int
    ) -> tuple[Candidate, ...]: ...

    async def find_terms(
        self,
        ref: ChatRef,
        terms: Sequence[str],
        choose: Callable[[TermStats], tuple[str, ...]],
        limit: int,
        before_pos: int,
    ) -> Found: ...

    async def term_chats(
        self, owner: str, terms: Sequence[str], people: frozenset[str] | None
    ) -> list[ChatRef]: ...

    async def containing(self, ref: ChatRef, part: str, limit: int) -> tuple[Candidate, ...]: ...

    async def shown(self, ref: ChatRef, ids: Sequence[int]) -> dict[int, tuple[Message, int]]: ...

    async def presences(self, ref: ChatRef) -> dict[int, frozenset[str]]: ...
