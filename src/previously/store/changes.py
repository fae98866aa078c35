"""Transactions that change messages: every one can be undone, and leaves coverage true.

A change is a set of new column values for some messages, applied in one step: the old values go
into `message_revision` under the chat's new revision, then coverage is refreshed around them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import BadInput, ChatNotFound, Conflict, MessageNotFound
from previously.model import BIRTH_BITS, ChatRef, Message, NewMessage, State
from previously.store import coverage, rows
from previously.store.positions import place
from previously.store.prepared import Prepared
from previously.store.rows import M
from previously.store.schema import message, message_revision, variant, work
from previously.text.wire import tokens_of

_CHAT: BindParameter[int] = sa.bindparam("chat")
_R, _V = message_revision.c, variant.c

_TAKE_REV = (
    sa.update(work).where(work.c.chat_id == _CHAT).values(rev=work.c.rev + 1).returning(work.c.rev)
)
_BY_ID = sa.select(*rows.MESSAGE_COLUMNS).where(M.id.in_(sa.bindparam("ids", expanding=True)))
_CONFIRM = Prepared(
    sa.update(message)
    .where(M.id == sa.bindparam("of_id"), M.chat_id == sa.bindparam("of_chat"))
    .values(state=State.CONFIRMED.value)
    .returning(M.pos)
)
_LAST_CHANGE = (
    sa.select(sa.func.max(_R.rev))
    .where(_R.chat_id == _CHAT, _R.undone.is_(False))
    .scalar_subquery()
)
_TO_UNDO = sa.select(_R.rev, _R.message_id, _R.before).where(
    _R.chat_id == _CHAT, _R.rev == _LAST_CHANGE
)
_VARIANT_LIKE = sa.select(_V.idx).where(
    _V.message_id == sa.bindparam("message"), _V.hash == sa.bindparam("hash")
)

# Columns that a change may touch, by the name the noun has for them.
COLUMNS = {
    "body": "body",
    "tool_calls": "tool_calls",
    "parts": "parts",
    "extra": "extra",
    "variant": "variant",
    "pos": "pos",
    "state": "state",
    "hidden_by": "hidden_by",
    "excluded": "excluded",
    "pinned": "pinned",
    "deleted_at_ms": "deleted_at",
}
CONTENT = ("body", "tool_calls", "parts", "extra")
REWRITES = frozenset({*CONTENT, "deleted_at_ms"})  # after these the old words must not linger

Values = Mapping[str, Any]


def take_rev(conn: sa.Connection, ref: ChatRef) -> int:
    """The chat's next revision."""
    rev = conn.execute(_TAKE_REV, {"chat": ref.id}).scalar()
    if rev is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    return rev


def find(conn: sa.Connection, ref: ChatRef, ids: Sequence[int]) -> dict[int, Message]:
    """These messages of this chat, or `MessageNotFound`."""
    mine = [i for i in ids if i >> BIRTH_BITS == ref.id]  # a key names its chat
    found = {m.id: m for m in rows.messages(conn.execute(_BY_ID, {"ids": mine}))}
    missing = [i for i in ids if i not in found]
    if missing:
        raise MessageNotFound(f"the chat {ref.name!r} has no message {missing[0]}")
    return found


def change(
    conn: sa.Connection, ref: ChatRef, what: str, new: Mapping[int, Values], now_ms: int
) -> tuple[Message, ...]:
    """Give these messages new values; messages that have them already stay untouched."""
    before = find(conn, ref, list(new))
    differing = {
        i: {k: v for k, v in values.items() if getattr(before[i], k) != v}
        for i, values in new.items()
    }
    differing = {i: values for i, values in differing.items() if values}
    if not differing:
        return ()
    rev = take_rev(conn, ref)
    for message_id, values in differing.items():
        _write(conn, before[message_id], values)
        old = before[message_id]
        remember(conn, ref, rev, what, old, {k: getattr(old, k) for k in values}, now_ms)
    after = find(conn, ref, list(differing))
    places = [before[i].pos for i in differing] + [m.pos for m in after.values()]
    coverage.refresh(conn, ref, list(differing), places, now_ms)
    rewritten = {i for i, values in differing.items() if not REWRITES.isdisjoint(values)}
    if rewritten:
        coverage.purge_paid(conn, ref, rewritten)
    return tuple(after[i] for i in differing)


