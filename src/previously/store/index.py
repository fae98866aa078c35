"""The search index: which messages hold a term, and how many of a chat's messages do.

It is fed in the background, a batch at a time; recording a message never touches it. `look` reads
what is due and cuts it into terms, `feed` is the one writer, `recompute` the same from messages
alone. What is asked of the index are candidates: every answer is held against the live rows, so
that a message which may not be shown is never found, however late the index is.

Terms of a text that has changed are taken out by reading the old text again: a message's history
and its variants keep every text it had.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy import BindParameter
from sqlalchemy.dialects import postgresql

from previously.model import BIRTH_MASK, HIDING, ChatRef, Kind, State, digest, key
from previously.store.rows import M
from previously.store.schema import (
    chat,
    index_state,
    indexed,
    message_revision,
    term_count,
    variant,
    work,
)
from previously.text.terms import speaker_term, terms

BATCH_CHARS_MAX = 100_000  # of text in one transaction, so that a turn never waits long for it
RIPE_MESSAGES = 64  # fewer wait for company: each batch touches pages all over the counts…
FORGOTTEN_AT_ONCE = 1_000  # messages whose old texts are held in memory
QUIET_MS = 600_000  # …unless the chat has been silent for so long

D, T, X, W = indexed.c, term_count.c, index_state.c, work.c
_CHAT: BindParameter[int] = sa.bindparam("chat")
_FIRST: BindParameter[int] = sa.bindparam("first")
_LAST: BindParameter[int] = sa.bindparam("last")
_LIMIT: BindParameter[int] = sa.bindparam("limit")
_IDS: BindParameter[int] = sa.bindparam("ids", expanding=True)
_TERMS: BindParameter[str] = sa.bindparam("terms", expanding=True)

# `Message.shown`, as a database says it.
SHOWN = sa.and_(
    M.deleted_at.is_(None),
    M.kind == Kind.SPEECH.value,
    sa.or_(M.hidden_by.is_(None), sa.and_(*(M.hidden_by != by for by in HIDING))),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as the index has it, or is to have it."""

    message_id: int
    version: int
    tokens: int
    digest: bytes
    candidate: bool
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction is to do, and the state of the index that it was worked out from."""

    chat_id: int
    seen: tuple[int, int] | None  # rev and next_n; None: nothing of this chat is in the index
    reached: tuple[int, int]
    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()
    lost: bool = False  # a text that was read is gone: the counts are to be made anew

    @property
    def size(self) -> int:
        """How many messages it touches."""
        return len({e.message_id for e in (*self.added, *self.removed)})


_NEWEST_AT = (
    sa.select(M.created_at).where(M.id == W.chat_id * (BIRTH_MASK + 1) + W.next_n - 1)
).scalar_subquery()
_CHANGED_SINCE = sa.exists().where(
    message_revision.c.chat_id == W.chat_id, message_revision.c.rev > X.rev
)
_BEHIND = (
    sa.select(W.chat_id)
    .join(chat, chat.c.id == W.chat_id)
    .outerjoin(index_state, X.chat_id == W.chat_id)
    .where(
        sa.or_(X.rev.is_(None), X.rev < W.rev),
        chat.c.building.is_(False),
        chat.c.deleted_at.is_(None),
    )
    .order_by(W.chat_id)
    .limit(1)
)
_RIPE = _BEHIND.where(
    sa.or_(
        W.next_n - sa.func.coalesce(X.next_n, 1) >= RIPE_MESSAGES,
        sa.func.coalesce(_NEWEST_AT, 0) <= sa.bindparam("quiet_since"),
        _CHANGED_SINCE,
    )
)
STATE = (
    sa.select(W.rev, W.next_n, X.rev.label("seen_rev"), X.next_n.label("seen_n"))
    .outerjoin(index_state, X.chat_id == W.chat_id)
    .where(W.chat_id == _CHAT)
)


def due(conn: sa.Connection, now_ms: int, *, ripe: bool) -> int | None:
    """A chat whose index is behind, if there is one; with `ripe` only if feeding it is worth it."""
    query = _RIPE if ripe else _BEHIND
    return conn.execute(query, {"quiet_since": now_ms - QUIET_MS} if ripe else {}).scalar()


_READ = (M.id, M.version, M.tokens, M.state, M.name, M.body, SHOWN.label("shown"))
_OF_INDEX = (D.version.label("old_version"), D.tokens.label("old_tokens"), D.digest, D.candidate)
_NEW = (
    sa.select(*_READ).where(M.id.between(_FIRST, _LAST)).order_by(M.id).limit(_LIMIT)
)  # by birth: nothing is passed over, wherever it was put
DIFFERS = sa.or_(
    D.version != M.version,
    sa.and_(D.message_id.is_(None), SHOWN),
    sa.and_(D.candidate, M.state == State.CONFIRMED.value),
)
TOUCHED = (  # changed through their history, or as candidates
    sa.select(message_revision.c.message_id)
    .where(message_revision.c.chat_id == _CHAT, message_revision.c.rev > sa.bindparam("rev"))
    .union(sa.select(D.message_id).where(sa.text("candidate"), D.message_id.between(_FIRST, _LAST)))
)
_DIRTY = (
    sa.select(*_READ, *_OF_INDEX)
    .outerjoin(indexed, D.message_id == M.id)
    .where(M.id.in_(TOUCHED), M.id.between(_FIRST, _LAST), DIFFERS)
    .order_by(M.id)
    .limit(_LIMIT)
)


def look(conn: sa.Connection, chat_id: int, limit: int) -> Batch | None:
    """The next batch of a chat: what changed first, then what is new; None if the chat is gone."""
    state = conn.execute(STATE, {"chat": chat_id}).one_or_none()
    if state is None:
        return None
    seen = None if state.seen_rev is None else (state.seen_rev, state.seen_n)
    rev, next_n = seen or (0, 1)
    ends = {"first": key(chat_id, 0), "last": key(chat_id, next_n - 1)}
    dirty = conn.execute(_DIRTY, {"chat": chat_id, "rev": rev, "limit": limit, **ends}).all()
    old, lost = _old_entries(conn, [row for row in dirty if row.old_version is not None])
    added = [_entry(row) for row in dirty if row.shown]
    if len(dirty) < limit:
        new_ends = {"first": key(chat_id, next_n), "last": key(chat_id, state.next_n - 1)}
        fresh = conn.execute(_NEW, {"limit": limit - len(dirty), **new_ends}).all()
        taken = _within(fresh, BATCH_CHARS_MAX)
        added += [_entry(row) for row in taken if row.shown]
        whole = len(taken) == len(fresh) < limit - len(dirty)
        next_n = state.next_n if whole else (taken[-1].id & BIRTH_MASK) + 1
        rev = state.rev if whole else rev
    return Batch(chat_id, seen, (rev, next_n), tuple(added), old, lost)


def _within(found: Sequence[Any], chars_max: int) -> Sequence[Any]:
    """As many as fit, and at least one."""
    chars = 0
    for i, row in enumerate(found):
        chars += len(row.body)
        if chars > chars_max and i:
            return found[:i]
    return found


def _entry(row: Any) -> Entry:
    candidate = row.state == State.CANDIDATE.value
    found = _terms_of(row.name, row.body)
    return Entry(row.id, row.version, row.tokens, digest(row.body), candidate, found)


def _terms_of(name: str | None, body: str) -> frozenset[str]:
    found = terms(body)
    if name:
        found.add(speaker_term(name))
    return frozenset(found)


_VARIANTS = sa.select(variant.c.message_id, variant.c.body).where(variant.c.message_id.in_(_IDS))
_HISTORY = sa.select(message_revision.c.message_id, message_revision.c.before).where(
    message_revision.c.message_id.in_(_IDS)
)


def _old_entries(conn: sa.Connection, dirty: Sequence[Any]) -> tuple[tuple[Entry, ...], bool]:
    """What the index holds of these messages; and whether some of it cannot be told any more."""
    if not dirty:
        return (), False
    texts: dict[int, set[str]] = {row.id: {row.body} for row in dirty}
    ids = {"ids": list(texts)}
    for row in conn.execute(_VARIANTS, ids):
        texts[row.message_id].add(row.body)
    for row in conn.execute(_HISTORY, ids):
        texts[row.message_id].add(json.loads(row.before).get("body") or "")
    old: list[Entry] = []
    lost = False
    for row in dirty:
        text = next((t for t in texts[row.id] if digest(t) == row.digest), None)
        lost = lost or text is None
        found = frozenset[str]() if text is None else _terms_of(row.name, text)
        entry = Entry(row.id, row.old_version, row.old_tokens, row.digest, row.candidate, found)
        old.append(entry)
    return tuple(old), lost


_HOLD_CHAT = sa.select(chat.c.id).where(chat.c.id == _CHAT).with_for_update(read=True)
_HOLD_STATE = (
    sa.select(X.rev, X.next_n, X.messages, X.tokens).where(X.chat_id == _CHAT).with_for_update()
)


def feed(conn: sa.Connection, batch: Batch) -> bool:
    """Write a batch; False, and no change, if the index has moved on since it was worked out."""
    of_chat = {"chat": batch.chat_id}
    if conn.execute(_HOLD_CHAT, of_chat).scalar() is None:
        return False
    state = conn.execute(_HOLD_STATE, of_chat).one_or_none()
    if (None if state is None else (state.rev, state.next_n)) != batch.seen:
        return False
    _take_out(conn, batch.removed)
    _put_in(conn, batch.chat_id, batch.added)
    _count(conn, batch.chat_id, batch.added, batch.removed)
    messages = len(batch.added) - len(batch.removed)
    tokens = sum(e.tokens for e in batch.added) - sum(e.tokens for e in batch.removed)
    values = {
        "rev": batch.reached[0],
        "next_n": batch.reached[1],
        "messages": messages + (state.messages if state else 0),
        "tokens": tokens + (state.tokens if state else 0),
    }
    if state is None:
        conn.execute(sa.insert(index_state), {"chat_id": batch.chat_id, **values})
    else:
        conn.execute(sa.update(index_state).where(X.chat_id == batch.chat_id).values(**values))
    if batch.lost:
        repair(conn, batch.chat_id)
    return True


def is_sqlite(conn: sa.Connection) -> bool:
    return conn.dialect.name == "sqlite"


def _joined(found: Iterable[str]) -> str:
    return " ".join(sorted(found))


def slot(chat_id: int, term: str) -> int:
    """A term of one chat as PostgreSQL holds it. Two terms that share a number cost a look."""
    return (crc32(term.encode("utf-8", "surrogatepass"), chat_id & 0xFFFFFFFF) ^ 1 << 31) - (
        1 << 31
    )


_FTS_IN = "INSERT INTO posting(rowid, terms) VALUES (?, ?)"
_FTS_OUT = "INSERT INTO posting(posting, rowid, terms) VALUES ('delete', ?, ?)"
_ARRAY_IN = sa.text("INSERT INTO posting (message_id, terms) VALUES (:id, :terms)").bindparams(
    sa.bindparam("terms", type_=postgresql.ARRAY(sa.Integer))
)
_ARRAY_OUT = sa.text("DELETE FROM posting WHERE message_id IN :ids").bindparams(_IDS)


def _put_in(conn: sa.Connection, chat_id: int, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    conn.execute(sa.insert(indexed), [_row(e) for e in entries])
    if is_sqlite(conn):
        pairs = [(e.message_id, _joined(e.terms)) for e in entries]
        conn.exec_driver_sql(_FTS_IN, pairs)
    else:
        slots = [sorted({slot(chat_id, t) for t in e.terms}) for e in entries]
        conn.execute(
            _ARRAY_IN,
            [{"id": e.message_id, "terms": s} for e, s in zip(entries, slots, strict=True)],
        )


def _row(entry: Entry) -> dict[str, Any]:
    names = ("message_id", "version", "tokens", "digest", "candidate")
    return {name: getattr(entry, name) for name in names}


def _take_out(conn: sa.Connection, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    ids = {"ids": [e.message_id for e in entries]}
    conn.execute(sa.delete(indexed).where(D.message_id.in_(_IDS)), ids)
    if is_sqlite(conn):
        pairs = [(e.message_id, _joined(e.terms)) for e in entries]
        conn.exec_driver_sql(_FTS_OUT, pairs)
    else:
        conn.execute(_ARRAY_OUT, ids)


_UPSERT = (
    "INSERT INTO term_count (chat_id, term, messages) {} ON CONFLICT (chat_id, term)"
    " DO UPDATE SET messages = term_count.messages + excluded.messages"
)
_ADD_ONE = _UPSERT.format("VALUES (?, ?, ?)")
_ADD_ALL = sa.text(
    _UPSERT.format("SELECT :chat, * FROM unnest(CAST(:terms AS text[]), CAST(:counts AS int[]))")
)
_NONE_LEFT = sa.delete(term_count).where(T.chat_id == _CHAT, T.term.in_(_TERMS), T.messages <= 0)


def _count(
    conn: sa.Connection, chat_id: int, added: Sequence[Entry], removed: Sequence[Entry]
) -> None:
    counts: Counter[str] = Counter()
    for entry in added:
        counts.update(entry.terms)
    for entry in removed:
        counts.subtract(entry.terms)
    changed = sorted((term, n) for term, n in counts.items() if n)  # in the order of the pages
    if not changed:
        return
    if is_sqlite(conn):
        conn.exec_driver_sql(_ADD_ONE, [(chat_id, term, n) for term, n in changed])
    else:
        names, numbers = zip(*changed, strict=True)
        values = {"chat": chat_id, "terms": list(names), "counts": list(numbers)}
        conn.execute(_ADD_ALL, values)
    fewer = [term for term, n in changed if n < 0]
    for i in range(0, len(fewer), 500):
        conn.execute(_NONE_LEFT, {"chat": chat_id, "terms": fewer[i : i + 500]})


@dataclass(frozen=True, slots=True)
class Derived:
    """Everything that is stored about a chat's terms, but for the postings themselves."""

    messages: int
    tokens: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    entries: Mapping[int, int] = field(default_factory=dict[int, int])  # message to its version


