"""Nouns of the house as shapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from previously import model
from previously.model import Kind
from previously.service import Place
from previously.store import ChatCard, FloorPage, SummaryPage, Variant
from previously.web.rest import ids, shapes


def chat(card: ChatCard) -> shapes.Chat:
    """A chat as a list shows it."""
    return shapes.Chat(**chat_fields(card))


def chat_fields(card: ChatCard) -> dict[str, Any]:
    """Its fields, for a shape that has more."""
    found = card.chat
    return {
        "id": ids.chat_id(found.ref.id),
        "name": found.ref.name,
        "title": found.title,
        "preset": found.preset,
        "lane": found.lane,
        "messages": card.messages,
        "summaries_written": card.summaries_written,
        "recording": card.recording,
        "character": card.character,
        "recalculating": card.recalculating,
        "branch_of": None if card.branch_of is None else ids.chat_id(card.branch_of),
        "revision": found.revision,
        "created_at_ms": found.created_at_ms,
        "active_at_ms": card.active_at_ms,
        "deleted_at_ms": card.deleted_at_ms,
        "base_path": f"/c/{quote(found.ref.name, safe='')}/v1",
    }


def messages(page: FloorPage, places: Iterable[Place]) -> list[shapes.Message]:
    """A page of messages."""
    return [
        shapes.Message(**message_fields(place, page.variants.get(place.message.id, 1)))
        for place in places
    ]


def message_fields(place: Place, variants: int) -> dict[str, Any]:
    """A message's fields, for a shape that may have more."""
    found = place.message
    return {
        "id": ids.message_id(found.id),
        "floor": place.floor,
        "role": found.role,
        "name": found.name,
        "text": found.body,
        "kind": found.kind,
        "state": found.state,
        "tokens": found.tokens,
        "hidden_by": found.hidden_by,
        "excluded": found.excluded,
        "pinned": found.pinned,
        "variant": found.variant,
        "variants": variants,
        "version": found.version,
        "created_at_ms": found.created_at_ms,
        "tool_calls": None if found.tool_calls is None else json.loads(found.tool_calls),
        "tool_call_id": found.tool_call_id,
        "has_parts": found.parts is not None,
        "place": place_of(place),
    }


def place_of(place: Place) -> shapes.Place:
    """How the next prompt represents a message."""
    found = place.message
    if not found.shown:
        by = found.hidden_by or ("client" if found.kind != Kind.SPEECH else None)
        return shapes.Place(how="hidden", by=by)
    cover = None if place.summary_id is None else ids.summary_id(place.summary_id)
    if place.how == "verbatim":
        return shapes.Place(how="verbatim")
    if place.how == "standing":
        return shapes.Place(how="standing")
    if place.how == "summary":
        return shapes.Place(how="summary", summary=cover)
    return shapes.Place(how="dropped", summary=cover, reason=place.reason)


def variant(found: Variant) -> shapes.Variant:
    """One of a message's texts."""
    return shapes.Variant(
        index=found.index,
        text=found.body,
        tokens=found.tokens,
        created_at_ms=found.created_at_ms,
    )


def summaries(page: SummaryPage) -> list[shapes.Summary]:
    """A page of summaries."""
    return [shapes.Summary(**summary_fields(found, page)) for found in page.summaries]


def summary_fields(found: model.Summary, page: SummaryPage) -> dict[str, Any]:
    """A summary's fields, for a shape that may have more."""
    made: Mapping[str, Any] = json.loads(found.provenance or "{}")
    return {
        "id": ids.summary_id(found.id),
        "chat": ids.chat_id(ids.chat_of(found.id)),
        "lane": found.lane,
        "kind": found.kind,
        "level": found.level,
        "ordinal": found.ordinal,
        "text": found.text,
        "tokens": found.tokens,
        "first_floor": page.floors[found.first_pos],
        "last_floor": page.floors[found.last_pos],
        "messages": found.message_count,
        "status": found.status,
        "valid": found.valid,
        "edited_by_user": found.edited_by_user,
        "is_extract": found.is_extract,
        "parent": None if found.covered_by is None else ids.summary_id(found.covered_by),
        "children": page.children.get(found.id, 0),
        "model": made.get("model"),
        "flags": list(page.flags.get(found.id, ())),
        "created_at_ms": found.created_at_ms,
    }
