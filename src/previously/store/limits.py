"""How often and how many at once: limits on model calls that hold over all processes.

A call takes a place and gives it back; places of processes that died run out. The rate is kept as
the time at which the next call would be on time: each call moves it on by one interval, and a call
may come early by as much as a burst allows.
"""

from __future__ import annotations

import sqlalchemy as sa

from previously.store.schema import limit_rate, limit_slot

BURST_S = 6.0  # a pause of that length may be made up for at once
LOOK_AGAIN_MS = 250  # a place may become free at any time

_R, _S = limit_rate.c, limit_slot.c
_PROFILE = sa.bindparam("of_profile", type_=sa.Text)
_NEXT = sa.select(_R.next_at).where(_R.profile == _PROFILE).with_for_update()
_TAKEN = (
    sa.select(sa.func.count())
    .select_from(limit_slot)
    .where(_S.profile == _PROFILE, _S.until > sa.bindparam("now"))
)
_EXPIRED = sa.delete(limit_slot).where(_S.profile == _PROFILE, _S.until <= sa.bindparam("now"))


def take(
    conn: sa.Connection,
    profile: str,
    holder: str,
    limits: tuple[int | None, int | None],
    now_ms: int,
    lease_ms: int,
) -> int:
    """Take a place for one call: 0, or how many milliseconds to wait before asking again."""
    at_once, per_minute = limits
    next_at = _locked(conn, profile, now_ms)
    if at_once is not None and _taken(conn, profile, now_ms) >= at_once:
        return LOOK_AGAIN_MS
    if per_minute is not None:
        interval = 60_000 / per_minute
        early = max(next_at, now_ms) - now_ms
        allowed = max(0.0, BURST_S * 1000 - interval)
        if early > allowed:
            return int(early - allowed) + 1
        _go_on(conn, profile, int(max(next_at, now_ms) + interval))
    row = {"profile": profile, "holder": holder, "until": now_ms + lease_ms}
    conn.execute(sa.insert(limit_slot), row)
    return 0


def give_back(conn: sa.Connection, profile: str, holder: str) -> None:
    """The call has ended, however it did."""
    conn.execute(sa.delete(limit_slot).where(_S.profile == profile, _S.holder == holder))


def _locked(conn: sa.Connection, profile: str, now_ms: int) -> int:
    """When the next call is on time; nobody else asks about this profile until we are done."""
    found = conn.execute(_NEXT, {"of_profile": profile}).scalar()
    if found is not None:
        return found
    conn.execute(sa.insert(limit_rate), {"profile": profile, "next_at": now_ms})
    return now_ms


def _taken(conn: sa.Connection, profile: str, now_ms: int) -> int:
    values = {"of_profile": profile, "now": now_ms}
    conn.execute(_EXPIRED, values)
    return conn.execute(_TAKEN, values).scalar_one()


def _go_on(conn: sa.Connection, profile: str, next_at: int) -> None:
    conn.execute(sa.update(limit_rate).where(_R.profile == profile).values(next_at=next_at))
