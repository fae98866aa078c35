"""Questions to the search index: candidates for a query, and what their ranking needs to know.

Every message that is returned is a live row that may be shown. What the index does not know yet
is looked through instead: the newest `FRESH_MAX` whatever they say, and of `LATE_LOOKED_AT` before
them those that seem to hold a term.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BindParameter
from sqlalchemy.dialects import postgresql

from previously.model import BIRTH_BITS, BIRTH_MASK, ChatRef, Message, birth, key
from previously.store import Candidate, Found, TermStats, floors, rows
from previously.store.index import DIFFERS, SHOWN, TOUCHED, is_sqlite, slot
from previously.store.prepared import Prepared
from previously.store.rows import M
from previously.store.schema import (
    chat,
    index_state,
    indexed,
    presence,
    term_count,
    work,
)
from previously.text.terms import POINT, root_of, speaker_term

FRESH_MAX = 256  # messages that are not in the index yet and are looked through instead
LATE_LOOKED_AT = 5_000  # messages before those that the database looks through by itself
INFIX_LOOKED_AT = 20_000  # newest messages that are looked through for a part of a word
ENOUGH_SHARE = 4  # a quarter of the candidates that are wanted is enough to leave common terms out
COMMON_SHARE = 8  # a term that more than an eighth of the messages hold is common

D, T, X, W = indexed.c, term_count.c, index_state.c, work.c
_CHAT: BindParameter[int] = sa.bindparam("chat")
_FIRST: BindParameter[int] = sa.bindparam("first")
_LAST: BindParameter[int] = sa.bindparam("last")
_LIMIT: BindParameter[int] = sa.bindparam("limit")
_BEFORE: BindParameter[int] = sa.bindparam("before")
_TERMS: BindParameter[str] = sa.bindparam("terms", expanding=True)

_STATS = (
    sa.select(W.rev, X.rev, X.next_n, X.messages, X.tokens, T.term, T.messages)
    .select_from(work)
    .outerjoin(index_state, X.chat_id == W.chat_id)
    .outerjoin(term_count, sa.and_(T.chat_id == W.chat_id, T.term.in_(_TERMS)))
    .where(W.chat_id == _CHAT)
)


def stats(conn: sa.Connection, ref: ChatRef, wanted: Sequence[str]) -> TermStats:
    """How many messages of the chat are indexed, their size, and how many hold each term."""
    found = conn.execute(_STATS, {"chat": ref.id, "terms": list(wanted)}).all()
    if not found:
        return TermStats()
    counts = {row[5]: row[6] for row in found if row[5] is not None}
    rev, indexed_rev, next_n, messages, tokens = found[0][:5]
    if indexed_rev is None:
        return TermStats(behind=rev > 0)
    return TermStats(messages, tokens, counts, (indexed_rev, next_n), behind=indexed_rev < rev)


_LIVE = (
    "m.deleted_at IS NULL AND m.kind = 'speech'"
    " AND (m.hidden_by IS NULL OR m.hidden_by NOT IN ('user', 'client')) AND m.pos < :before"
)
_COLUMNS = (M.id, M.pos, M.tokens, M.created_at, M.presence, M.body)  # of a `Candidate`
_WANTED = ", ".join(f"m.{c.name}" for c in _COLUMNS)
_BY_FTS = sa.text(
    f"SELECT {_WANTED} FROM posting CROSS JOIN message AS m ON m.id = posting.rowid"  # noqa: S608
    f" WHERE posting MATCH :query AND posting.rowid BETWEEN :first AND :last AND {_LIVE}"
    " ORDER BY posting.rowid DESC LIMIT :limit"
).columns(*_COLUMNS)
_HELD = Prepared(_BY_FTS)
_SLOTS = sa.bindparam("slots", type_=postgresql.ARRAY(sa.Integer))


def _by_gin(operator: str) -> Any:
    """First the keys of all that match, then the newest of them, row by row until there are enough.

    Left to itself the planner walks through the chat instead, or reads all messages for a join.
    """
    return sa.text(
        "WITH held AS MATERIALIZED"  # noqa: S608
        f" (SELECT message_id FROM posting WHERE terms {operator} :slots)"
        f" SELECT {_WANTED} FROM (SELECT message_id FROM held"
        " WHERE message_id BETWEEN :first AND :last ORDER BY message_id DESC) AS h"
        " CROSS JOIN LATERAL (SELECT * FROM message WHERE id = h.message_id OFFSET 0) AS m"
        f" WHERE {_LIVE} ORDER BY h.message_id DESC LIMIT :limit"
    ).bindparams(_SLOTS)


_ANY, _ALL = _by_gin("&&"), _by_gin("@>")
_COMMON = (  # walking back from the newest one soon meets enough of them
    sa.text(
        f"SELECT {_WANTED} FROM posting AS p JOIN message AS m ON m.id = p.message_id"  # noqa: S608
        " WHERE p.message_id BETWEEN :first AND :last AND (:slots)[1] = ANY(p.terms)"
        f" AND {_LIVE} ORDER BY p.message_id DESC LIMIT :limit"
    ).bindparams(_SLOTS)
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Which messages may be candidates, and how many."""

    chat_id: int
    limit: int
    before_pos: int

    @property
    def values(self) -> dict[str, Any]:
        ends = {"first": key(self.chat_id, 0), "last": key(self.chat_id, BIRTH_MASK)}
        return {**ends, "limit": self.limit, "before": self.before_pos}


