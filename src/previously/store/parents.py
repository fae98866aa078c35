"""Writing a summary of summaries: its children are compared with what is stored; all or nothing.

A summary has one parent at most: what claimed a child before is retired, or, if a user had edited
it, stays while the new text waits to be accepted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import StaleDraft
from previously.model import START, ChatRef, Draft, Summary, SummaryStatus, digest, key
from previously.store import coverage, leaves, rows
from previously.store.rows import IS_READY, M, S
from previously.store.schema import fold, hole, link, summary

_CHAT: BindParameter[int] = sa.bindparam("chat")
_LANE: BindParameter[str] = sa.bindparam("of_lane")
_IDS: BindParameter[int] = sa.bindparam("ids", expanding=True)
_FIRST: BindParameter[int] = sa.bindparam("from_pos")
_LAST: BindParameter[int] = sa.bindparam("to_pos")

_LIVE = (  # what stands in this stretch now
    sa.select(*rows.SUMMARY_COLUMNS)
    .where(
        S.chat_id == _CHAT,
        S.lane == _LANE,
        IS_READY,
        S.valid.is_(True),
        S.covered_by.is_(None),
        S.last_pos >= _FIRST,
        S.first_pos <= _LAST,
    )
    .order_by(S.last_pos)
)
_HOLES = (
    sa.select(sa.func.count())
    .select_from(hole.join(M.id.table, M.id == hole.c.message_id))
    .where(hole.c.chat_id == _CHAT, hole.c.lane == _LANE, M.pos >= _FIRST, M.pos <= _LAST)
)
_RIVALS = (
    sa.select(S.id, S.edited_by_user, S.level, S.ordinal)
    .join(link, link.c.summary_id == S.id)
    .where(link.c.target_id.in_(_IDS), link.c.target_is_summary.is_(True), IS_READY)
    .distinct()
)
_ROOM_MADE = (  # a fold that had to leave something out may have room for it now
    sa.update(fold)
    .where(fold.c.chat_id == _CHAT, fold.c.from_pos > START)
    .values(stale=True, version=fold.c.version + 1)
)
_ORDINAL = sa.select(sa.func.coalesce(sa.func.max(S.ordinal), 0)).where(
    S.chat_id == _CHAT, S.lane == _LANE, S.level == sa.bindparam("of_level")
)


def commit_parent(conn: sa.Connection, ref: ChatRef, draft: Draft, now_ms: int) -> Summary:
    """Write a summary over exactly the summaries it read, or `StaleDraft`."""
    leaves.refuse_recalculating(conn, ref)
    _refuse_changed(conn, ref, draft)
    children = draft.task.children
    rivals = conn.execute(_RIVALS, {"ids": [c.id for c in children]}).all()
    made = _insert(conn, ref, draft, _ordinal(conn, ref, draft, rivals), now_ms)
    if any(rival.edited_by_user for rival in rivals):
        _set_proposed(conn, made.id)
        return leaves.as_proposed(made)
    for rival in rivals:
        coverage.retire(conn, ref, rival.id, by=made.id)
    coverage.put_under(conn, [(child.id, made.id) for child in children])
    conn.execute(_ROOM_MADE, {"chat": ref.id})
    return made


def _refuse_changed(conn: sa.Connection, ref: ChatRef, draft: Draft) -> None:
    """The children must be what they were, with nothing else and no gap between them."""
    children = draft.task.children
    span = {
        "chat": ref.id,
        "of_lane": draft.task.lane,
        "from_pos": children[0].first_pos,
        "to_pos": children[-1].last_pos,
    }
    found = rows.summaries(conn.execute(_LIVE, span))
    if [(s.id, s.hash) for s in found] != [(c.id, c.hash) for c in children]:
        raise StaleDraft("a summary was changed, covered or taken out meanwhile")
    if conn.execute(_HOLES, span).scalar_one():
        raise StaleDraft("a message between these summaries has lost its own meanwhile")


def _ordinal(conn: sa.Connection, ref: ChatRef, draft: Draft, rivals: Sequence[Any]) -> int:
    """The next number of its level; a volume that is written anew keeps its own."""
    level = draft.task.children[0].level + 1
    inherited = [rival.ordinal for rival in rivals if rival.level == level]
    if inherited:
        return min(inherited)
    at = {"chat": ref.id, "of_lane": draft.task.lane, "of_level": level}
    return conn.execute(_ORDINAL, at).scalar_one() + 1


def _insert(conn: sa.Connection, ref: ChatRef, draft: Draft, ordinal: int, now_ms: int) -> Summary:
    task, children = draft.task, draft.task.children
    made = Summary(
        id=key(ref.id, leaves.take_birth(conn, ref)),
        lane=task.lane,
        kind=task.kind,
        level=children[0].level + 1,
        ordinal=ordinal,
        text=draft.text,
        tokens=draft.tokens,
        hash=digest(draft.text),
        first_pos=children[0].first_pos,
        last_pos=children[-1].last_pos,
        message_count=sum(c.message_count for c in children),
        created_at_ms=now_ms,
        provenance=json.dumps(dict(draft.provenance), ensure_ascii=False),
        presence=children[0].presence,
        covers=tuple(c.id for c in children),
    )
    leaves.write(conn, ref, made, draft, now_ms)
    _link(conn, made.id, children)
    return made


def _link(conn: sa.Connection, summary_id: int, children: Sequence[Summary]) -> None:
    conn.execute(
        sa.insert(link),
        [
            {
                "summary_id": summary_id,
                "position": i,
                "target_is_summary": True,
                "target_id": c.id,
                "target_hash": c.hash,
            }
            for i, c in enumerate(children)
        ],
    )


def _set_proposed(conn: sa.Connection, summary_id: int) -> None:
    waiting = {"status": SummaryStatus.PROPOSED.value, "valid": False}
    conn.execute(sa.update(summary).where(S.id == summary_id).values(**waiting))