def _write(conn: sa.Connection, old: Message, values: Values) -> None:
    columns = {COLUMNS[k]: v for k, v in values.items()}
    if any(k in values for k in CONTENT):
        columns.update(_measured(old, values))
    update = sa.update(message).where(M.id == old.id)
    conn.execute(update.values(version=M.version + 1, **columns))
    content = {k: v for k, v in columns.items() if k in (*CONTENT, "hash", "tokens")}
    if content:  # the text of the variant that is shown follows the message
        shown = columns.get("variant", old.variant)
        same = sa.and_(_V.message_id == old.id, _V.idx == shown)
        conn.execute(sa.update(variant).where(same).values(**content))


def _measured(old: Message, values: Values) -> dict[str, Any]:
    """Hash and size of the text that a message is given."""
    content = {k: values.get(k, getattr(old, k)) for k in CONTENT}
    said = NewMessage(old.role, name=old.name, tool_call_id=old.tool_call_id, **content)
    return {"hash": said.hash, "tokens": tokens_of(said)}


def remember(
    conn: sa.Connection,
    ref: ChatRef,
    rev: int,
    what: str,
    old: Message,
    before: Values,
    now_ms: int,
) -> None:
    """Keep what undoing this change must bring back."""
    conn.execute(
        sa.insert(message_revision),
        {
            "chat_id": ref.id,
            "rev": rev,
            "message_id": old.id,
            "change": what,
            "before": json.dumps(dict(before), ensure_ascii=False),
            "undone": False,
            "created_at": now_ms,
        },
    )


def edit(
    conn: sa.Connection,
    ref: ChatRef,
    message_id: int,
    text: str,
    version: int | None,
    now_ms: int,
) -> Message:
    """Put another text in a message's place; `Conflict` if it is not at `version` any more."""
    values = {"body": text, "parts": None}
    return alter(conn, ref, "edit", message_id, values, version, now_ms)


def alter(
    conn: sa.Connection,
    ref: ChatRef,
    what: str,
    message_id: int,
    values: Values,
    version: int | None,
    now_ms: int,
) -> Message:
    """New values for one message; `Conflict` if it is not at `version` any more."""
    old = find(conn, ref, [message_id])[message_id]
    if version is not None and old.version != version:
        raise Conflict(f"the message was changed meanwhile (version {old.version})")
    change(conn, ref, what, {message_id: values}, now_ms)
    return find(conn, ref, [message_id])[message_id]


def move(
    conn: sa.Connection, ref: ChatRef, message_id: int, before_id: int | None, now_ms: int
) -> Message:
    """Put a message in front of another one, or at the end."""
    find(conn, ref, [message_id, *([] if before_id is None else [before_id])])
    if before_id != message_id:
        (pos,) = place(conn, ref, before_id, 1)
        change(conn, ref, "move", {message_id: {"pos": pos}}, now_ms)
    return find(conn, ref, [message_id])[message_id]


def swipe(
    conn: sa.Connection, ref: ChatRef, message_id: int, choice: int | str, now_ms: int
) -> Message:
    """Show another variant of a message: one it has, by number, or a new one."""
    old = find(conn, ref, [message_id])[message_id]
    if isinstance(choice, int):
        index = choice
    else:
        text = NewMessage(old.role, choice, old.name, tool_call_id=old.tool_call_id)
        index = _variant_of(conn, old, text, now_ms)
    found = conn.execute(
        sa.select(_V.body, _V.tool_calls, _V.parts, _V.extra).where(
            _V.message_id == message_id, _V.idx == index
        )
    ).one_or_none()
    if found is None:
        if index == old.variant:
            return old
        raise BadInput(f"the message has no variant {index}", field="variant")
    values = {"variant": index, **dict(zip(CONTENT, found, strict=True))}
    change(conn, ref, "swipe", {message_id: values}, now_ms)
    return find(conn, ref, [message_id])[message_id]


