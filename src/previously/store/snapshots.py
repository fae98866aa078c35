"""Reading one consistent state of one chat: what planner, folding and assembler look at.

Every read is bounded: the tail from the fold on, a page of uncovered messages, the newest covers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.util import ClauseAdapter

from previously.errors import ChatNotFound
from previously.model import (
    BACKLOG_MAX,
    HIDING,
    START,
    Backlog,
    ChatRef,
    Fold,
    FoldKey,
    Item,
    ItemKind,
    Kind,
    Message,
    Shown,
    Summary,
    Uncovered,
)
from previously.store import carried, messages, rows
from previously.store.intents import open_intents, rebuilds
from previously.store.prepared import Prepared
from previously.store.recent import Recent
from previously.store.rows import ELIGIBLE, IS_READY, M, S
from previously.store.schema import (
    chat,
    fold,
    hole,
    lane_state,
    link,
    message,
    presence,
    setting,
    summary,
    work,
)
from previously.store.work import attempts

UNCOVERED_MAX = 64
STANDING_MAX = 16
OPENED_MAX = 8  # summaries of summaries that a tail may reach into


KnownFold = tuple[Fold, tuple[Shown, ...]]  # a fold and what it shows


class _Head(NamedTuple):
    """What one row has to say of a chat: its columns are those of `_HEAD`."""

    lane: str
    recalculating: bool
    rev: int
    version: int | None
    tail_pos: int
    from_pos: int
    room_tokens: int
    shown: str
    reason: str
    stale: bool | None
    covered_to: int | None
    revision: int | None
    body: str | None
    shared_revision: int | None
    shared_body: str | None
    character: str | None
    character_revision: int | None
    character_body: str | None
    recording: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A snapshot but for its settings, which the store lays over their defaults."""

    lane: str
    recalculating: bool
    rev: int
    fold: Fold
    covered_to: int
    settings_revision: int
    settings_body: str
    shared_revision: int  # of the settings that all of the owner's chats have
    shared_body: str
    character: str | None
    character_revision: int
    character_body: str
    recording: bool
    tail: tuple[Message, ...]
    tail_cut: bool
    shown: tuple[Shown, ...]
    presences: dict[int, frozenset[str]]
    backlog: Backlog | None


_SHARED = setting.alias("shared")
_OF_CHARACTER = setting.alias("of_character")
_HEAD = Prepared(
    sa.select(
        chat.c.lane,
        chat.c.recalculating,
        work.c.rev,
        fold.c.version,
        fold.c.tail_pos,
        fold.c.from_pos,
        fold.c.room_tokens,
        fold.c.shown,
        fold.c.reason,
        fold.c.stale,
        lane_state.c.covered_to,
        setting.c.revision,
        setting.c.body,
        _SHARED.c.revision.label("shared_revision"),
        _SHARED.c.body.label("shared_body"),
        chat.c.character,
        _OF_CHARACTER.c.revision.label("character_revision"),
        _OF_CHARACTER.c.body.label("character_body"),
        chat.c.recording,
    )
    .select_from(chat)
    .join(work, work.c.chat_id == chat.c.id)
    .outerjoin(
        fold,
        sa.and_(
            fold.c.chat_id == chat.c.id,
            fold.c.audience == sa.bindparam("audience"),
            fold.c.budget_tokens == sa.bindparam("budget"),
        ),
    )
    .outerjoin(
        lane_state,
        sa.and_(lane_state.c.chat_id == chat.c.id, lane_state.c.lane == chat.c.lane),
    )
    .outerjoin(
        setting,
        sa.and_(
            setting.c.owner == chat.c.owner,
            setting.c.scope == "chat",
            setting.c.scope_id == sa.bindparam("scope_id"),
        ),
    )
    .outerjoin(
        _SHARED,
        sa.and_(
            _SHARED.c.owner == chat.c.owner,
            _SHARED.c.scope == "global",
            _SHARED.c.scope_id == "",
        ),
    )
    .outerjoin(
        _OF_CHARACTER,
        sa.and_(
            _OF_CHARACTER.c.owner == chat.c.owner,
            _OF_CHARACTER.c.scope == "character",
            _OF_CHARACTER.c.scope_id == chat.c.character,
        ),
    )
    .where(chat.c.id == sa.bindparam("chat"), chat.c.deleted_at.is_(None))
)
_TAIL = Prepared(
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(
        M.chat_id == sa.bindparam("chat"),
        M.pos >= sa.bindparam("from_pos"),
        M.deleted_at.is_(None),
        M.kind == Kind.SPEECH.value,
        sa.or_(M.hidden_by.is_(None), sa.and_(*(M.hidden_by != by for by in HIDING))),
    )
    .order_by(M.pos.desc())
    .limit(sa.bindparam("limit"))
)


