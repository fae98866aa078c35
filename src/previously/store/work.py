"""Transactions of the reconcile loop: lease a chat that is due, record attempts, finish.

A worker that finds its fence raised has lost its lease and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import ChatNotFound, LeaseLost
from previously.model import (
    CANCELLED,
    Attempt,
    ChatRef,
    Draft,
    Lease,
    Reply,
    Summary,
    Usage,
    WorkState,
)
from previously.store import intents
from previously.store.leaves import commit_leaf
from previously.store.parents import commit_parent
from previously.store.prepared import Prepared
from previously.store.schema import attempt, chat, llm_result, work

W, A, R = work.c, attempt.c, llm_result.c
ERROR_TEXT_MAX = 500
PAID_KEPT_MS = 30 * 24 * 60 * 60 * 1_000

_CHAT: BindParameter[int] = sa.bindparam("chat")
_NOW: BindParameter[int] = sa.bindparam("now")
_FREE = sa.or_(W.lease_until.is_(None), W.lease_until <= _NOW)
_DUE = (
    sa.select(W.chat_id, chat.c.owner, chat.c.name, W.rev)
    .join(chat, chat.c.id == W.chat_id)
    .where(
        sa.or_(W.rev > W.done_rev, W.due_at <= _NOW),
        _FREE,
        chat.c.deleted_at.is_(None),
        chat.c.building.is_(False),
    )
    .order_by(W.chat_id)
    .limit(sa.bindparam("limit"))
)
_HOLD = sa.select(W.chat_id).where(W.chat_id == _CHAT).with_for_update()
# A change that is under way at this very moment is waited for: not every one is announced.
_CLAIM = (
    sa.update(work)
    .where(W.chat_id == _CHAT, _FREE)
    .values(
        lease_owner=sa.bindparam("worker"),
        lease_until=sa.bindparam("until"),
        fence=W.fence + 1,
    )
    .returning(W.fence)
)
_SETTLE = (
    sa.update(work)
    .where(W.chat_id == _CHAT, W.done_rev < sa.bindparam("seen"), W.lease_until.is_(None))
    .values(done_rev=sa.bindparam("seen"))
)
_STATE = sa.select(W.rev, W.done_rev, W.due_at, W.lease_until).where(W.chat_id == _CHAT)
_MINE = sa.and_(W.chat_id == _CHAT, W.fence == sa.bindparam("my_fence"))
_RENEW = (  # what was given back stays given back
    sa.update(work)
    .where(_MINE, W.lease_until.is_not(None))
    .values(lease_until=sa.bindparam("until"))
)
_RELEASE = sa.update(work).where(_MINE).values(lease_until=None, lease_owner=None)
_FINISH = (
    sa.update(work)
    .where(_MINE)
    .values(
        done_rev=sa.bindparam("seen"),
        due_at=sa.bindparam("next_due"),
        lease_until=None,
        lease_owner=None,
    )
)
_FENCE = Prepared(sa.select(W.fence).where(W.chat_id == _CHAT).with_for_update())
_REV = Prepared(sa.select(W.rev).where(W.chat_id == _CHAT))
_FORGET = Prepared(sa.delete(attempt).where(A.chat_id == _CHAT, A.task_id == sa.bindparam("task")))
_ATTEMPTS = Prepared(
    sa.select(
        A.task_id, A.lane, A.verdict, A.error_class, A.error_text, A.tries, A.not_before
    ).where(A.chat_id == _CHAT)
)
_PAID = sa.and_(R.chat_id == _CHAT, R.request_hash == sa.bindparam("request"))
_FIND_PAID = sa.select(R.response).where(_PAID)
_FORGET_PAID = sa.delete(llm_result).where(_PAID)
_EXPIRE_PAID = sa.delete(llm_result).where(
    R.chat_id == _CHAT, R.created_at < sa.bindparam("before")
)


def hold(conn: sa.Connection, ref: ChatRef) -> None:
    """Until this transaction ends, nobody else changes the chat. One writer needs no lock."""
    if conn.dialect.name != "sqlite":
        conn.execute(_HOLD, {"chat": ref.id})


def due(conn: sa.Connection, now_ms: int, limit: int) -> list[tuple[ChatRef, int]]:
    """Chats that have changed since they were last looked at, or whose retry has come."""
    found = conn.execute(_DUE, {"now": now_ms, "limit": limit})
    return [(ChatRef(r.chat_id, r.owner, r.name), r.rev) for r in found]


def claim(
    conn: sa.Connection, ref: ChatRef, worker: str, now_ms: int, lease_ms: int
) -> Lease | None:
    """Lease this chat, unless somebody else works on it."""
    values = {"chat": ref.id, "worker": worker, "now": now_ms, "until": now_ms + lease_ms}
    fence = conn.execute(_CLAIM, values).scalar()
    return None if fence is None else Lease(ref, worker, fence)


def settle(conn: sa.Connection, seen: Sequence[tuple[int, int]]) -> None:
    """Chats that were looked at and had nothing due; each with the revision that was seen."""
    conn.execute(_SETTLE, [{"chat": chat_id, "seen": rev} for chat_id, rev in seen])


def state(conn: sa.Connection, ref: ChatRef, now_ms: int) -> WorkState:
    """How far the work on a chat has come."""
    row = conn.execute(_STATE, {"chat": ref.id}).one_or_none()
    if row is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    leased = row.lease_until is not None and row.lease_until > now_ms
    return WorkState(row.rev, row.done_rev, row.due_at, leased)


def recover(conn: sa.Connection) -> int:
    """Forget every lease. Only for a database whose lock proves that no other worker lives."""
    cleared = conn.execute(
        sa.update(work).where(W.lease_until.is_not(None)).values(lease_until=None, lease_owner=None)
    )
    return cleared.rowcount


def renew(conn: sa.Connection, lease: Lease, until_ms: int) -> None:
    """Hold the lease for longer."""
    _fenced(conn, lease, _RENEW, {"until": until_ms})


def finish(
    conn: sa.Connection,
    lease: Lease,
    seen_rev: int,
    due_at_ms: int | None,
    fulfilled: Sequence[int],
    now_ms: int,
) -> None:
    """Give the chat back: all that was due at `seen_rev` is done, or waits until `due_at_ms`."""
    _fenced(conn, lease, _FINISH, {"seen": seen_rev, "next_due": due_at_ms})
    if fulfilled:
        intents.close(conn, lease.ref, fulfilled, now_ms)


def release(conn: sa.Connection, lease: Lease) -> None:
    """Give the chat back unfinished."""
    _fenced(conn, lease, _RELEASE, {})


def _fenced(
    conn: sa.Connection, lease: Lease, statement: sa.Update, values: dict[str, int | None]
) -> None:
    mine = {"chat": lease.ref.id, "my_fence": lease.fence, **values}
    if conn.execute(statement, mine).rowcount != 1:
        raise LeaseLost(f"another worker has chat {lease.ref.name!r}")


def _check(conn: sa.Connection, lease: Lease) -> None:
    found = _FENCE.one(conn, {"chat": lease.ref.id})
    if found is None or found[0] != lease.fence:
        raise LeaseLost(f"another worker has chat {lease.ref.name!r}")


def commit(conn: sa.Connection, lease: Lease, draft: Draft, now_ms: int) -> tuple[Summary, int]:
    """A draft becomes a summary, with everything that belongs to it, in one fenced step; and the
    chat's revision since."""
    _check(conn, lease)
    write = commit_parent if draft.task.children else commit_leaf
    made = write(conn, lease.ref, draft, now_ms)
    _forget(conn, lease.ref, draft.task.id)
    if draft.provenance.get("paid"):
        _settle_payment(conn, lease, draft, now_ms)
    since = _REV.one(conn, {"chat": lease.ref.id})
    assert since is not None
    return made, since[0]


