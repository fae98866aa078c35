"""Search: the terms of messages, how many messages of a chat hold each, and how far that got."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TERM = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Each database has its own index under one name. Terms come from us, one ASCII blank between two;
# which messages hold a term is all that is asked of it.
FTS5 = """
CREATE VIRTUAL TABLE posting
USING fts5(terms, content='', columnsize=0, detail=none, tokenize='ascii')
"""
GIN = (
    "CREATE INDEX ix_posting_terms ON posting USING gin (terms) "
    "WITH (gin_pending_list_limit = 256)"  # kB; what waits there is read by every search
)


def upgrade() -> None:
    waiting = sa.text("status = 'proposed'")
    op.create_index(
        "ix_summary_proposed",
        "summary",
        ["chat_id", "lane"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.create_table(
        "index_state",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("rev", KEY, nullable=False),
        sa.Column("next_n", KEY, nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("tokens", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_index_state_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", name=op.f("pk_index_state")),
    )
    op.create_table(
        "term_count",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("term", TERM, nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_term_count_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "term", name=op.f("pk_term_count")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "indexed",
        sa.Column("message_id", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("candidate", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["message_id"], ["message.id"], name=op.f("fk_indexed_message_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_indexed")),
    )
    op.create_index(
        "ix_indexed_candidate",
        "indexed",
        ["message_id"],
        sqlite_where=sa.text("candidate"),
        postgresql_where=sa.text("candidate"),
    )
    op.create_index(
        "ix_message_deleted",
        "message",
        ["chat_id", "pos"],
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(FTS5)
    else:
        op.create_table(
            "posting",
            sa.Column("message_id", KEY, nullable=False),
            sa.Column("terms", postgresql.ARRAY(sa.Integer()), nullable=False),
            sa.ForeignKeyConstraint(
                ["message_id"],
                ["message.id"],
                name=op.f("fk_posting_message_id"),
                ondelete="CASCADE",
            ),
            sa.PrimaryKeyConstraint("message_id", name=op.f("pk_posting")),
        )
        op.execute(GIN)
