"""A summary's revisions: what a user wrote stays until the user says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from previously.errors import BadInput, SummaryNotFound
from previously.measure import count_tokens
from previously.model import CANCELLED, ChatRef, Summary, SummaryStatus, digest, key
from previously.store import changes, coverage, rows
from previously.store.prepared import Prepared
from previously.store.rows import M, S
from previously.store.schema import attempt, hole, link, summary, work

READY, PROPOSED = SummaryStatus.READY.value, SummaryStatus.PROPOSED.value
SUPERSEDED, DELETED = SummaryStatus.SUPERSEDED.value, SummaryStatus.DELETED.value


def find(conn: sa.Connection, ref: ChatRef, summary_id: int) -> Summary:
    """That summary of this chat."""
    query = sa.select(*rows.SUMMARY_COLUMNS).where(S.chat_id == ref.id, S.id == summary_id)
    found = rows.summaries(conn.execute(query))
    if not found:
        raise SummaryNotFound(f"the chat {ref.name!r} has no summary {summary_id}")
    return found[0]


def edit(conn: sa.Connection, ref: ChatRef, summary_id: int, text: str, now_ms: int) -> Summary:
    """The user's own words in a summary's place: a new revision, protected from then on."""
    old = find(conn, ref, summary_id)
    if old.status != READY:
        raise BadInput("only the revision that stands can be edited; restore this one first")
    changes.take_rev(conn, ref)
    made = _copy(conn, ref, old, text, now_ms)
    _set_status(conn, old.id, SUPERSEDED, by=made)
    _refresh(conn, ref, [old.id, made], now_ms)
    return find(conn, ref, made)


def _copy(conn: sa.Connection, ref: ChatRef, old: Summary, text: str, now_ms: int) -> int:
    take = sa.update(work).where(work.c.chat_id == ref.id).values(next_s=work.c.next_s + 1)
    new_id = key(ref.id, conn.execute(take.returning(work.c.next_s)).scalar_one() - 1)
    row = dict(conn.execute(sa.select(summary).where(S.id == old.id)).mappings().one())
    row |= {"id": new_id, "text": text, "hash": digest(text), "tokens": count_tokens(text)}
    row |= {"edited_by_user": True, "version": row["version"] + 1, "updated_at": now_ms}
    row |= {"created_at": now_ms, "covered_by": None, "valid": False, "status": READY}
    conn.execute(sa.insert(summary), row)
    links = conn.execute(sa.select(link).where(link.c.summary_id == old.id)).mappings().all()
    conn.execute(sa.insert(link), [{**x, "summary_id": new_id} for x in links])
    return new_id


def _set_status(
    conn: sa.Connection, summary_id: int, status: str, *, by: int | None = None
) -> None:
    values: dict[str, object] = {"status": status, "superseded_by": by}
    if status != READY:
        values |= {"valid": False, "covered_by": None}
    conn.execute(sa.update(summary).where(S.id == summary_id).values(**values))


def _refresh(conn: sa.Connection, ref: ChatRef, ids: Sequence[int], now_ms: int) -> None:
    """Coverage around what these summaries stand for, and above it."""
    covered = {t for targets in coverage.targets(conn, ids).values() for t in targets}
    if find(conn, ref, ids[0]).level:
        _refresh_volumes(conn, ref, ids, covered)
        return
    places = conn.execute(sa.select(M.pos).where(M.id.in_(covered))).scalars().all()
    coverage.refresh_above(conn, ids)
    coverage.refresh(conn, ref, covered, places, now_ms)


def _refresh_volumes(
    conn: sa.Connection, ref: ChatRef, ids: Sequence[int], children: set[int]
) -> None:
    """The same for summaries of summaries: their children get under the one that stands."""
    conn.execute(sa.update(summary).where(S.covered_by.in_(ids)).values(covered_by=None))
    coverage.refresh_above(conn, children)
    coverage.refresh_above(conn, ids)
    first = sa.select(sa.func.min(S.first_pos)).where(S.id.in_(ids))
    coverage.mark_stale(conn, ref, conn.execute(first).scalar_one())


def restore(conn: sa.Connection, ref: ChatRef, revision_id: int, now_ms: int) -> Summary:
    """Let an older revision, or a proposal, stand instead of the one that does."""
    chosen = find(conn, ref, revision_id)
    if chosen.status == READY:
        return chosen
    changes.take_rev(conn, ref)
    others = rivals(conn, ref, chosen)
    for other in others:
        _set_status(conn, other, SUPERSEDED, by=chosen.id)
    _set_status(conn, chosen.id, READY)
    _refresh(conn, ref, [chosen.id, *others], now_ms)
    return find(conn, ref, chosen.id)


_MINE = link.alias("mine")
_ROOT = sa.select(S.root_id).where(S.id == sa.bindparam("chosen")).scalar_subquery()
_RIVALS = Prepared(
    sa.select(S.id)
    .join(link, link.c.summary_id == S.id)
    .join(
        _MINE,
        sa.and_(
            _MINE.c.target_id == link.c.target_id,
            _MINE.c.target_is_summary == link.c.target_is_summary,
        ),
    )
    .where(
        _MINE.c.summary_id == sa.bindparam("chosen"),
        sa.or_(S.root_id == _ROOT, S.edited_by_user.is_(True)),
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("of_lane"),
        S.status == sa.literal_column(f"'{READY}'"),
        S.id != sa.bindparam("chosen"),
    )
    .distinct()
)


def rivals(conn: sa.Connection, ref: ChatRef, chosen: Summary) -> list[int]:
    """Ready summaries of the same lane that claim one of its sources and were edited, or are
    revisions of the same summary."""
    values = {"chosen": chosen.id, "chat": ref.id, "of_lane": chosen.lane}
    return [row[0] for row in _RIVALS.all(conn, values)]


def reject(conn: sa.Connection, ref: ChatRef, proposal_id: int) -> None:
    """The user does not want this text; its messages stay as they were said."""
    if find(conn, ref, proposal_id).status != PROPOSED:
        raise BadInput("only a proposal can be rejected")
    changes.take_rev(conn, ref)
    _set_status(conn, proposal_id, DELETED)


def delete(
    conn: sa.Connection, ref: ChatRef, summary_id: int, not_before_ms: int, now_ms: int
) -> None:
    """The user wants no such text: what it stood for is shown instead, and it is not written anew
    unless that changes. `restore` takes it back."""
    gone = find(conn, ref, summary_id)
    if gone.status != READY:
        raise BadInput("only the revision that stands can be deleted")
    changes.take_rev(conn, ref)
    _set_status(conn, gone.id, DELETED)
    _refresh(conn, ref, [gone.id], now_ms)
    made_of = coverage.targets(conn, [gone.id])[gone.id]
    if gone.level:
        _put_off(conn, ref, _task_id(conn, gone, made_of), gone.lane, not_before_ms, now_ms)
        return
    mine = sa.and_(hole.c.chat_id == ref.id, hole.c.lane == gone.lane)
    held = hole.c.message_id.in_(made_of)
    conn.execute(sa.update(hole).where(mine, held).values(proposal=gone.id))


def _task_id(conn: sa.Connection, gone: Summary, children: Sequence[int]) -> str:
    """Of the task that would write it again."""
    query = sa.select(S.id, S.hash).where(S.id.in_(children)).order_by(S.first_pos)
    parts = (part for row in conn.execute(query) for part in (str(row.id), row.hash))
    return digest(gone.lane, gone.kind, "", *parts).hex()


def _put_off(
    conn: sa.Connection, ref: ChatRef, task_id: str, lane: str, not_before_ms: int, now_ms: int
) -> None:
    mine = sa.and_(attempt.c.chat_id == ref.id, attempt.c.task_id == task_id)
    conn.execute(sa.delete(attempt).where(mine))
    values = {"chat_id": ref.id, "task_id": task_id, "lane": lane, "verdict": CANCELLED}
    values |= {"error_class": "", "error_text": "", "tries": 0}
    values |= {"not_before": not_before_ms, "updated_at": now_ms}
    conn.execute(sa.insert(attempt), values)


def propose(conn: sa.Connection, ref: ChatRef, made: Summary) -> None:
    """A new text over messages whose summary the user had edited: it waits to be accepted."""
    _set_status(conn, made.id, PROPOSED)
    mine = sa.and_(hole.c.chat_id == ref.id, hole.c.lane == made.lane)
    covered = hole.c.message_id.in_(made.covers)
    conn.execute(sa.update(hole).where(mine, covered).values(proposal=made.id))


def history(conn: sa.Connection, ref: ChatRef, summary_id: int) -> tuple[Summary, ...]:
    """Every revision of a summary, oldest first."""
    find(conn, ref, summary_id)
    root = sa.select(S.root_id).where(S.id == summary_id).scalar_subquery()
    query = sa.select(*rows.SUMMARY_COLUMNS).where(S.chat_id == ref.id, S.root_id == root)
    return rows.summaries(conn.execute(query.order_by(S.id)))
