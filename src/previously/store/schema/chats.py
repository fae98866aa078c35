"""Chats and all that was said in them, and who took part."""

from __future__ import annotations

import sqlalchemy as sa

from previously.store.schema.metadata import Key, chat_id, metadata

chat = sa.Table(
    "chat",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("preset", sa.Text, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),  # the one that replaces old messages
    sa.Column("character", sa.Text),
    sa.Column("conv_key", sa.Text),
    sa.Column("branch_of", Key),
    sa.Column("branch_at", Key),
    sa.Column("recalculating", sa.Boolean, nullable=False, default=False),
    sa.Column("archived", sa.Boolean, nullable=False, default=False),
    sa.Column("recording", sa.Boolean, nullable=False, default=True),
    sa.Column("building", sa.Boolean, nullable=False, default=False),  # an import in progress
    sa.Column("extra", sa.Text),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("deleted_at", Key),
    sa.UniqueConstraint("owner", "name"),
    sa.Index(None, "owner", "conv_key"),
    sqlite_autoincrement=True,  # a key is never given out twice, even after a purge
)

work = sa.Table(
    "work",
    metadata,
    chat_id(primary_key=True),
    sa.Column("rev", Key, nullable=False, default=0),
    sa.Column("done_rev", Key, nullable=False, default=0),
    sa.Column("next_n", Key, nullable=False, default=1),
    sa.Column("next_s", Key, nullable=False, default=1),
    sa.Column("last_pos", Key, nullable=False, default=0),
    sa.Column("due_at", Key),  # the earliest retry; a change is due at once by rev > done_rev
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_until", Key),
    sa.Column("fence", Key, nullable=False, default=0),
)

message = sa.Table(
    "message",
    metadata,
    sa.Column("id", Key, primary_key=True),
    chat_id(),
    sa.Column("pos", Key, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("speaker", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("tool_calls", sa.Text),
    sa.Column("tool_call_id", sa.Text),
    sa.Column("parts", sa.Text),
    sa.Column("extra", sa.Text),
    sa.Column("hidden_by", sa.Text),
    sa.Column("excluded", sa.Boolean, nullable=False),
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("presence", sa.Integer),
    sa.Column("variant", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("deleted_at", Key),
    sa.Index(None, "chat_id", "pos"),
)
sa.Index(
    "ix_message_pinned",
    message.c.chat_id,
    message.c.pos,
    sqlite_where=message.c.pinned.is_(True),
    postgresql_where=message.c.pinned.is_(True),
)
sa.Index(  # a floor is a place in the order less those that were taken out before it
    "ix_message_deleted",
    message.c.chat_id,
    message.c.pos,
    sqlite_where=message.c.deleted_at.is_not(None),
    postgresql_where=message.c.deleted_at.is_not(None),
)

variant = sa.Table(
    "variant",
    metadata,
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("idx", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("tool_calls", sa.Text),
    sa.Column("parts", sa.Text),
    sa.Column("extra", sa.Text),
    sa.Column("created_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

message_revision = sa.Table(
    "message_revision",
    metadata,
    chat_id(primary_key=True),
    sa.Column("rev", Key, primary_key=True),  # of the chat: what changed together has one
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("change", sa.Text, nullable=False),  # edit, delete, swipe, hide, move, …
    sa.Column("before", sa.Text, nullable=False),  # JSON of the columns that changed
    sa.Column("undone", sa.Boolean, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Index(None, "message_id"),
    sqlite_with_rowid=False,
)

presence = sa.Table(
    "presence",
    metadata,
    chat_id(primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("members", sa.Text, nullable=False),  # JSON, sorted
    sa.UniqueConstraint("chat_id", "members"),
)

participant = sa.Table(
    "participant",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),  # namespace:key
    sa.Column("display_name", sa.Text, nullable=False),
    sa.Column("last_seen_name", sa.Text),
    sa.Column("rev", sa.Integer, nullable=False),
    sa.Column("fixed_prompt", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.UniqueConstraint("owner", "key"),
)

chat_participant = sa.Table(
    "chat_participant",
    metadata,
    chat_id(primary_key=True),
    sa.Column(
        "participant_id",
        Key,
        sa.ForeignKey("participant.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Index(None, "participant_id"),
    sqlite_with_rowid=False,
)
