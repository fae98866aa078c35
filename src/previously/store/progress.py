"""What is left to summarise, all of it, and how fast that has gone so far: for estimates."""

from __future__ import annotations

import json

import sqlalchemy as sa

from previously.model import START, ChatRef, Message
from previously.store import Pace, Progress, rows
from previously.store.rows import ELIGIBLE, M, S
from previously.store.schema import hole, lane_state, message, summary

PACE_SUMMARIES = 64  # the newest ones say how fast the next ones will be

_MINE = sa.and_(hole.c.chat_id == sa.bindparam("chat"), hole.c.lane == sa.bindparam("lane"))
_AFTER = sa.and_(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("after_pos"), ELIGIBLE)
_HOLES = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .join(hole, hole.c.message_id == M.id)
    .where(_MINE, M.pos > sa.bindparam("after_pos"))
    .order_by(M.pos)
    .limit(sa.bindparam("limit"))
)
_BEYOND = (
    sa.select(*rows.MESSAGE_COLUMNS).where(_AFTER).order_by(M.pos).limit(sa.bindparam("limit"))
)
_COVERED_TO = sa.select(lane_state.c.covered_to).where(
    lane_state.c.chat_id == sa.bindparam("chat"), lane_state.c.lane == sa.bindparam("lane")
)
_NEWEST = (
    sa.select(S.tokens, S.provenance, S.stats)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        S.level == 0,
        S.edited_by_user.is_(False),
    )
    .order_by(S.id.desc())
    .limit(PACE_SUMMARIES)
)


def page(
    conn: sa.Connection, ref: ChatRef, lane: str, after_pos: int, limit: int
) -> tuple[Message, ...]:
    """Uncovered messages after a position, oldest first."""
    covered_to = _covered_to(conn, ref, lane)
    found: tuple[Message, ...] = ()
    values = {"chat": ref.id, "lane": lane, "after_pos": after_pos}
    if after_pos < covered_to:
        found = rows.messages(conn.execute(_HOLES, {**values, "limit": limit}))
    if len(found) < limit:
        beyond = {**values, "after_pos": max(after_pos, covered_to), "limit": limit - len(found)}
        found += rows.messages(conn.execute(_BEYOND, beyond))
    return tuple(m for m in found if m.eligible)


def so_far(conn: sa.Connection, ref: ChatRef, lane: str) -> Progress:
    """How many messages no summary stands for, and how many summaries there are."""
    covered_to = _covered_to(conn, ref, lane)
    values = {"chat": ref.id, "lane": lane, "after_pos": covered_to}
    ahead = sa.select(sa.func.count()).select_from(message).where(_AFTER)
    behind = sa.select(sa.func.count()).select_from(hole).where(_MINE)
    written = sa.select(sa.func.count()).select_from(summary)
    written = written.where(S.chat_id == sa.bindparam("chat"), S.lane == sa.bindparam("lane"))
    counts = [conn.execute(query, values).scalar_one() for query in (ahead, behind, written)]
    return Progress(uncovered=counts[0] + counts[1], summaries=counts[2])


def pace(conn: sa.Connection, ref: ChatRef, lane: str) -> Pace:
    """How the newest leaves of a chat were made."""
    made = Pace()
    for tokens, provenance, stats in conn.execute(_NEWEST, {"chat": ref.id, "lane": lane}):
        asked, took = json.loads(provenance or "{}"), json.loads(stats or "{}")
        made = Pace(
            summaries=made.summaries + 1,
            calls=made.calls + took.get("calls", 1),
            duration_ms=made.duration_ms + took.get("duration_ms", 0),
            tokens=made.tokens + tokens,
            tokens_max=made.tokens_max + asked.get("tokens_max", tokens),
        )
    return made


def _covered_to(conn: sa.Connection, ref: ChatRef, lane: str) -> int:
    found = conn.execute(_COVERED_TO, {"chat": ref.id, "lane": lane}).scalar()
    return START if found is None else found
