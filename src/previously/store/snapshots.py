"""Reading one consistent state of one chat: what planner, folding and assembler look at.

Every read is bounded: the tail from the fold on, a page of uncovered messages, the newest covers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import NamedTuple

import sqlalchemy as sa

from previously.errors import ChatNotFound
from previously.model import (
    HIDING,
    START,
    Backlog,
    ChatRef,
    Fold,
    FoldKey,
    Item,
    Message,
    Shown,
)
from previously.store import backlog, folds, messages, rows
from previously.store.folds import KnownFold
from previously.store.prepared import Prepared
from previously.store.recent import Recent
from previously.store.rows import M
from previously.store.schema import chat, fold, lane_state, presence, setting, work


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
    messages.SPEECH_SINCE.where(
        sa.or_(M.hidden_by.is_(None), sa.and_(*(M.hidden_by != by for by in HIDING)))
    )
)


class Extent(NamedTuple):
    """How much is looked at."""

    wide: bool
    onward: bool  # a fold that moves will not move back
    tail_max: int
    covers_max: int


def read(
    conn: sa.Connection,
    ref: ChatRef,
    fold_key: FoldKey,
    known: KnownFold | None,
    recent: Recent | None,
    extent: Extent,
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
    from_pos = START if back else found.tail_pos
    held = recent if recent is not None and recent.rev == head.rev else None
    tail = None if held is None else _tail_among(held, from_pos, tail_max)
    if tail is None:
        tail = _tail(conn, ref, from_pos, tail_max)
    beyond = backlog.read(conn, ref, head.lane, _covered_to(head), covers_max) if wide else None
    if beyond is not None and tail:
        children = backlog.children(conn, beyond.covers, tail[:tail_max][-1].pos)
        beyond = replace(beyond, children=children)
    presences = _presences(conn, ref) if fold_key.audience.startswith("[") else {}
    made = _read(head, found, shown, tail, tail_max)
    return replace(made, presences=presences, backlog=beyond) if presences or wide else made


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
    return found, folds.resolve(conn, ref, found.items)


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