def stored(conn: sa.Connection, chat_id: int) -> Derived:
    """What is written down."""
    totals = sa.select(X.messages, X.tokens).where(X.chat_id == chat_id)
    messages, tokens = conn.execute(totals).one_or_none() or (0, 0)
    counts = sa.select(T.term, T.messages).where(T.chat_id == chat_id)
    entries = sa.select(D.message_id, D.version).where(_of_chat(D.message_id, chat_id))
    return Derived(
        messages,
        tokens,
        {row.term: row.messages for row in conn.execute(counts)},
        {row.message_id: row.version for row in conn.execute(entries)},
    )


def recompute(conn: sa.Connection, chat_id: int) -> Derived:
    """The same from the messages alone: what the index holds once it has caught up."""
    query = sa.select(M.id, M.version, M.tokens, M.name, M.body).where(M.chat_id == chat_id, SHOWN)
    counts: Counter[str] = Counter()
    entries: dict[int, int] = {}
    tokens = 0
    for row in conn.execute(query):
        counts.update(_terms_of(row.name, row.body))
        entries[row.id] = row.version
        tokens += row.tokens
    return Derived(len(entries), tokens, dict(counts), entries)


def is_sound(conn: sa.Connection, chat_id: int) -> bool:
    """Whether a chat's entries and counts are what its messages make, once they are all in."""
    state = conn.execute(STATE, {"chat": chat_id}).one_or_none()
    if state is None or state.seen_rev != state.rev:
        return True  # it is behind: what it holds is not expected to be what is said now
    return stored(conn, chat_id) == recompute(conn, chat_id)


