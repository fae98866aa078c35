"""Requests that went on as they came since a chat's newest turn, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "passed",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("passed_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_passed_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", name=op.f("pk_passed")),
        sqlite_with_rowid=False,
    )