def _candidates(found: Iterable[Any]) -> tuple[Candidate, ...]:
    return tuple(map(Candidate._make, found))


def _holding(
    conn: sa.Connection, scope: _Scope, wanted: Sequence[str], *, every: bool, common: bool = False
) -> dict[int, Candidate]:
    """The newest messages that hold one of the terms, or every one."""
    if is_sqlite(conn):
        query = (" AND " if every else " OR ").join(f'"{term}"' for term in wanted)
        found = _HELD.all(conn, {**scope.values, "query": query})
    else:
        statement = _ALL if every else _COMMON if common else _ANY
        slots = [slot(scope.chat_id, term) for term in wanted]
        found = conn.execute(statement, {**scope.values, "slots": slots})
    return {c.id: c for c in _candidates(found)}


def candidates(
    conn: sa.Connection,
    ref: ChatRef,
    wanted: Sequence[str],
    known: TermStats,
    limit: int,
    before_pos: int,
) -> tuple[Candidate, ...]:
    """Live messages that may hold these terms, and those the index does not know yet.

    The rarest terms come first. If even the rarest one has more messages than are wanted, then
    those that hold every term, and the newest.
    """
    rarest = sorted((t for t in wanted if t in known.counts), key=lambda t: (known.counts[t], t))
    found = _indexed(conn, _Scope(ref.id, limit, before_pos), rarest, known)
    if known.behind:
        fresh = _fresh(conn, ref, known.indexed_to, before_pos)
        found |= {c.id: c for c in (*fresh, *_late(conn, ref, known, wanted, before_pos, fresh))}
    return tuple(found.values())


def find(
    conn: sa.Connection,
    ref: ChatRef,
    asked: Sequence[str],
    choose: Callable[[TermStats], tuple[str, ...]],
    limit: int,
    before_pos: int,
) -> Found:
    """Statistics, the terms that were chosen by them, and candidates, of one state."""
    known = stats(conn, ref, asked)
    wanted = choose(known)
    found = candidates(conn, ref, wanted, known, limit, before_pos) if wanted else ()
    return Found(known, wanted, found)


def _indexed(
    conn: sa.Connection, scope: _Scope, rarest: Sequence[str], known: TermStats
) -> dict[int, Candidate]:
    counts, found = known.counts, dict[int, Candidate]()
    if len(rarest) > 1 and counts[rarest[0]] > scope.limit:
        found = _holding(conn, scope, rarest, every=True)
    few = list(rarest)
    while few and sum(counts[t] for t in few) > scope.limit:
        few.pop()
    if few:
        found |= _holding(conn, scope, few, every=False)
    for term in rarest[len(few) :]:
        if len(found) * ENOUGH_SHARE >= scope.limit:
            break
        common = counts[term] * COMMON_SHARE > known.messages
        found |= _holding(conn, scope, [term], every=False, common=common)
    return dict(islice(found.items(), scope.limit))


