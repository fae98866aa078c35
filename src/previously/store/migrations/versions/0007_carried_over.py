"""What an earlier chat has handed on to one that continues it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "carried",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("is_extract", sa.Boolean(), nullable=False),
        sa.Column("presence", sa.Integer(), nullable=True),
        sa.Column("from_chat", KEY, nullable=False),
        sa.Column("from_title", sa.Text(), nullable=False),
        sa.Column("from_record", KEY, nullable=True),
        sa.Column("created_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_carried_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "ordinal", name=op.f("pk_carried")),
        sqlite_with_rowid=False,
    )
