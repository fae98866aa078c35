"""What model calls cost: money is reserved before a call and settled after it.

Reserving reads the month's sum under a lock, so that two calls can never both take the last cent.
A reservation that nobody settled, because its process died, stays: the call may have been billed.
"""

from __future__ import annotations

import sqlalchemy as sa

from previously.model import Usage
from previously.store import Purpose, Spent
from previously.store.schema import installation, usage

_U = usage.c
_OWED = sa.func.coalesce(_U.cost_micros, _U.reserved_micros, 0)
_LOCK = sa.select(installation.c.id).with_for_update()
_SPENT = sa.select(sa.func.coalesce(sa.func.sum(_OWED), 0)).where(
    _U.owner == sa.bindparam("of_owner"), _U.month == sa.bindparam("of_month")
)


def spent(conn: sa.Connection, owner: str, month: str) -> int:
    """Millionths of a dollar in a month, reservations included."""
    found = conn.execute(_SPENT, {"of_owner": owner, "of_month": month}).scalar_one()
    return int(found)  # PostgreSQL sums into a wider type


def reserve(
    conn: sa.Connection,
    purpose: Purpose,
    estimate_micros: int | None,
    limit_micros: int | None,
    now_ms: int,
) -> int | None:
    """Enter a call that is about to be made; None if the month's limit does not allow it."""
    conn.execute(_LOCK)
    if limit_micros is not None and estimate_micros is not None:
        so_far = spent(conn, purpose.owner, purpose.month)
        if so_far + estimate_micros > limit_micros:
            return None
    row = {
        "owner": purpose.owner,
        "month": purpose.month,
        "profile": purpose.profile,
        "chat_id": purpose.chat_id,
        "lane": purpose.lane,
        "input_tokens": 0,
        "output_tokens": 0,
        "reserved_micros": estimate_micros,
        "created_at": now_ms,
    }
    return conn.execute(sa.insert(usage).values(row).returning(_U.id)).scalar_one()


def settle(conn: sa.Connection, entry: int, used: Usage, cost_micros: int | None) -> None:
    """The call was answered: what it really used."""
    values = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cost_micros": cost_micros,
        "reserved_micros": None,
    }
    conn.execute(sa.update(usage).where(_U.id == entry).values(**values))


def cancel(conn: sa.Connection, entry: int) -> None:
    """The call was never answered."""
    conn.execute(sa.delete(usage).where(_U.id == entry))


def totals(conn: sa.Connection, owner: str, by: str) -> list[Spent]:
    """Sums by `month`, `profile` or `chat`."""
    heading = {"month": _U.month, "profile": _U.profile, "chat": _U.chat_id}[by]
    query = (
        sa.select(
            heading,
            sa.func.count(),
            sa.func.sum(_U.input_tokens),
            sa.func.sum(_U.output_tokens),
            sa.func.coalesce(sa.func.sum(_OWED), 0),
            sa.func.count().filter(_U.cost_micros.is_(None), _U.reserved_micros.is_(None)),
        )
        .where(_U.owner == owner)
        .group_by(heading)
        .order_by(heading)
    )
    return [Spent(str(row[0]), *(int(n) for n in row[1:])) for row in conn.execute(query)]
