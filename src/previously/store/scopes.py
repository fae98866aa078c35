"""Transactions on settings by scope: those of all chats, and a chat's own above them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from previously.errors import Conflict
from previously.model import ChatRef
from previously.store import Scope, chats
from previously.store.schema import chat, fold, setting, work

GLOBAL, CHAT = "global", "chat"


def layers(conn: sa.Connection, owner: str, chat_id: int | None) -> dict[str, Scope]:
    """What is stored for all chats, and for one."""
    found = {GLOBAL: _read(conn, _where(owner, None))}
    if chat_id is not None:
        found[CHAT] = _read(conn, _where(owner, chat_id))
    return found


def _read(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Scope:
    row = conn.execute(sa.select(setting.c.body, setting.c.revision).where(where)).one_or_none()
    return Scope({}, 0) if row is None else Scope(json.loads(row.body), row.revision)


def _where(owner: str, chat_id: int | None) -> sa.ColumnElement[bool]:
    scope, scope_id = (GLOBAL, "") if chat_id is None else (CHAT, str(chat_id))
    return sa.and_(
        setting.c.owner == owner, setting.c.scope == scope, setting.c.scope_id == scope_id
    )


def change(
    conn: sa.Connection,
    owner: str,
    chat_id: int | None,
    changes: Mapping[str, Any],
    revision: int | None,
) -> None:
    """Lay changes over a scope; `Conflict` if it is not at `revision` any more."""
    before = _read(conn, _where(owner, chat_id))
    if revision is not None and before.revision != revision:
        raise Conflict(f"the settings were changed meanwhile (revision {before.revision})")
    if chat_id is not None:
        chats.change_settings(conn, ChatRef(chat_id, owner, ""), changes)
        return
    after = {k: v for k, v in {**before.values, **changes}.items() if v is not None}
    if after == before.values:
        return
    values = {"body": json.dumps(after), "revision": before.revision + 1}
    if before.revision:
        conn.execute(sa.update(setting).where(_where(owner, None)).values(**values))
    else:
        row = {"owner": owner, "scope": GLOBAL, "scope_id": "", **values}
        conn.execute(sa.insert(setting), row)
    _tell_all(conn, owner, tails=after.get("visible_floors") != before.values.get("visible_floors"))


def _tell_all(conn: sa.Connection, owner: str, *, tails: bool) -> None:
    """Every chat is looked at again; where tails may have to grow, every fold moves."""
    mine = sa.select(chat.c.id).where(chat.c.owner == owner, chat.c.deleted_at.is_(None))
    if tails:
        conn.execute(sa.update(fold).where(fold.c.chat_id.in_(mine)).values(stale=True))
    conn.execute(sa.update(work).where(work.c.chat_id.in_(mine)).values(rev=work.c.rev + 1))


def naming(conn: sa.Connection, owner: str, profile: str) -> list[int | None]:
    """Whose settings name a profile: chats, or None for those of all chats."""
    query = sa.select(setting.c.scope, setting.c.scope_id, setting.c.body)
    found = conn.execute(query.where(setting.c.owner == owner))
    using = [row for row in found if json.loads(row.body).get("summary_profile") == profile]
    return [None if row.scope == GLOBAL else int(row.scope_id) for row in using]
