"""The stream of live events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from previously.web.rest import ids, problems
from previously.web.rest.context import House

router = APIRouter(tags=["events"])

_STREAM = {
    200: {
        "description": (
            "Server-sent events: `hello` on connecting (read everything then), `chat` with its "
            "id and revision after every change, `gone` for a chat that was deleted."
        ),
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'event: chat\nid: 7\ndata: {"chat": "c1", "revision": 7}\n\n',
            }
        },
    }
}


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)  # pyright: ignore[reportArgumentType]
async def followed(
    house: House,
    chat: Annotated[str | None, Query(max_length=120, description="Of this chat only.")] = None,
) -> Response:
    """Which chats change, while they do."""
    only = None if chat is None else await house.service.chat_by_id(ids.chat_key(chat))
    if house.streams.full:
        return problems.problem(
            503, "Too many streams are open", "every open tab has one", "Close a tab."
        )
    told = house.streams.follow(house.service, only)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)
