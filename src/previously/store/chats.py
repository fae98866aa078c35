"""Transactions on chats: find, make, list, and their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from previously.errors import ChatNotFound
from previously.model import Chat, ChatRef
from previously.store.schema import chat, fold, setting, work

_COLUMNS = (chat.c.id, chat.c.owner, chat.c.name, chat.c.title, chat.c.preset, chat.c.lane)
_SELECT = sa.select(*_COLUMNS, work.c.rev, chat.c.created_at).join(
    work, work.c.chat_id == chat.c.id
)
_VISIBLE = sa.and_(chat.c.deleted_at.is_(None), chat.c.building.is_(False))


def _chat(row: Any) -> Chat:
    ref = ChatRef(row.id, row.owner, row.name)
    return Chat(ref, row.title, row.preset, row.lane, row.rev, row.created_at)


def find(conn: sa.Connection, owner: str, name: str) -> Chat:
    """The chat of that name, or `ChatNotFound` with the names there are."""
    query = _SELECT.where(chat.c.owner == owner, chat.c.name == name, _VISIBLE)
    row = conn.execute(query).one_or_none()
    if row is None:
        known = ", ".join(c.ref.name for c in listing(conn, owner, 5)) or "none yet"
        raise ChatNotFound(f"no chat named {name!r}; the newest are: {known}")
    return _chat(row)


def listing(conn: sa.Connection, owner: str, limit: int) -> list[Chat]:
    """The owner's chats, newest first."""
    query = _SELECT.where(chat.c.owner == owner, _VISIBLE).order_by(chat.c.id.desc()).limit(limit)
    return [_chat(row) for row in conn.execute(query)]


def refs(conn: sa.Connection, chat_ids: Sequence[int]) -> list[ChatRef]:
    """The visible ones among these chats."""
    query = sa.select(chat.c.id, chat.c.owner, chat.c.name).where(chat.c.id.in_(chat_ids), _VISIBLE)
    return [ChatRef(row.id, row.owner, row.name) for row in conn.execute(query)]


def ensure(conn: sa.Connection, owner: str, name: str, preset: str, lane: str, now_ms: int) -> Chat:
    """The chat of that name, made if it is missing."""
    try:
        return find(conn, owner, name)
    except ChatNotFound:
        values = {"owner": owner, "name": name, "title": name, "preset": preset, "lane": lane}
        made = conn.execute(
            sa.insert(chat).values(created_at=now_ms, **values).returning(chat.c.id)
        )
        conn.execute(sa.insert(work).values(chat_id=made.scalar_one()))
        return find(conn, owner, name)


def set_recalculating(conn: sa.Connection, ref: ChatRef, *, on: bool) -> None:
    """While a client rebuilds its own state, nothing is written about the chat."""
    conn.execute(sa.update(chat).where(chat.c.id == ref.id).values(recalculating=on))
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))


def set_lane(conn: sa.Connection, ref: ChatRef, preset: str, lane: str) -> Chat:
    """Remember this chat by another lane from now on; what any lane has written stays.

    Every fold moves at its next prompt, back if this lane has nothing to stand for what it showed.
    """
    known = find(conn, ref.owner, ref.name)
    if (known.preset, known.lane) == (preset, lane):
        return known
    conn.execute(sa.update(chat).where(chat.c.id == ref.id).values(preset=preset, lane=lane))
    conn.execute(sa.update(fold).where(fold.c.chat_id == ref.id).values(stale=True))
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))
    return find(conn, ref.owner, ref.name)


def change_settings(conn: sa.Connection, ref: ChatRef, changes: Mapping[str, Any]) -> None:
    """Lay the changes over the chat's own settings; None takes one back to its default."""
    where = sa.and_(
        setting.c.owner == ref.owner,
        setting.c.scope == "chat",
        setting.c.scope_id == str(ref.id),
    )
    row = conn.execute(sa.select(setting.c.body, setting.c.revision).where(where)).one_or_none()
    before: dict[str, Any] = json.loads(row.body) if row else {}
    after = {k: v for k, v in {**before, **changes}.items() if v is not None}
    if after == before:
        return
    if after.get("visible_floors") != before.get("visible_floors"):  # a tail may have to grow
        conn.execute(sa.update(fold).where(fold.c.chat_id == ref.id).values(stale=True))
    if row:
        update = sa.update(setting).where(where)
        conn.execute(update.values(body=json.dumps(after), revision=row.revision + 1))
    else:
        conn.execute(
            sa.insert(setting).values(
                owner=ref.owner,
                scope="chat",
                scope_id=str(ref.id),
                body=json.dumps(after),
                revision=1,
            )
        )
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))
