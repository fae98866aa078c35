"""Chats: made, found, set up, copied, put away."""

from __future__ import annotations

from collections.abc import Sequence

from previously.model import Carried, Chat, ChatRef, NewCarried
from previously.store import (
    Branching,
    ChatCard,
    ChatFacts,
    answers,
    branches,
    carried,
    catalog,
    chats,
    imports,
)
from previously.store.sql.search import Search

NO_END = 1 << 62
BUILDING_MS_MAX = 3_600_000  # another process may still be at work on a copy younger than that


class Chats(Search):
    """Every chat of the house."""

    async def ensure_chat(self, owner: str, name: str, preset: str, lane: str) -> Chat:
        return await self._db.write(chats.ensure, owner, name, preset, lane, self._clock_ms())

    async def create_chat(self, owner: str, name: str, preset: str, lane: str) -> ChatRef:
        now_ms = self._clock_ms()
        made = await self._db.write(catalog.create, owner, name, preset, lane, now_ms)
        return ChatRef(made, owner, name)

    async def find_chat(self, owner: str, name: str) -> Chat:
        return await self._db.read(chats.find, owner, name)

    async def find_chat_by_id(self, owner: str, chat_id: int) -> ChatRef:
        return await self._db.read(catalog.find, owner, chat_id)

    async def chats(self, owner: str, limit: int) -> list[Chat]:
        return await self._db.read(chats.listing, owner, limit)

    async def refs(self, chat_ids: Sequence[int]) -> list[ChatRef]:
        return await self._db.read(chats.refs, chat_ids)

    async def chat_cards(
        self,
        owner: str,
        limit: int,
        before: tuple[int, int] | None = None,
        *,
        text: str = "",
        deleted: bool = False,
    ) -> list[ChatCard]:
        """Chats by their newest message, those that were put away apart."""
        return await self._db.read(
            catalog.listing, owner, limit, before, text=text, deleted=deleted
        )

    async def chat_card(self, ref: ChatRef) -> ChatCard:
        return await self._db.read(catalog.card, ref)

    async def chat_facts(self, ref: ChatRef) -> ChatFacts:
        return await self._db.read(catalog.facts, ref)

    async def set_title(self, ref: ChatRef, title: str) -> None:
        await self._change(ref, catalog.set_title, title)

    async def set_lane(self, ref: ChatRef, preset: str, lane: str) -> Chat:
        return await self._change(ref, chats.set_lane, preset, lane)

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None:
        await self._change(ref, catalog.set_recording, on=on)

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None:
        await self._change(ref, chats.set_recalculating, on=on)

    async def put_away(self, ref: ChatRef) -> None:
        await self._change(ref, catalog.put_away, self._clock_ms())

    async def bring_back(self, owner: str, chat_id: int) -> ChatRef:
        return await self._db.write(catalog.bring_back, owner, chat_id)

    async def purge(self, owner: str, chat_id: int) -> None:
        """Remove a chat that was put away, and all that is known of it, in small batches."""
        ref = await self._db.read(catalog.find, owner, chat_id, deleted=True)
        await self._change(ref, catalog.start_purge, self._clock_ms())
        await self.forget_terms(ref)
        while await self._db.write(catalog.purge_some, ref):
            pass
        await self._db.write(catalog.finish_purge, ref)
        await self._db.write(answers.forget)

    async def start_branch(self, ref: ChatRef, name: str, at_id: int | None) -> Branching:
        return await self._db.write(branches.start, ref, name, at_id, self._clock_ms())

    async def copy_part(self, made: Branching, part: str, level: int) -> bool:
        return await self._db.write(branches.copy, made, part, level)

    async def finish_branch(self, made: Branching) -> Chat:
        return await self._db.write(branches.finish, made, self._clock_ms())

    async def continue_chat(
        self, ref: ChatRef, name: str, handed_on: Sequence[NewCarried]
    ) -> ChatRef:
        """A new chat like this one, with what it is handed and no messages."""
        made = await self._db.write(carried.start, ref, name, handed_on, self._clock_ms())
        return ChatRef(made, ref.owner, name)

    async def carried(self, ref: ChatRef) -> tuple[Carried, ...]:
        return await self._db.read(carried.of_chat, ref)

    async def remove_carried(self, ref: ChatRef, carried_id: int) -> None:
        await self._change(ref, carried.remove, carried_id)

    async def start_import(self, owner: str, name: str, preset: str, lane: str) -> ChatRef:
        return await self._db.write(imports.start, owner, name, preset, lane, self._clock_ms())

    async def finish_import(self, ref: ChatRef, name: str) -> Chat:
        return await self._db.write(imports.finish, ref, name)

    async def remove_unfinished(self, ref: ChatRef) -> int:
        return await self._db.write(branches.remove_unfinished, ref)

    async def remove_abandoned(self) -> int:
        """Remove copies that nobody can be making any more."""
        before_ms = NO_END if self._db.exclusive else self._clock_ms() - BUILDING_MS_MAX
        return await self._db.write(branches.remove_abandoned, before_ms)

    async def unfinished(self) -> int:
        """How many chats are being built, or were when a process died."""
        return await self._db.read(branches.unfinished)
