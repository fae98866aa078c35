"""Transactions on messages: append, page, and the recording of a proxied turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from previously.errors import ChatNotFound, StaleDraft
from previously.model import (
    POS_GAP,
    ChatRef,
    Kind,
    Message,
    NewMessage,
    State,
    TurnRecord,
    key,
)
from previously.store import rows
from previously.store.rows import M
from previously.store.schema import message, variant, work
from previously.text.wire import tokens_of

STANDING_MAX = 16  # system messages at the very start that stay outside summarising

_TAKE = (
    sa.update(work)
    .where(work.c.chat_id == sa.bindparam("chat"))
    .values(
        rev=work.c.rev + 1,
        next_n=work.c.next_n + sa.bindparam("count"),
        last_pos=work.c.last_pos + sa.bindparam("room"),
    )
    .returning(work.c.next_n, work.c.last_pos)
)
_INSERT = sa.insert(message)
_OTHERS = sa.select(sa.func.count()).where(M.chat_id == sa.bindparam("chat"), M.pinned.is_(False))


def append(
    conn: sa.Connection, ref: ChatRef, new: Sequence[NewMessage], now_ms: int
) -> tuple[Message, ...]:
    """Record messages after all others; one revision, all or none."""
    count = len(new)
    taken = conn.execute(
        _TAKE, {"chat": ref.id, "count": count, "room": count * POS_GAP}
    ).one_or_none()
    if taken is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    first_n, first_pos = taken.next_n - count, taken.last_pos - count * POS_GAP
    standing = first_n <= STANDING_MAX and new[0].role == "system" and _all_standing(conn, ref)
    made: list[Message] = []
    for i, said in enumerate(new):
        standing = standing and said.role == "system"
        made.append(
            Message(
                id=key(ref.id, first_n + i),
                pos=first_pos + (i + 1) * POS_GAP,
                role=said.role,
                body=said.body,
                hash=said.hash,
                tokens=tokens_of(said),
                name=said.name,
                tool_calls=said.tool_calls,
                tool_call_id=said.tool_call_id,
                parts=said.parts,
                extra=said.extra,
                state=said.state,
                pinned=standing,
                created_at_ms=now_ms,
            )
        )
    conn.execute(_INSERT, [_row(ref, m) for m in made])
    return tuple(made)


def _all_standing(conn: sa.Connection, ref: ChatRef) -> bool:
    return conn.execute(_OTHERS, {"chat": ref.id}).scalar_one() == 0


def _row(ref: ChatRef, m: Message) -> dict[str, object]:
    return {
        "id": m.id,
        "chat_id": ref.id,
        "pos": m.pos,
        "role": m.role,
        "kind": m.kind,
        "state": m.state,
        "name": m.name,
        "body": m.body,
        "hash": m.hash,
        "tokens": m.tokens,
        "tool_calls": m.tool_calls,
        "tool_call_id": m.tool_call_id,
        "parts": m.parts,
        "extra": m.extra,
        "excluded": m.excluded,
        "pinned": m.pinned,
        "variant": m.variant,
        "version": m.version,
        "created_at": m.created_at_ms,
    }


_PAGE = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("after"), M.deleted_at.is_(None))
    .order_by(M.pos)
    .limit(sa.bindparam("limit"))
)
_NEWEST = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.deleted_at.is_(None), M.kind == Kind.SPEECH.value)
    .order_by(M.pos.desc())
    .limit(sa.bindparam("limit"))
)


def page(conn: sa.Connection, ref: ChatRef, after_pos: int, limit: int) -> tuple[Message, ...]:
    """Messages after a position, oldest first."""
    return rows.messages(conn.execute(_PAGE, {"chat": ref.id, "after": after_pos, "limit": limit}))


def newest(conn: sa.Connection, ref: ChatRef, limit: int) -> tuple[Message, ...]:
    """The newest messages, oldest of them first."""
    found = rows.messages(conn.execute(_NEWEST, {"chat": ref.id, "limit": limit}))
    return found[::-1]


def record_turn(conn: sa.Connection, ref: ChatRef, turn: TurnRecord, now_ms: int) -> None:
    """All of a turn or none of it; `StaleDraft` if the chat has moved since it was aligned."""
    last = newest(conn, ref, 1)
    seen = (last[0].id, last[0].hash) if last else (None, None)
    if seen != (turn.after_id, turn.after_hash):
        raise StaleDraft("another turn was recorded meanwhile")
    for message_id, text in turn.confirms:
        _confirm(conn, message_id, text, now_ms)
    if turn.confirms:
        conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))
    if turn.rerolls is not None and turn.reply is not None:
        _add_variant(conn, ref, turn.rerolls, turn.reply, now_ms)
        return
    new = list(turn.appends)
    if turn.reply is not None:
        new.append(replace(turn.reply, state=State.CANDIDATE))
    if new:
        append(conn, ref, new, now_ms)


def _confirm(conn: sa.Connection, message_id: int, text: NewMessage | None, now_ms: int) -> None:
    """The client has kept this candidate; where its text differs, ours stays as a variant."""
    if text is not None:
        _show(conn, message_id, text, now_ms)
    conn.execute(sa.update(message).where(M.id == message_id).values(state=State.CONFIRMED.value))


def _add_variant(
    conn: sa.Connection, ref: ChatRef, message_id: int, reply: NewMessage, now_ms: int
) -> None:
    _show(conn, message_id, reply, now_ms)
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))


def _show(conn: sa.Connection, message_id: int, text: NewMessage, now_ms: int) -> None:
    """Put a text in a message's place; every text it ever had stays as a variant."""
    old = (
        conn.execute(
            sa.select(M.body, M.hash, M.tokens, M.tool_calls, M.parts, M.extra, M.created_at).where(
                M.id == message_id
            )
        )
        .mappings()
        .one()
    )
    highest = sa.select(sa.func.max(variant.c.idx)).where(variant.c.message_id == message_id)
    top = conn.execute(highest).scalar()
    if top is None:
        top = 0
        conn.execute(sa.insert(variant).values(message_id=message_id, idx=0, **old))
    same = conn.execute(
        sa.select(variant.c.idx).where(
            variant.c.message_id == message_id, variant.c.hash == text.hash
        )
    ).scalar()
    content = {
        "body": text.body,
        "hash": text.hash,
        "tokens": tokens_of(text),
        "tool_calls": text.tool_calls,
        "parts": text.parts,
        "extra": text.extra,
    }
    index = top + 1 if same is None else same
    if same is None:
        conn.execute(
            sa.insert(variant).values(
                message_id=message_id, idx=index, created_at=now_ms, **content
            )
        )
    conn.execute(sa.update(message).where(M.id == message_id).values(variant=index, **content))
