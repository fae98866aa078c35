"""A chat as people read it: messages, summaries, places in the prompt, search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from previously import search
from previously.errors import BadInput
from previously.model import START, ChatRef, Item, ItemKind, Message, Prompt, Summary
from previously.service.desk import OWNER
from previously.service.prompting import Prompting
from previously.store import FloorPage

PAGE = 200


@dataclass(frozen=True, slots=True)
class Place:
    """How one message stands in a prompt."""

    message: Message
    floor: int
    how: str  # verbatim | standing | summary | dropped
    summary_id: int | None = None
    reason: str = ""


class Reading(Prompting):
    """Reading, page by page."""

    async def messages(self, ref: ChatRef) -> AsyncIterator[Message]:
        """Every message, oldest first, in pages."""
        after = START
        while page := await self.store.page(ref, after, PAGE):
            for message in page:
                yield message
            after = page[-1].pos

    async def summaries(self, ref: ChatRef) -> AsyncIterator[Summary]:
        """Every summary in the order they were made, in pages."""
        after = 0
        while page := await self.store.summaries(ref, after, PAGE):
            for summary in page:
                yield summary
            after = page[-1].id

    async def places(self, ref: ChatRef, prompt: Prompt) -> AsyncIterator[Place]:
        """How every message of the chat stands in this prompt, oldest first."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        after, floor = START, 0
        while page := await self.store.page(ref, after, PAGE):
            covering = await self.store.covering(ref, lane, [m.id for m in page])
            for place in _places(page, floor, covering, prompt):
                yield place
            floor += len(page)
            after = page[-1].pos

    async def floors(
        self, ref: ChatRef, first: int | None, limit: int
    ) -> tuple[FloorPage, tuple[Place, ...]]:
        """Messages from a floor on, or the newest, and how each stands in the next prompt."""
        page = await self.store.floor_page(ref, first, limit)
        if not page.messages:
            return page, ()
        prompt = await self.prompt_places(ref)
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        covering = await self.store.covering(ref, lane, [m.id for m in page.messages])
        return page, tuple(_places(page.messages, page.first, covering, prompt))

    async def search(
        self,
        query: str,
        *,
        chat: str | None = None,
        participants: Collection[str] | None = None,
        limit: int = search.HITS_DEFAULT,
    ) -> list[search.Hit]:
        """The messages that answer a query best, in one chat or in all.

        With participants only in chats in which all of them take part.
        """
        if not 1 <= limit <= search.HITS_MAX:
            raise BadInput(f"a search has 1 to {search.HITS_MAX} hits", field="limit")
        if participants is not None and not (participants and all(participants)):
            raise BadInput("name at least one participant, or leave them out", field="participants")
        ref = None if chat is None else (await self.find_chat(chat)).ref
        people = None if participants is None else frozenset(participants)
        return await search.hits(self.store, OWNER, query, limit, ref=ref, people=people)


def _places(
    page: Sequence[Message],
    floor: int,
    covering: Mapping[int, tuple[int, ...]],
    prompt: Prompt,
) -> Iterator[Place]:
    shown = {
        item: block.place
        for block in prompt.trace.blocks
        for item in block.sources
        if block.place != "fragment"  # what is quoted again still has its own place
    }
    for index, message in enumerate(page):
        place = shown.get(Item.of(message))
        line = covering.get(message.id, ())
        cover = next(
            (i for i in line if Item(ItemKind.SUMMARY, i) in shown), line[0] if line else None
        )
        number = floor + index
        if place is not None:
            how = "standing" if place == "standing" else "verbatim"
            yield Place(message, number, how)
        elif cover is not None and Item(ItemKind.SUMMARY, cover) in shown:
            yield Place(message, number, "summary", cover)
        else:
            yield Place(message, number, "dropped", cover, _why_dropped(message, prompt))


def _why_dropped(message: Message, prompt: Prompt) -> str:
    if not message.eligible:
        return "not for summaries"
    for gone in prompt.trace.dropped:
        if gone.from_pos <= message.pos < gone.before_pos:
            return gone.reason
    return "unknown"
