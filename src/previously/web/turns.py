"""What a request means for a chat's memory: read, answered from it, written down.

A request that is understood goes on with its old part replaced by what the memory shows; one that
is not goes on as it came and leaves no mark.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from previously.align import Alignment, align
from previously.errors import BadInput, ChatNotFound, StaleDraft
from previously.model import (
    BIRTH_MASK,
    POS_GAP,
    ChatRef,
    Message,
    NewMessage,
    Prompt,
    State,
    TurnRecord,
    digest,
    key,
)
from previously.service import Glance, Service
from previously.text.wire import parse, tokens_of
from previously.web.outgoing import ROOM, Outgoing, Raw, Room, Turn, own_or_wire

log = logging.getLogger(__name__)

RECORD_TRIES = 8  # turns of one chat that may be recorded while this one waits
HEADS_COUNTED_MAX = 256
REFS_KNOWN_MAX = 1_024
READ_MORE = 2  # messages beyond the client's history that tell a whole chat from a part


@dataclass(frozen=True, slots=True)
class Conversation:
    """A client's messages, split where its own instructions end."""

    head: tuple[NewMessage, ...]
    history: tuple[NewMessage, ...]
    raw_head: list[Raw]
    raw_history: list[Raw]

    @staticmethod
    def read(raw: list[Raw]) -> Conversation:
        """`BadInput` if any of them is of a kind that cannot be kept."""
        said = tuple(parse(one) for one in raw)
        start = next((i for i, one in enumerate(said) if one.role != "system"), len(said))
        return Conversation(said[:start], said[start:], raw[:start], raw[start:])


class Turns:
    """The memory behind the proxy."""

    def __init__(self, service: Service, budget_tokens: int | None) -> None:
        self._service = service
        self._budget_tokens = budget_tokens
        self._heads: OrderedDict[bytes, int] = OrderedDict()
        self._refs: OrderedDict[str, ChatRef] = OrderedDict()

    async def prepare(self, name: str, messages: list[Any], room: Room = ROOM) -> Outgoing:
        """The request as the chat's memory would have it. A chat is made only for a sure one."""
        try:
            if not all(isinstance(m, dict) for m in messages):
                return Outgoing.unchanged("a message is not an object")
            talk = Conversation.read(messages)
            for _ in range(RECORD_TRIES):
                with contextlib.suppress(StaleDraft, ChatNotFound):
                    return await self._prepared(name, talk, room)
                self._refs.pop(name, None)
        except BadInput as error:
            return Outgoing.unchanged(str(error))
        return Outgoing.unchanged("other turns kept being recorded meanwhile")

    async def _prepared(self, name: str, talk: Conversation, room: Room) -> Outgoing:
        seen: Glance | None = None
        stored: tuple[Message, ...] = ()
        ref = await self._find(name)
        if ref is not None:
            budget = room.budget(self._budget_tokens)
            seen = await self._service.glance(ref, budget, len(talk.history) + READ_MORE)
            stored = seen.newest
        found = align(stored, talk.history)
        if found.turn is None:
            self._refs.pop(name, None)  # it may be deleted, and another one have its name
            return Outgoing.unchanged(found.reason)
        if ref is None:
            ref = (await self._service.open_chat(name)).ref
        pending = _pending(ref, stored, talk.history, found)
        head_tokens = sum(self._head_tokens(said) for said in talk.head)
        prompt = await self._prompt(ref, found, head_tokens, pending, room, seen)
        _check_still(prompt, found.turn, pending)
        sizes = {m.id: m.tokens for m in (*stored, *pending)}
        ids = _ids(found, pending)
        own = dict(zip(ids, talk.raw_history, strict=True))
        return Outgoing(
            trace="; ".join([found.kind, f"fold {prompt.trace.fold.version}", *prompt.trace.notes]),
            messages=_forwarded(talk, own, prompt),
            turn=Turn(ref, talk.history, found.turn),
            prompt_tokens=prompt.tokens,
            client_tokens=head_tokens + sum(sizes[i] for i in ids),
            prompt=prompt,
            head=talk.raw_head,
            own=own,
        )

    async def _find(self, name: str) -> ChatRef | None:
        """The chat of that name, if it was made; looked up once, as long as it is there."""
        ref = self._refs.pop(name, None)
        if ref is None:
            try:
                ref = (await self._service.find_chat(name)).ref
            except ChatNotFound:
                return None
        if len(self._refs) >= REFS_KNOWN_MAX:
            self._refs.popitem(last=False)
        self._refs[name] = ref
        return ref

    async def _prompt(
        self,
        ref: ChatRef,
        found: Alignment,
        head_tokens: int,
        pending: Sequence[Message],
        room: Room,
        seen: Glance | None,
    ) -> Prompt:
        assert found.turn is not None
        if found.turn.rerolls is not None:
            return await self._service.prompt_again(
                ref,
                found.turn.rerolls,
                room.budget(self._budget_tokens),
                head_tokens=head_tokens,
                preview=room.trial is not None,
            )
        seen = seen or await self._service.glance(ref, room.budget(self._budget_tokens), 1)
        return await self._service.prompt_of(
            seen, head_tokens=head_tokens, pending=pending, preview=room.trial is not None
        )

    def _head_tokens(self, said: NewMessage) -> int:
        """A client repeats its head with every request: counted once, known by its hash."""
        known = said.hash
        tokens = self._heads.pop(known, None)
        if tokens is None:
            tokens = tokens_of(said)
            if len(self._heads) >= HEADS_COUNTED_MAX:
                self._heads.popitem(last=False)
        self._heads[known] = tokens
        return tokens

    async def record(self, turn: Turn, reply: NewMessage) -> None:
        """Write the turn down; if others came first, read it against what they left."""
        record: TurnRecord | None = turn.record
        store = self._service.store
        for _ in range(RECORD_TRIES):
            if record is None:
                log.info("chat %s: a turn was overtaken and is not kept", turn.ref.id)
                return
            try:
                await store.record_turn(turn.ref, replace(record, reply=reply))
            except StaleDraft:
                stored = await store.newest(turn.ref, len(turn.history) + READ_MORE)
                record = align(stored, turn.history).turn
            else:
                self._service.wake(turn.ref)
                return
        raise StaleDraft("other turns kept being recorded meanwhile")


