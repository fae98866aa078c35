"""A branch is a copy: everything of a chat up to one message, in a chat of its own.

Texts are not shared, so editing one chat never changes the other. The copy is made in small
transactions into a chat that nobody sees (`building`), and turned visible in one step which first
compares it with its source. Birth numbers stay: a key only changes its chat.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BindParameter

from previously.errors import BadInput, ChatNotFound, MessageNotFound, StaleDraft
from previously.model import BIRTH_BITS, BIRTH_MASK, START, Chat, ChatRef, SummaryStatus, key
from previously.store import Branching, audit, chats
from previously.store.rows import M, S
from previously.store.schema import (
    carried,
    chat,
    chat_participant,
    hole,
    lane_state,
    link,
    message,
    presence,
    setting,
    summary,
    variant,
    work,
)

BATCH_ROWS = 500  # per transaction: a turn that waits for the writer waits for one batch at most

_FROM: BindParameter[int] = sa.bindparam("from_chat")
_TO: BindParameter[int] = sa.bindparam("to_chat")
_SHIFT: BindParameter[int] = sa.bindparam("shift", type_=sa.BigInteger)  # from key to key
_FIRST: BindParameter[int] = sa.bindparam("first_key")  # of the source
_LAST: BindParameter[int] = sa.bindparam("last_key")
_AT: BindParameter[int] = sa.bindparam("up_to")
_AFTER: BindParameter[int] = sa.bindparam("after_key")
_LEVEL: BindParameter[int] = sa.bindparam("of_level")

_PREFIX = sa.and_(M.chat_id == _FROM, M.pos <= _AT, M.deleted_at.is_(None))
_VALID = sa.and_(S.status == SummaryStatus.READY.value, S.valid.is_(True))


def _chosen(
    table: sa.Table, where: sa.ColumnElement[bool], **new: Any
) -> sa.Select[*tuple[Any, ...]]:
    """Rows as they are but for some columns; a column that the table gets one day comes along."""
    return sa.select(*(new.get(c.name, c) for c in table.columns)).where(where)


def _copying(table: sa.Table, where: sa.ColumnElement[bool], **new: Any) -> sa.Insert:
    names = [c.name for c in table.columns]
    return sa.insert(table).from_select(names, _chosen(table, where, **new))


def _batch(
    table: sa.Table, where: sa.ColumnElement[bool], order: tuple[sa.Column[Any], ...], **new: Any
) -> sa.Insert:
    """A batch at a time, in the order of the key."""
    names = [c.name for c in table.columns]
    chosen = _chosen(table, where, **new).order_by(*order).limit(BATCH_ROWS)
    copying = sa.insert(table).from_select(names, chosen)
    return copying.execution_options(preserve_rowcount=True)


def _with_copied(
    copied: sa.FromClause, owner: sa.Column[int], index: sa.Column[int]
) -> sa.ColumnElement[bool]:
    """What belongs to a record that is in the copy already, behind where the last batch ended."""
    return sa.and_(
        owner.between(_FIRST, _LAST),
        sa.tuple_(owner, index) > sa.tuple_(_AFTER, sa.bindparam("after_index")),
        sa.exists().where(copied.c.id == owner + _SHIFT),
    )


# By key, not by position: a message that moves meanwhile is neither met twice nor passed over.
_MESSAGES = _batch(
    message,
    sa.and_(_PREFIX, M.id.between(_FIRST, _LAST), M.id > _AFTER),
    (M.id,),
    id=M.id + _SHIFT,
    chat_id=_TO,
)
_copy_m, _copy_s = message.alias("copied_message"), summary.alias("copied_summary")
_VARIANTS = _batch(
    variant,
    _with_copied(_copy_m, variant.c.message_id, variant.c.idx),
    (variant.c.message_id, variant.c.idx),
    message_id=variant.c.message_id + _SHIFT,
)
_LEFT_BEHIND = sa.exists().where(  # a source that is not in the copy
    link.c.summary_id == S.id,
    sa.case(
        (
            link.c.target_is_summary,
            ~sa.exists().where(_copy_s.c.id == link.c.target_id + _SHIFT),
        ),
        else_=~sa.exists().where(_copy_m.c.id == link.c.target_id + _SHIFT),
    ),
)
_SUMMARIES = _batch(
    summary,
    sa.and_(
        S.id.between(_FIRST, _LAST),
        S.id > _AFTER,
        S.level == _LEVEL,
        _VALID,
        sa.or_(S.level > 0, S.last_pos <= _AT),
        ~_LEFT_BEHIND,
    ),
    (S.id,),
    id=S.id + _SHIFT,
    chat_id=_TO,
    covered_by=S.covered_by + _SHIFT,
    root_id=S.root_id + _SHIFT,
    prev_id=S.prev_id + _SHIFT,
    superseded_by=sa.null(),
)
_LINKS = _batch(
    link,
    _with_copied(_copy_s, link.c.summary_id, link.c.position),
    (link.c.summary_id, link.c.position),
    summary_id=link.c.summary_id + _SHIFT,
    target_id=link.c.target_id + _SHIFT,
)


def start(
    conn: sa.Connection, ref: ChatRef, name: str, at_id: int | None, now_ms: int
) -> Branching:
    """An invisible chat to copy into, and what is to be copied."""
    refuse_taken(conn, ref.owner, name)
    at_id, at_pos = _branch_point(conn, ref, at_id)
    own = {"title": name, "branch_of": ref.id, "branch_at": at_id, "created_at": now_ms}
    target = _building(conn, ref, own)
    top = conn.execute(sa.select(sa.func.max(S.level)).where(S.chat_id == ref.id)).scalar()
    return Branching(
        source=ref,
        target=target,
        name=name,
        at_id=at_id,
        at_pos=at_pos,
        parts=(
            ("messages", 0),
            ("variants", 0),
            *(("summaries", level) for level in range((top or 0) + 1)),
            ("links", 0),
        ),
    )


def _building(conn: sa.Connection, ref: ChatRef, own: Mapping[str, Any]) -> ChatRef:
    """A chat like this one that nobody sees; it gets its name when it is whole."""
    source = conn.execute(sa.select(chat).where(chat.c.id == ref.id)).mappings().one_or_none()
    if source is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    name = f"branch {secrets.token_hex(16)}"
    values = {k: source[k] for k in ("owner", "preset", "lane", "character", "recording", "extra")}
    insert = sa.insert(chat).values(name=name, building=True, **values, **own)
    made = conn.execute(insert.returning(chat.c.id)).scalar_one()
    conn.execute(sa.insert(work).values(chat_id=made))
    return ChatRef(made, ref.owner, name)


def refuse_taken(conn: sa.Connection, owner: str, name: str) -> None:
    """`BadInput` if there is a chat of that name."""
    taken = sa.select(chat.c.id).where(chat.c.owner == owner, chat.c.name == name)
    if conn.execute(taken).scalar() is not None:
        raise BadInput(f"there is a chat named {name!r} already", field="name")


def _branch_point(conn: sa.Connection, ref: ChatRef, at_id: int | None) -> tuple[int | None, int]:
    """The last message to copy, with its position; the newest one if none is named."""
    query = sa.select(M.id, M.pos).where(M.chat_id == ref.id, M.deleted_at.is_(None))
    if at_id is not None:
        query = query.where(M.id == at_id)
    found = conn.execute(query.order_by(M.pos.desc()).limit(1)).one_or_none()
    if found is not None:
        return found.id, found.pos
    if at_id is not None:
        raise MessageNotFound(f"the chat {ref.name!r} has no message {at_id}")
    return None, START


def copy(conn: sa.Connection, made: Branching, part: str, level: int) -> bool:
    """Copy the next batch of one part; whether there may be more of it."""
    values = {**_ends(made), "of_level": level}
    if part == "messages":
        statement, after = _MESSAGES, {"after_key": _reached(conn, made, M.id)}
    elif part == "summaries":
        statement = _SUMMARIES
        after = {"after_key": _reached(conn, made, S.id, S.level == level)}
    elif part == "variants":
        statement = _VARIANTS
        after = _reached_pair(conn, made, variant.c.message_id, variant.c.idx)
    else:
        statement = _LINKS
        after = _reached_pair(conn, made, link.c.summary_id, link.c.position)
    return conn.execute(statement, {**values, **after}).rowcount == BATCH_ROWS


def _ends(made: Branching) -> dict[str, int]:
    source, target = made.source.id, made.target.id
    return {
        "from_chat": source,
        "to_chat": target,
        "shift": (target - source) << BIRTH_BITS,
        "first_key": key(source, 0),
        "last_key": key(source, BIRTH_MASK),
        "up_to": made.at_pos,
    }


def _mine(made: Branching, column: sa.Column[int]) -> sa.ColumnElement[bool]:
    return column.between(key(made.target.id, 0), key(made.target.id, BIRTH_MASK))


def _reached(
    conn: sa.Connection, made: Branching, column: sa.Column[int], *also: sa.ColumnElement[bool]
) -> int:
    """How far the copy has come, as a key of the source: the copy itself remembers it."""
    top = conn.execute(sa.select(sa.func.max(column)).where(_mine(made, column), *also)).scalar()
    return key(made.source.id, 0) if top is None else top - _ends(made)["shift"]


def _reached_pair(
    conn: sa.Connection, made: Branching, column: sa.Column[int], index: sa.Column[int]
) -> dict[str, int]:
    query = sa.select(column, index).where(_mine(made, column))
    top = conn.execute(query.order_by(column.desc(), index.desc()).limit(1)).one_or_none()
    if top is None:
        return {"after_key": key(made.source.id, 0), "after_index": -1}
    return {"after_key": top[0] - _ends(made)["shift"], "after_index": top[1]}


_WORK = sa.select(work.c.next_n, work.c.next_s, work.c.last_pos).where(work.c.chat_id == _FROM)
_SAME = ("pos", "hash", "version", "state")  # every change of a message touches one of these
_CHANGED = (
    sa.select(sa.func.count())
    .select_from(message.outerjoin(_copy_m, _copy_m.c.id == M.id + _SHIFT))
    .where(_PREFIX)
    .where(sa.or_(_copy_m.c.id.is_(None), *(M[c].is_distinct_from(_copy_m.c[c]) for c in _SAME)))
)
_COUNT_PREFIX = sa.select(sa.func.count()).select_from(message).where(_PREFIX)
_COUNT_COPY = sa.select(sa.func.count()).select_from(message).where(M.chat_id == _TO)
_LAST_COVERED = (
    sa.select(sa.func.max(_copy_s.c.last_pos))
    .where(_copy_s.c.chat_id == _TO, _copy_s.c.lane == lane_state.c.lane, _copy_s.c.level == 0)
    .scalar_subquery()
)
_LANES = _copying(
    lane_state,
    lane_state.c.chat_id == _FROM,
    chat_id=_TO,
    covered_to=sa.func.coalesce(_LAST_COVERED, START),
)
_copy_lane = lane_state.alias("copied_lane")
_HOLES = _copying(
    hole,
    sa.and_(
        hole.c.chat_id == _FROM,
        sa.exists()
        .where(_copy_m.c.id == hole.c.message_id + _SHIFT, _copy_m.c.pos <= _copy_lane.c.covered_to)
        .where(_copy_lane.c.chat_id == _TO, _copy_lane.c.lane == hole.c.lane),
    ),
    chat_id=_TO,
    message_id=hole.c.message_id + _SHIFT,
    proposal=sa.null(),
)
_SETTINGS = _copying(
    setting,
    sa.and_(setting.c.scope == "chat", setting.c.scope_id == sa.bindparam("from_scope")),
    scope_id=sa.bindparam("to_scope"),
)
_SMALL = (
    _copying(presence, presence.c.chat_id == _FROM, chat_id=_TO),
    _copying(carried, carried.c.chat_id == _FROM, chat_id=_TO),
    _copying(chat_participant, chat_participant.c.chat_id == _FROM, chat_id=_TO),
    _SETTINGS,
    _LANES,
    _HOLES,
)


def copy_settings(conn: sa.Connection, from_chat: int, to_chat: int) -> None:
    """A chat's own settings, for another one too."""
    conn.execute(_SETTINGS, {"from_scope": str(from_chat), "to_scope": str(to_chat)})


