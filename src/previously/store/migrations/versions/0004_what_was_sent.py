"""What went upstream last: sizes and ids for whoever asks, and a key that finds the chat again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sent",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("tail_key", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("sent_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_sent_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", name=op.f("pk_sent")),
    )
    op.create_index("ix_sent_tail_key", "sent", ["tail_key"])
