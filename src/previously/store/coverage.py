"""Which messages a lane's valid summaries stand for: the one writer of it.

A leaf *matches* when its messages are exactly the eligible ones between its ends, in order, with
the hashes it was written from. Of matching leaves that overlap, the one that covers more stands
(of equals, the newer); it is `valid`. A summary of summaries is valid while all its children are.
For each (chat, lane) every eligible message up to `covered_to` is under exactly one valid leaf or
listed in `hole`; everything after it is uncovered.

`refresh` keeps this true after any change, at a cost that does not grow with the chat.
`audit.recompute` derives the same from hashes alone; tests and repairs compare the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.model import BIRTH_BITS, START, ChatRef, Message, SummaryStatus
from previously.store import rows
from previously.store.prepared import Prepared
from previously.store.rows import ELIGIBLE, M, S
from previously.store.schema import fold, hole, lane_state, link, llm_result, summary

_CHAT: BindParameter[int] = sa.bindparam("chat")
_LANE: BindParameter[str] = sa.bindparam("of_lane")
_IDS: BindParameter[int] = sa.bindparam("ids", expanding=True)
_READY = S.status == SummaryStatus.READY.value

# Statements are built once: building one costs more than running it.
# By key alone: with the chat named too, SQLite walks the whole chat in order.
_BY_ID = sa.select(*rows.MESSAGE_COLUMNS).where(M.id.in_(_IDS))
_LEAVES_OF = (
    sa.select(S.id)
    .join(link, link.c.summary_id == S.id)
    .where(link.c.target_id.in_(_IDS), link.c.target_is_summary.is_(False))
    .where(S.lane == _LANE, _READY)
    .distinct()
)
_LINKS = (
    sa.select(link.c.summary_id, link.c.target_id, link.c.target_hash)
    .where(link.c.summary_id.in_(_IDS))
    .order_by(link.c.summary_id, link.c.position)
)
_STATE_OF = sa.select(S.id, S.valid, S.first_pos, S.last_pos).where(S.id.in_(_IDS))
_SET_STATE = (
    sa.update(summary)
    .where(S.id == sa.bindparam("of_id"))
    .values(
        valid=sa.bindparam("now_valid"),
        first_pos=sa.bindparam("now_first"),
        last_pos=sa.bindparam("now_last"),
    )
)
_BETWEEN = (
    sa.select(sa.func.count())
    .select_from(M.id.table)
    .where(
        M.chat_id == _CHAT,
        M.pos >= sa.bindparam("first_pos"),
        M.pos <= sa.bindparam("last_pos"),
        ELIGIBLE,
    )
)
_STRETCH = sa.select(M.id).where(
    M.chat_id == _CHAT, M.pos > sa.bindparam("after_pos"), M.pos <= sa.bindparam("last_pos")
)
_AFTER = (
    sa.select(M.id, M.pos)
    .where(M.chat_id == _CHAT, M.pos > sa.bindparam("at_pos"), ELIGIBLE)
    .order_by(M.pos)
    .limit(1)
)
_LANES = sa.select(lane_state.c.lane, lane_state.c.covered_to).where(lane_state.c.chat_id == _CHAT)
_EXTEND = (
    sa.update(lane_state)
    .where(lane_state.c.chat_id == _CHAT, lane_state.c.lane == _LANE)
    .values(covered_to=sa.bindparam("to_pos"))
)
_PARENTS_OF = (
    sa.select(S.id)
    .join(link, link.c.summary_id == S.id)
    .where(link.c.target_id.in_(_IDS), link.c.target_is_summary.is_(True), _READY)
    .distinct()
)
_CHILDREN = (
    sa.select(
        link.c.summary_id,
        S.id,
        sa.and_(_READY, S.valid.is_(True), S.hash == link.c.target_hash),
        S.first_pos,
        S.last_pos,
    )
    .select_from(link.join(summary, S.id == link.c.target_id))
    .where(link.c.summary_id.in_(_IDS), link.c.target_is_summary.is_(True))
    .order_by(link.c.summary_id, link.c.position)
)
_COVER = (
    sa.update(summary).where(S.id == sa.bindparam("of_id")).values(covered_by=sa.bindparam("by_id"))
)
_UNCOVER = (
    sa.update(summary)
    .where(S.covered_by == sa.bindparam("by_id"), S.covered_by.is_not(None))
    .values(covered_by=None)
)
_INSERT_HOLE = sa.insert(hole)
_HOLES_OF = sa.select(hole.c.message_id).where(
    hole.c.chat_id == _CHAT, hole.c.lane == _LANE, hole.c.message_id.in_(_IDS)
)
_CLOSE_HOLES = sa.delete(hole).where(
    hole.c.chat_id == _CHAT, hole.c.lane == _LANE, hole.c.message_id.in_(_IDS)
)
_STALE = (
    sa.update(fold)
    .where(fold.c.chat_id == _CHAT, fold.c.tail_pos > sa.bindparam("changed_at"))
    .values(stale=True)
)
_REACH = Prepared(
    sa.select(sa.func.max(lane_state.c.covered_to)).where(lane_state.c.chat_id == _CHAT)
)
_PAID = sa.select(llm_result.c.request_hash, llm_result.c.sources).where(
    llm_result.c.chat_id == _CHAT
)
_LINKED_FROM = sa.select(link.c.summary_id).where(
    link.c.target_id.in_(_IDS), link.c.target_is_summary == sa.bindparam("of_summaries")
)
_PURGE_PAID = sa.delete(llm_result).where(
    llm_result.c.chat_id == _CHAT, llm_result.c.request_hash == sa.bindparam("request")
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf's claim: these messages, with these hashes, in this order."""

    id: int
    targets: tuple[tuple[int, bytes], ...]


