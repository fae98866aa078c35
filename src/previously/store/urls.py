"""Where a PostgreSQL database is: its URL, and what of it may be shown."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from previously.errors import BadInput


def is_postgres(location: str) -> bool:
    """Whether a location names a PostgreSQL database."""
    return location.startswith(("postgresql://", "postgres://", "postgresql+asyncpg://"))


def url_of(location: str) -> sa.URL:
    """What the driver is given, or `BadInput`."""
    try:
        url = sa.make_url(location).set(drivername="postgresql+asyncpg")
    except (ArgumentError, ValueError):  # they quote parts of it, and one part is a password
        raise BadInput(
            "this is no database URL; write postgresql://user@host/name", field="database"
        ) from None
    mode = url.query.get("sslmode")  # libpq's word for it
    if mode is not None:
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": str(mode)})
    return url


def shown(location: str) -> str:
    """The location without its password."""
    url = url_of(location).set(drivername="postgresql")
    if "password" in url.query:
        url = url.update_query_dict({"password": "***"})
    return url.render_as_string(hide_password=True)
