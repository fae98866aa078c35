"""Why a profile was stood in for, until it answers again or is changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("profile", sa.Column("trouble", sa.Text(), nullable=True))
