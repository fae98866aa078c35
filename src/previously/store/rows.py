"""Rows to nouns, by column order: the hot path pays for no look-up by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from previously.model import BLANKS, HIDING, Kind, Message, State, Summary
from previously.store.schema import message, summary

M, S = message.c, summary.c

MESSAGE_COLUMNS = (
    M.id, M.pos, M.role, M.body, M.hash, M.tokens, M.name, M.tool_calls, M.tool_call_id, M.parts,
    M.extra, M.kind, M.state, M.hidden_by, M.excluded, M.pinned, M.presence, M.variant, M.version,
    M.created_at, M.deleted_at,
)  # fmt: skip

SUMMARY_COLUMNS = (
    S.id, S.lane, S.kind, S.level, S.ordinal, S.text, S.tokens, S.hash, S.first_pos, S.last_pos,
    S.message_count, S.status, S.valid, S.covered_by, S.edited_by_user, S.pinned, S.created_at,
    S.provenance, S.presence,
)  # fmt: skip

# Written out, not bound: only then does SQLite see that a partial index fits.
IS_READY = S.status == sa.literal_column("'ready'")

# The part of `Message.eligible` that a database can say; what it finds is held to the whole rule.
ELIGIBLE = sa.and_(
    M.deleted_at.is_(None),
    M.kind == Kind.SPEECH.value,
    M.state == State.CONFIRMED.value,
    M.excluded.is_(False),
    M.pinned.is_(False),
    sa.or_(M.hidden_by.is_(None), sa.and_(*(M.hidden_by != by for by in HIDING))),
    sa.or_(M.tool_calls.is_not(None), sa.func.trim(M.body, BLANKS) != ""),
)


def messages(rows: Iterable[Any]) -> tuple[Message, ...]:
    """Rows of MESSAGE_COLUMNS."""
    return tuple(Message(*row) for row in rows)


def summaries(rows: Iterable[Any]) -> tuple[Summary, ...]:
    """Rows of SUMMARY_COLUMNS."""
    return tuple(Summary(*row) for row in rows)