def finish(conn: sa.Connection, made: Branching, now_ms: int) -> Chat:
    """Turn the copy visible, or `StaleDraft` if its source is not what was copied any more."""
    ends = _ends(made)
    born = conn.execute(_WORK.with_for_update(), ends).one_or_none()
    if born is None:
        raise ChatNotFound(f"the chat {made.source.name!r} is gone")
    _refuse_changed(conn, made, ends)
    scopes = {"from_scope": str(made.source.id), "to_scope": str(made.target.id)}
    for statement in _SMALL:
        conn.execute(statement, {**ends, **scopes})
    for column in ("covered_by", "prev_id"):
        _forget_uncopied(conn, made, column)
    mine = work.c.chat_id == made.target.id
    conn.execute(sa.update(work).where(mine).values(rev=1, **_mapping(born)))
    for lane in _lanes(conn, made.target):
        audit.repair(conn, made.target, lane, now_ms)
    refuse_taken(conn, made.target.owner, made.name)
    shown = sa.update(chat).where(chat.c.id == made.target.id)
    conn.execute(shown.values(name=made.name, building=False))
    return chats.find(conn, made.target.owner, made.name)


def _mapping(row: Any) -> Mapping[str, int]:
    return row._mapping  # noqa: SLF001 - the documented way to a row's names