class Extent(NamedTuple):
    """How much is looked at."""

    wide: bool
    onward: bool  # a fold that moves will not move back
    tail_max: int
    covers_max: int


def read(
    conn: sa.Connection, ref: ChatRef, fold_key: FoldKey, known: KnownFold | None, extent: Extent
) -> Read:
    """The fold, what stands before it, and the tail; with the backlog if `wide`.

    What is known already is not read again.

    A wide look also has what stands before the tail, as far as it may be loaded: a fold that moves
    may have to move back, unless it can only move onward.
    """
    wide, onward, tail_max, covers_max = extent
    head = _head(conn, ref, fold_key)
    found, shown = _folded(conn, ref, fold_key, head, known)
    back = wide and (found.stale or not onward)
    tail = _tail(conn, ref, START if back else found.tail_pos, tail_max)
    backlog = _backlog(conn, ref, head.lane, _covered_to(head), covers_max) if wide else None
    if backlog is not None and tail:
        children = _children(conn, backlog.covers, tail[:tail_max][-1].pos)
        backlog = replace(backlog, children=children)
    presences = _presences(conn, ref) if fold_key.audience.startswith("[") else {}
    made = _read(head, found, shown, tail, tail_max)
    return replace(made, presences=presences, backlog=backlog) if presences or wide else made


class Glance(NamedTuple):
    """A narrow look, and the newest messages that it was made of."""

    read: Read
    held: Recent
    needed: int  # how many of them were looked at


def glance(
    conn: sa.Connection,
    ref: ChatRef,
    fold_key: FoldKey,
    known: KnownFold | None,
    recent: Recent | None,
    limits: tuple[int, int],
) -> Glance:
    """A narrow look and the newest messages of the same moment, each row read once.

    `limits` say how many of them at least, if there are as many, and how long a tail.
    """
    newest_max, tail_max = limits
    head = _head(conn, ref, fold_key)
    held = recent if recent is not None and recent.serves(head.rev, newest_max) else None
    if held is None:
        found = messages.newest(conn, ref, newest_max)
        held = Recent.of(head.rev, found, whole=len(found) < newest_max)
    fold_, shown = _folded(conn, ref, fold_key, head, known)
    if not held.reaches(fold_.tail_pos):  # the tail is longer: held with it, not read each time
        since = messages.since(conn, ref, fold_.tail_pos, tail_max + 1)
        if len(held.messages) <= len(since) <= tail_max:
            held = Recent.since(head.rev, since, fold_.tail_pos)
    tail = _tail_among(held, fold_.tail_pos, tail_max)
    needed = newest_max if tail is None else max(newest_max, len(tail))
    if tail is None:
        tail = _tail(conn, ref, fold_.tail_pos, tail_max)
    return Glance(_read(head, fold_, shown, tail, tail_max), held, needed)


