"""Messages: recorded, changed, kept in saves, read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from previously.model import ChatRef, Message, NewMessage, TurnRecord


@dataclass(frozen=True, slots=True)
class Kept:
    """One message as a save remembers it."""

    id: int
    hash: bytes
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])  # hidden_by, excluded, pinned


@dataclass(frozen=True, slots=True)
class FloorPage:
    """Messages from one floor on."""

    total: int  # in the chat
    first: int  # floor of the first one
    messages: tuple[Message, ...] = ()
    variants: Mapping[int, int] = field(default_factory=dict[int, int])  # where there are several


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the texts that a message has had."""

    index: int
    body: str
    tokens: int
    created_at_ms: int


class Messages(Protocol):
    """What was said in a chat."""

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]: ...

    async def insert(
        self, ref: ChatRef, new: Sequence[NewMessage], before_id: int
    ) -> tuple[Message, ...]: ...

    async def record_turn(self, ref: ChatRef, turn: TurnRecord) -> None: ...

    async def change(
        self, ref: ChatRef, what: str, new: Mapping[int, Mapping[str, Any]]
    ) -> tuple[Message, ...]: ...

    async def edit(
        self, ref: ChatRef, message_id: int, text: str, version: int | None
    ) -> Message: ...

    async def alter(
        self,
        ref: ChatRef,
        what: str,
        message_id: int,
        values: Mapping[str, Any],
        version: int | None,
    ) -> Message: ...

    async def move(self, ref: ChatRef, message_id: int, before_id: int | None) -> Message: ...

    async def swipe(self, ref: ChatRef, message_id: int, choice: int | str) -> Message: ...

    async def undo(self, ref: ChatRef) -> tuple[Message, ...]: ...

    async def save(self, ref: ChatRef) -> tuple[Kept, ...]: ...

    async def restore(self, ref: ChatRef, kept: Sequence[Kept]) -> tuple[Message, ...]: ...

    async def rollback(self, ref: ChatRef, to_id: int) -> tuple[Message, ...]: ...

    async def page(self, ref: ChatRef, after_pos: int, limit: int) -> tuple[Message, ...]: ...

    async def newest(self, ref: ChatRef, limit: int) -> tuple[Message, ...]: ...

    async def message(self, ref: ChatRef, message_id: int) -> Message: ...

    async def variants(self, ref: ChatRef, message_id: int) -> tuple[Variant, ...]: ...

    async def messages_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Message, ...]: ...

    async def floor_page(self, ref: ChatRef, first: int | None, limit: int) -> FloorPage: ...

    async def floors(self, ref: ChatRef, positions: Sequence[int]) -> dict[int, int]: ...