def _settle_payment(conn: sa.Connection, lease: Lease, draft: Draft, now_ms: int) -> None:
    """The answers are used: forget the copies that served their purpose."""
    for request in {*draft.spent, draft.provenance.get("request")}:
        conn.execute(_FORGET_PAID, {"chat": lease.ref.id, "request": request})
    conn.execute(_EXPIRE_PAID, {"chat": lease.ref.id, "before": now_ms - PAID_KEPT_MS})


def record_attempt(conn: sa.Connection, lease: Lease, made: Attempt, now_ms: int) -> None:
    """What became of a task, so that nobody pays for the same failure at once again.

    Whoever cancelled it while it ran has the last word.
    """
    _check(conn, lease)
    mine = sa.and_(A.chat_id == lease.ref.id, A.task_id == made.task_id)
    if conn.execute(sa.select(A.verdict).where(mine)).scalar() == CANCELLED:
        return
    _forget(conn, lease.ref, made.task_id)
    conn.execute(
        sa.insert(attempt).values(
            chat_id=lease.ref.id,
            task_id=made.task_id,
            lane=made.lane,
            verdict=made.verdict,
            error_class=made.error_class,
            error_text=made.error_text[:ERROR_TEXT_MAX],
            tries=made.tries,
            not_before=made.not_before_ms,
            updated_at=now_ms,
        )
    )