_NOT_YET = (
    sa.select(*_COLUMNS)
    .where(M.id.between(_FIRST, _LAST), SHOWN, M.pos < _BEFORE)
    .order_by(M.id.desc())
    .limit(FRESH_MAX)
)
_CHANGED = (
    sa.select(*_COLUMNS)
    .outerjoin(indexed, D.message_id == M.id)
    .where(M.id.in_(TOUCHED), M.id.between(_FIRST, _LAST), DIFFERS, SHOWN, M.pos < _BEFORE)
    .order_by(M.id.desc())
    .limit(FRESH_MAX)
)


_NEW, _OTHER = Prepared(_NOT_YET), Prepared(_CHANGED)


def _fresh(
    conn: sa.Connection, ref: ChatRef, indexed_to: tuple[int, int], before_pos: int
) -> tuple[Candidate, ...]:
    """What the index does not know yet, the newest of it: new messages and changed ones."""
    rev, next_n = indexed_to
    new = {"first": key(ref.id, next_n), "last": key(ref.id, BIRTH_MASK), "before": before_pos}
    old = {"first": key(ref.id, 0), "last": key(ref.id, next_n - 1), "before": before_pos}
    fresh = _candidates(_NEW.all(conn, new))
    return fresh + _candidates(_OTHER.all(conn, {"chat": ref.id, "rev": rev, **old}))


