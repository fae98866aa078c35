"""What messages are found by."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from previously.store.schema.metadata import Key, chat_id, metadata

# What messages are found by. Beside these stands `posting`, made by its migration: an FTS5 table
# in SQLite, an array of terms with a GIN index in PostgreSQL.
index_state = sa.Table(
    "index_state",
    metadata,
    chat_id(primary_key=True),
    sa.Column("rev", Key, nullable=False),  # every change up to here is in the index…
    sa.Column("next_n", Key, nullable=False),  # …as is every message born before
    sa.Column("messages", sa.Integer, nullable=False),
    sa.Column("tokens", Key, nullable=False),  # of those messages together
    info={"made_again": True},
)

term_count = sa.Table(
    "term_count",
    metadata,
    chat_id(primary_key=True),
    sa.Column(
        "term",
        sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql"),
        primary_key=True,
    ),
    sa.Column("messages", sa.Integer, nullable=False),  # of this chat, that hold the term
    info={"made_again": True},
    sqlite_with_rowid=False,
)

indexed = sa.Table(
    "indexed",
    metadata,
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),  # of the message, when it was read
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # finds the text again that was read
    sa.Column("candidate", sa.Boolean, nullable=False),  # may change without a revision
    info={"made_again": True},
)
sa.Index(
    "ix_indexed_candidate",
    indexed.c.message_id,
    sqlite_where=sa.text("candidate"),
    postgresql_where=sa.text("candidate"),
)