def _variant_of(conn: sa.Connection, old: Message, text: NewMessage, now_ms: int) -> int:
    """The number of a text among a message's variants; it is added if it is not there."""
    known = {
        row.hash: row.idx
        for row in conn.execute(sa.select(_V.hash, _V.idx).where(_V.message_id == old.id))
    }
    if not known:
        _add_variant(conn, old.id, 0, old, old.hash, old.tokens, old.created_at_ms)
        known = {old.hash: 0}
    if text.hash not in known:
        index = max(known.values()) + 1
        _add_variant(conn, old.id, index, text, text.hash, tokens_of(text), now_ms)
        return index
    return known[text.hash]


def offer(
    conn: sa.Connection, ref: ChatRef, message_id: int, texts: Sequence[NewMessage], now_ms: int
) -> None:
    """Further variants of a message; the one that it shows stays."""
    old = find(conn, ref, [message_id])[message_id]
    for text in texts:
        _variant_of(conn, old, replace(text, name=old.name), now_ms)


def worded(conn: sa.Connection, message_id: int, text: NewMessage) -> dict[str, Any]:
    """The values of a message that says this: a text that is one of its variants is that one."""
    values = {"body": text.body, "tool_calls": text.tool_calls, "parts": text.parts}
    index = conn.execute(_VARIANT_LIKE, {"message": message_id, "hash": text.hash}).scalar()
    return values if index is None else {"variant": index, **values}


def _add_variant(
    conn: sa.Connection,
    message_id: int,
    index: int,
    text: Message | NewMessage,
    hash_: bytes,
    tokens: int,
    now_ms: int,
) -> None:
    content = {k: getattr(text, k) for k in CONTENT}
    values = {"message_id": message_id, "idx": index, "hash": hash_, "tokens": tokens}
    conn.execute(sa.insert(variant), {**values, **content, "created_at": now_ms})


def undo(conn: sa.Connection, ref: ChatRef, now_ms: int) -> tuple[Message, ...]:
    """Take back the last change that was not taken back yet; nothing if there is none."""
    steps = conn.execute(_TO_UNDO, {"chat": ref.id}).all()
    if not steps:
        return ()
    back = {step.message_id: json.loads(step.before) for step in steps}
    done = change(conn, ref, "undo", back, now_ms)
    revs = {step.rev for step in steps}
    if done:
        revs.add(
            conn.execute(sa.select(sa.func.max(_R.rev)).where(_R.chat_id == ref.id)).scalar_one()
        )
    conn.execute(
        sa.update(message_revision)
        .where(_R.chat_id == ref.id, _R.rev.in_(revs))
        .values(undone=True)
    )
    return done


def say_anew(
    conn: sa.Connection, ref: ChatRef, message_id: int, text: NewMessage, now_ms: int
) -> None:
    """Another text for a message that was kept already: a candidate again, and undoable."""
    old = find(conn, ref, [message_id])[message_id]
    index = _variant_of(conn, old, text, now_ms)
    content = {k: getattr(text, k) for k in CONTENT}
    values = {"variant": index, **content, "state": State.CANDIDATE.value}
    change(conn, ref, "swipe", {message_id: values}, now_ms)


def confirm(
    conn: sa.Connection,
    ref: ChatRef,
    kept: Sequence[tuple[int, NewMessage | None]],
    now_ms: int,
) -> None:
    """The client has kept these candidates; where its text differs, ours stays as a variant."""
    places: dict[int, int] = {}
    for message_id, text in kept:
        if text is not None:
            show(conn, message_id, text, now_ms)
        found = _CONFIRM.one(conn, {"of_id": message_id, "of_chat": ref.id})
        if found is None:
            raise MessageNotFound(f"the chat {ref.name!r} has no message {message_id}")
        places[message_id] = found[0]
    if places and coverage.reaches(conn, ref, min(places.values())):
        coverage.refresh(conn, ref, places, places.values(), now_ms)


def show(conn: sa.Connection, message_id: int, text: NewMessage, now_ms: int) -> None:
    """Put a text in a candidate's place; every text it ever had stays as a variant."""
    query = sa.select(*rows.MESSAGE_COLUMNS).where(M.id == message_id)
    (old,) = rows.messages(conn.execute(query))
    index = _variant_of(conn, old, text, now_ms)
    values = {k: getattr(text, k) for k in CONTENT}
    _write(conn, old, {"variant": index, **values})
