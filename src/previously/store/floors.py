"""Floors: a message's place among those that are there, counted in indexes alone.

All messages of a chat are counted by their order, and those that were taken out are subtracted;
both counts stand in an index, so that a floor of a long chat costs no look at any message.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

import sqlalchemy as sa

from previously.model import START, ChatRef, Message
from previously.store import FloorPage, rows
from previously.store.rows import M
from previously.store.schema import message, variant

_CHAT = sa.bindparam("chat", type_=sa.BigInteger)
_ALL = sa.select(sa.func.count()).select_from(message).where(M.chat_id == _CHAT)
_GONE = _ALL.where(M.deleted_at.is_not(None))
_GONE_TO = _GONE.where(M.pos <= sa.bindparam("pos", type_=sa.BigInteger))
_NTH = (
    sa.select(M.pos)
    .where(M.chat_id == _CHAT)
    .order_by(M.pos)
    .offset(sa.bindparam("skip", type_=sa.Integer))
    .limit(1)
)
_NTH_LAST = _NTH.order_by(None).order_by(M.pos.desc())
_FROM = (
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(
        M.chat_id == _CHAT,
        M.pos >= sa.bindparam("pos", type_=sa.BigInteger),
        M.deleted_at.is_(None),
    )
    .order_by(M.pos)
    .limit(sa.bindparam("limit", type_=sa.Integer))
)
_VARIANTS = (
    sa.select(variant.c.message_id, sa.func.count())
    .where(variant.c.message_id.in_(sa.bindparam("ids", expanding=True)))
    .group_by(variant.c.message_id)
)


def total(conn: sa.Connection, ref: ChatRef) -> int:
    """How many messages are there."""
    of = {"chat": ref.id}
    return conn.execute(_ALL, of).scalar_one() - conn.execute(_GONE, of).scalar_one()


def page(conn: sa.Connection, ref: ChatRef, first: int, limit: int) -> FloorPage:
    """Messages from a floor on, oldest first, and how many there are in all."""
    count = total(conn, ref)
    pos = _pos_at(conn, ref, first) if 0 <= first < count else None
    if pos is None:
        return FloorPage(count, first)
    found = rows.messages(conn.execute(_FROM, {"chat": ref.id, "pos": pos, "limit": limit}))
    return FloorPage(count, first, found, variants(conn, found))


def variants(conn: sa.Connection, found: Iterable[Message]) -> dict[int, int]:
    """How many texts each of these messages has, where it has more than one."""
    ids = [m.id for m in found]
    return {row[0]: row[1] for row in conn.execute(_VARIANTS, {"ids": ids})}


def _pos_at(conn: sa.Connection, ref: ChatRef, floor: int) -> int:
    """The position of the message on a floor that is there.

    From a place too far down, each step adds those that are gone up to it: it never oversteps.
    """
    count = conn.execute(_ALL, {"chat": ref.id}).scalar_one()
    at = floor
    while True:
        pos = _nth(conn, ref, at, count)
        gone = conn.execute(_GONE_TO, {"chat": ref.id, "pos": pos}).scalar_one()
        if floor + gone == at:
            return pos
        at = floor + gone


def _nth(conn: sa.Connection, ref: ChatRef, at: int, count: int) -> int:
    """The position of the message at a place among all, walked to from the nearer end."""
    if at * 2 < count:
        return conn.execute(_NTH, {"chat": ref.id, "skip": at}).scalar_one()
    return conn.execute(_NTH_LAST, {"chat": ref.id, "skip": count - 1 - at}).scalar_one()


def at(conn: sa.Connection, ref: ChatRef, positions: Iterable[int]) -> dict[int, int]:
    """For each position how many messages stand before it: the floor of the one that is there."""
    places = sorted(set(positions))
    if not places:
        return {}
    every = f"SELECT count(*) FROM message WHERE chat_id = {ref.id}"  # noqa: S608 - our own keys
    gone = f"{every} AND deleted_at IS NOT NULL"
    spans = [f"pos >= {a} AND pos < {b}" for a, b in pairwise([START, *places])]
    wanted = (f"({every} AND {span}) - ({gone} AND {span})" for span in spans)
    counts = conn.exec_driver_sql(f"SELECT {', '.join(wanted)}").one()
    return dict(zip(places, accumulate(counts), strict=True))
