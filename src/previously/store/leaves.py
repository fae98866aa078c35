"""Writing a new leaf: what the model read is compared with what is stored; then all or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import StaleDraft
from previously.model import START, ChatRef, Draft, Message, Summary, SummaryStatus, digest, key
from previously.store import coverage, revisions, rows
from previously.store.prepared import Prepared
from previously.store.rows import ELIGIBLE, IS_READY, M, S
from previously.store.schema import chat, lane_state, link, summary, work

_CHAT: BindParameter[int] = sa.bindparam("chat")
_LANE: BindParameter[str] = sa.bindparam("of_lane")

_LEAF_OVER = (  # looked up message by message: as a join, SQLite would walk every link there is
    sa.select(S.id)
    .join(link, link.c.summary_id == S.id)
    .where(link.c.target_id == M.id, link.c.target_is_summary.is_(False))
    .where(S.lane == _LANE, IS_READY, S.valid.is_(True))
    .limit(1)
    .correlate(M.id.table)
    .scalar_subquery()
)
_SPAN = Prepared(  # every eligible message of a stretch, with the valid leaf over it
    sa.select(_LEAF_OVER, *rows.MESSAGE_COLUMNS)
    .where(
        M.chat_id == _CHAT,
        M.pos >= sa.bindparam("first_pos"),
        M.pos <= sa.bindparam("last_pos"),
        ELIGIBLE,
    )
    .order_by(M.pos)
)
_LANE_STATE = Prepared(
    sa.select(lane_state.c.covered_to, lane_state.c.next_ordinal).where(
        lane_state.c.chat_id == _CHAT, lane_state.c.lane == _LANE
    )
)
_ADVANCE = Prepared(
    sa.update(lane_state)
    .where(lane_state.c.chat_id == _CHAT, lane_state.c.lane == _LANE)
    .values(
        covered_to=sa.bindparam("new_covered_to"), next_ordinal=sa.bindparam("new_next_ordinal")
    )
)
_TAKE_BIRTH = Prepared(
    sa.update(work)
    .where(work.c.chat_id == _CHAT)
    .values(rev=work.c.rev + 1, next_s=work.c.next_s + 1)
    .returning(work.c.next_s)
)
_RECALCULATING = Prepared(sa.select(chat.c.recalculating).where(chat.c.id == _CHAT))
_INSERT = Prepared(
    sa.insert(summary),
    (
        *("id", "chat_id", "lane", "kind", "level", "ordinal", "text", "hash", "tokens"),
        *("first_pos", "last_pos", "message_count", "status", "valid", "root_id"),
        *("edited_by_user", "pinned", "provenance", "presence", "cause", "version"),
        *("created_at", "updated_at", "stats"),
    ),
)
_INSERT_LINK = Prepared(
    sa.insert(link),
    ("summary_id", "position", "target_is_summary", "target_id", "target_hash"),
)


def commit_leaf(conn: sa.Connection, ref: ChatRef, draft: Draft, now_ms: int) -> Summary:
    """Write a leaf summary over exactly the messages it read, or `StaleDraft`."""
    lane, sources = draft.task.lane, draft.task.sources
    refuse_recalculating(conn, ref)
    if draft.task.replaces is not None:
        coverage.retire(conn, ref, draft.task.replaces)
    _refuse_changed(conn, ref, draft)
    covered_to, ordinal = _lane_state(conn, ref, lane)
    made = _insert(conn, ref, draft, ordinal, now_ms)
    _link(conn, made.id, sources)
    if revisions.rivals(conn, ref, made):
        revisions.propose(conn, ref, made)
        return as_proposed(made)
    skipped = _uncovered(conn, ref, lane, covered_to + 1, made.first_pos - 1)
    coverage.open_holes(conn, ref, lane, [m.id for m in skipped], now_ms)
    coverage.close_holes(conn, ref, lane, [m.id for m in sources])
    _ADVANCE.many(
        conn,
        [
            {
                "chat": ref.id,
                "of_lane": lane,
                "new_covered_to": max(covered_to, made.last_pos),
                "new_next_ordinal": ordinal + 1,
            }
        ],
    )
    return made


def refuse_recalculating(conn: sa.Connection, ref: ChatRef) -> None:
    """Nothing is written about a chat while its client rebuilds it."""
    found = _RECALCULATING.one(conn, {"chat": ref.id})
    if found is not None and found[0]:
        raise StaleDraft("the chat is being recalculated")


def as_proposed(made: Summary) -> Summary:
    """The summary as it is while it waits for the user."""
    return replace(made, status=SummaryStatus.PROPOSED, valid=False)


def _refuse_changed(conn: sa.Connection, ref: ChatRef, draft: Draft) -> None:
    """The sources must be what they were, uncovered, with no other message between them."""
    first, last = draft.task.sources[0], draft.task.sources[-1]
    found = _uncovered(conn, ref, draft.task.lane, first.pos, last.pos, whole=True)
    if [(m.id, m.hash) for m in found] != [(m.id, m.hash) for m in draft.task.sources]:
        raise StaleDraft("a source was changed, moved, taken out or covered meanwhile")


def _uncovered(
    conn: sa.Connection,
    ref: ChatRef,
    lane: str,
    first_pos: int,
    last_pos: int,
    *,
    whole: bool = False,
) -> list[Message]:
    """Eligible messages of a stretch that no leaf stands for; `whole`: none if one does."""
    span = {"chat": ref.id, "of_lane": lane, "first_pos": first_pos, "last_pos": last_pos}
    found: list[Message] = []
    for leaf, *columns in _SPAN.all(conn, span):
        if leaf is None:
            found.append(Message(*columns))
        elif whole:
            return []
    return found


def _lane_state(conn: sa.Connection, ref: ChatRef, lane: str) -> tuple[int, int]:
    row = _LANE_STATE.one(conn, {"chat": ref.id, "of_lane": lane})
    if row is not None:
        return row[0], row[1]
    conn.execute(
        sa.insert(lane_state).values(
            chat_id=ref.id,
            lane=lane,
            enabled=True,
            frozen=False,
            covered_to=START,
            next_ordinal=1,
            checked_at_ordinal=0,
        )
    )
    return START, 1


def _insert(conn: sa.Connection, ref: ChatRef, draft: Draft, ordinal: int, now_ms: int) -> Summary:
    task = draft.task
    made = Summary(
        id=key(ref.id, take_birth(conn, ref)),
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
        presence=task.sources[0].presence,
        covers=tuple(m.id for m in task.sources),
    )
    write(conn, ref, made, draft, now_ms)
    return made


def take_birth(conn: sa.Connection, ref: ChatRef) -> int:
    """The birth number of the chat's next summary."""
    taken = _TAKE_BIRTH.one(conn, {"chat": ref.id})
    assert taken is not None
    return taken[0] - 1


def write(conn: sa.Connection, ref: ChatRef, made: Summary, draft: Draft, now_ms: int) -> None:
    """The row of a new summary."""
    stats = json.dumps(dict(draft.stats), ensure_ascii=False) if draft.stats else None
    row = _row(ref, made, json.dumps({"task_id": draft.task.id}), now_ms)
    _INSERT.many(conn, [{**row, "stats": stats}])


def _row(ref: ChatRef, made: Summary, cause: str, now_ms: int) -> dict[str, object]:
    return {
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
        "presence": made.presence,
        "cause": cause,
        "version": 1,
        "created_at": now_ms,
        "updated_at": now_ms,
    }


def _link(conn: sa.Connection, summary_id: int, sources: Sequence[Message]) -> None:
    _INSERT_LINK.many(
        conn,
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
