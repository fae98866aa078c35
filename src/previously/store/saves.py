"""A save says which messages a chat held, in which order and with which texts; restoring it makes
the chat hold exactly those again.

Nothing is copied into a save. Messages are only ever taken out softly, and every text a message
had stays among its variants or in its history, so keys and hashes are enough to find them again.
Restoring is one change like any other: it can be undone, and it leaves coverage true, so that a
summary of what was rolled back stands no longer and comes back with its messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import BadInput, MessageNotFound
from previously.model import ChatRef, Message, NewMessage
from previously.store import Kept, changes
from previously.store.changes import CONTENT
from previously.store.rows import M
from previously.store.schema import message_revision, variant
from previously.text.wire import tokens_of

MARKS: Mapping[str, Any] = {"hidden_by": None, "excluded": False, "pinned": False}

_R, _V = message_revision.c, variant.c
_CHAT: BindParameter[int] = sa.bindparam("chat")
_IDS: BindParameter[int] = sa.bindparam("ids", expanding=True)
_HELD = (  # keys and hashes only: a save of a long chat reads no text
    sa.select(M.id, M.hash, M.pos, M.deleted_at, *(M[name] for name in MARKS))
    .where(M.chat_id == _CHAT)
    .order_by(M.pos)
)
_VARIANTS = sa.select(_V.message_id, _V.idx, _V.hash, *(_V[name] for name in CONTENT)).where(
    _V.message_id.in_(_IDS)
)
_HISTORY = (
    sa.select(_R.message_id, _R.before)
    .where(_R.chat_id == _CHAT, _R.message_id.in_(_IDS))
    .order_by(_R.rev.desc())
)


def take(conn: sa.Connection, ref: ChatRef) -> tuple[Kept, ...]:
    """What the chat holds now, in order: one state, whatever is written meanwhile."""
    query = _HELD.where(M.deleted_at.is_(None))
    found = conn.execute(query, {"chat": ref.id})
    return tuple(Kept(row.id, row.hash, _marks(row)) for row in found)


def _marks(row: Any) -> dict[str, Any]:
    """The marks that differ from those of a plain message."""
    found = {name: getattr(row, name) for name in MARKS}
    return {name: value for name, value in found.items() if value != MARKS[name]}


def restore(
    conn: sa.Connection, ref: ChatRef, kept: Sequence[Kept], now_ms: int
) -> tuple[Message, ...]:
    """Hold exactly these messages again; `BadInput`, and no change, if one cannot be had."""
    held = {row.id: row for row in conn.execute(_HELD, {"chat": ref.id})}
    _refuse_unknown(ref, kept, held)
    new = {
        i: {"deleted_at_ms": now_ms}
        for i in held.keys() - {k.id for k in kept}
        if held[i].deleted_at is None
    }
    new |= _differing(kept, held)
    other = [k for k in kept if held[k.id].hash != k.hash]
    for message_id, text in _texts(conn, ref, other, now_ms).items():
        new[message_id] = {**new.get(message_id, {}), **text}
    return changes.change(conn, ref, "restore", new, now_ms)


def _refuse_unknown(ref: ChatRef, kept: Sequence[Kept], held: Mapping[int, Any]) -> None:
    missing = next((k.id for k in kept if k.id not in held), None)
    if missing is not None:
        raise BadInput(f"the chat {ref.name!r} no longer has message {missing}", field="save")
    if len({k.id for k in kept}) < len(kept):
        raise BadInput("the save names a message twice", field="save")


def _differing(kept: Sequence[Kept], held: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
    """Marks and places that are not as they were. The messages share out the places they have."""
    places = sorted(held[k.id].pos for k in kept)
    new: dict[int, dict[str, Any]] = {}
    for k, pos in zip(kept, places, strict=True):
        row = held[k.id]
        wanted = {"pos": pos, **MARKS, **k.marks}
        values = {name: value for name, value in wanted.items() if getattr(row, name) != value}
        if row.deleted_at is not None:
            values["deleted_at_ms"] = None
        if values:
            new[k.id] = values
    return new


def _texts(
    conn: sa.Connection, ref: ChatRef, wanted: Sequence[Kept], now_ms: int
) -> dict[int, dict[str, Any]]:
    """The texts that these messages had, from their variants or their history."""
    if not wanted:
        return {}
    ids = [k.id for k in wanted]
    messages = changes.find(conn, ref, ids)
    variants: dict[int, list[Any]] = {i: [] for i in ids}
    for row in conn.execute(_VARIANTS, {"ids": ids}):
        variants[row.message_id].append(row)
    past = _past(conn, ref, ids)
    found: dict[int, dict[str, Any]] = {}
    for k in wanted:
        row = next((row for row in variants[k.id] if row.hash == k.hash), None)
        text = row or _earlier(messages[k.id], past.get(k.id, []), k.hash)
        found[k.id] = {name: getattr(text, name) for name in CONTENT}
        if row is not None:
            found[k.id]["variant"] = row.idx
        elif variants[k.id]:  # the others keep their texts: this one joins them
            index = max(row.idx for row in variants[k.id]) + 1
            _add_variant(conn, k.id, index, text, now_ms)
            found[k.id]["variant"] = index
    return found


def _past(conn: sa.Connection, ref: ChatRef, ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """For each message what its changes replaced, the last change first."""
    past: dict[int, list[dict[str, Any]]] = {}
    for row in conn.execute(_HISTORY, {"chat": ref.id, "ids": list(ids)}):
        past.setdefault(row.message_id, []).append(json.loads(row.before))
    return past


def _earlier(now: Message, past: Sequence[Mapping[str, Any]], wanted: bytes) -> NewMessage:
    """Walk back through the changes of a message until it had this text."""
    content = {name: getattr(now, name) for name in CONTENT}
    for before in past:
        content |= {name: before[name] for name in CONTENT if name in before}
        text = NewMessage(now.role, name=now.name, tool_call_id=now.tool_call_id, **content)
        if text.hash == wanted:
            return text
    raise BadInput(f"the text that message {now.id} had is gone", field="save")


def _add_variant(
    conn: sa.Connection, message_id: int, index: int, text: NewMessage, now_ms: int
) -> None:
    content = {name: getattr(text, name) for name in CONTENT}
    values = {"message_id": message_id, "idx": index, "hash": text.hash, "tokens": tokens_of(text)}
    conn.execute(sa.insert(variant), {**values, **content, "created_at": now_ms})


_AFTER = sa.select(M.id).where(
    M.chat_id == _CHAT, M.pos > sa.bindparam("after_pos"), M.deleted_at.is_(None)
)


def rollback(conn: sa.Connection, ref: ChatRef, to_id: int, now_ms: int) -> tuple[Message, ...]:
    """Take out everything after a message."""
    to = changes.find(conn, ref, [to_id])[to_id]
    if to.deleted_at_ms is not None:
        raise MessageNotFound(f"message {to_id} of the chat {ref.name!r} was taken out")
    later = conn.execute(_AFTER, {"chat": ref.id, "after_pos": to.pos}).scalars()
    gone = {"deleted_at_ms": now_ms}
    return changes.change(conn, ref, "rollback", dict.fromkeys(later, gone), now_ms)
