"""What every use case stands on: the store, the clock, and who hears of a change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from typing import Protocol, TypeVar

from previously.llm import Llm
from previously.model import Chat, ChatRef, Draft, FoldKey, Task
from previously.settings import Settings
from previously.store import Store

T = TypeVar("T")

OWNER = "local"  # until tokens name others
EVENTS_LOOK_EVERY_S = 5.0  # changes made by another process are seen by then
AS_SAID = FoldKey("(as said)")  # nobody ever folds this one


class Background(Protocol):
    """What works off the tasks in this process."""

    def wake(self, ref: ChatRef) -> None: ...

    def heard(self, chat_id: int) -> None: ...

    async def idle(self, ref: ChatRef, timeout_s: float) -> bool: ...

    async def draft(self, task: Task, settings: Settings) -> Draft: ...


class Desk:
    """One store, one background, and everybody who listens."""

    def __init__(
        self,
        store: Store,
        background: Background | None,
        clock_ms: Callable[[], int],
        llm: Llm | None = None,
    ) -> None:
        self.store = store
        self._llm = llm  # a program's own summariser
        self._background = background
        self._clock_ms = clock_ms
        self._changes: dict[int, asyncio.Event] = {}
        self._listeners: set[Callable[[int], None]] = set()

    def now_ms(self) -> int:
        """This house's clock, in UTC epoch milliseconds."""
        return self._clock_ms()

    async def find_chat(self, name: str) -> Chat:
        """The chat of that name, or `ChatNotFound`."""
        return await self.store.find_chat(OWNER, name)

    async def chat_by_id(self, chat_id: int) -> ChatRef:
        """The chat with that key, or `ChatNotFound`."""
        return await self.store.find_chat_by_id(OWNER, chat_id)

    def wake(self, ref: ChatRef) -> None:
        """Tell the background, and whoever listens, that this chat has changed.

        A shared database tells every process itself, this one too.
        """
        self.changed(ref)
        if self._background is not None and self.store.exclusive:
            self._background.wake(ref)

    def changed(self, ref: ChatRef) -> None:
        """Somebody who listens to this chat may look again."""
        self._tell(ref.id)

    def heard(self, chat_id: int) -> None:
        """Some process that shares the database has changed this chat."""
        self._tell(chat_id)
        if self._background is not None:
            self._background.heard(chat_id)

    def _tell(self, chat_id: int) -> None:
        event = self._changes.pop(chat_id, None)
        if event is not None:
            event.set()
        for heard in self._listeners:
            heard(chat_id)

    def _changed(self, ref: ChatRef, result: T) -> T:
        self.wake(ref)
        return result

    async def events(self, ref: ChatRef) -> AsyncIterator[int]:
        """The chat's revision, now and after every change; a slow reader skips to the newest."""
        seen = -1
        while True:
            change = self._changes.setdefault(ref.id, asyncio.Event())
            rev = (await self.store.work_state(ref)).rev
            if rev != seen:
                seen = rev
                yield rev
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVENTS_LOOK_EVERY_S):
                    await change.wait()

    @contextlib.contextmanager
    def listening(self, heard: Callable[[int], None]) -> Generator[None]:
        """Call back with the key of every chat that changes, as long as the block runs."""
        self._listeners.add(heard)
        try:
            yield
        finally:
            self._listeners.discard(heard)
