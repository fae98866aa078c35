"""Live events: which chat has changed, and its revision. Whoever hears it reads again.

There is no log of events. On connecting a client is greeted and reads everything; what changes
after that it is told, a burst of changes once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from previously.errors import ChatNotFound, PreviouslyError
from previously.model import ChatRef
from previously.service import Service

HEARTBEAT_S = 15.0
GATHER_S = 0.05  # a burst of changes is told once
STREAMS_MAX = 64


class Streams:
    """The streams that are open; a server that stops ends them."""

    def __init__(self) -> None:
        self._wakers: set[asyncio.Event] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the server is stopping."""
        return self._closed

    @property
    def full(self) -> bool:
        """Whether no further one may be opened."""
        return len(self._wakers) >= STREAMS_MAX

    def close(self) -> None:
        """End them all."""
        self._closed = True
        for waker in self._wakers:
            waker.set()

    async def follow(self, service: Service, only: ChatRef | None) -> AsyncIterator[str]:
        """Events of one chat, or of all, in the form that an EventSource reads."""
        changed: set[int] = set()
        waker = asyncio.Event()

        def heard(chat_id: int) -> None:
            if only is None or chat_id == only.id:
                changed.add(chat_id)
                waker.set()

        self._wakers.add(waker)
        try:
            with service.listening(heard):
                yield await _hello(service, only)
                while not self._closed:
                    if not await _woken(waker):
                        yield ": still here\n\n"
                        continue
                    await asyncio.sleep(GATHER_S)
                    waker.clear()
                    told = sorted(changed)
                    changed.clear()
                    for chat_id in told:
                        yield await _event(service, chat_id)
        finally:
            self._wakers.discard(waker)


async def _woken(waker: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(HEARTBEAT_S):
            return await waker.wait()
    return False


async def _hello(service: Service, only: ChatRef | None) -> str:
    if only is None:
        return _text("hello", None, {})
    rev = (await service.store.work_state(only)).rev
    return _text("hello", rev, {"chat": f"c{only.id}", "revision": rev})


async def _event(service: Service, chat_id: int) -> str:
    """`gone` for a chat that is not there any more."""
    try:
        ref = await service.chat_by_id(chat_id)
        rev = (await service.store.work_state(ref)).rev
    except ChatNotFound:
        return _text("gone", None, {"chat": f"c{chat_id}"})
    except PreviouslyError:
        return _text("chat", None, {"chat": f"c{chat_id}"})
    return _text("chat", rev, {"chat": f"c{chat_id}", "revision": rev})


def _text(event: str, rev: int | None, data: dict[str, object]) -> str:
    number = "" if rev is None else f"id: {rev}\n"
    return f"event: {event}\n{number}data: {json.dumps(data)}\n\n"
