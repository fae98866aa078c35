"""An import is recorded into a chat that nobody sees, batch by batch, and shown in one step.

What a process that died had begun is removed at the next start, as with an unfinished branch.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from previously.model import Chat, ChatRef
from previously.store import chats
from previously.store.branches import refuse_taken
from previously.store.changes import take_rev
from previously.store.schema import chat, work


def start(
    conn: sa.Connection, owner: str, name: str, preset: str, lane: str, now_ms: int
) -> ChatRef:
    """An invisible chat to record into, if nobody has the name that it is to get."""
    refuse_taken(conn, owner, name)
    values = {"owner": owner, "title": name, "preset": preset, "lane": lane, "building": True}
    hidden = f"import {secrets.token_hex(16)}"
    insert = sa.insert(chat).values(name=hidden, created_at=now_ms, **values)
    made = conn.execute(insert.returning(chat.c.id)).scalar_one()
    conn.execute(sa.insert(work).values(chat_id=made))
    return ChatRef(made, owner, hidden)


def finish(conn: sa.Connection, ref: ChatRef, name: str) -> Chat:
    """Turn it visible under its name, unless somebody took that meanwhile."""
    refuse_taken(conn, ref.owner, name)
    take_rev(conn, ref)
    shown = sa.update(chat).where(chat.c.id == ref.id)
    conn.execute(shown.values(name=name, building=False))
    return chats.find(conn, ref.owner, name)
