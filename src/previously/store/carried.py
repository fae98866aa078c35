"""Transactions on what an earlier chat has handed on: written once, read, taken out.

They are no messages, so that a client's history is aligned as if they were not there, and no
summaries, so that they cover nothing. A fold names them like everything else that it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from previously.errors import SummaryNotFound
from previously.model import BIRTH_BITS, Carried, ChatRef, NewCarried, birth, key
from previously.store import changes
from previously.store.branches import copy_settings
from previously.store.catalog import create
from previously.store.messages import presence_of
from previously.store.prepared import Prepared
from previously.store.schema import carried, chat, fold

_C = carried.c
_COLUMNS = (
    _C.chat_id, _C.ordinal, _C.text, _C.tokens, _C.lane, _C.kind, _C.is_extract, _C.presence,
    _C.from_chat, _C.from_title, _C.from_record, _C.created_at,
)  # fmt: skip
_OF_CHAT = Prepared(
    sa.select(*_COLUMNS).where(_C.chat_id == sa.bindparam("chat")).order_by(_C.ordinal)
)
_LIKE = ("preset", "lane", "character", "recording")  # as in the chat that is continued


def start(
    conn: sa.Connection, ref: ChatRef, name: str, handed_on: Sequence[NewCarried], now_ms: int
) -> int:
    """A new chat like another one, with its settings and what it hands on, and no messages."""
    like = conn.execute(sa.select(*(chat.c[n] for n in _LIKE)).where(chat.c.id == ref.id)).one()
    made = create(conn, ref.owner, name, like.preset, like.lane, now_ms)
    more = {n: getattr(like, n) for n in _LIKE}
    conn.execute(sa.update(chat).where(chat.c.id == made).values(**more))
    copy_settings(conn, ref.id, made)
    target = ChatRef(made, ref.owner, name)
    for ordinal, one in enumerate(handed_on, 1):
        values = {
            "chat_id": made,
            "ordinal": ordinal,
            "text": one.text,
            "tokens": one.tokens,
            "lane": one.lane,
            "kind": one.kind,
            "is_extract": one.is_extract,
            "presence": presence_of(conn, target, one.present),
            "from_chat": one.from_chat,
            "from_title": one.from_title,
            "from_record": one.from_record,
            "created_at": now_ms,
        }
        conn.execute(sa.insert(carried), values)
    return made


def of_chat(conn: sa.Connection, ref: ChatRef) -> tuple[Carried, ...]:
    """All that a chat was handed, oldest first."""
    return _read(_OF_CHAT.all(conn, {"chat": ref.id}))


def _read(found: Iterable[Any]) -> tuple[Carried, ...]:
    return tuple(Carried(key(chat_id, ordinal), *rest) for chat_id, ordinal, *rest in found)


def remove(conn: sa.Connection, ref: ChatRef, carried_id: int) -> None:
    """Take one out for good; every fold moves, because one may show it."""
    mine = sa.and_(_C.chat_id == ref.id, _C.ordinal == birth(carried_id))
    found = carried_id >> BIRTH_BITS == ref.id
    if not found or conn.execute(sa.delete(carried).where(mine)).rowcount == 0:
        raise SummaryNotFound(f"nothing of that id was carried over to the chat {ref.name!r}")
    conn.execute(sa.update(fold).where(fold.c.chat_id == ref.id).values(stale=True))
    changes.take_rev(conn, ref)
