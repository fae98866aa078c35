"""What planning and folding need beyond the tail: holes, covers, standing messages, wishes.

Every read is bounded: a page of uncovered messages, the newest covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.sql.util import ClauseAdapter

from previously.model import BACKLOG_MAX, START, Backlog, ChatRef, Message, Summary, Uncovered
from previously.store import carried, rows
from previously.store.intents import open_intents, rebuilds
from previously.store.prepared import Prepared
from previously.store.rows import ELIGIBLE, IS_READY, M, S
from previously.store.schema import fold, hole, link, message, summary
from previously.store.work import attempts

UNCOVERED_MAX = 64
STANDING_MAX = 16
OPENED_MAX = 8  # summaries of summaries that a tail may reach into

_BEFORE = message.alias("before")
_PREVIOUS = (  # the eligible neighbour of a hole: tells where a run of holes breaks
    sa.select(_BEFORE.c.id)
    .where(
        _BEFORE.c.chat_id == M.chat_id,
        _BEFORE.c.pos < M.pos,
        ClauseAdapter(_BEFORE).traverse(ELIGIBLE),
    )
    .order_by(_BEFORE.c.pos.desc())
    .limit(1)
    .correlate(message)
    .scalar_subquery()
)
_HOLES = Prepared(
    sa.select(_PREVIOUS, hole.c.since, hole.c.proposal, *rows.MESSAGE_COLUMNS)
    .join(hole, hole.c.message_id == M.id)
    .where(hole.c.chat_id == sa.bindparam("chat"), hole.c.lane == sa.bindparam("lane"))
    .order_by(M.pos.desc())
    .limit(UNCOVERED_MAX + 1)
)
_AFTER = Prepared(
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("covered_to"), ELIGIBLE)
    .order_by(M.pos)
    .limit(UNCOVERED_MAX)
)
_IDS_AFTER = (
    sa.select(M.id)
    .where(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("covered_to"), ELIGIBLE)
    .order_by(M.pos)
    .limit(BACKLOG_MAX + 1)
)
_IDS_OF_HOLES = (
    sa.select(hole.c.message_id)
    .where(hole.c.chat_id == sa.bindparam("chat"), hole.c.lane == sa.bindparam("lane"))
    .limit(BACKLOG_MAX + 1)
)
_COVERS = Prepared(
    sa.select(*rows.SUMMARY_COLUMNS)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        IS_READY,
        S.valid.is_(True),
        S.covered_by.is_(None),
    )
    .order_by(S.last_pos.desc())
    .limit(sa.bindparam("limit"))
)
_CHILDREN = (
    sa.select(link.c.summary_id, *rows.SUMMARY_COLUMNS)
    .join(summary, S.id == link.c.target_id)
    .where(
        link.c.summary_id.in_(sa.bindparam("ids", expanding=True)),
        link.c.target_is_summary.is_(True),
    )
    .order_by(link.c.summary_id, link.c.position)
)
_STANDING = Prepared(
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.pinned.is_(True))
    .order_by(M.pos)
    .limit(STANDING_MAX)
)
_WAITING = Prepared(  # children of a volume whose new text waits for the user
    sa.select(link.c.target_id)
    .join(summary, S.id == link.c.summary_id)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        S.status == sa.literal_column("'proposed'"),
        S.level > 0,
    )
)
_TIGHTEST = Prepared(
    sa.select(sa.func.min(fold.c.room_tokens)).where(fold.c.chat_id == sa.bindparam("chat"))
)


@dataclass(slots=True)
class _Holes:
    """The newest holes as runs of neighbours, what is known of each, and where the cap cut."""

    runs: list[list[Message]] = field(default_factory=list[list[Message]])
    since: dict[int, int] = field(default_factory=dict[int, int])
    proposed: set[int] = field(default_factory=set[int])
    cut_pos: int = START


def read(conn: sa.Connection, ref: ChatRef, lane: str, covered_to: int, covers_max: int) -> Backlog:
    """All of it but the children of covers, which depend on where the tail starts."""
    holes = _holes(conn, ref, lane)
    covers, cut_at_cover = _covers(conn, ref, lane, covers_max)
    after = rows.messages(_AFTER.all(conn, {"chat": ref.id, "covered_to": covered_to}))
    wishes = tuple(wish for wish in open_intents(conn, ref) if wish.lane == lane)
    return Backlog(
        uncovered=Uncovered(tuple(tuple(run) for run in (*holes.runs, after) if run)),
        uncovered_cut=holes.cut_pos != START or len(after) == UNCOVERED_MAX,
        uncovered_count=_count_uncovered(conn, ref, lane, covered_to, holes, after),
        open_since=holes.since,
        proposed=frozenset(holes.proposed),
        waiting=frozenset(row[0] for row in _WAITING.all(conn, {"chat": ref.id, "lane": lane})),
        covers=covers,
        from_pos=max(holes.cut_pos, cut_at_cover),
        standing=_standing(conn, ref),
        carried=carried.of_chat(conn, ref),
        attempts=attempts(conn, ref),
        intents=wishes,
        rebuilds=rebuilds(conn, ref, wishes),
        room_tokens=_TIGHTEST.all(conn, {"chat": ref.id})[0][0],
    )


def _count_uncovered(
    conn: sa.Connection,
    ref: ChatRef,
    lane: str,
    covered_to: int,
    holes: _Holes,
    after: Sequence[Message],
) -> int:
    """Counted only where it cannot be seen from what was loaded, and no further than it matters."""
    values = {"chat": ref.id, "lane": lane, "covered_to": covered_to}
    behind = len(holes.since)
    if holes.cut_pos != START:
        behind = len(conn.execute(_IDS_OF_HOLES, values).all())
    ahead = len(after)
    if ahead == UNCOVERED_MAX:
        ahead = len(conn.execute(_IDS_AFTER, values).all())
    return behind + ahead


def _holes(conn: sa.Connection, ref: ChatRef, lane: str) -> _Holes:
    found = _HOLES.all(conn, {"chat": ref.id, "lane": lane})
    out = _Holes()
    for previous, since_ms, proposal, *columns in reversed(found[:UNCOVERED_MAX]):
        message_ = Message(*columns)
        out.since[message_.id] = since_ms
        if proposal is not None:
            out.proposed.add(message_.id)
        if out.runs and out.runs[-1][-1].id == previous:
            out.runs[-1].append(message_)
        else:
            out.runs.append([message_])
    if len(found) > UNCOVERED_MAX:
        out.cut_pos = out.runs[0][0].pos
    return out


def _covers(
    conn: sa.Connection, ref: ChatRef, lane: str, covers_max: int
) -> tuple[tuple[Summary, ...], int]:
    """The newest covers, oldest of them first, and where the cap cut them off (START: nowhere)."""
    values = {"chat": ref.id, "lane": lane, "limit": covers_max + 1}
    found = rows.summaries(_COVERS.all(conn, values))
    kept = found[:covers_max][::-1]
    return kept, kept[0].first_pos if len(found) > covers_max else START


def children(
    conn: sa.Connection, covers: Sequence[Summary], tail_pos: int
) -> dict[int, tuple[Summary, ...]]:
    """What summaries that reach into the tail were made of, down to the leaves."""
    found: dict[int, tuple[Summary, ...]] = {}
    new = [c.id for c in covers if c.level and c.last_pos >= tail_pos][-OPENED_MAX:]
    while new:
        under: dict[int, list[Summary]] = {}
        for parent, *columns in conn.execute(_CHILDREN, {"ids": new}):
            under.setdefault(parent, []).append(Summary(*columns))
        found |= {parent: tuple(children) for parent, children in under.items()}
        made_of = (child for children in under.values() for child in children)
        new = [c.id for c in made_of if c.level and c.last_pos >= tail_pos]
    return found


def _standing(conn: sa.Connection, ref: ChatRef) -> tuple[Message, ...]:
    found = rows.messages(_STANDING.all(conn, {"chat": ref.id}))
    return tuple(m for m in found if m.shown)