def decide(
    conn: sa.Connection, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int
) -> bool:
    """A user's word on a task that has failed; False if there is no such task any more."""
    mine = sa.update(attempt).where(A.chat_id == ref.id, A.task_id == task_id)
    done = conn.execute(mine.values(verdict=verdict, not_before=not_before_ms))
    conn.execute(sa.update(work).where(W.chat_id == ref.id).values(rev=W.rev + 1))
    return done.rowcount == 1


def forget_attempts(conn: sa.Connection, lease: Lease, task_ids: Sequence[str]) -> None:
    """These tasks are no longer due: their messages were covered or have changed."""
    _check(conn, lease)
    _FORGET.many(conn, [{"chat": lease.ref.id, "task": t} for t in task_ids])


def _forget(conn: sa.Connection, ref: ChatRef, task_id: str) -> None:
    _FORGET.many(conn, [{"chat": ref.id, "task": task_id}])


def attempts(conn: sa.Connection, ref: ChatRef) -> dict[str, Attempt]:
    """The chat's open attempts by task."""
    return {row[0]: Attempt(*row) for row in _ATTEMPTS.all(conn, {"chat": ref.id})}


def paid(conn: sa.Connection, ref: ChatRef, request_hash: str) -> Reply | None:
    """An answer that had arrived for this very request and was not yet used."""
    row = conn.execute(_FIND_PAID, {"chat": ref.id, "request": request_hash}).scalar()
    if row is None:
        return None
    body = json.loads(row)
    return Reply(body["text"], body["model"], body["finish"], Usage(*body["usage"]))


def forget_paid(conn: sa.Connection, ref: ChatRef, request_hash: str) -> None:
    """An answer that turned out to be no use."""
    conn.execute(_FORGET_PAID, {"chat": ref.id, "request": request_hash})


def keep_paid(
    conn: sa.Connection,
    ref: ChatRef,
    request_hash: str,
    reply: Reply,
    sources: Sequence[int],
    now_ms: int,
) -> None:
    """Keep an answer from the moment it arrives until its summary is committed."""
    body = {
        "text": reply.text,
        "model": reply.model,
        "finish": reply.finish,
        "usage": astuple(reply.usage),
    }
    conn.execute(_FORGET_PAID, {"chat": ref.id, "request": request_hash})
    conn.execute(
        sa.insert(llm_result).values(
            chat_id=ref.id,
            request_hash=request_hash,
            response=json.dumps(body, ensure_ascii=False),
            sources=json.dumps(list(sources)),
            created_at=now_ms,
        )
    )
