"""What stands for what was said: summaries, what they cover, and what prompts show of them."""

from __future__ import annotations

import sqlalchemy as sa

from previously.store.schema.metadata import Key, chat_id, metadata

summary = sa.Table(
    "summary",
    metadata,
    sa.Column("id", Key, primary_key=True),
    chat_id(),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("level", sa.Integer, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("first_pos", Key, nullable=False),
    sa.Column("last_pos", Key, nullable=False),
    sa.Column("message_count", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("valid", sa.Boolean, nullable=False),
    sa.Column("covered_by", Key),
    sa.Column("presence", sa.Integer),
    sa.Column("root_id", Key, nullable=False),  # the first revision: identity over revisions
    sa.Column("prev_id", Key),  # the chain of a rewriting lane
    sa.Column("participant", sa.Text),  # a biography belongs to a person, not to a floor
    sa.Column("superseded_by", Key),
    sa.Column("edited_by_user", sa.Boolean, nullable=False),
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("provenance", sa.Text),
    sa.Column("stats", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("updated_at", Key, nullable=False),
)
_LIVE = sa.and_(
    summary.c.status == "ready", summary.c.valid.is_(True), summary.c.covered_by.is_(None)
)
sa.Index(
    "ix_summary_covered_by",
    summary.c.covered_by,
    sqlite_where=summary.c.covered_by.is_not(None),
    postgresql_where=summary.c.covered_by.is_not(None),
)
sa.Index(  # the covers a prompt may show, however many lie archived beneath them
    "ix_summary_live",
    summary.c.chat_id,
    summary.c.lane,
    summary.c.last_pos,
    sqlite_where=_LIVE,
    postgresql_where=_LIVE,
)

_PROPOSED = summary.c.status == "proposed"
sa.Index(
    "ix_summary_proposed",
    summary.c.chat_id,
    summary.c.lane,
    sqlite_where=_PROPOSED,
    postgresql_where=_PROPOSED,
)

link = sa.Table(
    "link",
    metadata,
    sa.Column("summary_id", Key, sa.ForeignKey("summary.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("target_is_summary", sa.Boolean, nullable=False),
    sa.Column("target_id", Key, nullable=False),
    sa.Column("target_hash", sa.LargeBinary, nullable=False),
    sa.Index(None, "target_id", "target_is_summary"),
    sqlite_with_rowid=False,
)

carried = sa.Table(  # what an earlier chat has handed on: it covers nothing, nothing rewrites it
    "carried",
    metadata,
    chat_id(primary_key=True),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("is_extract", sa.Boolean, nullable=False),
    sa.Column("presence", sa.Integer),
    sa.Column("from_chat", Key, nullable=False),  # no foreign key: that chat may be purged
    sa.Column("from_title", sa.Text, nullable=False),
    sa.Column("from_record", Key),  # a revision of a summary has a key of its own
    sa.Column("created_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

lane_state = sa.Table(
    "lane_state",
    metadata,
    chat_id(primary_key=True),
    sa.Column("lane", sa.Text, primary_key=True),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("frozen", sa.Boolean, nullable=False),
    sa.Column("covered_to", Key, nullable=False),  # every eligible message up to here is covered…
    sa.Column("next_ordinal", sa.Integer, nullable=False),
    sa.Column("checked_at_ordinal", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

hole = sa.Table(
    "hole",
    metadata,
    chat_id(primary_key=True),
    sa.Column("lane", sa.Text, primary_key=True),
    sa.Column(
        "message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True
    ),  # …but for these
    sa.Column("since", Key, nullable=False),  # a rebuild waits until edits have come to rest
    sa.Column("proposal", Key),  # a new text that waits for the user, who had edited the old one
    sa.Index(None, "message_id"),
    sqlite_with_rowid=False,
)

fold = sa.Table(
    "fold",
    metadata,
    chat_id(primary_key=True),
    sa.Column("audience", sa.Text, primary_key=True),
    sa.Column("budget_tokens", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("tail_pos", Key, nullable=False),
    sa.Column("from_pos", Key, nullable=False),
    sa.Column("room_tokens", sa.Integer, nullable=False),
    sa.Column("shown", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("stale", sa.Boolean, nullable=False),
    sa.Column("moved_at", Key, nullable=False),
    sqlite_with_rowid=False,
)
