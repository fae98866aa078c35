"""Transactions on messages: append, page, and the recording of a proxied turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa

from previously.errors import ChatNotFound, StaleDraft
from previously.model import (
    CLIENT,
    POS_GAP,
    ChatRef,
    Kind,
    Message,
    NewMessage,
    State,
    TurnRecord,
    key,
)
from previously.store import changes, coverage, rows
from previously.store.positions import place
from previously.store.prepared import Prepared
from previously.store.rows import M
from previously.store.schema import chat, message, presence, work
from previously.text.wire import tokens_of

INSERTED = (
    "id", "chat_id", "pos", "role", "kind", "state", "name", "body", "hash", "tokens", "tool_calls",
    "tool_call_id", "parts", "extra", "presence", "excluded", "pinned", "variant", "version",
    "created_at",
)  # fmt: skip
STANDING_MAX = 16  # system messages at the very start that stay outside summarising

_NOT_DELETED = sa.exists().where(chat.c.id == work.c.chat_id, chat.c.deleted_at.is_(None))
_TAKE = Prepared(
    sa.update(work)
    .where(work.c.chat_id == sa.bindparam("chat"), _NOT_DELETED)
    .values(
        rev=work.c.rev + 1,
        next_n=work.c.next_n + sa.bindparam("count"),
        last_pos=work.c.last_pos + sa.bindparam("room"),
    )
    .returning(work.c.next_n, work.c.last_pos, work.c.rev)
)
_INSERT = Prepared(sa.insert(message), INSERTED)
_STANDS = Prepared(  # whether a chat is recorded, and its last message
    sa.select(chat.c.recording, M.id, M.hash)
    .outerjoin(
        message,
        sa.and_(M.chat_id == chat.c.id, M.deleted_at.is_(None), M.kind == Kind.SPEECH.value),
    )
    .where(chat.c.id == sa.bindparam("chat"))
    .order_by(M.pos.desc())
    .limit(1)
)
_OTHERS = sa.select(sa.func.count()).where(M.chat_id == sa.bindparam("chat"), M.pinned.is_(False))


class Recorded(NamedTuple):
    """A turn that only added to a chat."""

    made: tuple[Message, ...]
    rev: int  # of the chat, since; it is one more than before


NOTHING = Recorded((), 0)


def append(
    conn: sa.Connection, ref: ChatRef, new: Sequence[NewMessage], now_ms: int
) -> tuple[Message, ...]:
    """Record messages after all others; one revision, all or none."""
    return _appended(conn, ref, new, now_ms)[0]


def _appended(
    conn: sa.Connection, ref: ChatRef, new: Sequence[NewMessage], now_ms: int
) -> tuple[tuple[Message, ...], int]:
    """What was recorded, and the chat's revision since."""
    count = len(new)
    taken = _TAKE.one(conn, {"chat": ref.id, "count": count, "room": count * POS_GAP})
    if taken is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    next_n, last_pos, rev = taken
    first_n, first_pos = next_n - count, last_pos - count * POS_GAP
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
                presence=presence_of(conn, ref, said.present),
                state=said.state,
                pinned=standing,
                created_at_ms=now_ms,
            )
        )
    _INSERT.many(conn, [_row(ref, m) for m in made])
    return tuple(made), rev


def presence_of(conn: sa.Connection, ref: ChatRef, present: frozenset[str] | None) -> int | None:
    """The number of a set of people in this chat; None for everybody."""
    if present is None:
        return None
    members = json.dumps(sorted(present), ensure_ascii=False)
    mine = presence.c.chat_id == ref.id
    known = sa.select(presence.c.id).where(mine, presence.c.members == members)
    found = conn.execute(known).scalar()
    if found is not None:
        return found
    count = sa.select(sa.func.count()).select_from(presence).where(mine)
    number = conn.execute(count).scalar_one() + 1
    row = {"chat_id": ref.id, "id": number, "members": members}
    conn.execute(sa.insert(presence), row)
    return number


