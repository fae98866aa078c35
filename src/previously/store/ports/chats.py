"""Chats: made, found, set up, copied, put away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from previously.model import Carried, Chat, ChatRef, NewCarried


@dataclass(frozen=True, slots=True)
class Branching:
    """A copy that is being made: from where, up to where, into which chat that nobody sees yet."""

    source: ChatRef
    target: ChatRef
    name: str  # the target's, once it is whole
    at_id: int | None  # the last message that is copied; None: there is none at all
    at_pos: int
    parts: tuple[tuple[str, int], ...]  # what to copy in which order, as `copy_part` takes it


@dataclass(frozen=True, slots=True)
class ChatCard:
    """A chat with what a list of chats shows of it."""

    chat: Chat
    messages: int
    summaries_written: int  # every revision counts
    active_at_ms: int  # of its newest message
    recording: bool
    recalculating: bool
    branch_of: int | None
    character: str | None  # whose settings lie between those of all chats and its own
    deleted_at_ms: int | None


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """What takes a look at all of a chat to say."""

    tokens: int  # of its messages together
    summaries: int  # that are valid
    proposals: int  # that wait for the user
    wishes: tuple[str, ...]  # kinds of open intents


class Chats(Protocol):
    """Every chat of the house."""

    async def ensure_chat(self, owner: str, name: str, preset: str, lane: str) -> Chat: ...

    async def create_chat(self, owner: str, name: str, preset: str, lane: str) -> ChatRef: ...

    async def find_chat(self, owner: str, name: str) -> Chat: ...

    async def find_chat_by_id(self, owner: str, chat_id: int) -> ChatRef: ...

    async def chats(self, owner: str, limit: int) -> list[Chat]: ...

    async def refs(self, chat_ids: Sequence[int]) -> list[ChatRef]: ...

    async def chat_cards(
        self,
        owner: str,
        limit: int,
        before: tuple[int, int] | None = None,
        *,
        text: str = "",
        deleted: bool = False,
    ) -> list[ChatCard]: ...

    async def chat_card(self, ref: ChatRef) -> ChatCard: ...

    async def chat_facts(self, ref: ChatRef) -> ChatFacts: ...

    async def set_title(self, ref: ChatRef, title: str) -> None: ...

    async def set_lane(self, ref: ChatRef, preset: str, lane: str) -> Chat: ...

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None: ...

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None: ...

    async def put_away(self, ref: ChatRef) -> None: ...

    async def bring_back(self, owner: str, chat_id: int) -> ChatRef: ...

    async def purge(self, owner: str, chat_id: int) -> None: ...

    async def start_branch(self, ref: ChatRef, name: str, at_id: int | None) -> Branching: ...

    async def copy_part(self, made: Branching, part: str, level: int) -> bool: ...

    async def finish_branch(self, made: Branching) -> Chat: ...

    async def continue_chat(
        self, ref: ChatRef, name: str, handed_on: Sequence[NewCarried]
    ) -> ChatRef: ...

    async def carried(self, ref: ChatRef) -> tuple[Carried, ...]: ...

    async def remove_carried(self, ref: ChatRef, carried_id: int) -> None: ...

    async def start_import(self, owner: str, name: str, preset: str, lane: str) -> ChatRef: ...

    async def finish_import(self, ref: ChatRef, name: str) -> Chat: ...

    async def remove_unfinished(self, ref: ChatRef) -> int: ...
