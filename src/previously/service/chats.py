"""Chats as wholes: made, imported, branched, set up, put away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from previously.engine.cleaning import fault_in
from previously.errors import BadInput, Conflict, PreviouslyError, StaleDraft
from previously.lanes.registry import DEFAULT_PRESET, history_lane
from previously.lanes.wording import validate
from previously.model import Chat, ChatRef, NewMessage
from previously.service.changes import said_within
from previously.service.desk import AS_SAID, OWNER, Desk
from previously.settings import Settings, checked, cleanup_rules
from previously.store import ChatFacts

T = TypeVar("T")

NAME_CHARS_MAX = 200
IMPORT_BATCH = 500  # messages per transaction: a turn that waits for the writer waits for one batch
IMPORT_MESSAGES_MAX = 1_000_000
WOKEN_MAX = 1_000  # chats that are looked at anew when the settings of all change
BRANCH_TRIES = 3  # a chat that changes faster than it can be copied is told so
TEMPLATES = {"mini_prompt": "mini", "volume_prompt": "volume"}  # setting → kind of text
CLEANUP = "message_cleanup_regex"
FACTS_KEPT = 256  # chats whose facts are held in memory


class Chats(Desk):
    """What is done with a chat as a whole."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._facts: dict[int, tuple[int, ChatFacts]] = {}

    async def open_chat(
        self, name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Chat:
        """The chat of that name, made if it is missing."""
        check_name(name)
        changes = usable(settings or {})
        chosen = preset or DEFAULT_PRESET
        lane = history_lane(chosen)
        if self.store.read_only:
            return await self.store.find_chat(OWNER, name)
        chat = await self.store.ensure_chat(OWNER, name, chosen, lane)
        if changes:
            await self.store.change_settings(chat.ref, changes)
        return chat

    async def create_chat(
        self, name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> ChatRef:
        """A chat that was not there before; `BadInput` if its name is taken."""
        check_name(name)
        chosen = preset or DEFAULT_PRESET
        lane, changes = history_lane(chosen), usable(settings or {})
        ref = await self.store.create_chat(OWNER, name, chosen, lane)
        if changes:
            await self.store.change_settings(ref, changes)
        return self._changed(ref, ref)

    async def import_chats(
        self,
        sources: Mapping[str, Iterable[NewMessage]],
        preset: str | None = None,
        told: Callable[[str, int], None] = lambda _name, _count: None,
    ) -> list[Chat]:
        """New chats under these names, all whole or none at all.

        They are recorded where nobody sees them and shown at the end. `told` hears how far it is.
        """
        chosen = preset or DEFAULT_PRESET
        lane = history_lane(chosen)
        made: dict[str, ChatRef] = {}
        shown: list[Chat] = []
        try:
            for name, messages in sources.items():
                check_name(name)
                made[name] = await self.store.start_import(OWNER, name, chosen, lane)
                await self._record(made[name], name, messages, told)
            for name, ref in made.items():
                shown.append(await self.store.finish_import(ref, name))
        finally:
            for ref in list(made.values())[len(shown) :]:
                with suppress(PreviouslyError):
                    await self.store.remove_unfinished(ref)
        return [self._changed(chat.ref, chat) for chat in shown]

    async def _record(
        self,
        ref: ChatRef,
        name: str,
        messages: Iterable[NewMessage],
        told: Callable[[str, int], None],
    ) -> None:
        count = 0
        for batch in _batches(said_within(messages), IMPORT_BATCH):
            await self.store.append(ref, batch)
            count += len(batch)
            told(name, count)
            if count > IMPORT_MESSAGES_MAX:
                most = f"{IMPORT_MESSAGES_MAX:,}"
                raise BadInput(f"an import has at most {most} messages", field="messages")
        if not count:
            raise BadInput(f"there are no messages for the chat {name!r}", field="messages")

    async def branch(self, ref: ChatRef, name: str, at_id: int | None = None) -> Chat:
        """A new chat that holds a copy of this one, up to and including a message."""
        check_name(name)
        for _ in range(BRANCH_TRIES):
            with suppress(StaleDraft):
                made = await self._copy(ref, name, at_id)
                return self._changed(made.ref, made)
        raise Conflict(f"the chat {ref.name!r} kept changing while it was copied; try again")

    async def _copy(self, ref: ChatRef, name: str, at_id: int | None) -> Chat:
        """One try. If the process dies, its next start removes what nobody has seen."""
        made = await self.store.start_branch(ref, name, at_id)
        try:
            for part, level in made.parts:
                while await self.store.copy_part(made, part, level):
                    pass
            return await self.store.finish_branch(made)
        except PreviouslyError:
            with suppress(PreviouslyError):
                await self.store.remove_unfinished(made.target)
            raise

    async def set_title(self, ref: ChatRef, title: str) -> None:
        """Another title for people to read; the name in addresses stays."""
        check_name(title)
        self._changed(ref, await self.store.set_title(ref, title))

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None:
        """Keep proxied turns of this chat, or pass them through and keep nothing."""
        self._changed(ref, await self.store.set_recording(ref, on=on))

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None:
        """Suspend summaries while a client rebuilds its own state."""
        self._changed(ref, await self.store.set_recalculating(ref, on=on))

    async def switch(self, ref: ChatRef, preset: str) -> Chat:
        """Remember the chat by another preset. Nothing is lost: switching back finds it again."""
        lane = history_lane(preset)
        return self._changed(ref, await self.store.set_lane(ref, preset, lane))

    async def settings(self, ref: ChatRef) -> Settings:
        """What holds for this chat now."""
        return (await self.store.load(ref, AS_SAID, wide=False, tail_max=1)).settings

    async def set_character(self, ref: ChatRef, character: str | None) -> None:
        """Whose settings hold for this chat, where it has none of its own; None: nobody's."""
        if character is not None:
            check_character(character)
        if await self.store.set_character(ref, character):
            self.wake(ref)

    async def meet_character(self, ref: ChatRef, character: str) -> None:
        """The character that a client names, for a chat that has none yet."""
        check_character(character)
        if await self.store.set_character(ref, character, only_first=True):
            self.wake(ref)

    async def change_settings(
        self, whose: ChatRef | str | None, changes: Mapping[str, Any], revision: int | None = None
    ) -> None:
        """Settings of one chat, of a character's chats by name, or of all; None takes one back.

        A chat's own go before its character's, those before what all have.
        """
        if isinstance(whose, str):
            check_character(whose)
        scope = whose.id if isinstance(whose, ChatRef) else whose
        await self.store.change_scope(OWNER, scope, usable(changes), revision)
        if isinstance(whose, ChatRef):
            self.wake(whose)
            return
        for found in await self.store.busy_chats(OWNER, WOKEN_MAX):
            self.wake(found)

    async def delete_chat(self, ref: ChatRef) -> None:
        """Put a chat away. `restore_chat` brings it back, until it is purged."""
        await self.store.put_away(ref)
        self.changed(ref)

    async def restore_chat(self, chat_id: int) -> ChatRef:
        """Bring back a chat that was deleted."""
        ref = await self.store.bring_back(OWNER, chat_id)
        return self._changed(ref, ref)

    async def purge_chat(self, chat_id: int) -> None:
        """Remove a deleted chat for good: messages, summaries, index, paid answers, settings."""
        await self.store.purge(OWNER, chat_id)
        self._tell(chat_id)

    async def facts(self, ref: ChatRef) -> ChatFacts:
        """What takes a look at all of a chat, taken once for each of its revisions."""
        rev = (await self.store.work_state(ref)).rev
        known = self._facts.get(ref.id)
        if known is None or known[0] != rev:
            known = (rev, await self.store.chat_facts(ref))
            self._facts[ref.id] = known
            if len(self._facts) > FACTS_KEPT:
                self._facts.pop(next(iter(self._facts)))
        return known[1]


def usable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that somebody sets, checked; a template with the names that it must have."""
    found = checked(settings)
    for name, kind in TEMPLATES.items():
        wrong = validate(kind, found[name]) if found.get(name) else []
        if wrong:
            raise BadInput(f"{name}: {'; '.join(wrong)}", field=name)
    for number, rule in enumerate(cleanup_rules(found.get(CLEANUP) or "[]"), 1):
        if fault := fault_in(rule):
            raise BadInput(f"{CLEANUP}: rule {number}: {fault}", field=CLEANUP)
    return found


def _batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch


def check_character(name: str) -> None:
    """`BadInput` if no character can have that name."""
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        wanted = f"a character's name is a line of 1 to {NAME_CHARS_MAX} characters"
        raise BadInput(wanted, field="character")


def check_name(name: str) -> None:
    """`BadInput` if no chat can have that name."""
    if not name.strip() or len(name) > NAME_CHARS_MAX:
        raise BadInput(f"a chat's name has 1 to {NAME_CHARS_MAX} characters", field="name")
