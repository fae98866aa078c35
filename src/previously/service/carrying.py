"""A new chat from an old one's memory: no messages, only what the old one has come to.

What is handed on is copied once. It has no summary of its own to come and covers nothing, so a
client that begins the new chat with its first words is read as in any other new chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from previously.lanes.registry import LANES
from previously.llm.extractive import extract
from previously.measure import count_tokens
from previously.model import (
    PINNED,
    REST,
    Carried,
    Chat,
    ChatRef,
    Line,
    Message,
    NewCarried,
    Snapshot,
    Summary,
)
from previously.service.chats import check_name
from previously.service.desk import AS_SAID, Desk
from previously.settings import COVERS_LOADED_MAX, TAIL_SHARE, Settings
from previously.text.language import language_of
from previously.text.lines import lines_of, transcript
from previously.text.turns import turns

CARRIED_MAX = 400  # pieces; the oldest are left behind


class Carrying(Desk):
    """Memory that outlives its chat."""

    async def continue_chat(self, ref: ChatRef, name: str) -> Chat:
        """A new, empty chat that knows what this one has come to, set up alike."""
        check_name(name)
        chat = await self.store.find_chat(ref.owner, ref.name)
        snapshot = await self.store.load(ref, AS_SAID, wide=True, covers_max=COVERS_LOADED_MAX)
        noted = LANES[snapshot.lane].carry(snapshot)
        rest = await self._rest(snapshot)
        hand = _Hand(chat, snapshot.lane, await self.store.presences(ref))
        handed_on = await asyncio.to_thread(
            hand.filled, snapshot, await self.store.carried(ref), noted, rest
        )
        made = await self.store.continue_chat(ref, name, handed_on)
        self.wake(made)
        return await self.store.find_chat(made.owner, made.name)

    async def _rest(self, snapshot: Snapshot) -> list[Message]:
        """What no summary stands for yet, and a prompt would show: mostly the newest turns."""
        assert snapshot.backlog is not None
        covering = await self.store.covering(
            snapshot.ref, snapshot.lane, [m.id for m in snapshot.tail]
        )
        open_ = {m.id: m for run in snapshot.backlog.uncovered.runs for m in run}
        open_ |= {m.id: m for m in snapshot.tail if not covering.get(m.id)}
        may = (m for m in open_.values() if m.shown and not m.excluded and not m.pinned)
        return sorted(may, key=lambda m: m.pos)

    async def forget_carried(self, ref: ChatRef, carried_id: int) -> None:
        """Take out one piece of what this chat was handed, for good."""
        await self.store.remove_carried(ref, carried_id)
        self.wake(ref)


class _Hand:
    """What is handed on, piece by piece, each with those who were there for it."""

    def __init__(self, chat: Chat, lane: str, presences: Mapping[int, frozenset[str]]) -> None:
        self._chat = chat
        self._lane = lane
        self._presences = presences

    def filled(
        self,
        snapshot: Snapshot,
        before: Sequence[Carried],
        noted: Sequence[Summary],
        rest: Sequence[Message],
    ) -> list[NewCarried]:
        """What the chat was handed itself, its pinned words, its covers, and an extract of the
        turns that have none yet."""
        assert snapshot.backlog is not None
        pieces = [
            *(self._again(one) for one in before),
            *(self._pinned(m) for m in snapshot.backlog.standing),
            *(self._noted(s) for s in noted),
            *self._extracts(rest, snapshot.settings),
        ]
        return pieces[-CARRIED_MAX:]

    def _again(self, one: Carried) -> NewCarried:
        return NewCarried(
            text=one.text,
            tokens=one.tokens,
            lane=one.lane,
            kind=one.kind,
            is_extract=one.is_extract,
            present=self._present(one.presence),
            from_chat=one.from_chat,
            from_title=one.from_title,
            from_record=one.from_record,
        )

    def _noted(self, summary: Summary) -> NewCarried:
        return self._piece(summary.text, summary, kind=summary.kind, extract_=summary.is_extract)

    def _pinned(self, message: Message) -> NewCarried:
        return self._piece(transcript(_lines([message])), message, kind=PINNED)

    def _extracts(self, rest: Sequence[Message], settings: Settings) -> Iterator[NewCarried]:
        """The newest turns, as many as a tail has room for; each in its own most telling words."""
        closed, last = turns(rest)
        left = int(settings.budget_tokens * TAIL_SHARE)
        made: list[NewCarried] = []
        for turn in reversed([*closed, last] if last else closed):
            lines = [(line.speaker, line.text) for line in _lines(turn)]
            text = extract(lines, min(settings.mini_tokens, left))
            left -= count_tokens(text)
            if not text or left < 0:
                break
            made.append(self._piece(text, turn[0], kind=REST, extract_=True))
        yield from reversed(made)

    def _piece(
        self, text: str, source: Message | Summary, *, kind: str, extract_: bool = False
    ) -> NewCarried:
        return NewCarried(
            text=text,
            tokens=count_tokens(text),
            lane=self._lane,
            kind=kind,
            is_extract=extract_,
            present=self._present(source.presence),
            from_chat=self._chat.ref.id,
            from_title=self._chat.title,
            from_record=None if kind == REST else source.id,
        )

    def _present(self, presence: int | None) -> frozenset[str] | None:
        return None if presence is None else self._presences.get(presence, frozenset())


def _lines(messages: Sequence[Message]) -> tuple[Line, ...]:
    """As they read in the language that they were said in."""
    return lines_of(messages, language_of("\n".join(m.body for m in messages)))