def rebuild(conn: sa.Connection, chat_id: int) -> bool:
    """Take a wrong index of a chat out, for the background to make it anew; whether it was wrong.

    In one step: nobody must feed what is half taken out.
    """
    conn.execute(_HOLD_STATE, {"chat": chat_id})
    if is_sound(conn, chat_id):
        return False
    while forget(conn, chat_id, FORGOTTEN_AT_ONCE):
        pass
    return True


def held(conn: sa.Connection) -> list[ChatRef]:
    """The visible chats of which something is in the index."""
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name)
        .join(index_state, X.chat_id == chat.c.id)
        .where(chat.c.building.is_(False), chat.c.deleted_at.is_(None))
        .order_by(chat.c.id)
    )
    return [ChatRef(*row) for row in conn.execute(query)]


def repair(conn: sa.Connection, chat_id: int) -> bool:
    """Make a chat's counts anew from the messages that the index holds; whether they were wrong.

    Postings of a text that is gone stay behind: they make a candidate that no term is found in.
    """
    query = sa.select(M.tokens, M.name, M.body).join(indexed, D.message_id == M.id)
    counts: Counter[str] = Counter()
    tokens = messages = 0
    for row in conn.execute(query.where(_of_chat(D.message_id, chat_id))):
        counts.update(_terms_of(row.name, row.body))
        tokens, messages = tokens + row.tokens, messages + 1
    before = stored(conn, chat_id)
    if (before.messages, before.tokens, before.counts) == (messages, tokens, counts):
        return False
    conn.execute(sa.delete(term_count).where(T.chat_id == chat_id))
    made = [{"chat_id": chat_id, "term": t, "messages": n} for t, n in sorted(counts.items())]
    if made:
        conn.execute(sa.insert(term_count), made)
    totals = sa.update(index_state).where(X.chat_id == chat_id)
    conn.execute(totals.values(messages=messages, tokens=tokens))
    return True


def _of_chat(column: sa.Column[int], chat_id: int) -> sa.ColumnElement[bool]:
    return column.between(key(chat_id, 0), key(chat_id, BIRTH_MASK))


_ALL_INDEXED = (
    sa.select(*_READ, *_OF_INDEX)
    .join(indexed, D.message_id == M.id)
    .where(D.message_id.between(_FIRST, _LAST))
    .order_by(D.message_id)
    .limit(_LIMIT)
)


def forget(conn: sa.Connection, chat_id: int, limit: int) -> bool:
    """Take the next batch of a chat's messages out of the index; whether there may be more.

    To be called until it says no before a chat is purged: FTS5 knows no foreign keys. Only for a
    chat that is no longer visible, or the next sweep would index it again.
    """
    of_chat = {"first": key(chat_id, 0), "last": key(chat_id, BIRTH_MASK)}
    found = conn.execute(_ALL_INDEXED, {**of_chat, "limit": limit}).all()
    old, _ = _old_entries(conn, found)
    _take_out(conn, old)
    conn.execute(sa.delete(term_count).where(T.chat_id == chat_id))
    conn.execute(sa.delete(index_state).where(X.chat_id == chat_id))
    return len(found) == limit
