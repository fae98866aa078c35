"""The next prompt: its blocks in order, what it leaves out and why, what it calls up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from previously import model
from previously.model import START, ChatRef
from previously.service import Service
from previously.settings import BUDGET_MIN
from previously.text.wire import text_of
from previously.web.rest import ids, shapes
from previously.web.rest.context import TheChat, Use

BUDGET_MAX = 10_000_000
NO_END = 1 << 62

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
        last_sent=None if sent is None else _sent(sent),
        messages=built.messages,
    )


Ends = Mapping[tuple[bool, int], tuple[int, int]]  # of an item: its first and last position


async def _positions(use: Service, ref: ChatRef, built: model.Prompt) -> Ends:
    """Where everything that the prompt holds stands in the chat."""
    items = {item for block in built.trace.blocks for item in block.sources}
    summaries = [i.id for i in items if i.is_summary]
    messages = [i.id for i in items if not i.is_summary]
    found: dict[tuple[bool, int], tuple[int, int]] = {}
    for one in await use.store.messages_by_id(ref, messages):
        found[False, one.id] = (one.pos, one.pos)
    for cover in await use.store.summaries_by_id(ref, summaries):
        found[True, cover.id] = (cover.first_pos, cover.last_pos)
    return found


def _wanted(built: model.Prompt, positions: Ends) -> set[int]:
    wanted = {pos for ends in positions.values() for pos in ends}
    wanted |= {pos for gone in built.trace.dropped for pos in (gone.from_pos, gone.before_pos)}
    return (wanted | {built.trace.fold.tail_pos}) - {START}


def _block(block: model.Block, positions: Ends, floors: Mapping[int, int]) -> shapes.Block:
    wire: Mapping[str, Any] = block.wire
    ends = [
        positions[i.is_summary, i.id] for i in block.sources if (i.is_summary, i.id) in positions
    ]
    calls = wire.get("tool_calls")
    text = text_of(wire.get("content"))
    return shapes.Block(
        place=block.place,
        role=str(wire.get("role", "system")),
        name=wire.get("name"),
        text=text or ("" if calls is None else json.dumps(calls, ensure_ascii=False)),
        tokens=block.tokens,
        messages=[ids.message_id(i.id) for i in block.sources if not i.is_summary],
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


def _sent(sent: model.Sent) -> shapes.LastSent:
    facts = json.loads(sent.facts)
    return shapes.LastSent(sent_at_ms=sent.sent_at_ms, facts=facts if facts else {})
