"""What an earlier chat has handed on to this one: read, and taken out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from previously.web.rest import ids, shapes
from previously.web.rest.context import TheChat, Use

router = APIRouter(prefix="/chats/{chat}/carried", tags=["chats"])


@router.get("")
async def listed(use: Use, ref: TheChat) -> shapes.CarriedList:
    """All of it, oldest first, and what of it the next prompt shows."""
    found = await use.store.carried(ref)
    built = await use.prompt(ref, preview=True) if found else None
    blocks = built.trace.blocks if built else ()
    shown = {i.id for block in blocks if block.place == "carried" for i in block.sources}
    return shapes.CarriedList(
        items=[
            shapes.Carried(
                id=ids.carried_id(one.id),
                text=one.text,
                tokens=one.tokens,
                kind=one.kind,
                is_extract=one.is_extract,
                from_chat=ids.chat_id(one.from_chat),
                from_title=one.from_title,
                shown=one.id in shown,
            )
            for one in found
        ]
    )


@router.delete("/{carried}", status_code=204)
async def removed(
    use: Use,
    ref: TheChat,
    carried: Annotated[str, Path(max_length=120, examples=["k1-3"])],
) -> None:
    """Take one piece out, for good."""
    await use.forget_carried(ref, ids.carried_key(carried))
