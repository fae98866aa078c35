"""What `previously doctor` looks at: each finding says what is so, and what to do if it is bad."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from previously import app
from previously.errors import PreviouslyError
from previously.measure import counts_are_exact

UPSTREAM_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    name: str
    ok: bool
    says: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


async def examine(path: Path, upstream: str | None) -> list[Finding]:
    """Every check, in the order in which they would matter."""
    checks: list[Callable[[], Awaitable[Finding]]] = [
        _python,
        _tokens,
        lambda: _database(path),
        _summariser,
        lambda: _upstream(upstream),
    ]
    return [await check() for check in checks]


async def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


async def _tokens() -> Finding:
    exact = await asyncio.to_thread(counts_are_exact)
    if exact:
        return Finding("tokens", ok=True, says="counted exactly")
    return Finding(
        "tokens", ok=False, says="estimated only: install splintr-rs to count them exactly"
    )


async def _database(path: Path) -> Finding:
    if not await asyncio.to_thread(path.exists):
        return Finding("database", ok=True, says=f"none at {path} yet; `previously serve` makes it")
    try:
        verdict, chats = await app.inspect(path)
    except PreviouslyError as error:
        return Finding("database", ok=False, says=str(error))
    if verdict != "ok":
        return Finding(
            "database", ok=False, says=f"{path} is damaged ({verdict}); restore a backup of it"
        )
    return Finding("database", ok=True, says=f"{path} is sound; chats: {chats}")


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
