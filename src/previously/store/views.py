"""Reading for people: summaries as a tree, chats that are being worked on, sums of everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from previously.errors import MessageNotFound
from previously.model import BIRTH_MASK, ChatRef, Message, Summary, key
from previously.store import SummaryPage, Variant, changes, coverage, floors, revisions, rows
from previously.store.rows import M, S
from previously.store.schema import attempt, chat, intent, link, variant, work

READY: sa.ColumnElement[str] = sa.literal_column("'ready'")  # written out: a partial index fits
TOP, PROPOSED, EVERY = "top", "proposed", "all"

_OF = sa.bindparam("chat", type_=sa.BigInteger)
_MINE = sa.and_(S.id.between(sa.bindparam("first_key"), sa.bindparam("last_key")), S.chat_id == _OF)
_AFTER = sa.tuple_(S.first_pos, S.id) > sa.tuple_(
    sa.bindparam("after_pos", type_=sa.BigInteger), sa.bindparam("after_id", type_=sa.BigInteger)
)
_PAGE = (
    sa.select(*rows.SUMMARY_COLUMNS)
    .where(_AFTER)
    .order_by(S.first_pos, S.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
)
_TOPS = _PAGE.where(S.chat_id == _OF, S.status == READY, S.valid.is_(True), S.covered_by.is_(None))
_WAITING = _PAGE.where(S.chat_id == _OF, S.status == sa.literal_column("'proposed'"))
_EVERY = _PAGE.where(_MINE)
_UNDER = _PAGE.where(
    S.id.in_(
        sa.select(link.c.target_id).where(
            link.c.summary_id == sa.bindparam("parent", type_=sa.BigInteger),
            link.c.target_is_summary.is_(True),
        )
    )
)
_CHILDREN = (
    sa.select(link.c.summary_id, sa.func.count())
    .where(
        link.c.summary_id.in_(sa.bindparam("ids", expanding=True)),
        link.c.target_is_summary.is_(True),
    )
    .group_by(link.c.summary_id)
)
_STATS = sa.select(S.id, S.stats).where(
    S.id.in_(sa.bindparam("ids", expanding=True)), S.stats.is_not(None)
)


def written(conn: sa.Connection, ref: ChatRef, after_id: int, limit: int) -> tuple[Summary, ...]:
    """The chat's summaries in the order they were made, each with the messages it covers."""
    query = sa.select(*rows.SUMMARY_COLUMNS).where(S.chat_id == ref.id, S.id > after_id)
    found = rows.summaries(conn.execute(query.order_by(S.id).limit(limit)))
    covers = coverage.targets(conn, [s.id for s in found])
    return tuple(replace(s, covers=covers.get(s.id, ())) for s in found)


def summary_page(
    conn: sa.Connection,
    ref: ChatRef,
    which: str,
    parent: int | None,
    after: tuple[int, int],
    limit: int,
) -> SummaryPage:
    """Summaries in the order of what they stand for: those on top, or those under another one."""
    statement = {TOP: _TOPS, PROPOSED: _WAITING, EVERY: _EVERY}[which]
    values = {"chat": ref.id, "after_pos": after[0], "after_id": after[1], "limit": limit}
    if parent is not None:
        statement, values = _UNDER, {**values, "parent": parent}
        values.pop("chat")
    elif which == EVERY:
        values |= {"first_key": key(ref.id, 0), "last_key": key(ref.id, BIRTH_MASK)}
    return dressed(conn, ref, rows.summaries(conn.execute(statement, values)))


def dressed(conn: sa.Connection, ref: ChatRef, found: tuple[Summary, ...]) -> SummaryPage:
    """Summaries with what a reader wants to know beside them."""
    ids = [s.id for s in found]
    ends = [pos for s in found for pos in (s.first_pos, s.last_pos)]
    stats = {row[0]: json.loads(row[1]) for row in conn.execute(_STATS, {"ids": ids})}
    return SummaryPage(
        found,
        floors.at(conn, ref, ends),
        children={row[0]: row[1] for row in conn.execute(_CHILDREN, {"ids": ids})},
        flags={i: tuple(told.get("flags", ())) for i, told in stats.items()},
    )


def summary(conn: sa.Connection, ref: ChatRef, summary_id: int) -> SummaryPage:
    """One summary, with the keys of what it was made of."""
    found = revisions.find(conn, ref, summary_id)
    made_of = coverage.targets(conn, [found.id]).get(found.id, ())
    return dressed(conn, ref, (replace(found, covers=made_of),))


