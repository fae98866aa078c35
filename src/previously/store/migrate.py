"""Bring a database to this program's schema, or refuse one that is ahead of it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from previously.errors import SchemaTooNew

HEAD = "0001"
KNOWN = ("0001",)


def current(connection: sa.Connection) -> str | None:
    """The revision this database is at; None before the first."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def check(connection: sa.Connection) -> str | None:
    """The revision, if this program knows it."""
    revision = current(connection)
    if revision is not None and revision not in KNOWN:
        raise SchemaTooNew(
            f"this database has schema {revision}; this program knows up to {HEAD}. "
            "Nothing was changed. Upgrade previously to open it."
        )
    return revision


def upgrade(engine: sa.Engine) -> None:
    """Run what is missing. Alembic is imported only if there is something to run."""
    with engine.connect() as connection:
        if check(connection) == HEAD:
            return
        from alembic import command  # noqa: PLC0415 - 0.1 s that most starts can save
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        # All of it or nothing: a process that dies here must leave a file that opens again.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        end = "ROLLBACK"
        try:
            command.upgrade(config, "head")
            end = "COMMIT"
        finally:
            connection.exec_driver_sql(end)
