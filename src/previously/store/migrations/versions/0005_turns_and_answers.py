"""What each prompt has weighed, for charts; and answers that are given again for the same key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sent_turn",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("born", KEY, nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("client_tokens", sa.Integer(), nullable=False),
        sa.Column("budget_tokens", sa.Integer(), nullable=False),
        sa.Column("same_tokens", sa.Integer(), nullable=False),
        sa.Column("layers", sa.Text(), nullable=False),
        sa.Column("sent_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_sent_turn_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "n", name=op.f("pk_sent_turn")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "answer",
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("until", KEY, nullable=False),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_answer")),
    )
    op.create_index("ix_answer_until", "answer", ["until"])
