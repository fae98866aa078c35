"""Search in one chat or in all."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from previously.search import HITS_DEFAULT, HITS_MAX, QUERY_CHARS_MAX, Hit
from previously.web.rest import ids, shapes
from previously.web.rest.context import Use

router = APIRouter(tags=["search"])

Person = Annotated[str, Query(min_length=1, max_length=200)]


@router.get("/search")
async def found(
    use: Use,
    q: Annotated[str, Query(min_length=1, max_length=QUERY_CHARS_MAX, examples=["lantern"])],
    chat: Annotated[str | None, Query(max_length=120, description="In this chat only.")] = None,
    participants: Annotated[
        list[Person] | None, Query(max_length=50, description="Who takes part in the chat, all.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=HITS_MAX)] = HITS_DEFAULT,
) -> shapes.Hits:
    """The messages that answer best, with their floors."""
    name = None if chat is None else (await use.chat_by_id(ids.chat_key(chat))).name
    hits = await use.search(q, chat=name, participants=participants, limit=limit)
    return shapes.Hits(items=[_hit(hit) for hit in hits])


def _hit(hit: Hit) -> shapes.Hit:
    return shapes.Hit(
        chat=ids.chat_id(hit.chat.id),
        chat_title=hit.chat.name,
        message=ids.message_id(hit.message.id),
        floor=hit.floor,
        role=hit.message.role,
        name=hit.message.name,
        score=hit.score,
        reason=hit.reason,
        terms=list(hit.terms),
        snippet=shapes.Snippet(text=hit.snippet.text, marks=list(hit.snippet.marks)),
    )
