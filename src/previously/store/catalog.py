"""Transactions on chats as a shelf: listed with their sizes, put away, taken out again, purged.

A chat that is put away gives up its name, so that another one may have it, and is seen by nobody
but this module. Purging takes it apart in small batches; whatever a process that died had left of
it is removed at the next start, as with an unfinished copy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from previously.errors import ChatNotFound
from previously.model import BIRTH_MASK, Chat, ChatRef, SummaryStatus, key
from previously.store import ChatCard, ChatFacts
from previously.store.branches import refuse_taken
from previously.store.rows import M, S
from previously.store.schema import chat, intent, message, setting, summary, work

BATCH_ROWS = 500

_C = chat.c
_ACTIVE = sa.func.coalesce(
    sa.select(M.created_at)
    .where(M.chat_id == _C.id)
    .order_by(M.pos.desc())
    .limit(1)
    .correlate(chat)
    .scalar_subquery(),
    _C.created_at,
)
_COUNT = sa.select(sa.func.count()).select_from(message).where(M.chat_id == _C.id).correlate(chat)
_EVERY = sa.case(  # as many as were born in it; a branch has taken only some along
    (_C.branch_of.is_(None), work.c.next_n - 1), else_=_COUNT.scalar_subquery()
)
_CARD = sa.select(
    _C.id, _C.owner, _C.name, _C.title, _C.preset, _C.lane, _C.created_at, _C.deleted_at,
    _C.recording, _C.recalculating, _C.branch_of, _C.character, _C.extra, work.c.rev, work.c.next_s,
    _ACTIVE.label("active_at"),
    _EVERY.label("count"),
    _COUNT.where(M.deleted_at.is_not(None)).scalar_subquery().label("gone"),
).join(work, work.c.chat_id == _C.id)  # fmt: skip


def find(conn: sa.Connection, owner: str, chat_id: int, *, deleted: bool = False) -> ChatRef:
    """The chat with that key: one that is there, or one that was put away."""
    state = _C.deleted_at.is_not(None) if deleted else _C.deleted_at.is_(None)
    mine = sa.and_(_C.id == chat_id, _C.owner == owner, _C.building.is_(False), state)
    row = conn.execute(sa.select(_C.id, _C.owner, _C.name).where(mine)).one_or_none()
    if row is None:
        where = "among the deleted ones" if deleted else "here"
        raise ChatNotFound(f"there is no such chat {where}; it may have been deleted")
    return ChatRef(row.id, row.owner, row.name)


def listing(
    conn: sa.Connection,
    owner: str,
    limit: int,
    before: tuple[int, int] | None,
    *,
    text: str = "",
    deleted: bool = False,
) -> list[ChatCard]:
    """Chats by their newest message, newest first; `before` is the last one of the page before."""
    state = _C.deleted_at.is_not(None) if deleted else _C.deleted_at.is_(None)
    query = sa.select(_C.id, _ACTIVE.label("at")).where(
        _C.owner == owner, _C.building.is_(False), state
    )
    if text:
        query = query.where(sa.func.lower(_C.title).contains(text.lower(), autoescape=True))
    found = query.subquery()
    page = sa.select(found.c.id).order_by(found.c.at.desc(), found.c.id.desc()).limit(limit)
    if before is not None:
        page = page.where(sa.tuple_(found.c.at, found.c.id) < sa.tuple_(*before))
    ids = list(conn.execute(page).scalars())
    cards = {row.id: _card(row) for row in conn.execute(_CARD.where(_C.id.in_(ids)))}
    return [cards[i] for i in ids]


def _card(row: Any) -> ChatCard:
    extra: Mapping[str, Any] = json.loads(row.extra or "{}")
    name = extra.get("name", row.name) if row.deleted_at is not None else row.name
    ref = ChatRef(row.id, row.owner, name)
    return ChatCard(
        chat=Chat(ref, row.title, row.preset, row.lane, row.rev, row.created_at),
        messages=row.count - row.gone,
        summaries_written=row.next_s - 1,
        active_at_ms=row.active_at,
        recording=row.recording,
        recalculating=row.recalculating,
        branch_of=row.branch_of,
        character=row.character,
        deleted_at_ms=row.deleted_at,
    )


def card(conn: sa.Connection, ref: ChatRef) -> ChatCard:
    """One chat, there or put away."""
    row = conn.execute(_CARD.where(_C.id == ref.id)).one_or_none()
    if row is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    return _card(row)


_TOKENS = sa.select(sa.func.coalesce(sa.func.sum(M.tokens), 0))
_MINE = S.id.between(sa.bindparam("first"), sa.bindparam("last"))
_STATES = sa.select(S.status, S.valid, sa.func.count()).where(_MINE).group_by(S.status, S.valid)
_WISHES = sa.select(intent.c.kind).where(intent.c.closed_at.is_(None))


def facts(conn: sa.Connection, ref: ChatRef) -> ChatFacts:
    """What takes a look at every message and summary of one chat."""
    ends = {"first": key(ref.id, 0), "last": key(ref.id, BIRTH_MASK)}
    states = {(row[0], row[1]): row[2] for row in conn.execute(_STATES, ends)}
    live = _TOKENS.where(M.chat_id == ref.id, M.deleted_at.is_(None))
    return ChatFacts(
        tokens=int(conn.execute(live).scalar_one()),
        summaries=states.get((SummaryStatus.READY.value, True), 0),
        proposals=sum(n for (s, _), n in states.items() if s == SummaryStatus.PROPOSED.value),
        wishes=tuple(conn.execute(_WISHES.where(intent.c.chat_id == ref.id)).scalars()),
    )


def create(conn: sa.Connection, owner: str, name: str, preset: str, lane: str, now_ms: int) -> int:
    """A chat that was not there before."""
    refuse_taken(conn, owner, name)
    values = {"owner": owner, "name": name, "title": name, "preset": preset, "lane": lane}
    made = conn.execute(sa.insert(chat).values(created_at=now_ms, **values).returning(_C.id))
    chat_id = made.scalar_one()
    conn.execute(sa.insert(work).values(chat_id=chat_id))
    return chat_id


def set_title(conn: sa.Connection, ref: ChatRef, title: str) -> None:
    """What people read; the name in addresses stays."""
    conn.execute(sa.update(chat).where(_C.id == ref.id).values(title=title))
    _news(conn, ref)


def set_recording(conn: sa.Connection, ref: ChatRef, *, on: bool) -> None:
    """Whether proxied turns of this chat are kept."""
    conn.execute(sa.update(chat).where(_C.id == ref.id).values(recording=on))
    _news(conn, ref)


def _news(conn: sa.Connection, ref: ChatRef) -> None:
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))


def _end_work(conn: sa.Connection, ref: ChatRef) -> None:
    """Whoever is at work on the chat finds the fence raised and writes nothing."""
    ended = {"fence": work.c.fence + 1, "lease_owner": None, "lease_until": None}
    mine = work.c.chat_id == ref.id
    conn.execute(sa.update(work).where(mine).values(rev=work.c.rev + 1, **ended))


def put_away(conn: sa.Connection, ref: ChatRef, now_ms: int) -> None:
    """Delete a chat so that it can be brought back."""
    row = conn.execute(sa.select(_C.name, _C.extra).where(_C.id == ref.id)).one_or_none()
    if row is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    extra = {**json.loads(row.extra or "{}"), "name": row.name}
    values = {"name": f"deleted {secrets.token_hex(16)}", "extra": json.dumps(extra)}
    conn.execute(sa.update(chat).where(_C.id == ref.id).values(deleted_at=now_ms, **values))
    _end_work(conn, ref)


def bring_back(conn: sa.Connection, owner: str, chat_id: int) -> ChatRef:
    """Undo `put_away`, if nobody has taken the name meanwhile."""
    ref = find(conn, owner, chat_id, deleted=True)
    extra: dict[str, Any] = json.loads(
        conn.execute(sa.select(_C.extra).where(_C.id == chat_id)).scalar() or "{}"
    )
    name = extra.pop("name", ref.name)
    refuse_taken(conn, owner, name)
    values = {"name": name, "extra": json.dumps(extra) if extra else None, "deleted_at": None}
    conn.execute(sa.update(chat).where(_C.id == chat_id).values(**values))
    _news(conn, ref)
    return ChatRef(chat_id, owner, name)


def start_purge(conn: sa.Connection, ref: ChatRef, now_ms: int) -> None:
    """From here on there is no way back: what is left of it is removed at the next start."""
    gone = {"building": True, "deleted_at": now_ms, "created_at": 0}
    hidden = f"purged {secrets.token_hex(16)}"
    conn.execute(sa.update(chat).where(_C.id == ref.id).values(name=hidden, title="", **gone))
    _end_work(conn, ref)


def purge_some(conn: sa.Connection, ref: ChatRef) -> bool:
    """Remove a batch of messages or summaries; whether there may be more."""
    for table, column in ((message, M.id), (summary, S.id)):
        mine = column.between(key(ref.id, 0), key(ref.id, BIRTH_MASK))
        batch = sa.select(column).where(mine).limit(BATCH_ROWS)
        if conn.execute(sa.delete(table).where(column.in_(batch.scalar_subquery()))).rowcount:
            return True
    return False


def finish_purge(conn: sa.Connection, ref: ChatRef) -> None:
    """Remove what is left: the chat itself, and its settings."""
    own = sa.and_(setting.c.scope == "chat", setting.c.scope_id == str(ref.id))
    conn.execute(sa.delete(setting).where(setting.c.owner == ref.owner, own))
    conn.execute(sa.delete(chat).where(_C.id == ref.id))
