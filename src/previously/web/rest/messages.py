"""Messages of a chat: by floor, each with how the next prompt represents it; and every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from previously import model
from previously.errors import BadInput
from previously.model import ChatRef
from previously.service import Service
from previously.text.clean import clean
from previously.web.rest import ids, shapes, told
from previously.web.rest.chats import revision
from previously.web.rest.context import Seen, TheChat, Use, check_seen, tag

PAGE_DEFAULT, PAGE_MAX = 50, 500
FLOOR_MAX = 1 << 31

router = APIRouter(prefix="/chats/{chat}/messages", tags=["messages"])

MessageId = Annotated[str, Path(max_length=120, description="A message's id.", examples=["m1-7"])]
Floor = Annotated[int | None, Query(ge=0, le=FLOOR_MAX)]


@router.get("")
async def listed(
    use: Use,
    ref: TheChat,
    before_floor: Floor = None,
    from_floor: Floor = None,
    page: Annotated[int | None, Query(ge=1, le=FLOOR_MAX, description="The first is 1.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
) -> shapes.MessagePage:
    """The newest messages; those before a floor, from a floor on, or a page by its number."""
    first, size = from_floor, limit
    if page is not None:
        first = (page - 1) * limit
    if first is None and before_floor is not None:
        first = max(0, before_floor - limit)
        size = before_floor - first
    found, places = await use.floors(ref, first, size)
    end = found.first + len(found.messages)
    return shapes.MessagePage(
        items=told.messages(found, places),
        total=found.total,
        first_floor=found.first,
        older=min(found.first, found.total) if found.first > 0 and found.total else None,
        newer=end if end < found.total else None,
    )


@router.post("", status_code=201)
async def made(
    use: Use, ref: TheChat, asked: shapes.NewMessage, response: Response
) -> shapes.MessageFull:
    """Record a message, at the end or in front of another one."""
    said = model.NewMessage(asked.role, clean(asked.text), _name(asked.name))
    if asked.before is None:
        (found,) = await use.append(ref, [said])
    else:
        (found,) = await use.insert(ref, [said], ids.message_key(asked.before))
    return await shown_one(use, ref, found.id, response)


def _name(name: str | None) -> str | None:
    return clean(name) if name else None


@router.patch("")
async def marked(use: Use, ref: TheChat, asked: shapes.Marks) -> shapes.Touched:
    """Hide, exclude, pin or delete several messages in one step."""
    keys = [ids.message_key(one) for one in dict.fromkeys(asked.ids)]
    values = _marks(asked)
    if asked.deleted:
        values["deleted_at_ms"] = use.now_ms()
    if not values:
        raise BadInput("say what is to change: hidden, excluded, pinned or deleted", field="ids")
    touched = await use.mark(ref, "mark", keys, **values)
    return shapes.Touched(messages=len(touched), revision=await revision(use, ref))


def _marks(asked: shapes.Marks | shapes.MessageChange) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if asked.hidden is not None:
        values["hidden_by"] = "user" if asked.hidden else None
    for name in ("excluded", "pinned"):
        wanted = getattr(asked, name)
        if wanted is not None:
            values[name] = wanted
    return values


@router.get("/{message}")
async def shown(
    use: Use, ref: TheChat, message: MessageId, response: Response
) -> shapes.MessageFull:
    """One message, with every text it has had."""
    return await shown_one(use, ref, ids.message_key(message), response)


@router.patch("/{message}")
async def changed(
    use: Use,
    ref: TheChat,
    message: MessageId,
    asked: shapes.MessageChange,
    seen: Seen,
    response: Response,
) -> shapes.MessageFull:
    """Another text, or other marks: one step that one undo takes back."""
    key = ids.message_key(message)
    await use.store.message(ref, key)
    values: Mapping[str, Any] = _marks(asked)
    if asked.text is not None:
        values = {"body": clean(asked.text), "parts": None, **values}
    if not values:
        raise BadInput("say what is to change: text, hidden, excluded or pinned", field="text")
    await use.alter(ref, key, values, seen)
    return await shown_one(use, ref, key, response)


@router.delete("/{message}")
async def removed(use: Use, ref: TheChat, message: MessageId, seen: Seen) -> shapes.Touched:
    """Take a message out; undo brings it back."""
    key = ids.message_key(message)
    await use.store.message(ref, key)
    await use.alter(ref, key, {"deleted_at_ms": use.now_ms()}, seen)
    return shapes.Touched(messages=1, revision=await revision(use, ref))


@router.post("/{message}/swipe")
async def swiped(
    use: Use, ref: TheChat, message: MessageId, asked: shapes.Swipe, seen: Seen, response: Response
) -> shapes.MessageFull:
    """Show another variant: one that the message has, or a new text."""
    key = ids.message_key(message)
    check_seen(seen, (await use.store.message(ref, key)).version, "the message")
    if (asked.variant is None) == (asked.text is None):
        raise BadInput("name a variant, or give a new text", field="variant")
    choice = clean(asked.text) if asked.text is not None else asked.variant
    assert choice is not None
    await use.swipe(ref, key, choice)
    return await shown_one(use, ref, key, response)


@router.post("/{message}/move")
async def moved(
    use: Use, ref: TheChat, message: MessageId, asked: shapes.Move, response: Response
) -> shapes.MessageFull:
    """Put a message in front of another one, or at the end."""
    key = ids.message_key(message)
    await use.store.message(ref, key)
    before = None if asked.before is None else ids.message_key(asked.before)
    await use.move(ref, key, before)
    return await shown_one(use, ref, key, response)


async def shown_one(use: Service, ref: ChatRef, key: int, response: Response) -> shapes.MessageFull:
    """A message with all there is to say about it."""
    found = await use.store.message(ref, key)
    floor = (await use.store.floors(ref, [found.pos]))[found.pos]
    _, (place,) = await use.floors(ref, floor, 1)
    variants = await use.store.variants(ref, key)
    lane = (await use.store.find_chat(ref.owner, ref.name)).lane
    line = (await use.store.covering(ref, lane, [key])).get(key, ())
    tag(response, found.version)
    return shapes.MessageFull(
        **told.message_fields(place, len(variants)),
        all_variants=[told.variant(v) for v in variants],
        covers=[ids.summary_id(s) for s in line],
    )
