"""SQLite behind the `Database` port: one writer thread with group commit, a few reader threads.

A transaction is a plain function of a SQLAlchemy Core connection. Functions that wait together are
committed together, each in its own savepoint unless it is alone, and acknowledged only after the
commit is on disk (`synchronous=FULL`): one flush pays for many.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from previously.errors import ReadOnly, StoreUnavailable
from previously.store.lockfile import FileLock
from previously.store.migrate import HEAD, check, run

P = ParamSpec("P")
T = TypeVar("T")

READERS = 2
GROUP_MAX = 256  # transactions that share one commit
BUSY_TIMEOUT_MS = 5_000


@dataclass(slots=True)
class _Job:
    run: Callable[[sa.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def do(self, connection: sa.Connection) -> Exception | None:
        """Its result is kept for the caller who waits for it, and so is whatever it raises: the
        thread goes on to the next one."""
        try:
            self.result = self.run(connection)
        except Exception as error:  # noqa: BLE001 - not ours to judge: the caller gets it
            self.error = _as_ours(error)
            return error
        return None


def _engine(path: Path, *, read_only: bool) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        raw = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        raw.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if not read_only:
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute("PRAGMA foreign_keys=ON")
        return raw

    return sa.create_engine(
        "sqlite://",
        creator=connect,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,  # what people say does not belong into error texts
    )


def _as_ours(error: BaseException) -> BaseException:
    """Disk full and I/O errors become something a caller can wait for."""
    cause = error.orig if isinstance(error, DatabaseError) else error
    # The driver raises the bare class for a file that is damaged or no database at all.
    if isinstance(cause, sqlite3.OperationalError) or type(cause) is sqlite3.DatabaseError:
        wrapped = StoreUnavailable(f"the database did not take the change: {cause}")
        wrapped.__cause__ = error
        return wrapped
    return error


def bring_up(path: Path) -> None:
    """This program's schema, in one step; an older file is copied aside first."""
    try:
        _migrate(path)
    except (DatabaseError, sqlite3.Error) as error:
        raise _as_ours(error) from error


def _migrate(path: Path) -> None:
    with _engine(path, read_only=False).connect() as connection:
        revision = check(connection)
        if revision == HEAD:
            return
        if revision is not None:
            _copy_aside(connection, path.with_name(f"{path.name}.{revision}.bak"))
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        end = "ROLLBACK"
        try:
            run(connection)
            end = "COMMIT"
        finally:
            connection.exec_driver_sql(end)


def _copy_aside(connection: sa.Connection, target: Path) -> None:
    """Whole or not at all: the copy gets its name when it is complete."""
    unfinished = target.with_name(f"{target.name}.tmp")
    unfinished.unlink(missing_ok=True)
    copy = sqlite3.connect(unfinished)
    try:
        _raw(connection).backup(copy)
    finally:
        copy.close()
    unfinished.replace(target)


