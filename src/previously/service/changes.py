"""Messages and summaries as people change them; every change can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from previously.errors import BadInput
from previously.model import ChatRef, Message, NewMessage, Summary, key
from previously.planner import NEVER_MS
from previously.service.desk import Desk
from previously.store import Kept

BODY_CHARS_MAX = 4_000_000


class Changes(Desk):
    """What is done with the messages and summaries of a chat."""

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Record messages; they are durable when this returns."""
        checked = list(said_within(new))
        if not checked:
            return ()
        made = await self.store.append(ref, checked)
        self.wake(ref)
        return made

    async def insert(
        self, ref: ChatRef, new: Sequence[NewMessage], before_id: int
    ) -> tuple[Message, ...]:
        """Record messages in front of another one."""
        return self._changed(ref, await self.store.insert(ref, new, before_id))

    async def edit(
        self, ref: ChatRef, message_id: int, text: str, version: int | None = None
    ) -> Message:
        """Another text for a message; what stood for the old one stands no longer."""
        return self._changed(ref, await self.store.edit(ref, message_id, text, version))

    async def alter(
        self, ref: ChatRef, message_id: int, values: Mapping[str, Any], version: int | None = None
    ) -> Message:
        """Text and marks of one message in one step; `Conflict` if it is not at `version`."""
        what = "edit" if "body" in values else next(iter(values), "edit")
        made = await self.store.alter(ref, what, message_id, values, version)
        return self._changed(ref, made)

    async def mark(
        self, ref: ChatRef, what: str, ids: Sequence[int], **values: object
    ) -> tuple[Message, ...]:
        """Set the same values for several messages in one step."""
        marked = dict.fromkeys(ids, values)
        return self._changed(ref, await self.store.change(ref, what, marked))

    async def delete(self, ref: ChatRef, ids: Sequence[int]) -> tuple[Message, ...]:
        """Take messages out. They stay stored, and `undo` brings them back."""
        return await self.mark(ref, "delete", ids, deleted_at_ms=self._clock_ms())

    async def move(self, ref: ChatRef, message_id: int, before_id: int | None) -> Message:
        """Put a message in front of another one, or at the end."""
        return self._changed(ref, await self.store.move(ref, message_id, before_id))

    async def swipe(self, ref: ChatRef, message_id: int, choice: int | str) -> Message:
        """Show another variant of a message, by number or as a new text."""
        return self._changed(ref, await self.store.swipe(ref, message_id, choice))

    async def undo(self, ref: ChatRef) -> tuple[Message, ...]:
        """Take back the last change of messages; empty if there is none to take back."""
        return self._changed(ref, await self.store.undo(ref))

    async def save(self, ref: ChatRef) -> dict[str, Any]:
        """What the chat holds now, as JSON has it: no texts, but enough to find them again."""
        kept = await self.store.save(ref)
        return {"chat": ref.name, "messages": [_saved(k) for k in kept]}

    async def restore(self, ref: ChatRef, save: Mapping[str, Any]) -> tuple[Message, ...]:
        """Make the chat hold exactly what the save says, in one step; the messages it touched."""
        return self._changed(ref, await self.store.restore(ref, _kept(ref, save)))

    async def rollback(self, ref: ChatRef, to_id: int) -> tuple[Message, ...]:
        """Take out everything after a message, in one step."""
        return self._changed(ref, await self.store.rollback(ref, to_id))

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary:
        """The user's own words in a summary's place."""
        if not text.strip():
            raise BadInput("a summary needs words; delete its messages instead", field="text")
        return self._changed(ref, await self.store.edit_summary(ref, summary_id, text))

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary:
        """Let an older revision, or a proposal, stand."""
        return self._changed(ref, await self.store.restore_summary(ref, revision_id))

    async def delete_summary(self, ref: ChatRef, summary_id: int) -> None:
        """Show what a summary stood for in its place; `restore_summary` takes that back."""
        self._changed(ref, await self.store.delete_summary(ref, summary_id, NEVER_MS))

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None:
        """Leave the messages as they were said instead."""
        self._changed(ref, await self.store.reject_proposal(ref, proposal_id))


def said_within(new: Iterable[NewMessage]) -> Iterator[NewMessage]:
    for said in new:
        if len(said.body) > BODY_CHARS_MAX:
            raise BadInput(f"a message has at most {BODY_CHARS_MAX} characters", field="content")
        yield said


def _saved(kept: Kept) -> list[Any]:
    marks = [dict(kept.marks)] if kept.marks else []
    return [str(kept.id), kept.hash.hex(), *marks]


def _kept(ref: ChatRef, save: Mapping[str, Any]) -> tuple[Kept, ...]:
    """A save that comes from outside, checked."""
    if save.get("chat") != ref.name:
        raise BadInput(f"the save is of the chat {save.get('chat')!r}", field="save")
    try:
        kept = tuple(_parsed(*entry) for entry in save["messages"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput("this is no save of a chat", field="save") from error
    if any(not key(ref.id, 0) < k.id < key(ref.id + 1, 0) for k in kept):
        raise BadInput(f"the save is of another chat that was named {ref.name!r}", field="save")
    return kept


def _parsed(message_id: str, hash_: str, marks: Mapping[str, Any] | None = None) -> Kept:
    marks = dict(marks or {})
    plain = {"hidden_by": marks.pop("hidden_by", None)}
    plain |= {name: bool(marks.pop(name, False)) for name in ("excluded", "pinned")}
    if marks or not isinstance(plain["hidden_by"], str | None):
        raise ValueError("a save has no other marks")
    return Kept(int(message_id), bytes.fromhex(hash_), plain)
