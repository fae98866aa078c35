"""Calls: the answers of one model, each paid for once, however often it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from previously.errors import RetryError
from previously.llm import Llm
from previously.model import Ask, ChatRef, Reply

KEEP_TRIES = 3  # each as patient as the store is
KEEP_PAUSE_S = 1.0

Slot = Callable[[], AbstractAsyncContextManager[None]]


class PaidCalls(Protocol):
    """Answers that had arrived and may still be used."""

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None: ...

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None: ...

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None: ...


@dataclass(slots=True)
class _Flight:
    """A call that is on its way, and how many wait for it."""

    task: asyncio.Task[Reply]
    waiting: int = 0


class Calls:
    """One model. Answers are kept per chat from the moment they arrive; without a chat, or of a
    model that costs nothing, none is kept."""

    def __init__(self, llm: Llm, paid: PaidCalls | None) -> None:
        self._llm = llm
        self._paid = paid if llm.costs else None
        self._flights: dict[tuple[int | None, str], _Flight] = {}

    @property
    def model(self) -> str:
        """The identity of the model."""
        return str(getattr(self._llm, "identity", self._llm.name))

    @property
    def keeps(self) -> bool:
        """Whether answers are kept until they are used."""
        return self._paid is not None

    def addressed(self, ask: Ask) -> Ask:
        """The request as it is put to this very model: another one would answer differently."""
        return replace(ask, asked_of=self.model)

    async def known(self, ref: ChatRef | None, ask: Ask) -> Reply | None:
        """The kept answer, if there is one."""
        return await self.kept(ref, ask.hash)

    async def kept(self, ref: ChatRef | None, request: str) -> Reply | None:
        """The answer that is kept under this name, if there is one."""
        if ref is None or self._paid is None:
            return None
        return await self._paid.paid(ref, request)

    async def keep(
        self, ref: ChatRef | None, request: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        """Keep an answer under a name until it is used."""
        if ref is not None and self._paid is not None:
            await self._paid.keep_paid(ref, request, reply, sources)

    async def forget(self, ref: ChatRef | None, requests: Sequence[str]) -> None:
        """Answers that are no use must not be what the next try is given."""
        if ref is not None and self._paid is not None:
            for request in requests:
                await self._paid.forget_paid(ref, request)

    async def answer(
        self, ref: ChatRef | None, ask: Ask, sources: Sequence[int], slot: Slot
    ) -> Reply:
        """The kept answer, that of an equal call on its way, or a new one, made inside `slot`."""
        flight_key = (None if ref is None else ref.id, ask.hash)
        flight = self._flights.get(flight_key)
        if flight is None:
            flight = _Flight(asyncio.create_task(self._fetch(ref, ask, sources, slot)))
            self._flights[flight_key] = flight
            flight.task.add_done_callback(lambda _: self._flights.pop(flight_key))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                flight.task.cancel()  # nobody wants it any more
                await _came(flight.task)  # an answer that has come is kept first

    async def _fetch(
        self, ref: ChatRef | None, ask: Ask, sources: Sequence[int], slot: Slot
    ) -> Reply:
        known = await self.known(ref, ask)
        if known is not None:
            return known
        async with slot():
            asking = asyncio.create_task(self._llm.complete(ask))
            try:
                reply = await asyncio.shield(asking)
            except asyncio.CancelledError:
                asking.cancel()
                if await _came(asking):
                    await _came(self._keeping(ref, ask.hash, asking.result(), sources))
                raise
        keeping = self._keeping(ref, ask.hash, reply, sources)
        try:
            await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await _came(keeping)  # it is paid for, whether or not anybody still waits for it
            raise
        return reply

    def _keeping(
        self, ref: ChatRef | None, request: str, reply: Reply, sources: Sequence[int]
    ) -> asyncio.Task[None]:
        return asyncio.create_task(self._keep_again(ref, request, reply, sources))

    async def _keep_again(
        self, ref: ChatRef | None, request: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        """A database that is away for a while must not cost a second payment."""
        for tries_left in reversed(range(KEEP_TRIES)):
            try:
                await self.keep(ref, request, reply, sources)
            except RetryError:
                if not tries_left:
                    raise
                await asyncio.sleep(KEEP_PAUSE_S)
            else:
                return


async def _came(task: asyncio.Task[Any]) -> bool:
    """Wait for the end of a task; whether it was a good one."""
    await asyncio.wait([task])
    return not task.cancelled() and task.exception() is None