def glance_at_held(
    conn: sa.Connection,
    ref: ChatRef,
    fold_key: FoldKey,
    known: KnownFold,
    recent: Recent,
    limits: tuple[int, int],
) -> Glance | None:
    """The same from one row, if everything else is held already; None if something is not."""
    newest_max, tail_max = limits
    head = _head(conn, ref, fold_key)
    if head.stale or known[0].version != head.version or not recent.serves(head.rev, newest_max):
        return None
    tail = _tail_among(recent, known[0].tail_pos, tail_max)
    if tail is None:
        return None
    needed = max(newest_max, len(tail))
    return Glance(_read(head, *known, tail, tail_max), recent, needed)


def _head(conn: sa.Connection, ref: ChatRef, fold_key: FoldKey) -> _Head:
    values = {"audience": fold_key.audience, "budget": fold_key.budget_tokens}
    found = _HEAD.one(conn, {"chat": ref.id, "scope_id": str(ref.id), **values})
    if found is None:
        raise ChatNotFound(f"the chat {ref.name!r} is gone")
    return _Head(*found)


def _covered_to(head: _Head) -> int:
    return START if head.covered_to is None else head.covered_to


def _folded(
    conn: sa.Connection, ref: ChatRef, fold_key: FoldKey, head: _Head, known: KnownFold | None
) -> KnownFold:
    """What a fold shows is read once per fold, not once per turn."""
    if known is not None and known[0].version == head.version and not head.stale:
        return known
    found = _fold(ref, fold_key, head)
    return found, resolve(conn, ref, found.items)


def _tail(conn: sa.Connection, ref: ChatRef, from_pos: int, tail_max: int) -> tuple[Message, ...]:
    """Newest first, and one more than may be shown if there is one."""
    limits = {"from_pos": from_pos, "limit": tail_max + 1}
    return rows.messages(_TAIL.all(conn, {"chat": ref.id, **limits}))


def _read(
    head: _Head,
    found: Fold,
    shown: tuple[Shown, ...],
    tail: tuple[Message, ...],
    tail_max: int,
) -> Read:
    return Read(
        lane=head.lane,
        recalculating=head.recalculating,
        rev=head.rev,
        fold=found,
        covered_to=_covered_to(head),
        settings_revision=head.revision or 0,
        settings_body=head.body or "{}",
        shared_revision=head.shared_revision or 0,
        shared_body=head.shared_body or "{}",
        character=head.character,
        character_revision=head.character_revision or 0,
        character_body=head.character_body or "{}",
        recording=head.recording,
        tail=tail[:tail_max][::-1],
        tail_cut=len(tail) > tail_max,
        shown=shown,
        presences={},
        backlog=None,
    )


def _tail_among(recent: Recent, from_pos: int, tail_max: int) -> tuple[Message, ...] | None:
    """The tail, newest first, if the messages that were read reach back to where it starts."""
    newest = recent.messages
    if not recent.reaches(from_pos) or len(newest) > tail_max:
        return None
    return tuple([m for m in reversed(newest) if m.pos >= from_pos and m.hidden_by not in HIDING])


def _fold(ref: ChatRef, fold_key: FoldKey, head: _Head) -> Fold:
    if head.version is None:
        return Fold(fold_key)
    items = tuple(Item.parse(ref.id, word) for word in head.shown.split())
    return Fold(
        key=fold_key,
        version=head.version,
        tail_pos=head.tail_pos,
        from_pos=head.from_pos,
        items=items,
        room_tokens=head.room_tokens,
        reason=head.reason,
        stale=bool(head.stale),
    )


def _presences(conn: sa.Connection, ref: ChatRef) -> dict[int, frozenset[str]]:
    query = sa.select(presence.c.id, presence.c.members).where(presence.c.chat_id == ref.id)
    return {row.id: frozenset(json.loads(row.members)) for row in conn.execute(query)}


