"""What `previously doctor` looks at: each finding says what is so, and what to do if it is bad."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp

from previously import app
from previously.errors import PreviouslyError
from previously.measure import counts_are_exact

UPSTREAM_TIMEOUT_S = 5.0
NAMES_MAX = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    name: str
    ok: bool
    says: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


async def examine(
    location: app.Location, upstream: str | None, *, repair: bool = False
) -> list[Finding]:
    """Every check, in the order in which they would matter; `repair` mends what can be mended."""
    database = await _database(location)
    return [
        await _python(),
        await _tokens(),
        database,
        *(await _contents(location, repair=repair) if database.ok else []),
        await _summariser(),
        await _upstream(upstream),
    ]


async def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


async def _tokens() -> Finding:
    exact = await asyncio.to_thread(counts_are_exact)
    if exact:
        return Finding("tokens", ok=True, says="counted exactly")
    return Finding(
        "tokens", ok=False, says="estimated only: install splintr-rs to count them exactly"
    )


async def _database(location: app.Location) -> Finding:
    where = app.shown_location(location)
    if not await asyncio.to_thread(app.is_there, location):
        return Finding(
            "database", ok=True, says=f"none at {where} yet; `previously serve` makes it"
        )
    try:
        verdict, chats = await app.inspect(location)
    except PreviouslyError as error:
        return Finding("database", ok=False, says=str(error))
    if verdict != "ok":
        return Finding(
            "database", ok=False, says=f"{where} is damaged ({verdict}); restore a backup of it"
        )
    return Finding("database", ok=True, says=f"{where} is sound; chats: {chats}")


async def _contents(location: app.Location, *, repair: bool) -> list[Finding]:
    """What the database says about itself: it may be whole as a file and still wrong."""
    if not await asyncio.to_thread(app.is_there, location):
        return []
    try:
        found = await app.verify(location, repair=repair)
    except PreviouslyError as error:
        return [Finding("coverage", ok=False, says=str(error))]
    return [
        _derived("coverage", found.chats, "was wrong and is mended", repair=repair),
        _derived("search index", found.unlisted, "was wrong and is made anew", repair=repair),
        *_unfinished(found, repair=repair),
    ]


def _derived(what: str, chats: Sequence[str], mended: str, *, repair: bool) -> Finding:
    """Something that is written down and follows from the messages."""
    if not chats:
        return Finding(what, ok=True, says="what is written down agrees with the messages")
    names = ", ".join(chats[:NAMES_MAX])
    if len(chats) > NAMES_MAX:
        names += f" and {len(chats) - NAMES_MAX} more"
    if repair:
        return Finding(what, ok=True, says=f"{mended}; chats: {names}")
    which = "chat" if len(chats) == 1 else "chats"
    says = f"{what} of {which} {names} is wrong; run `previously doctor --repair`"
    return Finding(what, ok=False, says=says)


def _unfinished(found: app.Contents, *, repair: bool) -> list[Finding]:
    if not found.unfinished:
        return []
    if repair:
        return [Finding("copies", ok=True, says=f"unfinished copies removed: {found.unfinished}")]
    says = f"unfinished copies of chats: {found.unfinished}; the next start removes them"
    return [Finding("copies", ok=True, says=says)]


async def _summariser() -> Finding:
    return Finding("summaries", ok=True, says="extractive: built in, needs no key")


async def _upstream(url: str | None) -> Finding:
    if url is None:
        return Finding(
            "upstream", ok=True, says="none; the proxy needs `previously serve --upstream URL`"
        )
    models = f"{url.rstrip('/')}/models"
    timeout = aiohttp.ClientTimeout(total=UPSTREAM_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(models) as reply:
            status = reply.status
    except (aiohttp.ClientError, TimeoutError) as error:
        says = f"{url} does not answer ({type(error).__name__}); is it running, is the port right?"
        return Finding("upstream", ok=False, says=says)
    if status in (401, 403):
        return Finding("upstream", ok=True, says=f"{url} answers and wants a key ({status})")
    return Finding("upstream", ok=status < 500, says=f"{url} answers with {status}")
