"""The next prompt: its blocks in order, what it leaves out and why, what it calls up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated, Any

from fastapi import APIRouter, Query

from previously import model
from previously.model import START, ChatRef, Item
from previously.service import Service
from previously.settings import BUDGET_MIN
from previously.text.wire import text_of
from previously.web.rest import ids, shapes
from previously.web.rest.context import TheChat, Use
from previously.web.sending import OWN, piece

BUDGET_MAX = 10_000_000
TURN_MAX = 1 << 30  # a number that no turn has
TURNS_DEFAULT, TURNS_MAX = 100, 500

router = APIRouter(tags=["prompt"])


@router.get("/chats/{chat}/prompt")
async def shown(
    use: Use,
    ref: TheChat,
    budget_tokens: Annotated[int | None, Query(ge=BUDGET_MIN, le=BUDGET_MAX)] = None,
    query: Annotated[
        str | None, Query(min_length=1, max_length=2_000, description="A question about the past.")
    ] = None,
) -> shapes.Prompt:
    """What the next prompt would be. Nothing is asked of any model, and nothing moves."""
    built = await use.prompt(ref, budget_tokens, preview=True, query=query)
    positions = await _positions(use, ref, built)
    floors = await use.store.floors(ref, list(_wanted(built, positions)))
    sent = await use.store.last_sent(ref)
    facts = await use.facts(ref)
    layers: Counter[str] = Counter()
    for block in built.trace.blocks:
        layers[block.place] += block.tokens
    return shapes.Prompt(
        tokens=built.tokens,
        budget_tokens=built.trace.budget_tokens,
        chat_tokens=facts.tokens,
        layers=dict(layers),
        blocks=[_block(block, positions, floors) for block in built.trace.blocks],
        dropped=[
            shapes.Dropped(
                first_floor=floors.get(gone.from_pos, 0),
                before_floor=floors[gone.before_pos],
                reason=gone.reason,
            )
            for gone in built.trace.dropped
        ],
        notes=list(built.trace.notes),
        recalled=[_recalled(found) for found in built.trace.recalled],
        fold=_fold(built.trace.fold, floors),
        sent_at_ms=None if sent is None else sent.sent_at_ms,
        same_blocks=0 if sent is None else _same(built, sent),
        messages=built.messages,
    )


Ends = Mapping[Item, tuple[int, int]]  # of an item: its first and last position


async def _positions(use: Service, ref: ChatRef, built: model.Prompt) -> Ends:
    """Where everything that the prompt holds stands in the chat."""
    items = {item for block in built.trace.blocks for item in block.sources}
    summaries = [i.id for i in items if i.is_summary]
    messages = [i.id for i in items if i.is_message]
    found: dict[Item, tuple[int, int]] = {}
    for one in await use.store.messages_by_id(ref, messages):
        found[Item.of(one)] = (one.pos, one.pos)
    for cover in await use.store.summaries_by_id(ref, summaries):
        found[Item.of(cover)] = (cover.first_pos, cover.last_pos)
    return found


def _wanted(built: model.Prompt, positions: Ends) -> set[int]:
    wanted = {pos for ends in positions.values() for pos in ends}
    wanted |= {pos for gone in built.trace.dropped for pos in (gone.from_pos, gone.before_pos)}
    return (wanted | {built.trace.fold.tail_pos}) - {START}


def _block(block: model.Block, positions: Ends, floors: Mapping[int, int]) -> shapes.Block:
    wire: Mapping[str, Any] = block.wire
    ends = [positions[i] for i in block.sources if i in positions]
    calls = wire.get("tool_calls")
    text = text_of(wire.get("content"))
    return shapes.Block(
        place=block.place,
        role=str(wire.get("role", "system")),
        name=wire.get("name"),
        text=text or ("" if calls is None else json.dumps(calls, ensure_ascii=False)),
        tokens=block.tokens,
        messages=[ids.message_id(i.id) for i in block.sources if i.is_message],
        summaries=[ids.summary_id(i.id) for i in block.sources if i.is_summary],
        first_floor=min((floors[first] for first, _ in ends), default=None),
        last_floor=max((floors[last] for _, last in ends), default=None),
    )


def _recalled(found: model.Recalled) -> shapes.Recalled:
    return shapes.Recalled(
        message=ids.message_id(found.message.id),
        floor=found.floor,
        score=found.score,
        reason=found.reason,
        text=found.message.body,
    )


def _fold(fold: model.Fold, floors: Mapping[int, int]) -> shapes.Fold:
    return shapes.Fold(
        version=fold.version,
        reason=fold.reason,
        tail_floor=floors.get(fold.tail_pos),
        stale=fold.stale,
    )


def _same(built: model.Prompt, sent: model.Sent) -> int:
    """How many blocks from the start went upstream with the newest turn already."""
    known: list[str] = json.loads(sent.facts).get("pieces", [])
    before = [one for one in known if not one.startswith(OWN)]
    pairs = zip((piece(block.wire) for block in built.trace.blocks), before, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


@router.get("/chats/{chat}/sent")
async def last_sent(
    use: Use,
    ref: TheChat,
    *,
    text: Annotated[bool, Query(description="With the texts, as they stand now.")] = False,
) -> shapes.LastSent | None:
    """What the proxy has sent for the newest turn; none if it has sent nothing yet."""
    sent = await use.store.last_sent(ref)
    if sent is None:
        return None
    facts = json.loads(sent.facts)
    blocks = [
        (place, tokens, [Item.parse(ref.id, word) for word in words.split()])
        for place, tokens, words in facts["blocks"]
    ]
    texts = await _texts(use, ref, [i for *_, items in blocks for i in items]) if text else None
    return shapes.LastSent(
        sent_at_ms=sent.sent_at_ms,
        model=facts["model"] or "",
        tokens=facts["tokens"] or 0,
        client_tokens=facts["client_tokens"] or 0,
        budget_tokens=facts["budget_tokens"],
        fold=facts["fold"],
        trace=facts["trace"],
        own_messages=facts["head"],
        blocks=[_sent_block(*block, texts) for block in blocks],
    )


def _sent_block(
    place: str, tokens: int, items: list[Item], texts: Mapping[Item, str] | None
) -> shapes.SentBlock:
    found = None if texts is None else [texts[item] for item in items if item in texts]
    return shapes.SentBlock(
        place=place,
        tokens=tokens,
        messages=[ids.message_id(item.id) for item in items if item.is_message],
        summaries=[ids.summary_id(item.id) for item in items if item.is_summary],
        text=None if found is None else "\n".join(found),
    )


async def _texts(use: Service, ref: ChatRef, items: list[Item]) -> dict[Item, str]:
    """What the ids hold now: an edit since then shows."""
    said = await use.store.messages_by_id(ref, [i.id for i in items if i.is_message])
    told = await use.store.summaries_by_id(ref, [i.id for i in items if i.is_summary])
    carried = await use.store.carried(ref) if any(i.kind == "c" for i in items) else ()
    return {Item.of(m): m.body for m in said} | {Item.of(s): s.text for s in (*told, *carried)}


@router.get("/chats/{chat}/turns")
async def turns(
    use: Use,
    ref: TheChat,
    before: Annotated[int | None, Query(ge=1, le=TURN_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=TURNS_MAX)] = TURNS_DEFAULT,
) -> shapes.SentTurns:
    """What the prompts of the newest turns have weighed, against what goes without memory."""
    found = await use.store.sent_turns(ref, before or TURN_MAX, limit)
    return shapes.SentTurns(
        items=[
            shapes.SentTurn(
                n=one.n,
                sent_at_ms=one.sent_at_ms,
                tokens=one.tokens,
                layers=dict(one.layers),
                budget_tokens=one.budget_tokens,
                client_tokens=one.client_tokens,
                chat_tokens=one.chat_tokens,
                same_tokens=one.same_tokens,
            )
            for one in found
        ],
        older=found[0].n if len(found) == limit else None,
    )
