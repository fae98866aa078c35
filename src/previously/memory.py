"""The library door: the same memory inside a program, async and typed."""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from previously import app
from previously.errors import BadInput
from previously.estimate import Estimate
from previously.formats.openai import message_of
from previously.llm import Llm
from previously.model import START, Carried, Message, NewMessage, Prompt, Summary
from previously.model import Chat as ChatRecord
from previously.search import HITS_DEFAULT, Hit
from previously.service import Service, Settled, TaskState
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
        present: Collection[str] | None = None,
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
            present=None if present is None else frozenset(present),
        )
        return (await self._service.append(self._ref, [said]))[0]

    async def insert(self, role: str, content: str, *, before: Message | int) -> Message:
        """Record a message in front of another one."""
        said = NewMessage(role, clean(content))
        return (await self._service.insert(self._ref, [said], _id(before)))[0]

    async def edit(
        self, message: Message | int, content: str, *, version: int | None = None
    ) -> Message:
        """Give a message another text; `Conflict` if it is no longer at `version`."""
        return await self._service.edit(self._ref, _id(message), clean(content), version)

    async def delete(self, *messages: Message | int) -> None:
        """Take messages out of the chat. `undo` brings them back."""
        await self._service.delete(self._ref, _ids(messages))

    async def hide(self, *messages: Message | int, hidden: bool = True) -> None:
        """Keep messages out of prompts and summaries, or let them in again."""
        by = "user" if hidden else None
        await self._service.mark(self._ref, "hide", _ids(messages), hidden_by=by)

    async def exclude(self, *messages: Message | int, excluded: bool = True) -> None:
        """Never summarise these messages: they are shown while they are recent, or not at all."""
        await self._service.mark(self._ref, "exclude", _ids(messages), excluded=excluded)

    async def pin(self, *messages: Message | int, pinned: bool = True) -> None:
        """Keep messages in every prompt, word for word."""
        await self._service.mark(self._ref, "pin", _ids(messages), pinned=pinned)

    async def move(self, message: Message | int, *, before: Message | int | None) -> Message:
        """Put a message in front of another one, or at the end."""
        target = None if before is None else _id(before)
        return await self._service.move(self._ref, _id(message), target)

    async def swipe(self, message: Message | int, choice: str | int) -> Message:
        """Show another variant of a message: a new text, or one it has by its number."""
        wanted = choice if isinstance(choice, int) else clean(choice)
        return await self._service.swipe(self._ref, _id(message), wanted)

    async def undo(self) -> int:
        """Take back the last change; the number of messages it touched."""
        return len(await self._service.undo(self._ref))

    async def branch(self, name: str, *, at: Message | int | None = None) -> Chat:
        """A new chat with a copy of everything up to and including `at`, or of all."""
        at_id = None if at is None else _id(at)
        return Chat(self._service, await self._service.branch(self._ref, name, at_id))

    async def continue_as(self, name: str) -> Chat:
        """A new, empty chat that begins with this one's memory: its summaries, its pinned words,
        and extracts of the turns that have no summary yet."""
        return Chat(self._service, await self._service.continue_chat(self._ref, name))

    async def carried(self) -> tuple[Carried, ...]:
        """What this chat was handed by the one that it continues."""
        return await self._service.store.carried(self._ref)

    async def forget_carried(self, carried: Carried | int) -> None:
        """Take out one piece of that, for good."""
        await self._service.forget_carried(self._ref, _id(carried))

    async def save(self) -> dict[str, Any]:
        """Which messages the chat holds now: a small value that JSON can hold, for `restore`."""
        return await self._service.save(self._ref)

    async def restore(self, save: Mapping[str, Any]) -> int:
        """Hold exactly the messages of a save again, as they were; how many that touched.

        Nothing is lost by it: `undo` takes it back, and a later save can be restored after it.
        """
        return len(await self._service.restore(self._ref, save))

    async def rollback(self, *, to: Message | int) -> int:
        """Take out everything after a message; how many messages those were."""
        return len(await self._service.rollback(self._ref, _id(to)))

    async def run(self, *, latest: bool = False, beyond_budget: bool = False) -> None:
        """Summarise every closed turn but the last now, whatever the thresholds say; with
        `latest` that one too.

        Raises `AskFirst` if that costs more than the month has left, as all work that is asked
        for by hand does, unless `beyond_budget` says that it is wanted anyway.
        """
        await self._service.run_now(self._ref, latest=latest, beyond_budget=beyond_budget)

    async def archive(self, *, beyond_budget: bool = False) -> None:
        """Make the small summaries before the tail into a volume now, few as they are."""
        await self._service.archive(self._ref, beyond_budget=beyond_budget)

    async def rebuild(self, *, start: Message | None = None, beyond_budget: bool = False) -> None:
        """Write summaries anew, from a message on; each old one stands until its successor does."""
        first = START if start is None else start.pos
        await self._service.rebuild(self._ref, first, beyond_budget=beyond_budget)

    async def backfill(self, *, dry_run: bool = False, beyond_budget: bool = False) -> Estimate:
        """Summarise all that has piled up, such as an import; says what that is expected to take.

        It goes on in the background until nothing is due. With `dry_run` nothing is begun.
        """
        return await self._service.backfill(self._ref, dry_run=dry_run, beyond_budget=beyond_budget)

    async def pause_backfill(self) -> bool:
        """Let what has piled up wait for the next `backfill`; whether one was under way."""
        return await self._service.pause_backfill(self._ref)

    async def edit_summary(self, summary: Summary | int, text: str) -> Summary:
        """Put your own words in a summary's place. They are never overwritten."""
        return await self._service.edit_summary(self._ref, _id(summary), clean(text))

    async def revisions(self, summary: Summary | int) -> tuple[Summary, ...]:
        """Every text a summary has had, oldest first."""
        return await self._service.store.revisions(self._ref, _id(summary))

    async def restore_summary(self, revision: Summary | int) -> Summary:
        """Let an older revision stand again, or accept a proposal."""
        return await self._service.restore_summary(self._ref, _id(revision))

    async def reject_proposal(self, proposal: Summary | int) -> None:
        """Do not use this text; its messages stay as they were said."""
        await self._service.reject_proposal(self._ref, _id(proposal))

    async def tasks(self) -> list[TaskState]:
        """What is due now, and what became of it so far."""
        return await self._service.tasks(self._ref)

    async def retry(self, task_id: str) -> None:
        """Try a failed task again now."""
        await self._service.retry(self._ref, task_id)

    async def cancel(self, task_id: str) -> None:
        """Leave a failed task alone until its messages change."""
        await self._service.cancel(self._ref, task_id)

    def events(self) -> AsyncIterator[int]:
        """The chat's revision, now and whenever something in it has changed."""
        return self._service.events(self._ref)

    async def switch(self, preset: str) -> None:
        """Remember this chat by another preset from now on.

        What was written before stays stored, and stands again if you switch back.
        """
        await self._service.switch(self._ref, preset)

    async def set_character(self, name: str | None) -> None:
        """Whose chat it is: that character's settings hold where it has none of its own."""
        await self._service.set_character(self._ref, name)

    async def recalculating(self, *, on: bool) -> None:
        """While this is on, nothing is summarised; what becomes due meanwhile is done after."""
        await self._service.set_recalculating(self._ref, on=on)

    def messages(self) -> AsyncIterator[Message]:
        """Every message, oldest first."""
        return self._service.messages(self._ref)

    def summaries(self) -> AsyncIterator[Summary]:
        """Every summary, in the order they were made."""
        return self._service.summaries(self._ref)

    async def prompt(
        self,
        budget_tokens: int | None = None,
        *,
        audience: Collection[str] = (),
        query: str | None = None,
    ) -> Prompt:
        """The next prompt: `.messages` in OpenAI's format, `.tokens`, `.trace`.

        With an audience it holds only what all of them were present for. With a query, a question
        about the past, it holds as much as it can of what that calls up.
        """
        return await self._service.prompt(self._ref, budget_tokens, audience=audience, query=query)

    async def search(self, query: str, *, limit: int = HITS_DEFAULT) -> list[Hit]:
        """The messages of this chat that answer a query best."""
        return await self._service.search(query, chat=self.name, limit=limit)

    async def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> Settled:
        """Wait until no summary is due."""
        return await self._service.settle(self._ref, timeout_s)


