"""What all tables share: names of constraints, keys, and the way to their chat."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite only takes the fast path for a key declared INTEGER.
Key: TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def chat_id(*, primary_key: bool = False) -> sa.Column[int]:
    """The column that makes a row go with its chat."""
    return sa.Column(
        "chat_id",
        Key,
        sa.ForeignKey("chat.id", ondelete="CASCADE"),
        primary_key=primary_key,
        nullable=False,
    )
