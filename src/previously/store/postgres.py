"""PostgreSQL behind the `Database` port: a pool of connections that many processes may share.

The transactions are the same plain functions as on SQLite. What one writer thread gives there,
order within a chat, comes here from the lock on the chat's `work` row (`SqlStore` takes it).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from previously.errors import NotConfigured, ReadOnly, StoreUnavailable
from previously.store.migrate import HEAD, check, check_readable, run
from previously.store.urls import shown, url_of

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

POOL_SIZE = 8
POOL_MORE = 8
POOL_WAIT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_MS = 60_000
STALLED_MS_MAX = 30_000  # a process that stops in mid-transaction must not hold its locks for ever
TRIES = 4  # of one transaction that another one got in the way of
AWAY_S_MAX = 8.0  # a restart takes less
AWAY_PAUSE_S = 0.05  # and each time twice as long
LISTEN_AGAIN_S = 1.0
CHANNEL = "previously"
MIGRATING = 0x50524556  # key of the lock that only one process may migrate under

# Another transaction was there first: running the function again sees what it did.
SERIALIZATION, DEADLOCK, UNIQUE = "40001", "40P01", "23505"
COLLISIONS = frozenset({SERIALIZATION, DEADLOCK, UNIQUE})
LEAVING = frozenset({"57P01", "57P02", "57P03"})  # shut down, crashed, starting up
REFUSED = frozenset({"28000", "28P01", "3D000"})  # who, password, which database

# What a lost or unwilling database may end in: wrapped, or raw where the driver is used directly.
TROUBLE = (DBAPIError, PoolTimeout, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)

_NOW = sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")


class PostgresDatabase:
    """One database, shared with any number of other processes."""

    exclusive = False

    def __init__(self, location: str, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self.shown = shown(location)
        self._was_there = False
        self._engine = create_async_engine(
            url_of(location),
            pool_size=POOL_SIZE,
            max_overflow=POOL_MORE,
            pool_timeout=POOL_WAIT_S,
            hide_parameters=True,  # what people say does not belong into error texts
            connect_args={
                "timeout": CONNECT_TIMEOUT_S,
                "server_settings": {
                    "application_name": "previously",
                    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
                    "idle_in_transaction_session_timeout": str(STALLED_MS_MAX),
                },
            },
        )
        self._reader = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    @classmethod
    async def open(cls, location: str, *, read_only: bool = False) -> PostgresDatabase:
        """Connect and bring the schema up; opened for reading, it is only checked."""
        made = cls(location, read_only=read_only)
        async with AsyncExitStack() as unless_up:
            unless_up.push_async_callback(made.close)
            await (made.read(check_readable) if read_only else made._bring_up())
            unless_up.pop_all()
        return made

    async def _bring_up(self) -> None:
        if await self.read(check) != HEAD:
            await self.write(_migrate)

    async def write(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run one transaction; returns after it is durable."""
        if self.read_only:
            raise ReadOnly("this memory was opened for reading")
        return await self._run(self._engine, lambda conn: function(conn, *args, **kw))

    async def read(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run one function on one consistent state."""
        return await self._run(self._reader, lambda conn: function(conn, *args, **kw))

    def at_once(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T | None:
        """Nothing: every read goes over the network."""
        return None

    async def _run(self, engine: AsyncEngine, function: Callable[[sa.Connection], T]) -> T:
        """Again, if another transaction or a lost connection got in the way before the commit.

        A database that was there and is away is waited for: what was paid for is not thrown away
        because of a restart.
        """
        now = asyncio.get_running_loop().time
        end, tries, pause_s = now() + AWAY_S_MAX, TRIES, AWAY_PAUSE_S
        while True:
            committing = False
            try:
                async with engine.connect() as connection:
                    self._was_there = True
                    result = await connection.run_sync(function)
                    committing = True  # from here on nobody knows whether it was done
                    await connection.commit()
                    return result
            except TROUBLE as error:
                tries -= 1
                away = self._was_there and _is_away(error) and now() < end
                again = away or (tries > 0 and _sqlstate(error) in COLLISIONS)
                if committing or not again:
                    raise self._as_ours(error) from error
            if away:
                await asyncio.sleep(pause_s)
                pause_s *= 2

    def now_ms(self, connection: sa.Connection) -> int | None:
        """The server's clock: workers on several machines agree on when a lease ends."""
        return connection.execute(_NOW).scalar_one()

    async def listen(self, heard: Callable[[int], None]) -> None:
        """Tell of every change; connects again whenever the connection is lost."""
        while True:
            try:
                async with self._engine.connect() as connection:
                    await _hear(connection, heard)
            except TROUBLE as error:
                log.info("not hearing of changes for a moment: %s", type(error).__name__)
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._engine.dispose()

    def _as_ours(self, error: BaseException) -> BaseException:
        state = _sqlstate(error)
        if state in REFUSED:
            return NotConfigured(f"{self.shown} does not let us in: {_cause(error)}")
        if isinstance(error, PoolTimeout):
            return StoreUnavailable(f"all connections to {self.shown} are in use")
        if not isinstance(error, DBAPIError) or _is_about_connection(error, state):
            return StoreUnavailable(f"{self.shown} cannot be reached: {_cause(error)}")
        if state in COLLISIONS or state[:2] in {"53", "57", "58"}:  # resources, operator, system
            return StoreUnavailable(f"the database did not take the change: {_cause(error)}")
        return error


async def _hear(connection: AsyncConnection, heard: Callable[[int], None]) -> None:
    """Until the connection is lost. Nothing else is ever done on one that has listened."""
    lost = asyncio.Event()

    def word(_connection: Any, _pid: int, _channel: str, payload: str) -> None:
        heard(int(payload))

    def closed(_connection: Any) -> None:
        lost.set()

    try:
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        raw.add_termination_listener(closed)
        await raw.add_listener(CHANNEL, word)
        await lost.wait()
    finally:
        await connection.invalidate()


def _migrate(connection: sa.Connection) -> None:
    for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {limit} = 0")  # a large memory takes its time
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATING)))
    if check(connection) != HEAD:  # another process may have done it while this one waited
        run(connection)


def _is_away(error: BaseException) -> bool:
    """Whether the server was lost, or has not come back yet."""
    if isinstance(error, DBAPIError):
        state = _sqlstate(error)
        return state in LEAVING or _is_about_connection(error, state)
    return not isinstance(error, PoolTimeout)


def _sqlstate(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlstate", None) or "")


def _is_about_connection(error: DBAPIError, state: str) -> bool:
    return error.connection_invalidated or isinstance(error, InterfaceError) or state[:2] == "08"


def _cause(error: BaseException) -> str:
    """The database's own words, without the statement and its values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return str(cause).split("\n", 1)[0] or type(cause).__name__
