"""Transactions on answers that are given again: a request with a key of its own is done once, by
whichever process it reaches, and after a restart too."""

from __future__ import annotations

import sqlalchemy as sa

from previously.store import KeptAnswer
from previously.store.schema import answer

KEPT_MAX = 1_000  # the newest of them
CLAIM_MS = 600_000  # whoever makes an answer and dies holds its key no longer than that
KEPT_MS = 24 * 3_600_000

_A = answer.c
_EXPIRED = sa.delete(answer).where(_A.until < sa.bindparam("now"))
_CLAIM = sa.text(
    "INSERT INTO answer (slot, request, status, headers, body, until)"
    " VALUES (:slot, :request, NULL, '[]', :body, :until) ON CONFLICT (slot) DO NOTHING"
)
_FIND = sa.select(answer).where(_A.slot == sa.bindparam("of_slot"))
_KEEP = (
    sa.update(answer)
    .where(_A.slot == sa.bindparam("of_slot"))
    .values(
        status=sa.bindparam("told"),
        headers=sa.bindparam("with_headers"),
        body=sa.bindparam("with_body"),
        until=sa.bindparam("kept_until"),
    )
)
_OLDEST_KEPT = sa.select(_A.until).order_by(_A.until.desc()).limit(1).offset(KEPT_MAX)
_DROP = sa.delete(answer).where(_A.slot == sa.bindparam("of_slot"))


def claim(conn: sa.Connection, slot: str, request: str, now_ms: int) -> KeptAnswer | None:
    """What was answered before, or is being made; none: it is the caller's to make now."""
    conn.execute(_EXPIRED, {"now": now_ms})
    values = {"slot": slot, "request": request, "body": b"", "until": now_ms + CLAIM_MS}
    if conn.execute(_CLAIM, values).rowcount:
        return None
    row = conn.execute(_FIND, {"of_slot": slot}).one_or_none()
    if row is None:  # another process has just given it up: ask again
        return KeptAnswer(request, None, "[]", b"")
    return KeptAnswer(row.request, row.status, row.headers, row.body)


def keep(
    conn: sa.Connection, slot: str, status: int, headers: str, body: bytes, now_ms: int
) -> None:
    """Answer like this from now on; the oldest of all answers gives way."""
    values = {"told": status, "with_headers": headers, "with_body": body}
    conn.execute(_KEEP, {**values, "of_slot": slot, "kept_until": now_ms + KEPT_MS})
    oldest = conn.execute(_OLDEST_KEPT).scalar_one_or_none()
    if oldest is not None:
        conn.execute(sa.delete(answer).where(_A.until <= oldest, _A.status.is_not(None)))


def drop(conn: sa.Connection, slot: str) -> None:
    """Nothing came of it: the next request with this key is made."""
    conn.execute(_DROP, {"of_slot": slot})


def forget(conn: sa.Connection) -> None:
    """Keep none of them: an answer may quote what is being removed for good."""
    conn.execute(sa.delete(answer).where(_A.status.is_not(None)))