def _parsed(number: int, raw: Mapping[str, Any]) -> NewMessage:
    try:
        return message_of(raw)
    except BadInput as error:
        raise BadInput(f"message {number}: {error}", field=error.field) from error


def _id(thing: Carried | Message | Summary | int) -> int:
    return thing if isinstance(thing, int) else thing.id


def _ids(messages: Sequence[Message | int]) -> list[int]:
    return [_id(m) for m in messages]


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
        """Open or make a memory: a SQLite file, or the database of a postgresql:// URL.

        `llm` writes the summaries; without one they are extracts.
        """
        async with await app.build(
            app.database_location(str(database)),
            llm=llm,
            worker=worker,
            read_only=read_only,
            settings=settings,
        ) as house:
            yield cls(house)

    async def chat(
        self, name: str, *, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Chat:
        """The chat of that name, made if it is missing."""
        service = self._house.service
        return Chat(service, await service.open_chat(name, preset, settings))

    async def change_settings(
        self, settings: Mapping[str, Any], *, character: str | None = None
    ) -> None:
        """Settings of all chats, or of a character's; None takes one back."""
        await self._house.service.change_settings(character, settings)

    async def import_messages(
        self, name: str, messages: Iterable[Mapping[str, Any]], *, preset: str | None = None
    ) -> Chat:
        """A new chat that holds these messages, in OpenAI's format: all of them, or no chat.

        Where summaries cost money, a long chat waits for `chat.backfill()`.
        """
        service = self._house.service
        said = (_parsed(number, raw) for number, raw in enumerate(messages))
        return Chat(service, (await service.import_chats({name: said}, preset))[0])

    async def search(
        self,
        query: str,
        *,
        participants: Collection[str] | None = None,
        limit: int = HITS_DEFAULT,
    ) -> list[Hit]:
        """The messages of all chats that answer a query best.

        With participants only in chats in which all of them take part.
        """
        service = self._house.service
        return await service.search(query, participants=participants, limit=limit)