def _late(
    conn: sa.Connection,
    ref: ChatRef,
    known: TermStats,
    wanted: Sequence[str],
    before_pos: int,
    fresh: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """What came before the newest and is not in the index either, as after a long import.

    The database compares beginnings of words; ranking counts the words themselves.
    """
    next_n = known.indexed_to[1]
    new = [c.id for c in fresh if birth(c.id) >= next_n]
    roots = {root_of(term.partition(POINT)[0]) for term in wanted}
    if len(new) < FRESH_MAX or not roots:
        return ()
    last = min(new) - 1
    first = max(key(ref.id, next_n), last - LATE_LOOKED_AT)
    text = sa.func.lower(M.body)
    holding = _NOT_YET.where(sa.or_(*(text.contains(root, autoescape=True) for root in roots)))
    values = {"first": first, "last": last, "before": before_pos}
    return _candidates(conn.execute(holding, values))


_LOOKED_AT = (
    sa.select(M.pos.label("pos")).where(M.chat_id == _CHAT).order_by(M.pos.desc()).limit(_LIMIT)
).subquery()
_CONTAINING = (
    sa.select(*_COLUMNS)
    .where(
        M.chat_id == _CHAT,
        M.pos >= sa.select(sa.func.min(_LOOKED_AT.c.pos)).scalar_subquery(),
        sa.func.lower(M.body).contains(sa.bindparam("part")),
        SHOWN,
    )
    .order_by(M.pos.desc())
    .limit(sa.bindparam("most"))
)


def containing(conn: sa.Connection, ref: ChatRef, part: str, limit: int) -> tuple[Candidate, ...]:
    """The newest messages with this part of a word, in ASCII and lower case, in their text."""
    values = {"chat": ref.id, "part": part, "limit": INFIX_LOOKED_AT, "most": limit}
    return _candidates(conn.execute(_CONTAINING, values))


_SHOWN = sa.select(*rows.MESSAGE_COLUMNS).where(
    M.id.in_(sa.bindparam("ids", expanding=True)), SHOWN
)


def shown(conn: sa.Connection, ref: ChatRef, ids: Sequence[int]) -> dict[int, tuple[Message, int]]:
    """Those of the messages that may be shown, each with its floor."""
    mine = [i for i in ids if i >> BIRTH_BITS == ref.id]
    found = rows.messages(conn.execute(_SHOWN, {"ids": mine})) if mine else ()
    at = floors.of(conn, ref, {m.pos: birth(m.id) for m in found})
    return {m.id: (m, at[m.pos]) for m in found}


_PRESENCES = sa.select(presence.c.id, presence.c.members).where(presence.c.chat_id == _CHAT)


def presences(conn: sa.Connection, ref: ChatRef) -> dict[int, frozenset[str]]:
    """The sets of people that messages of this chat name."""
    found = conn.execute(_PRESENCES, {"chat": ref.id})
    return {number: frozenset(json.loads(members)) for number, members in found}


_MINE = sa.and_(
    chat.c.owner == sa.bindparam("owner"), chat.c.building.is_(False), chat.c.deleted_at.is_(None)
)
_MATCHING = (
    sa.select(chat.c.id, chat.c.owner, chat.c.name, sa.func.count(T.term).label("terms"))
    .join(work, W.chat_id == chat.c.id)
    .outerjoin(index_state, X.chat_id == chat.c.id)
    .outerjoin(term_count, sa.and_(T.chat_id == chat.c.id, T.term.in_(_TERMS)))
    .where(_MINE)
    .group_by(chat.c.id, chat.c.owner, chat.c.name, X.rev, W.rev)
    .having(sa.or_(sa.func.count(T.term) > 0, sa.func.coalesce(X.rev, -1) < W.rev))
    .order_by(sa.func.count(T.term).desc(), chat.c.id.desc())
)
_EVERY = sa.select(chat.c.id, chat.c.owner, chat.c.name).where(_MINE).order_by(chat.c.id.desc())
_SPOKE = sa.select(T.chat_id, T.term).where(
    T.chat_id.in_(sa.select(chat.c.id).where(_MINE)), T.term.in_(_TERMS)
)
_SPOKE_SINCE = (
    sa.select(M.chat_id, M.name)
    .join(work, W.chat_id == M.chat_id)
    .join(chat, chat.c.id == M.chat_id)
    .outerjoin(index_state, X.chat_id == M.chat_id)
    .where(
        _MINE,
        sa.func.coalesce(X.rev, -1) < W.rev,
        M.id >= W.chat_id * (BIRTH_MASK + 1) + sa.func.coalesce(X.next_n, 0),
        M.id <= W.chat_id * (BIRTH_MASK + 1) + BIRTH_MASK,
        M.name.in_(sa.bindparam("names", expanding=True)),
        SHOWN,
    )
    .distinct()
)
_WAS_THERE = sa.select(presence.c.chat_id, presence.c.members).where(
    presence.c.chat_id.in_(sa.select(chat.c.id).where(_MINE))
)


def chats(
    conn: sa.Connection, owner: str, wanted: Sequence[str], people: frozenset[str] | None
) -> list[ChatRef]:
    """The owner's chats that hold any of the terms, or that the index is behind of.

    Those with the most of the terms first, then the newest; without terms all, the newest first.
    With people only chats in which all of them have spoken or were said to be present.
    """
    query = _MATCHING if wanted else _EVERY
    found = conn.execute(query, {"owner": owner, **({"terms": list(wanted)} if wanted else {})})
    refs = [ChatRef(row.id, row.owner, row.name) for row in found]
    if people is not None:
        seen = _seen_in(conn, owner, people)
        refs = [ref for ref in refs if people <= seen.get(ref.id, set())]
    return refs


def _seen_in(conn: sa.Connection, owner: str, people: frozenset[str]) -> dict[int, set[str]]:
    """Which of these people take part in which of the owner's chats."""
    seen: dict[int, set[str]] = {}
    names = {speaker_term(name): name for name in people}
    for chat_id, term in conn.execute(_SPOKE, {"owner": owner, "terms": list(names)}):
        seen.setdefault(chat_id, set()).add(names[term])
    for chat_id, name in conn.execute(_SPOKE_SINCE, {"owner": owner, "names": list(people)}):
        seen.setdefault(chat_id, set()).add(name)
    for chat_id, members in conn.execute(_WAS_THERE, {"owner": owner}):
        seen.setdefault(chat_id, set()).update(people.intersection(json.loads(members)))
    return seen