def resolve(conn: sa.Connection, ref: ChatRef, items: Sequence[Item]) -> tuple[Shown, ...]:
    """The items' records in the items' order; what is gone or no longer valid is left out."""
    if not items:
        return ()
    by_item: dict[Item, Shown] = {}
    summary_ids = [i.id for i in items if i.is_summary]
    message_ids = [i.id for i in items if i.is_message]
    if any(i.kind == ItemKind.CARRIED for i in items):
        by_item.update({Item.of(c): c for c in carried.of_chat(conn, ref)})
    if summary_ids:
        query = sa.select(*rows.SUMMARY_COLUMNS).where(
            S.chat_id == ref.id, S.id.in_(summary_ids), S.status == "ready", S.valid.is_(True)
        )
        by_item.update({Item.of(s): s for s in rows.summaries(conn.execute(query))})
    if message_ids:
        said = sa.select(*rows.MESSAGE_COLUMNS).where(M.chat_id == ref.id, M.id.in_(message_ids))
        by_item.update({Item.of(m): m for m in rows.messages(conn.execute(said)) if m.shown})
    return tuple(by_item[i] for i in items if i in by_item)


_WAITING = Prepared(  # children of a volume whose new text waits for the user
    sa.select(link.c.target_id)
    .join(summary, S.id == link.c.summary_id)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        S.status == sa.literal_column("'proposed'"),
        S.level > 0,
    )
)
_TIGHTEST = Prepared(
    sa.select(sa.func.min(fold.c.room_tokens)).where(fold.c.chat_id == sa.bindparam("chat"))
)


def _backlog(
    conn: sa.Connection, ref: ChatRef, lane: str, covered_to: int, covers_max: int
) -> Backlog:
    holes = _holes(conn, ref, lane)
    covers, cut_at_cover = _covers(conn, ref, lane, covers_max)
    after = rows.messages(_AFTER.all(conn, {"chat": ref.id, "covered_to": covered_to}))
    wishes = tuple(wish for wish in open_intents(conn, ref) if wish.lane == lane)
    return Backlog(
        uncovered=Uncovered(tuple(tuple(run) for run in (*holes.runs, after) if run)),
        uncovered_cut=holes.cut_pos != START or len(after) == UNCOVERED_MAX,
        uncovered_count=_count_uncovered(conn, ref, lane, covered_to, holes, after),
        open_since=holes.since,
        proposed=frozenset(holes.proposed),
        waiting=frozenset(row[0] for row in _WAITING.all(conn, {"chat": ref.id, "lane": lane})),
        covers=covers,
        from_pos=max(holes.cut_pos, cut_at_cover),
        standing=_standing(conn, ref),
        carried=carried.of_chat(conn, ref),
        attempts=attempts(conn, ref),
        intents=wishes,
        rebuilds=rebuilds(conn, ref, wishes),
        room_tokens=_TIGHTEST.all(conn, {"chat": ref.id})[0][0],
    )


def _count_uncovered(
    conn: sa.Connection,
    ref: ChatRef,
    lane: str,
    covered_to: int,
    holes: _Holes,
    after: Sequence[Message],
) -> int:
    """Counted only where it cannot be seen from what was loaded, and no further than it matters."""
    values = {"chat": ref.id, "lane": lane, "covered_to": covered_to}
    behind = len(holes.since)
    if holes.cut_pos != START:
        behind = len(conn.execute(_IDS_OF_HOLES, values).all())
    ahead = len(after)
    if ahead == UNCOVERED_MAX:
        ahead = len(conn.execute(_IDS_AFTER, values).all())
    return behind + ahead


