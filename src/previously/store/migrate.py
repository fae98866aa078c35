"""Bring a database to this program's schema, or refuse one that is ahead of it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from previously.errors import SchemaTooNew, SchemaTooOld

KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
HEAD = KNOWN[-1]


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


def check_readable(connection: sa.Connection) -> None:
    """Refuse what only a writer could bring up to date."""
    revision = check(connection)
    if revision != HEAD:
        raise SchemaTooOld(
            f"this database has schema {revision or 'none'}; this program reads {HEAD}. "
            "Run `previously migrate` on it once, or start the server."
        )


def run(connection: sa.Connection, target: str = "head") -> None:
    """Run what is missing, inside the transaction that the caller has begun.

    All of it or nothing: a process that dies here must leave a database that opens again.
    """
    from alembic import command  # noqa: PLC0415 - 0.1 s that most starts can save
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