def _refuse_changed(conn: sa.Connection, made: Branching, ends: Mapping[str, int]) -> None:
    counts = {conn.execute(query, ends).scalar_one() for query in (_COUNT_PREFIX, _COUNT_COPY)}
    if len(counts) > 1 or conn.execute(_CHANGED, ends).scalar_one():
        raise StaleDraft(f"the chat {made.source.name!r} was changed while it was copied")


def _forget_uncopied(conn: sa.Connection, made: Branching, column: str) -> None:
    """A summary that was not copied is nobody's parent or ancestor here."""
    known = sa.select(_copy_s.c.id).where(_copy_s.c.chat_id == made.target.id)
    pointing = sa.and_(S.chat_id == made.target.id, S[column].not_in(known))
    conn.execute(sa.update(summary).where(pointing).values({column: None}))


def _lanes(conn: sa.Connection, ref: ChatRef) -> list[str]:
    written = sa.select(S.lane).where(S.chat_id == ref.id)
    known = sa.select(lane_state.c.lane).where(lane_state.c.chat_id == ref.id)
    return sorted(conn.execute(written.union(known)).scalars())


def unfinished(conn: sa.Connection) -> int:
    """How many chats are being built, or were when a process died."""
    query = sa.select(sa.func.count()).select_from(chat).where(chat.c.building.is_(True))
    return conn.execute(query).scalar_one()


def remove_unfinished(conn: sa.Connection, ref: ChatRef) -> int:
    """Remove one unfinished chat."""
    return _remove(conn, chat.c.id == ref.id)


def remove_abandoned(conn: sa.Connection, before_ms: int) -> int:
    """Remove what was begun before that time and never finished."""
    return _remove(conn, chat.c.created_at < before_ms)


def _remove(conn: sa.Connection, which: sa.ColumnElement[bool]) -> int:
    return conn.execute(sa.delete(chat).where(chat.c.building.is_(True), which)).rowcount
