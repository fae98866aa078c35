"""The index: fed, asked, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from previously.model import ChatRef, Message
from previously.store import Candidate, Found, TermStats, index, lookup
from previously.store.sql.connected import Connected

INDEX_BATCH = 256  # messages that are taken out of the index in one transaction


class Search(Connected):
    """What can be found in a chat."""

    async def index_some(self, limit: int, *, ripe: bool = True) -> int:
        """Bring one chat's index up by a batch; how many messages that were, 0 if none is due.

        Texts are cut into terms while only reading: the writer is held for as short as can be.
        """
        chat_id = await self._db.read(index.due, self._clock_ms(), ripe=ripe)
        batch = None if chat_id is None else await self._db.read(index.look, chat_id, limit)
        if batch is None:
            return 0
        await self._db.write(index.feed, batch)
        return max(1, batch.size)

    async def forget_terms(self, ref: ChatRef) -> None:
        """Take a chat out of the index, before it is purged."""
        while await self._db.write(index.forget, ref.id, INDEX_BATCH):
            pass

    async def term_stats(self, ref: ChatRef, terms: Sequence[str]) -> TermStats:
        return await self._db.read(lookup.stats, ref, terms)

    async def term_candidates(
        self, ref: ChatRef, terms: Sequence[str], stats: TermStats, limit: int, before_pos: int
    ) -> tuple[Candidate, ...]:
        return await self._db.read(lookup.candidates, ref, terms, stats, limit, before_pos)

    async def find_terms(
        self,
        ref: ChatRef,
        terms: Sequence[str],
        choose: Callable[[TermStats], tuple[str, ...]],
        limit: int,
        before_pos: int,
    ) -> Found:
        """Candidates for those of the terms that `choose` takes, in one look."""
        return await self._db.read(lookup.find, ref, terms, choose, limit, before_pos)

    async def term_chats(
        self, owner: str, terms: Sequence[str], people: frozenset[str] | None
    ) -> list[ChatRef]:
        return await self._db.read(lookup.chats, owner, terms, people)

    async def containing(self, ref: ChatRef, part: str, limit: int) -> tuple[Candidate, ...]:
        return await self._db.read(lookup.containing, ref, part, limit)

    async def shown(self, ref: ChatRef, ids: Sequence[int]) -> dict[int, tuple[Message, int]]:
        """Those of the messages that may be shown, each with its floor."""
        return await self._db.read(lookup.shown, ref, ids)

    async def presences(self, ref: ChatRef) -> dict[int, frozenset[str]]:
        return await self._db.read(lookup.presences, ref)

    async def indexed_chats(self) -> list[ChatRef]:
        """Those of which something can be found by search."""
        return await self._db.read(index.held)

    async def index_is_sound(self, ref: ChatRef) -> bool:
        """Whether search knows of a chat what its messages say."""
        return await self._db.read(index.is_sound, ref.id)

    async def reindex(self, ref: ChatRef) -> bool:
        """Let a wrong index of a chat be made anew in the background; whether it was wrong."""
        return await self._db.write(index.rebuild, ref.id)
