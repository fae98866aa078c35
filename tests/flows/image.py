"""Every stored row of a chat, for tests that say that it stayed what it was."""

from __future__ import annotations

import sqlalchemy as sa

from previously.model import BIRTH_MASK, ChatRef, key
from previously.store.schema import (
    fold,
    hole,
    lane_state,
    link,
    message,
    message_revision,
    summary,
    variant,
)

Image = tuple[tuple[str, ...], ...]
BOUND = (lane_state, hole, fold, message_revision, message, summary)  # to a chat by its key
KEYED = ((link, link.c.summary_id), (variant, variant.c.message_id))


def image(conn: sa.Connection, ref: ChatRef) -> Image:
    """Messages, summaries, coverage and folds, byte for byte, in an order that means nothing."""
    mine = [sa.select(t).where(t.c.chat_id == ref.id) for t in BOUND]
    first, last = key(ref.id, 0), key(ref.id, BIRTH_MASK)
    mine += [sa.select(t).where(column.between(first, last)) for t, column in KEYED]
    return tuple(tuple(sorted(map(repr, conn.execute(query)))) for query in mine)
