"""Many processes: limits on model calls that all of them share, and word of every change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# One word per transaction and chat; whoever listens looks at the chat's own row for the rest.
ANNOUNCE = """
CREATE FUNCTION previously_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('previously', NEW.chat_id::text);
  RETURN NULL;
END $$
"""
ON_CHANGE = """
CREATE TRIGGER work_announce AFTER UPDATE OF rev ON work
FOR EACH ROW WHEN (OLD.rev IS DISTINCT FROM NEW.rev)
EXECUTE FUNCTION previously_announce()
"""


def upgrade() -> None:
    shared = op.get_bind().dialect.name == "postgresql"
    # What they hold is worth nothing after a crash of the database, so it is not logged.
    unlogged = ["UNLOGGED"] if shared else []
    op.create_table(
        "limit_slot",
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", KEY, nullable=False),
        sa.PrimaryKeyConstraint("profile", "holder", name=op.f("pk_limit_slot")),
        prefixes=unlogged,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "limit_rate",
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("next_at", KEY, nullable=False),
        sa.PrimaryKeyConstraint("profile", name=op.f("pk_limit_rate")),
        prefixes=unlogged,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_hole_message_id", "hole", ["message_id"])
    op.create_index("ix_message_revision_message_id", "message_revision", ["message_id"])
    if shared:
        op.execute(ANNOUNCE)
        op.execute(ON_CHANGE)
