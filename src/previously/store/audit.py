"""What coverage must be, derived from messages, links and hashes alone.

Linear in the chat, so it is for tests, for repairs and for a chat that was just copied. Nothing
that `coverage` keeps up to date is believed here but `covered_to`, unless a leaf reaches further.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from previously.model import START, ChatRef, Message
from previously.store import rows
from previously.store.coverage import (
    Leaf,
    accepted,
    mark_stale,
    open_holes,
    put_under,
    read_leaves,
    set_state,
)
from previously.store.rows import IS_READY, M, S
from previously.store.schema import hole, lane_state, summary


@dataclass(frozen=True, slots=True)
class Derived:
    """What is written down about coverage, or what must be, given messages, links and hashes."""

    covered_to: int
    holes: frozenset[int]
    valid: frozenset[int]  # summaries of every level
    covered_by: frozenset[tuple[int, int]]  # (child, parent)
    spans: frozenset[tuple[int, int, int]]  # (valid summary, first, last position)


def recompute(conn: sa.Connection, ref: ChatRef, lane: str) -> Derived:
    """The derivation from scratch: linear in the chat, for tests and repairs."""
    everything = _all_messages(conn, ref)
    eligible = sorted(m.pos for m in everything.values() if m.eligible)
    leaves, uppers = _all_summaries(conn, ref, lane)
    counts = {leaf.id: _count(leaf, everything, eligible) for leaf in leaves}
    ends = accepted(leaves, everything, counts)
    covered = {t for leaf in leaves if leaf.id in ends for t, _ in leaf.targets}
    covered_to = max([_covered_to(conn, ref, lane), *(last for _, last in ends.values())])
    covered_by = _climb(conn, ends, uppers)
    holes = {
        m.id
        for m in everything.values()
        if m.eligible and m.pos <= covered_to and m.id not in covered
    }
    return Derived(
        covered_to,
        frozenset(holes),
        frozenset(ends),
        frozenset(covered_by),
        frozenset((i, first, last) for i, (first, last) in ends.items()),
    )


def _all_messages(conn: sa.Connection, ref: ChatRef) -> dict[int, Message]:
    query = sa.select(*rows.MESSAGE_COLUMNS).where(M.chat_id == ref.id)
    return {m.id: m for m in rows.messages(conn.execute(query))}


def _all_summaries(
    conn: sa.Connection, ref: ChatRef, lane: str
) -> tuple[list[Leaf], dict[int, int]]:
    query = sa.select(S.id, S.level).where(S.chat_id == ref.id, S.lane == lane, IS_READY)
    levels = {row.id: row.level for row in conn.execute(query.order_by(S.level, S.id))}
    leaves = read_leaves(conn, [i for i, level in levels.items() if level == 0])
    return leaves, {i: level for i, level in levels.items() if level > 0}


def _count(leaf: Leaf, messages: Mapping[int, Message], eligible: Sequence[int]) -> int:
    ends = [messages[t].pos for t, _ in (leaf.targets[0], leaf.targets[-1]) if t in messages]
    if not ends:
        return 0
    return bisect_right(eligible, max(ends)) - bisect_left(eligible, min(ends))


def _climb(
    conn: sa.Connection, ends: dict[int, tuple[int, int]], uppers: Mapping[int, int]
) -> set[tuple[int, int]]:
    """Add the summaries above the valid leaves that are valid too; who is under whom."""
    hash_of = {r.id: r.hash for r in conn.execute(sa.select(S.id, S.hash))}
    covered_by: set[tuple[int, int]] = set()
    for upper in uppers:  # lower levels first
        links = read_leaves(conn, [upper])[0].targets
        if all(t in ends and hash_of[t] == h for t, h in links):
            spans = [ends[t] for t, _ in links]
            ends[upper] = (min(first for first, _ in spans), max(last for _, last in spans))
            covered_by |= {(t, upper) for t, _ in links}
    return covered_by


def _covered_to(conn: sa.Connection, ref: ChatRef, lane: str) -> int:
    query = sa.select(lane_state.c.covered_to).where(
        lane_state.c.chat_id == ref.id, lane_state.c.lane == lane
    )
    found = conn.execute(query).scalar()
    return START if found is None else found


def stored(conn: sa.Connection, ref: ChatRef, lane: str) -> Derived:
    """The same, as it is written down."""
    mine = sa.and_(S.chat_id == ref.id, S.lane == lane, IS_READY)
    holes = sa.select(hole.c.message_id).where(hole.c.chat_id == ref.id, hole.c.lane == lane)
    valid = sa.select(S.id).where(mine, S.valid.is_(True))
    parents = sa.select(S.id, S.covered_by).where(mine, S.covered_by.is_not(None))
    spans = sa.select(S.id, S.first_pos, S.last_pos).where(mine, S.valid.is_(True))
    return Derived(
        _covered_to(conn, ref, lane),
        frozenset(conn.execute(holes).scalars()),
        frozenset(conn.execute(valid).scalars()),
        frozenset((row[0], row[1]) for row in conn.execute(parents)),
        frozenset((row[0], row[1], row[2]) for row in conn.execute(spans)),
    )


def repair(conn: sa.Connection, ref: ChatRef, lane: str, now_ms: int) -> bool:
    """Write down what hashes say, if something else stands there; whether it did."""
    right = recompute(conn, ref, lane)
    if right == stored(conn, ref, lane):
        return False
    ends = {i: (first, last) for i, first, last in right.spans}
    query = sa.select(S.id, S.first_pos, S.last_pos).where(S.chat_id == ref.id, S.lane == lane)
    for row in conn.execute(query.where(IS_READY)).all():
        first, last = ends.get(row.id, (row.first_pos, row.last_pos))
        set_state(conn, row.id, (first, last), valid=row.id in right.valid)
    conn.execute(
        sa.update(summary).where(S.chat_id == ref.id, S.lane == lane).values(covered_by=None)
    )
    put_under(conn, right.covered_by)
    mine = lane_state.c.chat_id == ref.id, lane_state.c.lane == lane
    conn.execute(sa.update(lane_state).where(*mine).values(covered_to=right.covered_to))
    conn.execute(sa.delete(hole).where(hole.c.chat_id == ref.id, hole.c.lane == lane))
    open_holes(conn, ref, lane, right.holes, now_ms)
    mark_stale(conn, ref, START)
    return True
