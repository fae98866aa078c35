"""What state cannot imply: somebody asked for a run now, or for summaries to be written anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from previously.model import ChatRef, Intent, Rebuild, Summary, SummaryStatus, key
from previously.store import changes, coverage, rows
from previously.store.prepared import Prepared
from previously.store.rows import M, S
from previously.store.schema import intent, work

REBUILDS_MAX = 16
_I = intent.c

_OPEN = Prepared(
    sa.select(_I.id, _I.lane, _I.kind, _I.payload)
    .where(_I.chat_id == sa.bindparam("chat"), _I.closed_at.is_(None))
    .order_by(_I.id)
)
_OLDER = (
    sa.select(*rows.SUMMARY_COLUMNS)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        S.level == 0,
        S.status == SummaryStatus.READY.value,
        S.valid.is_(True),
        S.edited_by_user.is_(False),
        S.id < sa.bindparam("before_id"),
        S.last_pos >= sa.bindparam("from_pos"),
    )
    .order_by(S.first_pos)
    .limit(REBUILDS_MAX)
)
_MESSAGES = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(M.pos)
)


def open_intent(
    conn: sa.Connection,
    ref: ChatRef,
    lane: str,
    kind: str,
    from_pos: int,
    now_ms: int,
    *,
    beyond_budget: bool,
) -> int:
    """Note a wish; the next plan sees it."""
    changes.take_rev(conn, ref)
    mark = conn.execute(sa.select(work.c.next_s).where(work.c.chat_id == ref.id)).scalar_one()
    asked = {"from_pos": from_pos, "before_id": key(ref.id, mark)}
    payload = json.dumps({**asked, "beyond_budget": True} if beyond_budget else asked)
    values = {"chat_id": ref.id, "lane": lane, "kind": kind, "payload": payload}
    made = sa.insert(intent).values(created_at=now_ms, **values).returning(_I.id)
    return conn.execute(made).scalar_one()


def open_intents(conn: sa.Connection, ref: ChatRef) -> tuple[Intent, ...]:
    """The chat's wishes, oldest first."""
    return tuple(
        Intent(number, lane, kind, **json.loads(payload))
        for number, lane, kind, payload in _OPEN.all(conn, {"chat": ref.id})
    )


def close(conn: sa.Connection, ref: ChatRef, ids: Sequence[int], now_ms: int) -> None:
    """These are fulfilled."""
    mine = sa.and_(_I.chat_id == ref.id, _I.id.in_(list(ids)))
    conn.execute(sa.update(intent).where(mine).values(closed_at=now_ms))


def withdraw(conn: sa.Connection, ref: ChatRef, lane: str, kind: str, now_ms: int) -> bool:
    """Close the wishes of a kind, fulfilled or not; whether there was one."""
    mine = [w.id for w in open_intents(conn, ref) if (w.lane, w.kind) == (lane, kind)]
    if mine:
        changes.take_rev(conn, ref)
        close(conn, ref, mine, now_ms)
    return bool(mine)


def rebuilds(conn: sa.Connection, ref: ChatRef, intents: Iterable[Intent]) -> tuple[Rebuild, ...]:
    """Summaries that a wish wants written anew, with the messages they stand for; a page."""
    found: dict[int, Rebuild] = {}
    for wish in intents:
        if wish.kind != "rebuild":
            continue
        values = {"chat": ref.id, "lane": wish.lane, "before_id": wish.before_id}
        older = rows.summaries(conn.execute(_OLDER, {**values, "from_pos": wish.from_pos}))
        for summary, sources in _with_sources(conn, older):
            found[summary.id] = Rebuild(wish.id, summary, sources)
    return tuple(found.values())


def _with_sources(
    conn: sa.Connection, summaries: Sequence[Summary]
) -> list[tuple[Summary, tuple[rows.Message, ...]]]:
    targets = coverage.targets(conn, [s.id for s in summaries])
    ids = [i for s in summaries for i in targets[s.id]]
    messages = {m.id: m for m in rows.messages(conn.execute(_MESSAGES, {"ids": ids}))}
    return [(s, tuple(messages[i] for i in targets[s.id])) for s in summaries]