_MESSAGES = sa.select(*rows.MESSAGE_COLUMNS).where(
    M.chat_id == _OF, M.id.in_(sa.bindparam("ids", expanding=True))
)
_SUMMARIES = sa.select(*rows.SUMMARY_COLUMNS).where(
    S.chat_id == _OF, S.id.in_(sa.bindparam("ids", expanding=True))
)


def messages(conn: sa.Connection, ref: ChatRef, wanted: Sequence[int]) -> tuple[Message, ...]:
    """Those of these messages that are stored."""
    return rows.messages(conn.execute(_MESSAGES, {"chat": ref.id, "ids": list(wanted)}))


def summaries(conn: sa.Connection, ref: ChatRef, wanted: Sequence[int]) -> tuple[Summary, ...]:
    """Those of these summaries that are stored."""
    return rows.summaries(conn.execute(_SUMMARIES, {"chat": ref.id, "ids": list(wanted)}))


def one(conn: sa.Connection, ref: ChatRef, message_id: int) -> Message:
    """A message that is there."""
    found = changes.find(conn, ref, [message_id])[message_id]
    if found.deleted_at_ms is not None:
        raise MessageNotFound(f"the message was deleted from the chat {ref.name!r}; undo it first")
    return found


def variants(conn: sa.Connection, ref: ChatRef, message_id: int) -> tuple[Variant, ...]:
    """Every text that a message has; one that was never swiped has just its own."""
    shown = one(conn, ref, message_id)
    query = sa.select(variant.c.idx, variant.c.body, variant.c.tokens, variant.c.created_at).where(
        variant.c.message_id == message_id
    )
    found = tuple(Variant(*row) for row in conn.execute(query.order_by(variant.c.idx)))
    return found or (Variant(shown.variant, shown.body, shown.tokens, shown.created_at_ms),)


def rebuildable(conn: sa.Connection, ref: ChatRef, lane: str, from_pos: int) -> int:
    """How many leaves a rebuild from there would write anew."""
    query = sa.select(sa.func.count()).where(
        S.chat_id == ref.id,
        S.id.between(key(ref.id, 0), key(ref.id, BIRTH_MASK)),
        S.lane == lane,
        S.level == 0,
        S.status == READY,
        S.valid.is_(True),
        S.edited_by_user.is_(False),
        S.last_pos >= from_pos,
    )
    return conn.execute(query).scalar_one()


_OPEN = sa.exists().where(intent.c.chat_id == chat.c.id, intent.c.closed_at.is_(None))
_TRIED = sa.exists().where(attempt.c.chat_id == chat.c.id, attempt.c.verdict.in_(("failed",)))


def busy_chats(conn: sa.Connection, owner: str, limit: int) -> list[ChatRef]:
    """Chats in which something is due, under way, wished for or failed; the newest change first."""
    busy = sa.or_(
        work.c.rev > work.c.done_rev,
        work.c.due_at.is_not(None),
        work.c.lease_until.is_not(None),
        _OPEN,
        _TRIED,
    )
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name)
        .join(work, work.c.chat_id == chat.c.id)
        .where(chat.c.owner == owner, chat.c.deleted_at.is_(None), chat.c.building.is_(False), busy)
        .order_by(chat.c.id.desc())
        .limit(limit)
    )
    return [ChatRef(row.id, row.owner, row.name) for row in conn.execute(query)]


def totals(conn: sa.Connection, owner: str) -> dict[str, dict[str, int]]:
    """How much there is of what, for a monitor."""
    mine = sa.select(chat.c.id).where(
        chat.c.owner == owner, chat.c.deleted_at.is_(None), chat.c.building.is_(False)
    )
    chats = conn.execute(sa.select(sa.func.count()).select_from(mine.subquery())).scalar_one()
    born = sa.select(sa.func.coalesce(sa.func.sum(work.c.next_n - 1), 0))
    messages = conn.execute(born.where(work.c.chat_id.in_(mine))).scalar_one()
    written = sa.select(sa.func.coalesce(sa.func.sum(work.c.next_s - 1), 0))
    summaries = conn.execute(written.where(work.c.chat_id.in_(mine))).scalar_one()
    behind = (
        sa.select(sa.func.count())
        .select_from(work)
        .where(work.c.chat_id.in_(mine), work.c.rev > work.c.done_rev)
    )
    tried = sa.select(attempt.c.verdict, sa.func.count()).where(attempt.c.chat_id.in_(mine))
    verdicts = conn.execute(tried.group_by(attempt.c.verdict))
    return {
        "records": {
            "chats": int(chats),
            "messages": int(messages),
            "summaries": int(summaries),
            "chats_behind": int(conn.execute(behind).scalar_one()),
        },
        "attempts": {row[0]: int(row[1]) for row in verdicts},
    }