def insert(
    conn: sa.Connection,
    ref: ChatRef,
    new: Sequence[NewMessage],
    before_id: int,
    now_ms: int,
) -> tuple[Message, ...]:
    """Record messages in front of another one; undoing this takes them out again."""
    changes.find(conn, ref, [before_id])
    made = append(conn, ref, new, now_ms)
    rev = changes.take_rev(conn, ref)
    places = place(conn, ref, before_id, len(made))
    for m, pos in zip(made, places, strict=True):
        conn.execute(sa.update(message).where(M.id == m.id).values(pos=pos, pinned=False))
        changes.remember(conn, ref, rev, "insert", m, {"deleted_at_ms": now_ms}, now_ms)
    ids = [m.id for m in made]
    coverage.refresh(conn, ref, ids, [*(m.pos for m in made), *places], now_ms)
    found = changes.find(conn, ref, ids)
    return tuple(found[i] for i in ids)


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
        "presence": m.presence,
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
SPEECH_SINCE = (  # newest first
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(
        M.chat_id == sa.bindparam("chat"),
        M.pos >= sa.bindparam("from_pos"),
        M.deleted_at.is_(None),
        M.kind == Kind.SPEECH.value,
    )
    .order_by(M.pos.desc())
    .limit(sa.bindparam("limit"))
)
_SINCE = Prepared(SPEECH_SINCE)
_NEWEST = Prepared(
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
    found = rows.messages(_NEWEST.all(conn, {"chat": ref.id, "limit": limit}))
    return found[::-1]


def since(conn: sa.Connection, ref: ChatRef, from_pos: int, limit: int) -> tuple[Message, ...]:
    """The newest messages from a position on, oldest of them first."""
    values = {"chat": ref.id, "from_pos": from_pos, "limit": limit}
    return rows.messages(_SINCE.all(conn, values))[::-1]


def record_turn(
    conn: sa.Connection, ref: ChatRef, turn: TurnRecord, now_ms: int
) -> Recorded | None:
    """All of a turn or none of it; `StaleDraft` if the chat has moved since it was aligned.

    Nothing at all while recording is paused.
    """
    recording, *last = _STANDS.one(conn, {"chat": ref.id}) or (False,)
    if not recording:
        return None
    if last != [turn.after_id, turn.after_hash]:
        raise StaleDraft("another turn was recorded meanwhile")
    _mend(conn, ref, turn, now_ms)
    changes.confirm(conn, ref, turn.confirms, now_ms)
    if turn.reply is not None:
        _say_again(conn, ref, turn, turn.reply, now_ms)
    new = list(turn.appends)
    if turn.reply is not None and turn.rerolls is None and turn.grows is None:
        new.append(replace(turn.reply, state=State.CANDIDATE))
    recorded = _added(conn, ref, turn, new, now_ms)
    answered = (
        turn.rerolls if turn.rerolls is not None or not recorded.made else recorded.made[-1].id
    )
    if turn.others and answered is not None and turn.grows is None:
        changes.offer(conn, ref, answered, turn.others, now_ms)
    return recorded if _only_adds(turn) else None


def _added(
    conn: sa.Connection, ref: ChatRef, turn: TurnRecord, new: Sequence[NewMessage], now_ms: int
) -> Recorded:
    """The new messages, under one revision with all else that the turn does."""
    if new:
        return Recorded(*_appended(conn, ref, new, now_ms))
    if turn.confirms or turn.rerolls is not None:
        return Recorded((), changes.take_rev(conn, ref))
    return NOTHING


def _only_adds(turn: TurnRecord) -> bool:
    """Whether nothing that was stored before has other words or another place now."""
    again = turn.rerolls is not None or turn.grows is not None
    return not turn.mends and not again and all(text is None for _, text in turn.confirms)


def _mend(conn: sa.Connection, ref: ChatRef, turn: TurnRecord, now_ms: int) -> None:
    """Make the stored history what the client shows: one change, which one undo takes back."""
    for before_id, new in turn.inserts:
        insert(conn, ref, new, before_id, now_ms)
    values = {message_id: changes.worded(conn, message_id, text) for message_id, text in turn.edits}
    for message_ids, column, value in (
        (turn.hides, "hidden_by", CLIENT),
        (turn.shows, "hidden_by", None),
        (turn.drops, "deleted_at_ms", now_ms),
    ):
        for message_id in message_ids:  # one may be shown again in other words
            values.setdefault(message_id, {})[column] = value
    if values:
        changes.change(conn, ref, "align", values, now_ms)


def _say_again(
    conn: sa.Connection, ref: ChatRef, turn: TurnRecord, reply: NewMessage, now_ms: int
) -> None:
    """A reply that takes the place of a stored one, or goes on with it."""
    if turn.grows is not None:
        old = changes.find(conn, ref, [turn.grows])[turn.grows]
        grown = replace(reply, body=_joined(old.body, reply.body), name=old.name)
        changes.say_anew(conn, ref, old.id, grown, now_ms)
    elif turn.rerolls is not None:
        old = changes.find(conn, ref, [turn.rerolls])[turn.rerolls]
        if old.state == State.CANDIDATE:
            changes.show(conn, old.id, reply, now_ms)
        else:
            changes.say_anew(conn, ref, old.id, reply, now_ms)


def _joined(said: str, more: str) -> str:
    """A text and how it goes on; the client's own version takes its place when it is sent."""
    ends = (said[-1:], more[:1])
    spaced = any(end.isspace() or not end.isascii() for end in ends)
    return said + more if spaced or not said else f"{said} {more}"
