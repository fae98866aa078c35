"""The library door: the same memory inside a program, async and typed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from previously import app
from previously.errors import BadInput
from previously.llm import Llm
from previously.model import Chat as ChatRecord
from previously.model import Message, NewMessage, Prompt, Summary
from previously.service import Service, Settled
from previously.text.clean import clean

SETTLE_TIMEOUT_S = 60.0


class Chat:
    """One conversation."""

    def __init__(self, service: Service, record: ChatRecord) -> None:
        self._service = service
        self._ref = record.ref
        self.name = record.ref.name

    async def append(
        self,
        role: str,
        content: str,
        *,
        name: str | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
    ) -> Message:
        """Record one message. It is on disk when this returns."""
        if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadInput('content is a string; a message without words has ""', field="content")
        said = NewMessage(
            role=role,
            body=clean(content),
            name=name,
            tool_calls=json.dumps(list(tool_calls), ensure_ascii=False) if tool_calls else None,
            tool_call_id=tool_call_id,
        )
        return (await self._service.append(self._ref, [said]))[0]

    def messages(self) -> AsyncIterator[Message]:
        """Every message, oldest first."""
        return self._service.messages(self._ref)

    def summaries(self) -> AsyncIterator[Summary]:
        """Every summary, in the order they were made."""
        return self._service.summaries(self._ref)

    async def prompt(self, budget_tokens: int | None = None) -> Prompt:
        """The next prompt: `.messages` in OpenAI's format, `.tokens`, `.trace`."""
        return await self._service.prompt(self._ref, budget_tokens)

    async def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> Settled:
        """Wait until no summary is due."""
        return await self._service.settle(self._ref, timeout_s)


class Memory:
    """A database of chats, with its background work."""

    def __init__(self, house: app.House) -> None:
        self._house = house

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database: str | Path,
        *,
        llm: Llm | None = None,
        worker: bool = True,
        read_only: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Memory]:
        """Open or make a memory. `llm` writes the summaries; without one they are extracts."""
        house = await app.build(
            app.database_path(str(database)),
            llm=llm,
            worker=worker,
            read_only=read_only,
            settings=settings,
        )
        try:
            yield cls(house)
        finally:
            await house.close()

    async def chat(
        self, name: str, *, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Chat:
        """The chat of that name, made if it is missing."""
        service = self._house.service
        return Chat(service, await service.open_chat(name, preset, settings))