def accepted(
    leaves: Iterable[Leaf], messages: Mapping[int, Message], between: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """The leaves that are valid, with the positions of their ends. Pure.

    `between` says for each leaf how many eligible messages lie from its first to its last one.
    """
    matching = [leaf for leaf in leaves if _matches(leaf, messages, between)]
    matching.sort(key=lambda leaf: (-len(leaf.targets), -leaf.id))
    taken: set[int] = set()
    valid: dict[int, tuple[int, int]] = {}
    for leaf in matching:
        ids = {target for target, _ in leaf.targets}
        if taken.isdisjoint(ids):
            taken |= ids
            ends = (messages[leaf.targets[0][0]].pos, messages[leaf.targets[-1][0]].pos)
            valid[leaf.id] = ends
    return valid


def _matches(leaf: Leaf, messages: Mapping[int, Message], between: Mapping[int, int]) -> bool:
    found = [messages.get(target) for target, _ in leaf.targets]
    here = [m for m in found if m is not None and m.eligible]
    if len(here) < len(leaf.targets):
        return False
    same = all(m.hash == h for m, (_, h) in zip(here, leaf.targets, strict=True))
    ordered = all(a.pos < b.pos for a, b in pairwise(here))
    return same and ordered and between[leaf.id] == len(here)


def refresh(
    conn: sa.Connection,
    ref: ChatRef,
    ids: Iterable[int],
    positions: Iterable[int],
    now_ms: int,
) -> None:
    """Make coverage true again after these messages changed, at these old and new positions."""
    positions = sorted(set(positions))
    near = set(ids) | _followers(conn, ref, positions)
    touched = positions[:1]
    for lane, covered_to in conn.execute(_LANES, {"chat": ref.id}).all():
        touched += _refresh_lane(conn, ref, lane, covered_to, near, now_ms)
    if touched:
        mark_stale(conn, ref, min(touched))


def mark_stale(conn: sa.Connection, ref: ChatRef, changed_pos: int) -> None:
    """What folds show from here on is not what it was; each moves at its next prompt."""
    conn.execute(_STALE, {"chat": ref.id, "changed_at": changed_pos})


def purge_paid(conn: sa.Connection, ref: ChatRef, changed: set[int]) -> None:
    """Let go of answers that read what a message no longer says; the others stay paid for."""
    kept = conn.execute(_PAID, {"chat": ref.id}).all()
    if not kept:
        return
    read = changed | {-i for i in _written_from(conn, changed)}
    for row in kept:
        if not read.isdisjoint(json.loads(row.sources)):
            conn.execute(_PURGE_PAID, {"chat": ref.id, "request": row.request_hash})


def _written_from(conn: sa.Connection, messages: set[int]) -> set[int]:
    """Every summary that ever read one of these messages, directly or through another one."""
    found: set[int] = set()
    new, of_summaries = messages, False
    while new:
        linked = {"ids": list(new), "of_summaries": of_summaries}
        new = set(conn.execute(_LINKED_FROM, linked).scalars()) - found
        found |= new
        of_summaries = True
    return found


def _followers(conn: sa.Connection, ref: ChatRef, positions: Sequence[int]) -> set[int]:
    """The eligible messages next after these positions; positions in one gap share theirs.

    A leaf that spans a position holds the message after it, or did before this change.
    """
    found: set[int] = set()
    looked_to = START
    for pos in positions:
        if pos < looked_to:
            continue
        after = conn.execute(_AFTER, {"chat": ref.id, "at_pos": pos}).one_or_none()
        if after is None:
            break
        found.add(after.id)
        looked_to = after.pos
    return found


def reaches(conn: sa.Connection, ref: ChatRef, pos: int) -> bool:
    """Whether any lane has written about what stands at this position or after it."""
    found = _REACH.one(conn, {"chat": ref.id})
    covered_to = found[0] if found else None
    return covered_to is not None and pos <= covered_to


def _refresh_lane(
    conn: sa.Connection, ref: ChatRef, lane: str, covered_to: int, near: set[int], now_ms: int
) -> list[int]:
    """Re-evaluate the leaves around some messages; positions of what is shown differently now."""
    leaves, around = _component(conn, lane, near)
    messages = {m.id: m for m in _messages(conn, ref, around)}
    valid = accepted(leaves, messages, _between(conn, ref, leaves, messages))
    flipped = _write_states(conn, leaves, valid)
    _refresh_parents(conn, flipped)
    covered = {t for leaf in leaves if leaf.id in valid for t, _ in leaf.targets}
    reach = max((last for _, last in valid.values()), default=covered_to)
    if reach > covered_to:
        messages |= _passed_over(conn, ref, lane, covered_to, reach)
        covered_to = reach
    _write_holes(conn, ref, lane, covered_to, messages, covered, now_ms)
    return [messages[t].pos for leaf in leaves if leaf.id in flipped for t, _ in leaf.targets]


def _passed_over(
    conn: sa.Connection, ref: ChatRef, lane: str, covered_to: int, reach: int
) -> dict[int, Message]:
    """Let the lane reach as far as a leaf whose message was moved, or moved back, behind all that
    was covered: what it has passed over so, none of which is covered."""
    conn.execute(_EXTEND, {"chat": ref.id, "of_lane": lane, "to_pos": reach})
    span = {"chat": ref.id, "after_pos": covered_to, "last_pos": reach}
    ids = conn.execute(_STRETCH, span).scalars().all()
    return {m.id: m for m in _messages(conn, ref, ids)}


def _component(conn: sa.Connection, lane: str, near: set[int]) -> tuple[list[Leaf], set[int]]:
    """Every leaf that shares a message with one of these, directly or through another leaf."""
    around = set(near)
    known: dict[int, Leaf] = {}
    new = around
    while new:
        found = conn.execute(_LEAVES_OF, {"of_lane": lane, "ids": list(new)}).scalars()
        fresh = [i for i in found if i not in known]
        for leaf in read_leaves(conn, fresh):
            known[leaf.id] = leaf
        new = {t for i in fresh for t, _ in known[i].targets} - around
        around |= new
    return list(known.values()), around


def read_leaves(conn: sa.Connection, ids: Sequence[int]) -> list[Leaf]:
    """What each of these summaries stands on."""
    if not ids:
        return []
    targets: dict[int, list[tuple[int, bytes]]] = {}
    for summary_id, target_id, target_hash in conn.execute(_LINKS, {"ids": list(ids)}):
        targets.setdefault(summary_id, []).append((target_id, target_hash))
    return [Leaf(i, tuple(t)) for i, t in targets.items()]


def _messages(conn: sa.Connection, ref: ChatRef, ids: Iterable[int]) -> tuple[Message, ...]:
    mine = [i for i in ids if i >> BIRTH_BITS == ref.id]
    return rows.messages(conn.execute(_BY_ID, {"ids": mine}))


def _between(
    conn: sa.Connection, ref: ChatRef, leaves: Sequence[Leaf], messages: Mapping[int, Message]
) -> dict[int, int]:
    counts: dict[int, int] = {}
    for leaf in leaves:
        ends = [messages[t].pos for t, _ in (leaf.targets[0], leaf.targets[-1]) if t in messages]
        span = {"chat": ref.id, "first_pos": min(ends, default=0), "last_pos": max(ends, default=0)}
        counts[leaf.id] = conn.execute(_BETWEEN, span).scalar_one()
    return counts


def _write_states(
    conn: sa.Connection, leaves: Sequence[Leaf], valid: Mapping[int, tuple[int, int]]
) -> set[int]:
    """Store what changed; the leaves whose validity or place did."""
    flipped: set[int] = set()
    if not leaves:
        return flipped
    for row in conn.execute(_STATE_OF, {"ids": [leaf.id for leaf in leaves]}).all():
        first, last = valid.get(row.id, (row.first_pos, row.last_pos))
        if row.valid != (row.id in valid) or (first, last) != (row.first_pos, row.last_pos):
            flipped.add(row.id)
            set_state(conn, row.id, (first, last), valid=row.id in valid)
    return flipped


def set_state(conn: sa.Connection, summary_id: int, ends: tuple[int, int], *, valid: bool) -> None:
    """Write down whether a summary is valid, and where it lies."""
    values = {"now_valid": valid, "now_first": ends[0], "now_last": ends[1]}
    conn.execute(_SET_STATE, {"of_id": summary_id, **values})


def put_under(conn: sa.Connection, pairs: Iterable[tuple[int, int]]) -> None:
    """Write down which summary stands for which, as (child, parent)."""
    values = [{"of_id": child, "by_id": parent} for child, parent in pairs]
    if values:
        conn.execute(_COVER, values)


def _refresh_parents(conn: sa.Connection, flipped: set[int]) -> None:
    """Carry a change of validity upward, level by level."""
    while flipped:
        parents = set(conn.execute(_PARENTS_OF, {"ids": list(flipped)}).scalars())
        flipped = _refresh_level(conn, parents)


def refresh_above(conn: sa.Connection, ids: Iterable[int]) -> None:
    """Re-evaluate what stands on these summaries."""
    _refresh_parents(conn, set(ids))


def retire(conn: sa.Connection, ref: ChatRef, summary_id: int, by: int | None = None) -> None:
    """Take a summary out of use because another one is written in its place."""
    gone = sa.update(summary).where(S.id == summary_id)
    conn.execute(
        gone.values(
            status=SummaryStatus.SUPERSEDED.value, valid=False, covered_by=None, superseded_by=by
        )
    )
    refresh_above(conn, [summary_id])
    first = conn.execute(sa.select(S.first_pos).where(S.id == summary_id)).scalar_one()
    mark_stale(conn, ref, first)


def _refresh_level(conn: sa.Connection, parents: set[int]) -> set[int]:
    if not parents:
        return set()
    children: dict[int, list[tuple[int, bool, int, int]]] = {}
    for parent, child, good, first, last in conn.execute(_CHILDREN, {"ids": list(parents)}):
        children.setdefault(parent, []).append((child, bool(good), first, last))
    flipped: set[int] = set()
    for row in conn.execute(_STATE_OF, {"ids": list(parents)}).all():
        mine = children[row.id]
        now_valid = all(good for _, good, _, _ in mine)
        first, last = min(c[2] for c in mine), max(c[3] for c in mine)
        if now_valid == row.valid and (first, last) == (row.first_pos, row.last_pos):
            continue
        set_state(conn, row.id, (first, last), valid=now_valid)
        flipped.add(row.id)
        if now_valid == row.valid:
            continue
        conn.execute(_UNCOVER, {"by_id": row.id})
        if now_valid:
            put_under(conn, [(c[0], row.id) for c in mine])
    return flipped


def _write_holes(
    conn: sa.Connection,
    ref: ChatRef,
    lane: str,
    covered_to: int,
    messages: Mapping[int, Message],
    covered: set[int],
    now_ms: int,
) -> None:
    wanted = {
        m.id
        for m in messages.values()
        if m.eligible and m.pos <= covered_to and m.id not in covered
    }
    some = {"chat": ref.id, "of_lane": lane, "ids": list(messages)}
    have = set(conn.execute(_HOLES_OF, some).scalars())
    if have - wanted:
        conn.execute(_CLOSE_HOLES, {**some, "ids": list(have - wanted)})
    open_holes(conn, ref, lane, wanted - have, now_ms)


def open_holes(
    conn: sa.Connection, ref: ChatRef, lane: str, ids: Iterable[int], now_ms: int
) -> None:
    """List messages as eligible and uncovered."""
    values = [
        {"chat_id": ref.id, "lane": lane, "message_id": i, "since": now_ms, "proposal": None}
        for i in ids
    ]
    if values:
        conn.execute(_INSERT_HOLE, values)


def close_holes(conn: sa.Connection, ref: ChatRef, lane: str, ids: Iterable[int]) -> None:
    """These messages are covered now."""
    conn.execute(_CLOSE_HOLES, {"chat": ref.id, "of_lane": lane, "ids": list(ids)})


def covering(
    conn: sa.Connection, ref: ChatRef, lane: str, ids: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Message key → the valid leaf that stands for it and all that stands above that, upward."""
    found = conn.execute(
        sa.select(link.c.target_id, S.id)
        .select_from(link.join(summary, S.id == link.c.summary_id))
        .where(link.c.target_is_summary.is_(False), link.c.target_id.in_(list(ids)))
        .where(S.chat_id == ref.id, S.lane == lane, _READY, S.valid.is_(True))
    )
    leaves = {row.target_id: row.id for row in found}
    above = _above(conn, set(leaves.values()))
    return {target: above[leaf] for target, leaf in leaves.items()}


def _above(conn: sa.Connection, leaves: set[int]) -> dict[int, tuple[int, ...]]:
    """For each leaf itself and its line of ancestors."""
    parents: dict[int, int] = {}
    new = leaves
    while new:
        under = sa.select(S.id, S.covered_by).where(S.id.in_(new), S.covered_by.is_not(None))
        found = {row.id: row.covered_by for row in conn.execute(under)}
        parents |= found
        new = set(found.values()) - parents.keys()
    lines: dict[int, tuple[int, ...]] = {}
    for leaf in leaves:
        line = [leaf]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        lines[leaf] = tuple(line)
    return lines


def targets(conn: sa.Connection, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Summary key → the keys it links to, in order."""
    return {leaf.id: tuple(t for t, _ in leaf.targets) for leaf in read_leaves(conn, ids)}