def _pending(
    ref: ChatRef, stored: Sequence[Message], history: Sequence[NewMessage], found: Alignment
) -> list[Message]:
    new = [said for said, known in zip(history, found.matched, strict=True) if known is None]
    return as_pending(ref, stored, new)


def as_pending(ref: ChatRef, stored: Sequence[Message], new: Sequence[NewMessage]) -> list[Message]:
    """The new messages as the store would have them, under keys that no stored one has."""
    last_pos = stored[-1].pos if stored else 0
    # Their time is that of the last stored one: it tells how long the chat has been quiet.
    last_ms = stored[-1].created_at_ms if stored else 0
    first_n = BIRTH_MASK - len(new)
    return [
        Message(
            id=key(ref.id, first_n + i),
            pos=last_pos + (i + 1) * POS_GAP,
            role=said.role,
            body=said.body,
            hash=digest(str(i)),  # nothing is summarised under it
            tokens=tokens_of(said),
            name=said.name,
            tool_calls=said.tool_calls,
            tool_call_id=said.tool_call_id,
            parts=said.parts,
            extra=said.extra,
            state=State.CANDIDATE,
            created_at_ms=last_ms,
        )
        for i, said in enumerate(new)
    ]


def _ids(found: Alignment, pending: Sequence[Message]) -> list[int]:
    """The key of each message of the client's history."""
    new = iter(pending)
    return [next(new).id if known is None else known for known in found.matched]


def _forwarded(talk: Conversation, own: Mapping[int, Raw], prompt: Prompt) -> list[Raw] | None:
    """The prompt, with the client's own object for every message that it sent; None if equal."""
    shown = [own_or_wire(block, own) for block in prompt.trace.blocks]
    unchanged = len(shown) == len(talk.raw_history) and all(
        mine is theirs for mine, theirs in zip(shown, talk.raw_history, strict=True)
    )
    return None if unchanged else [*talk.raw_head, *shown]


def _check_still(prompt: Prompt, turn: TurnRecord, pending: Sequence[Message]) -> None:
    """`StaleDraft` if the prompt shows a message that was recorded after the alignment."""
    seen = turn.after_id or 0
    ours = {m.id for m in pending}
    for block in prompt.trace.blocks:
        for item in block.sources:
            if not item.is_summary and item.id > seen and item.id not in ours:
                raise StaleDraft("another turn was recorded meanwhile")
