"""Transactions on settings by scope: those of all chats, a character's, and a chat's own on top."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from previously.errors import Conflict
from previously.model import ChatRef
from previously.store import Scope, Whose, chats
from previously.store.schema import chat, fold, setting, work

GLOBAL, CHARACTER, CHAT = "global", "character", "chat"


def layers(conn: sa.Connection, owner: str, whose: Whose) -> dict[str, Scope]:
    """What is stored for all chats, for a character, for one chat: lowest first."""
    found = {GLOBAL: _read(conn, _where(owner, None))}
    character = whose if isinstance(whose, str) else None
    if isinstance(whose, int):
        character = conn.execute(sa.select(chat.c.character).where(chat.c.id == whose)).scalar()
    if character is not None:
        found[CHARACTER] = _read(conn, _where(owner, character))
    if isinstance(whose, int):
        found[CHAT] = _read(conn, _where(owner, whose))
    return found


def _read(conn: sa.Connection, where: sa.ColumnElement[bool]) -> Scope:
    row = conn.execute(sa.select(setting.c.body, setting.c.revision).where(where)).one_or_none()
    return Scope({}, 0) if row is None else Scope(json.loads(row.body), row.revision)


def _named(whose: Whose) -> tuple[str, str]:
    if whose is None:
        return GLOBAL, ""
    return (CHARACTER, whose) if isinstance(whose, str) else (CHAT, str(whose))


def _where(owner: str, whose: Whose) -> sa.ColumnElement[bool]:
    scope, scope_id = _named(whose)
    return sa.and_(
        setting.c.owner == owner, setting.c.scope == scope, setting.c.scope_id == scope_id
    )


def change(
    conn: sa.Connection,
    owner: str,
    whose: Whose,
    changes: Mapping[str, Any],
    revision: int | None,
) -> None:
    """Lay changes over a scope; `Conflict` if it is not at `revision` any more."""
    before = _read(conn, _where(owner, whose))
    if revision is not None and before.revision != revision:
        raise Conflict(f"the settings were changed meanwhile (revision {before.revision})")
    if isinstance(whose, int):
        chats.change_settings(conn, ChatRef(whose, owner, ""), changes)
        return
    after = {k: v for k, v in {**before.values, **changes}.items() if v is not None}
    if after == before.values:
        return
    values = {"body": json.dumps(after), "revision": before.revision + 1}
    if before.revision:
        conn.execute(sa.update(setting).where(_where(owner, whose)).values(**values))
    else:
        scope, scope_id = _named(whose)
        row = {"owner": owner, "scope": scope, "scope_id": scope_id, **values}
        conn.execute(sa.insert(setting), row)
    tails = after.get("visible_floors") != before.values.get("visible_floors")
    _tell(conn, owner, whose, tails=tails)


def _tell(conn: sa.Connection, owner: str, character: str | None, *, tails: bool) -> None:
    """Its chats are looked at again; where tails may have to grow, every fold of them moves."""
    mine = sa.select(chat.c.id).where(chat.c.owner == owner, chat.c.deleted_at.is_(None))
    if character is not None:
        mine = mine.where(chat.c.character == character)
    if tails:
        conn.execute(sa.update(fold).where(fold.c.chat_id.in_(mine)).values(stale=True))
    conn.execute(sa.update(work).where(work.c.chat_id.in_(mine)).values(rev=work.c.rev + 1))


def naming(conn: sa.Connection, owner: str, profile: str) -> list[Whose]:
    """Whose settings name a profile: chats, characters, or None for those of all chats."""
    query = sa.select(setting.c.scope, setting.c.scope_id, setting.c.body)
    found = conn.execute(query.where(setting.c.owner == owner))
    using = [row for row in found if json.loads(row.body).get("summary_profile") == profile]
    return [_whose(row.scope, row.scope_id) for row in using]


def _whose(scope: str, scope_id: str) -> Whose:
    if scope == GLOBAL:
        return None
    return scope_id if scope == CHARACTER else int(scope_id)


def set_character(
    conn: sa.Connection, ref: ChatRef, character: str | None, *, only_first: bool = False
) -> bool:
    """Whose chat it is; whether that is news. Its folds move: other settings may hold now."""
    same = chat.c.character.is_not_distinct_from(character)
    mine = sa.and_(chat.c.id == ref.id, ~same)
    if only_first:
        mine = sa.and_(mine, chat.c.character.is_(None))
    if not conn.execute(sa.update(chat).where(mine).values(character=character)).rowcount:
        return False
    conn.execute(sa.update(fold).where(fold.c.chat_id == ref.id).values(stale=True))
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=work.c.rev + 1))
    return True


_KNOWN = (
    sa.select(chat.c.character, sa.func.count())
    .where(
        chat.c.owner == sa.bindparam("of_owner"),
        chat.c.character.is_not(None),
        chat.c.deleted_at.is_(None),
        chat.c.building.is_(False),
    )
    .group_by(chat.c.character)
)
_SET = sa.select(setting.c.scope_id).where(
    setting.c.owner == sa.bindparam("of_owner"), setting.c.scope == CHARACTER
)


def characters(conn: sa.Connection, owner: str) -> dict[str, int]:
    """Every character that a chat or a setting names, and how many chats are theirs."""
    mine = {"of_owner": owner}
    known = dict.fromkeys(conn.execute(_SET, mine).scalars(), 0)
    known |= {row[0]: row[1] for row in conn.execute(_KNOWN, mine)}
    return dict(sorted(known.items()))
