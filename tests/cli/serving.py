"""A fake upstream in a thread of its own, for commands that run an event loop themselves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from previously.testing import FakeUpstream


class Served(NamedTuple):
    """Where it listens, and the fake itself."""

    url: str
    fake: FakeUpstream


@contextmanager
def served() -> Generator[Served]:
    """A server that answers as long as the test lasts."""
    fake, ready = FakeUpstream(), threading.Event()
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def run() -> None:
        async with fake:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield Served(fake.url, fake)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()
