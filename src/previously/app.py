"""Composition root: the only place that picks concrete classes, the clock and the environment."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from previously.errors import BadInput, ChatNotFound
from previously.llm import Llm
from previously.runner import Runner
from previously.service import Service
from previously.settings import checked, from_environment, layered
from previously.store import Database
from previously.store.migrate import HEAD, check_readable
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from previously.store.transfer import Progress
from previously.store.transfer import move as transfer
from previously.store.urls import is_postgres, shown
from previously.summariser import Summarisers

log = logging.getLogger(__name__)

DATABASE_NAME = "previously.db"

Location = Path | str  # a SQLite file, or the URL of a PostgreSQL database


def clock_ms() -> int:
    """Now, in UTC epoch milliseconds."""
    return time.time_ns() // 1_000_000


def environment(name: str) -> str | None:
    """PREVIOUSLY_<name>, if it is set to anything."""
    return os.environ.get(f"PREVIOUSLY_{name}") or None


def data_folder() -> Path:
    """Where everything lives unless a command says otherwise."""
    chosen = environment("DATA")
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "previously"


def database_location(database: str | None = None, data: str | None = None) -> Location:
    """The database that these options mean."""
    chosen = database or (None if data else environment("DATABASE"))
    if chosen is None:
        return (Path(data) if data else data_folder()) / DATABASE_NAME
    if is_postgres(chosen):
        return chosen
    if "://" in chosen and not chosen.startswith("sqlite:///"):
        kind = chosen.split("://")[0]
        raise BadInput(
            f"cannot open {kind}:// databases; name a SQLite file or postgresql://user@host/name",
            field="database",
        )
    return Path(chosen.removeprefix("sqlite:///"))


def key_folder(location: Location) -> Path:
    """Where keys that are typed in are kept: beside the database, if that is a file."""
    beside = data_folder() if isinstance(location, str) else location.absolute().parent
    return beside / "keys"


def shown_location(location: Location) -> str:
    """The location as people may see it."""
    return str(location) if isinstance(location, Path) else shown(location)


def is_there(location: Location) -> bool:
    """Whether there is a file; a server is only asked when it is used."""
    return isinstance(location, str) or location.exists()


async def inspect(location: Location) -> tuple[str, int]:
    """The database's own verdict on itself, and how many chats are in it."""
    database = await _open(location, read_only=True)
    try:
        return await database.read(_inspect)
    finally:
        await database.close()


def _inspect(connection: sa.Connection) -> tuple[str, int]:
    verdict = "ok"
    if connection.dialect.name == "sqlite":
        verdict = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    chats = connection.exec_driver_sql("SELECT count(*) FROM chat WHERE NOT building").scalar_one()
    return verdict, int(chats)


@dataclass(frozen=True, slots=True)
class Contents:
    """What is wrong with a memory that is sound as a file; or was, if it has been mended."""

    chats: tuple[str, ...]  # whose coverage is not what messages and hashes say
    unlisted: tuple[str, ...]  # whose search index is not what their messages say
    unfinished: int  # copies that nobody sees


async def verify(location: Location, *, repair: bool) -> Contents:
    """Compare all that is derived with what it is derived from; `repair` writes down the latter."""
    store = SqlStore(await _open(location, read_only=not repair), clock_ms, {})
    try:
        unfinished = await (store.remove_abandoned() if repair else store.unfinished())
        return Contents(
            await _uncovered(store, repair=repair),
            await _unlisted(store, repair=repair),
            unfinished,
        )
    finally:
        await store.close()


async def _uncovered(store: SqlStore, *, repair: bool) -> tuple[str, ...]:
    wrong: dict[str, None] = {}
    for ref, lane in await store.lanes():
        differs = await store.repair(ref, lane) if repair else not await store.is_sound(ref, lane)
        if differs:
            wrong[ref.name] = None
    return tuple(wrong)


async def _unlisted(store: SqlStore, *, repair: bool) -> tuple[str, ...]:
    wrong: dict[str, None] = {}
    for ref in await store.indexed_chats():
        differs = await store.reindex(ref) if repair else not await store.index_is_sound(ref)
        if differs:
            wrong[ref.name] = None
    return tuple(wrong)


@dataclass(slots=True)
class House:
    """Everything that was built, and how it is taken down."""

    service: Service
    store: SqlStore
    runner: Runner | None
    engines: Summarisers | None = None
    ear: asyncio.Task[None] | None = None  # hears of what other processes change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the background, then let go of the database."""
        if self.ear is not None:
            self.ear.cancel()
            await asyncio.gather(self.ear, return_exceptions=True)
        if self.runner is not None:
            await self.runner.stop()
        if self.engines is not None:
            await self.engines.close()
        await self.store.close()


def _usable_environment() -> dict[str, Any]:
    found = from_environment(os.environ)
    for name in layered(found)[1]:
        log.warning("PREVIOUSLY_%s=%s cannot be used; the default stays", name.upper(), found[name])
        del found[name]
    return found


async def _open(location: Location, *, read_only: bool) -> Database:
    if isinstance(location, str):
        # Its driver takes a tenth of the whole start; a file needs none of it.
        from previously.store.postgres import PostgresDatabase  # noqa: PLC0415

        return await PostgresDatabase.open(location, read_only=read_only)
    if read_only and not location.exists():
        raise ChatNotFound(f"there is no memory at {location} yet; `previously serve` makes one")
    location.parent.mkdir(parents=True, exist_ok=True)
    made = SqliteDatabase(location, read_only=read_only)
    if read_only:
        async with AsyncExitStack() as unless_readable:
            unless_readable.push_async_callback(made.close)
            await made.read(check_readable)
            unless_readable.pop_all()
    return made


async def bring_up(location: Location) -> str:
    """Open for writing, which migrates; the schema that the database has now."""
    await (await _open(location, read_only=False)).close()
    return HEAD


async def move(source: Location, target: Location, progress: Progress) -> dict[str, int]:
    """Copy a whole memory into an empty database."""
    if not is_there(source):
        raise ChatNotFound(f"there is no memory at {source}")
    await bring_up(source)
    origin = await _open(source, read_only=isinstance(source, str))
    try:
        destination = await _open(target, read_only=False)
        try:
            return await transfer(origin, destination, progress)
        finally:
            await destination.close()
    finally:
        await origin.close()


async def build(
    location: Location,
    *,
    read_only: bool = False,
    worker: bool = True,
    llm: Llm | None = None,
    settings: Mapping[str, Any] | None = None,
    clock: Callable[[], int] = clock_ms,
) -> House:
    """Open a memory: database, background work, use cases."""
    base = {**_usable_environment(), **checked(settings or {})}
    given = {name: value for name, value in base.items() if value is not None}
    store = SqlStore(await _open(location, read_only=read_only), clock, given)
    if not read_only:
        await store.remove_abandoned()
    runner, engines = None, None
    if worker and not read_only:
        engines = Summarisers(store, os.environ, clock, await store.secret(), llm)
        runner = Runner(store, engines, f"w-{uuid.uuid4().hex[:12]}", random.random)
    service = Service(store, runner, clock, llm)
    house = House(service, store, runner, engines)
    if runner is not None:
        runner.on_commit = service.changed
        await runner.start()
    if not store.exclusive and not read_only:
        house.ear = asyncio.create_task(store.listen(service.heard), name="previously-ear")
    return house
