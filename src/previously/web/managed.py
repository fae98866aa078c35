"""Managed chats: the client sends only what is new, the memory supplies the rest.

Nothing has to be aligned: what is sent is said. A request without new messages asks the last turn
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from previously.errors import BadInput, StaleDraft
from previously.model import ChatRef, Message, NewMessage, Prompt, State, TurnRecord
from previously.service import Service
from previously.text.wire import tokens_of
from previously.web.layout import Layout
from previously.web.outgoing import ROOM, Outgoing, Room, Turn
from previously.web.turns import RECORD_TRIES, Conversation, as_pending

LOOKED_AT = 64  # newest messages among which unconfirmed ones may stand


class Managed:
    """The other way to call."""

    def __init__(self, service: Service, budget_tokens: int | None) -> None:
        self._service = service
        self._budget_tokens = budget_tokens

    async def prepare(self, name: str, messages: list[Any], room: Room = ROOM) -> Outgoing:
        """The chat's prompt with the new messages at its end."""
        try:
            if not all(isinstance(m, dict) for m in messages):
                return Outgoing.unchanged("a message is not an object")
            return await self._prepared(name, Conversation.read(messages), room)
        except BadInput as error:
            return Outgoing.unchanged(str(error))

    async def _prepared(self, name: str, talk: Conversation, room: Room) -> Outgoing:
        ref = (await self._service.open_chat(name)).ref
        stored = await self._service.store.newest(ref, LOOKED_AT)
        record = _record(stored, talk.history)
        pending = as_pending(ref, stored, talk.history)
        head_tokens = sum(map(tokens_of, talk.head))
        prompt = await self._prompt(ref, record, head_tokens, pending, room)
        own = {m.id: raw for m, raw in zip(pending, talk.raw_history, strict=True)}
        kind = "append" if record.rerolls is None else "reroll"
        made = Outgoing(
            trace="; ".join(
                [f"managed {kind}", f"fold {prompt.trace.fold.version}", *prompt.trace.notes]
            ),
            turn=Turn(ref, talk.history, record, managed=True),
            prompt_tokens=prompt.tokens,
            client_tokens=head_tokens + sum(m.tokens for m in pending),
            prompt=prompt,
            layout=Layout(head=talk.raw_head, own=own),
        )
        return replace(made, messages=made.rendered(prompt.trace.blocks))

    async def _prompt(
        self,
        ref: ChatRef,
        record: TurnRecord,
        head_tokens: int,
        pending: Sequence[Message],
        room: Room,
    ) -> Prompt:
        budget = room.budget(self._budget_tokens)
        trial = room.trial is not None
        if record.rerolls is not None:
            return await self._service.prompt_again(
                ref,
                record.rerolls,
                budget,
                head_tokens=head_tokens,
                preview=trial,
            )
        return await self._service.prompt(
            ref,
            budget,
            head_tokens=head_tokens,
            pending=pending,
            preview=trial,
        )

    async def record(self, turn: Turn, replies: Sequence[NewMessage]) -> None:
        """Write the turn down behind whatever was said meanwhile."""
        record = turn.record
        for _ in range(RECORD_TRIES):
            try:
                await self._service.store.record_turn(turn.ref, record.answered(replies))
            except StaleDraft:
                stored = await self._service.store.newest(turn.ref, LOOKED_AT)
                record = _record(stored, turn.history)
            else:
                self._service.wake(turn.ref)
                return
        raise StaleDraft("other turns kept being recorded meanwhile")


def _record(stored: Sequence[Message], new: Sequence[NewMessage]) -> TurnRecord:
    last = stored[-1] if stored else None
    if not new and last is None:
        raise BadInput("there is nothing to answer: the chat is empty", field="messages")
    again = not new and last is not None and last.role == "assistant" and not last.tool_calls
    # Whoever goes on from a reply has kept it.
    confirms = () if again else tuple((m.id, None) for m in stored if m.state == State.CANDIDATE)
    return TurnRecord(
        after_id=last.id if last else None,
        after_hash=last.hash if last else None,
        confirms=confirms,
        appends=tuple(replace(said, state=State.CONFIRMED) for said in new),
        reply=None,
        rerolls=last.id if again and last is not None else None,
    )
