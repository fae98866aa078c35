"""Which messages a lane's valid summaries stand for: one writer, one recomputation.

For each (chat, lane) every eligible message up to `covered_to` is covered by exactly one valid
leaf, or is listed in `hole`. Everything after `covered_to` is uncovered. `recompute` derives the
same from hashes alone; tests and repairs compare the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import StaleDraft
from previously.model import ChatRef, Draft, Message, Summary, SummaryStatus, digest, key
from previously.store import rows
from previously.store.rows import ELIGIBLE, M, S
from previously.store.schema import hole, lane_state, link, summary, work

_CHAT: BindParameter[int] = sa.bindparam("chat")
_LANE: BindParameter[str] = sa.bindparam("of_lane")
_IDS: BindParameter[int] = sa.bindparam("ids", expanding=True)
_LEAF = sa.and_(
    link.c.summary_id == S.id,
    link.c.target_is_summary.is_(False),
    S.status == SummaryStatus.READY.value,
    S.valid.is_(True),
)
# Statements are built once: building one costs more than running it.
_BY_ID = sa.select(*rows.MESSAGE_COLUMNS).where(M.chat_id == _CHAT, M.id.in_(_IDS)).order_by(M.pos)
_UNCOVERED_BETWEEN = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(
        M.chat_id == _CHAT,
        M.pos >= sa.bindparam("first_pos"),
        M.pos <= sa.bindparam("last_pos"),
        ELIGIBLE,
        ~sa.exists().where(
            _LEAF, S.lane == _LANE, link.c.target_id == M.id, link.c.target_hash == M.hash
        ),
    )
    .order_by(M.pos)
)
_LANE_STATE = sa.select(lane_state.c.covered_to, lane_state.c.next_ordinal).where(
    lane_state.c.chat_id == _CHAT, lane_state.c.lane == _LANE
)
_ADVANCE = (
    sa.update(lane_state)
    .where(lane_state.c.chat_id == _CHAT, lane_state.c.lane == _LANE)
    .values(
        covered_to=sa.bindparam("new_covered_to"), next_ordinal=sa.bindparam("new_next_ordinal")
    )
)
_TAKE_BIRTH = (
    sa.update(work)
    .where(work.c.chat_id == _CHAT)
    .values(rev=work.c.rev + 1, next_s=work.c.next_s + 1)
    .returning(work.c.next_s)
)
_INSERT = sa.insert(summary)
_INSERT_LINK = sa.insert(link)
_INSERT_HOLE = sa.insert(hole)
_CLOSE_HOLES = sa.delete(hole).where(
    hole.c.chat_id == _CHAT, hole.c.lane == _LANE, hole.c.message_id.in_(_IDS)
)


def commit_leaf(conn: sa.Connection, ref: ChatRef, draft: Draft, now_ms: int) -> Summary:
    """Write a leaf summary over exactly the messages it read, or `StaleDraft`."""
    sources = draft.task.sources
    _refuse_changed(conn, ref, draft)
    _refuse_skipped(conn, ref, draft)
    covered_to, ordinal = _lane_state(conn, ref, draft.task.lane)
    made = _insert(conn, ref, draft, ordinal, now_ms)
    _link(conn, made.id, sources)
    last_pos = sources[-1].pos
    _open_holes(conn, ref, draft.task.lane, covered_to, made.first_pos)
    _close_holes(conn, ref, draft.task.lane, [m.id for m in sources])
    conn.execute(
        _ADVANCE,
        {
            "chat": ref.id,
            "of_lane": draft.task.lane,
            "new_covered_to": max(covered_to, last_pos),
            "new_next_ordinal": ordinal + 1,
        },
    )
    return made


def _refuse_changed(conn: sa.Connection, ref: ChatRef, draft: Draft) -> None:
    ids = [m.id for m in draft.task.sources]
    found = rows.messages(conn.execute(_BY_ID, {"chat": ref.id, "ids": ids}))
    now = [(m.id, m.hash) for m in found if m.eligible]
    if now != [(m.id, m.hash) for m in draft.task.sources]:
        raise StaleDraft("a source was changed, moved or taken out while the model was writing")


def _refuse_skipped(conn: sa.Connection, ref: ChatRef, draft: Draft) -> None:
    """Nothing between the ends may be uncovered but the sources themselves."""
    first, last = draft.task.sources[0], draft.task.sources[-1]
    uncovered = _uncovered_between(conn, ref, draft.task.lane, first.pos, last.pos)
    if [m.id for m in uncovered] != [m.id for m in draft.task.sources]:
        raise StaleDraft("a source is covered already, or a message came in between")


def _uncovered_between(
    conn: sa.Connection, ref: ChatRef, lane: str, first_pos: int, last_pos: int
) -> list[Message]:
    span = {"chat": ref.id, "of_lane": lane, "first_pos": first_pos, "last_pos": last_pos}
    return [m for m in rows.messages(conn.execute(_UNCOVERED_BETWEEN, span)) if m.eligible]


def _lane_state(conn: sa.Connection, ref: ChatRef, lane: str) -> tuple[int, int]:
    row = conn.execute(_LANE_STATE, {"chat": ref.id, "of_lane": lane}).one_or_none()
    if row is not None:
        return row.covered_to, row.next_ordinal
    conn.execute(
        sa.insert(lane_state).values(
            chat_id=ref.id,
            lane=lane,
            enabled=True,
            frozen=False,
            covered_to=0,
            next_ordinal=1,
            checked_at_ordinal=0,
        )
    )
    return 0, 1


def _insert(conn: sa.Connection, ref: ChatRef, draft: Draft, ordinal: int, now_ms: int) -> Summary:
    birth_number = conn.execute(_TAKE_BIRTH, {"chat": ref.id}).scalar_one()
    task = draft.task
    made = Summary(
        id=key(ref.id, birth_number - 1),
        lane=task.lane,
        kind=task.kind,
        level=0,
        ordinal=ordinal,
        text=draft.text,
        tokens=draft.tokens,
        hash=digest(draft.text),
        first_pos=task.sources[0].pos,
        last_pos=task.sources[-1].pos,
        message_count=len(task.sources),
        created_at_ms=now_ms,
        provenance=json.dumps(dict(draft.provenance), ensure_ascii=False),
        covers=tuple(m.id for m in task.sources),
    )
    row = {
        "id": made.id,
        "chat_id": ref.id,
        "lane": made.lane,
        "kind": made.kind,
        "level": made.level,
        "ordinal": made.ordinal,
        "text": made.text,
        "hash": made.hash,
        "tokens": made.tokens,
        "first_pos": made.first_pos,
        "last_pos": made.last_pos,
        "message_count": made.message_count,
        "status": made.status,
        "valid": True,
        "root_id": made.id,
        "edited_by_user": False,
        "pinned": False,
        "provenance": made.provenance,
        "cause": json.dumps({"task_id": task.id}),
        "version": 1,
        "created_at": now_ms,
        "updated_at": now_ms,
    }
    conn.execute(_INSERT, row)
    return made


def _link(conn: sa.Connection, summary_id: int, sources: Sequence[Message]) -> None:
    conn.execute(
        _INSERT_LINK,
        [
            {
                "summary_id": summary_id,
                "position": i,
                "target_is_summary": False,
                "target_id": m.id,
                "target_hash": m.hash,
            }
            for i, m in enumerate(sources)
        ],
    )


def _open_holes(
    conn: sa.Connection, ref: ChatRef, lane: str, covered_to: int, before_pos: int
) -> None:
    """What a new leaf jumps over is not forgotten: it becomes holes."""
    skipped = _uncovered_between(conn, ref, lane, covered_to + 1, before_pos - 1)
    if skipped:
        values = [{"chat_id": ref.id, "lane": lane, "message_id": m.id} for m in skipped]
        conn.execute(_INSERT_HOLE, values)


def _close_holes(conn: sa.Connection, ref: ChatRef, lane: str, ids: Iterable[int]) -> None:
    conn.execute(_CLOSE_HOLES, {"chat": ref.id, "of_lane": lane, "ids": list(ids)})


@dataclass(frozen=True, slots=True)
class Derived:
    """What `covered_to`, `hole` and `valid` must be, given messages, links and hashes alone."""

    covered_to: int
    holes: frozenset[int]
    invalid: frozenset[int]


def recompute(conn: sa.Connection, ref: ChatRef, lane: str) -> Derived:
    """The derivation from scratch: linear in the chat, for tests and repairs."""
    everything = rows.messages(
        conn.execute(sa.select(*rows.MESSAGE_COLUMNS).where(M.chat_id == ref.id).order_by(M.pos))
    )
    hash_now = {m.id: m.hash for m in everything if m.eligible}
    leaves: dict[int, list[tuple[int, bytes]]] = {}
    for row in conn.execute(
        sa.select(link.c.summary_id, link.c.target_id, link.c.target_hash)
        .join(summary, S.id == link.c.summary_id)
        .where(S.chat_id == ref.id, S.lane == lane, S.status == SummaryStatus.READY.value)
        .where(link.c.target_is_summary.is_(False))
    ):
        leaves.setdefault(row.summary_id, []).append((row.target_id, row.target_hash))
    valid = {s for s, links in leaves.items() if all(hash_now.get(t) == h for t, h in links)}
    covered = {t for s in valid for t, _ in leaves[s]}
    pos = {m.id: m.pos for m in everything}
    ever = [pos[t] for links in leaves.values() for t, _ in links if t in pos]
    covered_to = max(ever, default=0)
    holes = {m for m in hash_now if pos[m] <= covered_to and m not in covered}
    return Derived(covered_to, frozenset(holes), frozenset(set(leaves) - valid))


def stored(conn: sa.Connection, ref: ChatRef, lane: str) -> Derived:
    """The same, as it is written down."""
    covered_to = conn.execute(
        sa.select(lane_state.c.covered_to).where(
            lane_state.c.chat_id == ref.id, lane_state.c.lane == lane
        )
    ).scalar()
    holes = conn.execute(
        sa.select(hole.c.message_id).where(hole.c.chat_id == ref.id, hole.c.lane == lane)
    ).scalars()
    invalid = conn.execute(
        sa.select(S.id).where(
            S.chat_id == ref.id,
            S.lane == lane,
            S.status == SummaryStatus.READY.value,
            S.valid.is_(False),
            S.level == 0,
        )
    ).scalars()
    return Derived(covered_to or 0, frozenset(holes), frozenset(invalid))


def covering(conn: sa.Connection, ref: ChatRef, lane: str, ids: Sequence[int]) -> dict[int, int]:
    """Message key → the valid leaf that stands for it, for those that have one."""
    found = conn.execute(
        sa.select(link.c.target_id, S.id)
        .select_from(link.join(summary, S.id == link.c.summary_id))
        .where(_LEAF, S.chat_id == ref.id, S.lane == lane, link.c.target_id.in_(list(ids)))
    )
    return {row.target_id: row.id for row in found}


def targets(conn: sa.Connection, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Summary key → the message keys it links to, in order."""
    found = conn.execute(
        sa.select(link.c.summary_id, link.c.target_id)
        .where(link.c.summary_id.in_(list(ids)), link.c.target_is_summary.is_(False))
        .order_by(link.c.summary_id, link.c.position)
    )
    out: dict[int, list[int]] = {}
    for row in found:
        out.setdefault(row.summary_id, []).append(row.target_id)
    return {k: tuple(v) for k, v in out.items()}
