"""A fold with what it shows, and a fold written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from previously.model import ChatRef, Fold, Item, ItemKind, Shown
from previously.store import carried, rows
from previously.store.prepared import Prepared
from previously.store.rows import M, S
from previously.store.schema import fold, work

KnownFold = tuple[Fold, tuple[Shown, ...]]  # a fold and what it shows


class Saved(NamedTuple):
    """What became of a fold that was to be written."""

    stands: bool  # it, or a newer one; otherwise the chat has changed
    written: bool  # it is the one that stands


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


def save(conn: sa.Connection, ref: ChatRef, moved: Fold, seen_rev: int, now_ms: int) -> Saved:
    """Write a fold, unless a newer one stands there or the chat has changed since `seen_rev`.

    A fold that comes too late is made again by the next prompt, from what is true then.
    """
    seen = _REV.one(conn, {"of_chat": ref.id})
    if seen is None or seen[0] != seen_rev:
        return Saved(stands=False, written=False)
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
    if _MOVE_FOLD.one(conn, {**this, **to}) is not None:
        return Saved(stands=True, written=True)
    if _FOLD.one(conn, this) is not None:
        return Saved(stands=True, written=False)
    mine = dict(zip(FOLD_KEY, this.values(), strict=True))
    _NEW_FOLD.many(conn, [{**mine, **values, "stale": False}])
    return Saved(stands=True, written=True)
