"""What was sent last: noted at once, written down in batches beside the turns.

It is for people who ask what their model has read, and it finds the chat of a request that names
none. A crash costs the last second of it, and older words find the chat as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from previously.errors import PreviouslyError
from previously.model import BIRTH_MASK, ChatRef, NewMessage, Sent, birth
from previously.service import OWNER, Service
from previously.web.outgoing import Outgoing

log = logging.getLogger(__name__)

WRITE_EVERY_S = 1.0
NOTED_MAX = 4_096  # chats; the oldest of them are forgotten if the database is away
UNBORN = BIRTH_MASK - 65_536  # from here on messages had no number of their own yet
KEYS_LOOKED_AT = 3  # the newest words of the user in a request


@dataclass(frozen=True, slots=True)
class _Note:
    ref: ChatRef
    key: str
    outgoing: Outgoing
    model: str
    at_ms: int


def keys_of(history: Sequence[NewMessage]) -> list[str]:
    """What a chat may be known by, from the newest words on."""
    said = [m for m in reversed(history) if m.role == "user"][:KEYS_LOOKED_AT]
    return [m.hash.hex() for m in said]


class Sending:
    """One per application; closed with it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._notes: OrderedDict[int, _Note] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None

    def note(self, outgoing: Outgoing, model: str) -> None:
        """This went upstream and was answered."""
        turn = outgoing.turn
        if turn is None or self._service.store.read_only:
            return
        key = next(iter(keys_of(turn.history)), "")
        self._notes[turn.ref.id] = _Note(turn.ref, key, outgoing, model, self._service.now_ms())
        self._notes.move_to_end(turn.ref.id)
        if len(self._notes) > NOTED_MAX:
            self._notes.popitem(last=False)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    async def chats(self, keys: Sequence[str]) -> list[ChatRef]:
        """The chats whose newest turn may have been asked with one of these."""
        fresh = [note.ref for note in self._notes.values() if note.key in keys]
        stored = await self._service.store.chats_by_tail(OWNER, keys) if keys else []
        return list(dict.fromkeys([*fresh, *stored]))

    async def _write_soon(self) -> None:
        await asyncio.sleep(WRITE_EVERY_S)
        await self.write()

    async def write(self) -> None:
        """Write down what was noted; what cannot be written now is tried with the next."""
        notes, self._notes = self._notes, OrderedDict()
        try:
            await self._service.store.keep_sent([_sent(note) for note in notes.values()])
        except PreviouslyError as error:
            log.warning("what was sent last is not written down yet: %s", error)
            self._notes = OrderedDict({**notes, **self._notes})

    async def close(self) -> None:
        """Write down the rest."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._notes:
            await self.write()


def _sent(note: _Note) -> Sent:
    prompt = note.outgoing.prompt
    facts = {
        "model": note.model,
        "tokens": note.outgoing.prompt_tokens,
        "client_tokens": note.outgoing.client_tokens,
        "budget_tokens": prompt.trace.budget_tokens if prompt else None,
        "fold": prompt.trace.fold.version if prompt else None,
        "trace": note.outgoing.trace,
        "head": len(note.outgoing.head),
        "blocks": [
            [b.place, b.tokens, " ".join(str(i) for i in b.sources if birth(i.id) < UNBORN)]
            for b in (prompt.trace.blocks if prompt else ())
        ],
    }
    return Sent(note.ref.id, note.key, json.dumps(facts, ensure_ascii=False), note.at_ms)
