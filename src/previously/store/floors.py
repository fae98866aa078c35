"""Floors: a message's place among those that are there, counted in indexes alone.

In a chat that only ever grew at its end, a floor is a birth number less those that were taken out
before it. In any other, messages are counted by their order. Both stand in an index, so that a
floor of a long chat costs no look at any other message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise

import sqlalchemy as sa

from previously.errors import ChatNotFound
from previously.model import START, ChatRef, Message, birth, key
from previously.store import FloorPage, rows
from previously.store.prepared import Prepared
from previously.store.rows import M
from previously.store.schema import chat, message, message_revision, variant, work

GONE_READ_MAX = 256  # messages that were taken out; more of them are counted, not read

_CHAT = sa.bindparam("chat", type_=sa.BigInteger)
_ALL = sa.select(sa.func.count()).select_from(message).where(M.chat_id == _CHAT)
_BORN = (
    sa.select(work.c.next_n - 1, chat.c.branch_of)
    .join(chat, chat.c.id == work.c.chat_id)
    .where(work.c.chat_id == _CHAT)
)
_GONE = _ALL.where(M.deleted_at.is_not(None))
_GONE_AT = Prepared(
    sa.select(M.pos)
    .where(
        M.chat_id == _CHAT,
        M.deleted_at.is_not(None),
        M.pos < sa.bindparam("before", type_=sa.BigInteger),
    )
    .order_by(M.pos)
    .limit(sa.bindparam("limit", type_=sa.Integer))
)
_GONE_TO = _GONE.where(M.pos <= sa.bindparam("pos", type_=sa.BigInteger))
_NTH = (
    sa.select(M.pos)
    .where(M.chat_id == _CHAT)
    .order_by(M.pos)
    .offset(sa.bindparam("skip", type_=sa.Integer))
    .limit(1)
)
_NTH_LAST = _NTH.order_by(None).order_by(M.pos.desc())
_NTH_BORN = sa.select(M.pos).where(M.id == sa.bindparam("id", type_=sa.BigInteger))
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
_BIRTHS = sa.select(M.pos, M.id).where(
    M.chat_id == _CHAT, M.pos.in_(sa.bindparam("positions", expanding=True))
)
_VARIANTS = (
    sa.select(variant.c.message_id, sa.func.count())
    .where(variant.c.message_id.in_(sa.bindparam("ids", expanding=True)))
    .group_by(variant.c.message_id)
)

# A message's birth number is its place, but for those that were taken out before it, as long as
# nothing was ever put anywhere else than at the end.
_REORDERED = (
    sa.select(sa.literal(1))
    .where(message_revision.c.chat_id == _CHAT)
    .where(message_revision.c.change.in_(("insert", "move", "restore", "undo")))
    .union_all(sa.select(sa.literal(1)).where(chat.c.id == _CHAT, chat.c.branch_of.is_not(None)))
    .limit(1)
)


def _in_order(conn: sa.Connection, ref: ChatRef) -> bool:
    return conn.execute(_REORDERED, {"chat": ref.id}).scalar() is None


def page(conn: sa.Connection, ref: ChatRef, first: int | None, limit: int) -> FloorPage:
    """Messages from a floor on, oldest first, and how many there are in all; None: the newest."""
    every = _every(conn, ref)
    count = every - conn.execute(_GONE, {"chat": ref.id}).scalar_one()
    if first is None:
        first = max(0, count - limit)
    if not 0 <= first < count:
        return FloorPage(count, first)
    pos = _pos_at(conn, ref, first, every)
    found = rows.messages(conn.execute(_FROM, {"chat": ref.id, "pos": pos, "limit": limit}))
    return FloorPage(count, first, found, variants(conn, found))


def _every(conn: sa.Connection, ref: ChatRef) -> int:
    """How many messages the chat has, those that were taken out among them.

    As many as were born in it; a branch has taken only some along.
    """
    born = conn.execute(_BORN, {"chat": ref.id}).one_or_none()
    if born is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    return born[0] if born[1] is None else conn.execute(_ALL, {"chat": ref.id}).scalar_one()


def variants(conn: sa.Connection, found: Iterable[Message]) -> dict[int, int]:
    """How many texts each of these messages has, where it has more than one."""
    ids = [m.id for m in found]
    return {row[0]: row[1] for row in conn.execute(_VARIANTS, {"ids": ids})}


def _pos_at(conn: sa.Connection, ref: ChatRef, floor: int, every: int) -> int:
    """The position of the message on a floor that is there.

    From a place too far down, each step adds those that are gone up to it: it never oversteps.
    """
    in_order, at = _in_order(conn, ref), floor
    while True:
        pos = _born(conn, ref, at) if in_order else _nth(conn, ref, at, every)
        gone = conn.execute(_GONE_TO, {"chat": ref.id, "pos": pos}).scalar_one()
        if floor + gone == at:
            return pos
        at = floor + gone


def _born(conn: sa.Connection, ref: ChatRef, at: int) -> int:
    return conn.execute(_NTH_BORN, {"id": key(ref.id, at + 1)}).scalar_one()


def _nth(conn: sa.Connection, ref: ChatRef, at: int, every: int) -> int:
    """The position of the message at a place among all, walked to from the nearer end."""
    if at * 2 < every:
        return conn.execute(_NTH, {"chat": ref.id, "skip": at}).scalar_one()
    return conn.execute(_NTH_LAST, {"chat": ref.id, "skip": every - 1 - at}).scalar_one()


def at(conn: sa.Connection, ref: ChatRef, positions: Iterable[int]) -> dict[int, int]:
    """For each position how many messages stand before it: the floor of the one that is there."""
    wanted = sorted(set(positions))
    found = conn.execute(_BIRTHS, {"chat": ref.id, "positions": wanted}) if wanted else ()
    births = {row[0]: birth(row[1]) for row in found}
    return of(conn, ref, {pos: births.get(pos) for pos in wanted})


def of(conn: sa.Connection, ref: ChatRef, births: Mapping[int, int | None]) -> dict[int, int]:
    """The floors of messages, by position; each with its birth number, if it is known."""
    if not births:
        return {}
    places = sorted(births)
    in_order = None not in births.values() and _in_order(conn, ref)
    if in_order:
        few = {"chat": ref.id, "before": places[-1], "limit": GONE_READ_MAX + 1}
        gone_at = [row[0] for row in _GONE_AT.all(conn, few)]
        if len(gone_at) <= GONE_READ_MAX:  # as good as always
            return {pos: (births[pos] or 1) - 1 - bisect_left(gone_at, pos) for pos in places}
    every = f"SELECT count(*) FROM message WHERE chat_id = {ref.id}"  # noqa: S608 - our own keys
    gone = f"{every} AND deleted_at IS NOT NULL"
    spans = [f"pos >= {a} AND pos < {b}" for a, b in pairwise([START, *places])]
    if in_order:
        wanted = [f"({gone} AND {span})" for span in spans]
    else:
        wanted = [f"({every} AND {span}) - ({gone} AND {span})" for span in spans]
    counts = conn.exec_driver_sql(f"SELECT {', '.join(wanted)}").one()
    before = dict(zip(places, accumulate(counts), strict=True))
    if not in_order:
        return before
    return {pos: (births[pos] or 1) - 1 - taken for pos, taken in before.items()}
