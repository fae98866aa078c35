"""Transactions on what was sent upstream last: kept per chat, found again by the client's words."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from previously.model import ChatRef, Sent
from previously.store.schema import chat, sent

FITTING_MAX = 8  # chats that may end with the same words; more tell nothing

# Both databases read it the same way. A chat that is gone by now gives no row to insert.
_KEEP = sa.text(
    "INSERT INTO sent (chat_id, tail_key, facts, sent_at)"
    " SELECT id, CAST(:tail AS TEXT), CAST(:facts AS TEXT), CAST(:at_ms AS BIGINT)"
    " FROM chat WHERE id = :chat"
    " ON CONFLICT (chat_id) DO UPDATE"
    " SET tail_key = excluded.tail_key, facts = excluded.facts, sent_at = excluded.sent_at"
)


def keep(conn: sa.Connection, news: Sequence[Sent]) -> None:
    """Replace what is known of each chat."""
    for one in sorted(news, key=lambda s: s.chat_id):  # one order for all: no two wait in a circle
        values = {"tail": one.tail_key, "facts": one.facts, "at_ms": one.sent_at_ms}
        conn.execute(_KEEP, {"chat": one.chat_id, **values})


def last(conn: sa.Connection, ref: ChatRef) -> Sent | None:
    """What the newest turn sent."""
    query = sa.select(sent).where(sent.c.chat_id == ref.id)
    row = conn.execute(query).one_or_none()
    return None if row is None else Sent(row.chat_id, row.tail_key, row.facts, row.sent_at)


def by_tail(conn: sa.Connection, owner: str, keys: Sequence[str]) -> list[ChatRef]:
    """The owner's chats whose newest turn was asked with one of these."""
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name)
        .join(sent, sent.c.chat_id == chat.c.id)
        .where(
            sent.c.tail_key.in_(list(keys)),
            chat.c.owner == owner,
            chat.c.deleted_at.is_(None),
            chat.c.building.is_(False),
        )
        .order_by(chat.c.id.desc())
        .limit(FITTING_MAX)
    )
    return [ChatRef(row.id, row.owner, row.name) for row in conn.execute(query)]
