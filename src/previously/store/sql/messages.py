"""Messages: recorded, changed, kept in saves, read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from previously.model import ChatRef, Message, NewMessage, TurnRecord
from previously.store import FloorPage, Kept, Variant, changes, floors, messages, saves, views
from previously.store.sql.connected import Connected


class Messages(Connected):
    """What was said in a chat."""

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]:
        return await self._db.write(messages.append, ref, new, self._clock_ms())

    async def insert(
        self, ref: ChatRef, new: Sequence[NewMessage], before_id: int
    ) -> tuple[Message, ...]:
        return await self._change(ref, messages.insert, new, before_id, self._clock_ms())

    async def record_turn(self, ref: ChatRef, turn: TurnRecord) -> None:
        recorded = await self._change(ref, messages.record_turn, turn, self._clock_ms())
        if recorded is not None:
            kept = {message_id for message_id, _ in turn.confirms}
            self._recent.recorded(ref, recorded.rev, kept, recorded.made)

    async def change(
        self, ref: ChatRef, what: str, new: Mapping[int, Mapping[str, Any]]
    ) -> tuple[Message, ...]:
        return await self._change(ref, changes.change, what, new, self._clock_ms())

    async def edit(self, ref: ChatRef, message_id: int, text: str, version: int | None) -> Message:
        return await self._change(ref, changes.edit, message_id, text, version, self._clock_ms())

    async def alter(
        self,
        ref: ChatRef,
        what: str,
        message_id: int,
        values: Mapping[str, Any],
        version: int | None,
    ) -> Message:
        now_ms = self._clock_ms()
        return await self._change(ref, changes.alter, what, message_id, values, version, now_ms)

    async def move(self, ref: ChatRef, message_id: int, before_id: int | None) -> Message:
        return await self._change(ref, changes.move, message_id, before_id, self._clock_ms())

    async def swipe(self, ref: ChatRef, message_id: int, choice: int | str) -> Message:
        return await self._change(ref, changes.swipe, message_id, choice, self._clock_ms())

    async def undo(self, ref: ChatRef) -> tuple[Message, ...]:
        return await self._change(ref, changes.undo, self._clock_ms())

    async def save(self, ref: ChatRef) -> tuple[Kept, ...]:
        return await self._db.read(saves.take, ref)

    async def restore(self, ref: ChatRef, kept: Sequence[Kept]) -> tuple[Message, ...]:
        return await self._change(ref, saves.restore, kept, self._clock_ms())

    async def rollback(self, ref: ChatRef, to_id: int) -> tuple[Message, ...]:
        return await self._change(ref, saves.rollback, to_id, self._clock_ms())

    async def page(self, ref: ChatRef, after_pos: int, limit: int) -> tuple[Message, ...]:
        return await self._db.read(messages.page, ref, after_pos, limit)

    async def newest(self, ref: ChatRef, limit: int) -> tuple[Message, ...]:
        return await self._db.read(messages.newest, ref, limit)

    async def message(self, ref: ChatRef, message_id: int) -> Message:
        return await self._db.read(views.one, ref, message_id)

    async def variants(self, ref: ChatRef, message_id: int) -> tuple[Variant, ...]:
        return await self._db.read(views.variants, ref, message_id)

    async def messages_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Message, ...]:
        """Those of the messages that are stored, deleted or not."""
        return await self._db.read(views.messages, ref, wanted)

    async def floor_page(self, ref: ChatRef, first: int | None, limit: int) -> FloorPage:
        return await self._db.read(floors.page, ref, first, limit)

    async def floors(self, ref: ChatRef, positions: Sequence[int]) -> dict[int, int]:
        """For each position how many messages stand before it."""
        return await self._db.read(floors.at, ref, positions)
