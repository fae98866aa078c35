"""Chats: list, make, change, branch, put away, bring back, purge."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from previously.errors import ChatNotFound
from previously.lanes.registry import history_lane
from previously.model import ChatRef
from previously.service import OWNER, Service
from previously.service.chats import check_character, usable
from previously.web.rest import ids, shapes, told
from previously.web.rest.context import Seen, TheChat, Use, check_seen, tag

PAGE_DEFAULT, PAGE_MAX = 50, 200

router = APIRouter(prefix="/chats", tags=["chats"])


@router.get("")
async def listed(
    use: Use,
    *,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    q: Annotated[str, Query(max_length=200, description="A part of the title.")] = "",
    deleted: Annotated[bool, Query(description="Those that can be brought back.")] = False,
) -> shapes.ChatPage:
    """Chats by their newest message, newest first."""
    before = None if cursor is None else ids.read_cursor(cursor, 2)
    start = None if before is None else (before[0], before[1])
    found = await use.store.chat_cards(OWNER, limit + 1, start, text=q, deleted=deleted)
    last = found[limit - 1] if len(found) > limit else None
    following = None if last is None else ids.cursor(last.active_at_ms, last.chat.ref.id)
    return shapes.ChatPage(items=[told.chat(card) for card in found[:limit]], next=following)


@router.post("", status_code=201)
async def made(use: Use, asked: shapes.NewChat) -> shapes.ChatFull:
    """A new chat; with `continue_from` one that begins with another one's memory."""
    if asked.continue_from is not None:
        return await full(use, await _continued(use, asked, asked.continue_from))
    made = await use.create_chat(asked.name, asked.preset, asked.settings)
    if asked.character is not None:
        await use.set_character(made, asked.character)
    return await full(use, made)


async def _continued(use: Service, asked: shapes.NewChat, source: str) -> ChatRef:
    changes = usable(asked.settings or {})  # so that a wrong one makes no chat
    if asked.preset is not None:
        history_lane(asked.preset)
    old = await use.chat_by_id(ids.chat_key(source))
    made = (await use.continue_chat(old, asked.name)).ref
    if asked.preset is not None:
        await use.switch(made, asked.preset)
    if changes:
        await use.change_settings(made, changes)
    if asked.character is not None:
        await use.set_character(made, asked.character)
    return made


@router.get("/{chat}")
async def shown(use: Use, ref: TheChat, response: Response) -> shapes.ChatFull:
    """One chat."""
    found = await full(use, ref)
    tag(response, found.revision)
    return found


@router.patch("/{chat}")
async def changed(
    use: Use, ref: TheChat, asked: shapes.ChatChange, seen: Seen, response: Response
) -> shapes.ChatFull:
    """Another title, preset or character, recording on or off."""
    if seen is not None:
        check_seen(seen, (await use.store.chat_card(ref)).chat.revision, "the chat")
    if asked.preset is not None:
        history_lane(asked.preset)  # so that a wrong one changes nothing
    if asked.character:
        check_character(asked.character)
    if asked.title is not None:
        await use.set_title(ref, asked.title)
    if asked.preset is not None:
        await use.switch(ref, asked.preset)
    if asked.recording is not None:
        await use.set_recording(ref, on=asked.recording)
    if asked.character is not None:
        await use.set_character(ref, asked.character.strip() or None)
    return await shown(use, ref, response)


@router.delete("/{chat}", status_code=204)
async def removed(
    use: Use,
    *,
    chat: Annotated[str, Path(max_length=120)],
    purge: Annotated[bool, Query(description="For good: there is no way back.")] = False,
) -> None:
    """Put a chat away, or remove it for good."""
    key = ids.chat_key(chat)
    if not purge:
        await use.delete_chat(await use.chat_by_id(key))
        return
    with suppress(ChatNotFound):  # it may have been put away before
        await use.delete_chat(await use.chat_by_id(key))
    await use.purge_chat(key)


@router.post("/{chat}/restore")
async def restored(use: Use, chat: Annotated[str, Path(max_length=120)]) -> shapes.ChatFull:
    """Bring a deleted chat back."""
    return await full(use, await use.restore_chat(ids.chat_key(chat)))


@router.post("/{chat}/branch", status_code=201)
async def branched(use: Use, ref: TheChat, asked: shapes.Branch) -> shapes.ChatFull:
    """A copy of everything up to and including a message."""
    at = None if asked.at is None else ids.message_key(asked.at)
    return await full(use, (await use.branch(ref, asked.name, at)).ref)


@router.post("/{chat}/undo")
async def undone(use: Use, ref: TheChat) -> shapes.Touched:
    """Take back the last change of messages."""
    touched = await use.undo(ref)
    return shapes.Touched(messages=len(touched), revision=await revision(use, ref))


@router.put("/{chat}/recalculating", status_code=204)
async def recalculating(use: Use, ref: TheChat) -> None:
    """Write no summaries while a client rebuilds its own state."""
    await use.set_recalculating(ref, on=True)


@router.delete("/{chat}/recalculating", status_code=204)
async def recalculated(use: Use, ref: TheChat) -> None:
    """Go on; what became due meanwhile is done now."""
    await use.set_recalculating(ref, on=False)


async def full(use: Service, ref: ChatRef) -> shapes.ChatFull:
    """A chat with all there is to say about it."""
    card = await use.store.chat_card(ref)
    facts = await use.facts(ref)
    progress = await use.store.progress(ref, card.chat.lane)
    state = await use.store.work_state(ref)
    passed = await use.store.passed_on(ref)
    return shapes.ChatFull(
        **told.chat_fields(card),
        tokens=facts.tokens,
        summaries=facts.summaries,
        proposals=facts.proposals,
        uncovered=progress.uncovered,
        working=state.leased,
        due=state.rev > state.done_rev,
        wishes=list(facts.wishes),
        passed=None if passed is None else shapes.Passed(**asdict(passed)),
    )


async def revision(use: Service, ref: ChatRef) -> int:
    """The chat's revision now."""
    return (await use.store.work_state(ref)).rev