_BEFORE = message.alias("before")
_PREVIOUS = (  # the eligible neighbour of a hole: tells where a run of holes breaks
    sa.select(_BEFORE.c.id)
    .where(
        _BEFORE.c.chat_id == M.chat_id,
        _BEFORE.c.pos < M.pos,
        ClauseAdapter(_BEFORE).traverse(ELIGIBLE),
    )
    .order_by(_BEFORE.c.pos.desc())
    .limit(1)
    .correlate(message)
    .scalar_subquery()
)
_HOLES = Prepared(
    sa.select(_PREVIOUS, hole.c.since, hole.c.proposal, *rows.MESSAGE_COLUMNS)
    .join(hole, hole.c.message_id == M.id)
    .where(hole.c.chat_id == sa.bindparam("chat"), hole.c.lane == sa.bindparam("lane"))
    .order_by(M.pos.desc())
    .limit(UNCOVERED_MAX + 1)
)
_AFTER = Prepared(
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("covered_to"), ELIGIBLE)
    .order_by(M.pos)
    .limit(UNCOVERED_MAX)
)
_IDS_AFTER = (
    sa.select(M.id)
    .where(M.chat_id == sa.bindparam("chat"), M.pos > sa.bindparam("covered_to"), ELIGIBLE)
    .order_by(M.pos)
    .limit(BACKLOG_MAX + 1)
)
_IDS_OF_HOLES = (
    sa.select(hole.c.message_id)
    .where(hole.c.chat_id == sa.bindparam("chat"), hole.c.lane == sa.bindparam("lane"))
    .limit(BACKLOG_MAX + 1)
)
_COVERS = Prepared(
    sa.select(*rows.SUMMARY_COLUMNS)
    .where(
        S.chat_id == sa.bindparam("chat"),
        S.lane == sa.bindparam("lane"),
        IS_READY,
        S.valid.is_(True),
        S.covered_by.is_(None),
    )
    .order_by(S.last_pos.desc())
    .limit(sa.bindparam("limit"))
)
_STANDING = Prepared(
    sa.select(*rows.MESSAGE_COLUMNS)
    .where(M.chat_id == sa.bindparam("chat"), M.pinned.is_(True))
    .order_by(M.pos)
    .limit(STANDING_MAX)
)


@dataclass(slots=True)
class _Holes:
    """The newest holes as runs of neighbours, what is known of each, and where the cap cut."""

    runs: list[list[Message]] = field(default_factory=list[list[Message]])
    since: dict[int, int] = field(default_factory=dict[int, int])
    proposed: set[int] = field(default_factory=set[int])
    cut_pos: int = START


def _holes(conn: sa.Connection, ref: ChatRef, lane: str) -> _Holes:
    found = _HOLES.all(conn, {"chat": ref.id, "lane": lane})
    out = _Holes()
    for previous, since_ms, proposal, *columns in reversed(found[:UNCOVERED_MAX]):
        message_ = Message(*columns)
        out.since[message_.id] = since_ms
        if proposal is not None:
            out.proposed.add(message_.id)
        if out.runs and out.runs[-1][-1].id == previous:
            out.runs[-1].append(message_)
        else:
            out.runs.append([message_])
    if len(found) > UNCOVERED_MAX:
        out.cut_pos = out.runs[0][0].pos
    return out


def _covers(
    conn: sa.Connection, ref: ChatRef, lane: str, covers_max: int
) -> tuple[tuple[Summary, ...], int]:
    """The newest covers, oldest of them first, and where the cap cut them off (START: nowhere)."""
    values = {"chat": ref.id, "lane": lane, "limit": covers_max + 1}
    found = rows.summaries(_COVERS.all(conn, values))
    kept = found[:covers_max][::-1]
    return kept, kept[0].first_pos if len(found) > covers_max else START


_CHILDREN = (
    sa.select(link.c.summary_id, *rows.SUMMARY_COLUMNS)
    .join(summary, S.id == link.c.target_id)
    .where(
        link.c.summary_id.in_(sa.bindparam("ids", expanding=True)),
        link.c.target_is_summary.is_(True),
    )
    .order_by(link.c.summary_id, link.c.position)
)