class SqliteDatabase:
    """One file. Opened for writing it holds the file's lock; for reading it needs none."""

    exclusive = True

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = None if read_only else FileLock(path)
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writes: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        if not read_only:
            with ExitStack() as failing:
                failing.callback(self._release)
                bring_up(path)
                failing.pop_all()
        self._here: sa.Connection | None = None
        self._threads = [_thread("read", self._read_loop) for _ in range(READERS)]
        if not read_only:
            self._threads.append(_thread("write", self._write_loop))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def write(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run one transaction; returns after it is durable."""
        if self.read_only:
            raise ReadOnly("this memory was opened for reading")
        return await _queued(self._writes, lambda conn: function(conn, *args, **kw))

    async def read(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run one function on one consistent state."""
        return await _queued(self._reads, lambda conn: function(conn, *args, **kw))

    def at_once(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T | None:
        """One short read on this very thread; None if the file is busy."""
        try:
            if self._here is None:
                self._here = _engine(self.path, read_only=True).connect()
                _raw(self._here).execute("PRAGMA busy_timeout=0")  # nobody here can wait
            return function(self._here, *args, **kw)
        except (sqlite3.Error, DatabaseError):
            return None  # whoever may wait for it says what is wrong

    def now_ms(self, connection: sa.Connection) -> int | None:
        """None: this process is the only one, and has a clock."""
        return None

    async def listen(self, heard: Callable[[int], None]) -> None:
        """Nobody else changes anything."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Finish what waits, then let go of the file."""
        if self._here is not None:
            self._here.close()
        for _ in range(READERS):
            self._reads.put(None)
        for thread in self._threads[:READERS]:
            await asyncio.to_thread(thread.join)
        self._writes.put(None)  # last: only a writer folds the log back into the file
        for thread in self._threads[READERS:]:
            await asyncio.to_thread(thread.join)
        self._release()

    def _read_loop(self) -> None:
        connection = _engine(self.path, read_only=True).connect()
        while (job := self._reads.get()) is not None:
            _run_read(connection, job)
            _acknowledge([job])
        connection.close()

    def _write_loop(self) -> None:
        connection = _engine(self.path, read_only=False).connect()
        running = True
        while running:
            jobs: list[_Job] = []
            while running and len(jobs) < GROUP_MAX and not (jobs and self._writes.empty()):
                job = self._writes.get()
                running = job is not None
                if job is not None:
                    jobs.append(job)
            if jobs:
                _run_group(connection, jobs)
                _acknowledge(jobs)
        connection.close()


def _thread(name: str, target: Callable[[], None]) -> threading.Thread:
    """Daemons: a program that ends without closing must not hang on a queue."""
    made = threading.Thread(target=target, name=f"previously-{name}", daemon=True)
    made.start()
    return made


async def _queued(jobs: queue.SimpleQueue[_Job | None], run: Callable[[sa.Connection], T]) -> T:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    jobs.put(_Job(run, loop, future))
    return await future


def _run_read(connection: sa.Connection, job: _Job) -> None:
    raw = _raw(connection)
    raw.execute("BEGIN")
    job.do(connection)
    if raw.in_transaction:  # a statement that cannot be run has ended it already
        raw.execute("COMMIT")


def _run_group(connection: sa.Connection, jobs: list[_Job]) -> None:
    """Run the jobs in one transaction; a failed commit fails every one of them."""
    raw = _raw(connection)
    try:
        raw.execute("BEGIN IMMEDIATE")
        end = "COMMIT"
        if len(jobs) == 1:  # nobody else's work would be undone with it
            end = "COMMIT" if _did(connection, raw, jobs[0]) else "ROLLBACK"
        else:
            for job in jobs:
                _run_in_savepoint(connection, raw, job)
        raw.execute(end)
    except sqlite3.Error as error:
        if raw.in_transaction:
            raw.rollback()
        for job in jobs:
            job.error = _as_ours(error)


def _raw(connection: sa.Connection) -> sqlite3.Connection:
    """The driver's own connection: transaction words need no compiling."""
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _run_in_savepoint(connection: sa.Connection, raw: sqlite3.Connection, job: _Job) -> None:
    raw.execute("SAVEPOINT job")
    if not _did(connection, raw, job):
        raw.execute("ROLLBACK TO job")
    raw.execute("RELEASE job")


def _did(connection: sa.Connection, raw: sqlite3.Connection, job: _Job) -> bool:
    """Whether the job came to its end; if not, what it has done is still to be undone."""
    error = job.do(connection)
    if error is not None and not raw.in_transaction:
        # A full disk undoes the whole group, not only this job.
        cause = error.orig if isinstance(error, DatabaseError) else error
        raise sqlite3.OperationalError(str(cause)) from error
    return error is None


def _acknowledge(jobs: list[_Job]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, mine in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_deliver, mine)


def _deliver(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.cancelled():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
