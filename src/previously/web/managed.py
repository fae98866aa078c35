"""Managed chats: the client sends only what is new, the memory supplies the rest.

Nothing has to be aligned: what is sent is said. A request without new messages asks the last turn
again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from previously.errors import BadInput, StaleDraft
from previously.model import ChatRef, Message, NewMessage, Prompt, State, TurnRecord
from previously.service import Service
from previously.text.items import messages_of
from previously.text.wire import tokens_of
from previously.web.branches import Branch, branch_to, link_of
from previously.web.layout import Layout
from previously.web.outgoing import ROOM, Outgoing, Room, Turn
from previously.web.turns import RECORD_TRIES, Conversation, as_pending, check_still

LOOKED_AT = 64  # newest messages among which unconfirmed ones may stand
LOOK_FURTHER = 8  # times as many, where a response is older

GONE = "the response is no longer there"


class Managed:
    """The other way to call."""

    def __init__(self, service: Service, budget_tokens: int | None) -> None:
        self._service = service
        self._budget_tokens = budget_tokens
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def prepare(
        self, name: str, messages: list[Any], room: Room = ROOM, after: str | None = None
    ) -> Outgoing:
        """The chat's prompt with the new messages at its end; `after` is the response to go on
        from, where that is asked for."""
        try:
            if not all(isinstance(m, dict) for m in messages):
                return Outgoing.unchanged("a message is not an object")
            ref = (await self._service.open_chat(name)).ref
            if after is None:
                stored = await self._service.store.newest(ref, LOOKED_AT)
                return await self._prepared(ref, Conversation.read(messages), room, stored)
            async with self._one_branch(ref):
                for _ in range(RECORD_TRIES):
                    with contextlib.suppress(StaleDraft):
                        return await self._continued(ref, messages, room, after)
        except BadInput as error:
            return Outgoing.unchanged(str(error))
        return Outgoing.unchanged("other turns kept being recorded meanwhile")

    def _one_branch(self, ref: ChatRef) -> asyncio.Lock:
        """Only one branch of a chat can be shown at a time. Other processes are met by trying
        again; the many that one program may ask for at once wait for each other."""
        lock = self._locks.get(ref.id) or asyncio.Lock()
        self._locks[ref.id] = lock
        return lock

    async def branch(
        self, ref: ChatRef, response_id: str
    ) -> tuple[tuple[Message, ...], Branch | None]:
        """A chat's newest messages, back to where the way to a response begins; None if the chat
        has no such response."""
        limit = LOOKED_AT
        while True:
            stored = await self._service.store.newest(ref, limit)
            complete = len(stored) < limit
            found = branch_to(stored, response_id, complete=complete)
            if found is not None or complete:
                return stored, found
            limit *= LOOK_FURTHER

    async def _continued(
        self, ref: ChatRef, messages: list[Any], room: Room, after: str
    ) -> Outgoing:
        """On the branch that ends with a response: it is shown, then the prompt is made of it."""
        stored, branch = await self.branch(ref, after)
        if branch is not None and (branch.shows or branch.hides):
            await self._service.store.record_turn(ref, _record(stored, (), branch).mending())
            self._service.wake(ref)
            stored, branch = await self.branch(ref, after)
        if branch is None:
            return Outgoing.unchanged(GONE)
        link = link_of(branch.reply.extra)
        known = {name: link[name] for name in ("known", "head_of") if name in link}
        if "head" in link:
            known["head_of"] = branch.reply.id
        head = await self._head(ref, known.get("head_of"))
        talk = Conversation.going_on(messages, head)
        made = await self._prepared(ref, talk, room, stored, branch)
        assert made.turn is not None
        return replace(made, turn=replace(made.turn, link={"after": after, **known}))

    async def _head(self, ref: ChatRef, message_id: object) -> list[Any]:
        """The instructions that stood in front of the first response's input."""
        if not isinstance(message_id, int):
            return []
        found = await self._service.store.messages_by_id(ref, [message_id])
        return [one for m in found for one in messages_of(link_of(m.extra).get("head", []))]

    async def _prepared(
        self,
        ref: ChatRef,
        talk: Conversation,
        room: Room,
        stored: Sequence[Message],
        branch: Branch | None = None,
    ) -> Outgoing:
        record = _record(stored, talk.history, branch)
        pending = as_pending(ref, stored, talk.history)
        head_tokens = sum(map(tokens_of, talk.head))
        prompt = await self._prompt(ref, record, head_tokens, pending, room)
        if branch is not None:
            check_still(prompt, [m for m in stored if m.shown][-1:], pending)
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
        if not turn.link:
            await self._recorded(turn, replies)
            return
        async with self._one_branch(turn.ref):
            await self._recorded(turn, replies)

    async def _recorded(self, turn: Turn, replies: Sequence[NewMessage]) -> None:
        record = turn.record
        for _ in range(RECORD_TRIES):
            try:
                await self._service.store.record_turn(turn.ref, record.answered(replies))
            except StaleDraft:
                record = await self._again(turn)
            else:
                self._service.wake(turn.ref)
                return
        raise StaleDraft("other turns kept being recorded meanwhile")

    async def _again(self, turn: Turn) -> TurnRecord:
        """The turn behind what was said since, on its own branch where it is on one."""
        after = turn.link.get("after")
        if after is None:
            stored = await self._service.store.newest(turn.ref, LOOKED_AT)
            return _record(stored, turn.history)
        stored, branch = await self.branch(turn.ref, after)
        if branch is None:
            raise StaleDraft(GONE)
        return _record(stored, turn.history, branch)


def _record(
    stored: Sequence[Message], new: Sequence[NewMessage], branch: Branch | None = None
) -> TurnRecord:
    last = stored[-1] if stored else None
    if not new and last is None:
        raise BadInput("there is nothing to answer: the chat is empty", field="messages")
    said = next((m for m in reversed(stored) if m.shown), None)
    again = not new and said is not None and said.role == "assistant" and not said.tool_calls
    again = again and branch is None
    gone = set(branch.hides) if branch else set[int]()
    shows = branch.shows if branch else ()
    # Whoever goes on from a reply has kept it.
    doubtful = (m for m in stored if m.state == State.CANDIDATE and m.id not in gone)
    kept = [m.id for m in doubtful if m.shown or m.id in shows]
    confirms = () if again else tuple((i, None) for i in kept)
    return TurnRecord(
        after_id=last.id if last else None,
        after_hash=last.hash if last else None,
        confirms=confirms,
        appends=tuple(replace(said, state=State.CONFIRMED) for said in new),
        reply=None,
        rerolls=said.id if again and said is not None else None,
        hides=branch.hides if branch else (),
        shows=shows,
    )