def _children(
    conn: sa.Connection, covers: Sequence[Summary], tail_pos: int
) -> dict[int, tuple[Summary, ...]]:
    """What summaries that reach into the tail were made of, down to the leaves."""
    found: dict[int, tuple[Summary, ...]] = {}
    new = [c.id for c in covers if c.level and c.last_pos >= tail_pos][-OPENED_MAX:]
    while new:
        under: dict[int, list[Summary]] = {}
        for parent, *columns in conn.execute(_CHILDREN, {"ids": new}):
            under.setdefault(parent, []).append(Summary(*columns))
        found |= {parent: tuple(children) for parent, children in under.items()}
        made_of = (child for children in under.values() for child in children)
        new = [c.id for c in made_of if c.level and c.last_pos >= tail_pos]
    return found


def _standing(conn: sa.Connection, ref: ChatRef) -> tuple[Message, ...]:
    found = rows.messages(_STANDING.all(conn, {"chat": ref.id}))
    return tuple(m for m in found if m.shown)


_REV = Prepared(sa.select(work.c.rev).where(work.c.chat_id == sa.bindparam("of_chat")))
_THIS_FOLD = sa.and_(
    fold.c.chat_id == sa.bindparam("of_chat"),
    fold.c.audience == sa.bindparam("of_audience"),
    fold.c.budget_tokens == sa.bindparam("of_budget"),
)
_FOLD = Prepared(sa.select(fold.c.version).where(_THIS_FOLD))
FOLD_KEY = ("chat_id", "audience", "budget_tokens")
MOVED = ("version", "tail_pos", "from_pos", "room_tokens", "shown", "reason", "moved_at")
_MOVE_FOLD = Prepared(
    sa.update(fold)
    .where(_THIS_FOLD, fold.c.version < sa.bindparam("to_version"))
    .values(stale=False, **{name: sa.bindparam(f"to_{name}") for name in MOVED})
    .returning(fold.c.version)
)
_NEW_FOLD = Prepared(sa.insert(fold), (*FOLD_KEY, *MOVED, "stale"))


def save_fold(conn: sa.Connection, ref: ChatRef, moved: Fold, seen_rev: int, now_ms: int) -> bool:
    """Write a fold, unless a newer one stands there or the chat has changed since `seen_rev`.

    A fold that comes too late is made again by the next prompt, from what is true then.
    """
    seen = _REV.one(conn, {"of_chat": ref.id})
    if seen is None or seen[0] != seen_rev:
        return False
    this = {
        "of_chat": ref.id,
        "of_audience": moved.key.audience,
        "of_budget": moved.key.budget_tokens,
    }
    values = {
        "version": moved.version,
        "tail_pos": moved.tail_pos,
        "from_pos": moved.from_pos,
        "room_tokens": moved.room_tokens,
        "shown": " ".join(str(item) for item in moved.items),
        "reason": moved.reason,
        "moved_at": now_ms,
    }
    to = {f"to_{name}": value for name, value in values.items()}
    if _MOVE_FOLD.one(conn, {**this, **to}) is None and _FOLD.one(conn, this) is None:
        mine = dict(zip(FOLD_KEY, this.values(), strict=True))
        _NEW_FOLD.many(conn, [{**mine, **values, "stale": False}])
    return True


def summary_page(
    conn: sa.Connection, ref: ChatRef, after_id: int, limit: int
) -> tuple[Summary, ...]:
    """The chat's summaries in the order they were made."""
    found = conn.execute(
        sa.select(*rows.SUMMARY_COLUMNS)
        .where(summary.c.chat_id == ref.id, S.id > after_id)
        .order_by(S.id)
        .limit(limit)
    )
    return rows.summaries(found)


def count_before(conn: sa.Connection, ref: ChatRef, pos: int) -> int:
    """How many messages stand before a position: the floor of the message that is there."""
    query = sa.select(sa.func.count()).select_from(message)
    query = query.where(M.chat_id == ref.id, M.pos < pos, M.deleted_at.is_(None))
    return conn.execute(query).scalar_one()
