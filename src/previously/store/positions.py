"""Order: where a message goes between two others, and making room when there is none left."""

from __future__ import annotations

import bisect
from collections.abc import Callable

import sqlalchemy as sa

from previously.model import POS_GAP, START, ChatRef
from previously.store.rows import M, S
from previously.store.schema import fold, lane_state, message, message_revision, summary, work


def place(conn: sa.Connection, ref: ChatRef, before_id: int | None, count: int) -> list[int]:
    """Positions for `count` messages in front of another one, or at the end."""
    if before_id is None:
        end = sa.update(work).where(work.c.chat_id == ref.id)
        room = end.values(last_pos=work.c.last_pos + count * POS_GAP).returning(work.c.last_pos)
        last = conn.execute(room).scalar_one()
        return [last - (count - 1 - i) * POS_GAP for i in range(count)]
    after, before = _neighbours(conn, ref, before_id)
    if after is None:
        return [before - (count - i) * POS_GAP for i in range(count)]
    if before - after <= count:
        renumber(conn, ref)
        after, before = _neighbours(conn, ref, before_id)
        assert after is not None
    step = (before - after) // (count + 1)
    return [after + step * (i + 1) for i in range(count)]


def _neighbours(conn: sa.Connection, ref: ChatRef, before_id: int) -> tuple[int | None, int]:
    """The positions around the gap in front of a message; deleted neighbours count."""
    pos = conn.execute(sa.select(M.pos).where(M.id == before_id)).scalar_one()
    previous = sa.select(sa.func.max(M.pos)).where(M.chat_id == ref.id, M.pos < pos)
    return conn.execute(previous).scalar(), pos


def renumber(conn: sa.Connection, ref: ChatRef) -> None:
    """Spread a chat's messages evenly again: linear, and needed after some thirty insertions at
    one place. Everything that names a position moves along; an earlier move can no longer be
    undone."""
    order = sa.select(M.id, M.pos).where(M.chat_id == ref.id).order_by(M.pos)
    old = conn.execute(order).all()
    new = {row.pos: (i + 1) * POS_GAP for i, row in enumerate(old)}
    at = sa.update(message).where(M.id == sa.bindparam("of_id"))
    moved = [{"of_id": row.id, "to_pos": new[row.pos]} for row in old]
    conn.execute(at.values(pos=sa.bindparam("to_pos")), moved)
    known = sorted(new)

    def mapped(pos: int) -> int:
        index = bisect.bisect_right(known, pos) - 1
        return START if index < 0 else new[known[index]]

    _map(conn, summary, S.chat_id == ref.id, ("first_pos", "last_pos"), mapped)
    _map(conn, lane_state, lane_state.c.chat_id == ref.id, ("covered_to",), mapped)
    _map(conn, fold, fold.c.chat_id == ref.id, ("tail_pos", "from_pos"), mapped)
    conn.execute(
        sa.update(work).where(work.c.chat_id == ref.id).values(last_pos=(len(old) + 1) * POS_GAP)
    )
    placed = message_revision.c.change.in_(("move", "restore"))
    moves = sa.and_(message_revision.c.chat_id == ref.id, placed)
    conn.execute(sa.update(message_revision).where(moves).values(undone=True))


def _map(
    conn: sa.Connection,
    table: sa.Table,
    mine: sa.ColumnElement[bool],
    columns: tuple[str, ...],
    mapped: Callable[[int], int],
) -> None:
    keys = list(table.primary_key.columns)
    query = sa.select(*keys, *(table.c[c] for c in columns)).where(mine)
    for row in conn.execute(query).mappings().all():
        here = sa.and_(*(k == row[k.name] for k in keys))
        values = {c: mapped(row[c]) for c in columns}
        conn.execute(sa.update(table).where(here).values(**values))
