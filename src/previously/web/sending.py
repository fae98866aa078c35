"""What was sent: noted at once, written down in batches beside the turns.

It is for people who ask what their model has read, and it finds the chat of a request that names
none. A crash costs the last second of it, and older words find the chat as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from previously.align import Habit, normal
from previously.errors import PreviouslyError
from previously.model import (
    BIRTH_MASK,
    ChatRef,
    Doubted,
    NewMessage,
    Passed,
    Prompt,
    Sent,
    Weight,
    birth,
)
from previously.service import OWNER, Service
from previously.text.wire import text_of
from previously.web.outgoing import Outgoing

log = logging.getLogger(__name__)

WRITE_EVERY_S = 1.0
NOTED_MAX = 4_096  # turns; the oldest of them are forgotten if the database is away
HEAD = "head"  # among the places of a prompt: the client's own text around it
OWN = "+"  # before a piece that is the client's own
UNBORN = BIRTH_MASK - 65_536  # from here on messages had no number of their own yet
KEYS_LOOKED_AT = 6  # the newest words of the user in a request; some may be in doubt
PARTS_LOOKED_AT = 12  # paragraphs of them


class Note:
    """What went upstream in one turn: all of it at first, then only what is written down."""

    def __init__(self, outgoing: Outgoing, model: str) -> None:
        assert outgoing.turn is not None
        self.ref = outgoing.turn.ref
        self.habit = outgoing.turn.habit
        self.keys = _asked(outgoing.turn.history, outgoing.turn.record.appends)
        self.key = next(iter(self.keys), "")
        self.at_ms = 0
        self._model = model
        self._outgoing: Outgoing | None = outgoing
        self._facts = ""
        self._weight: Weight | None = None

    def slim(self) -> None:
        """Let go of the prompt: a reply may take minutes, and there may be hundreds of them."""
        if self._outgoing is not None:
            self._facts, self._weight = _told_of(self._outgoing, self._model)
            self._outgoing = None

    def sent(self) -> Sent:
        """As it is written down."""
        self.slim()
        return Sent(self.ref.id, self.key, self._facts, self.at_ms, self._weight)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What is known of a client since its newest turn, and not written down yet."""

    ref: ChatRef
    habit: Habit
    passed: Passed | None = None

    def before(self, later: _Doubt) -> _Doubt:
        """Both of them, of which this one is the older."""
        later = later if later.habit.in_touch else replace(later, habit=self.habit)
        if self.passed is None or later.passed is None:
            return replace(later, passed=later.passed or self.passed)
        requests = self.passed.requests + later.passed.requests
        return replace(later, passed=replace(later.passed, requests=requests))

    def is_since(self, note: Note) -> bool:
        """Whether this was seen after a turn of the same chat: an earlier doubt ended with it. A
        request that has nothing to do with the chat is not counted among its own."""
        mine, its = self.habit.requests, note.habit.requests
        beside = self.passed is not None and self.passed.at_ms >= note.at_ms
        return mine > its or (mine == its and beside)

    def told(self) -> Doubted:
        """As it is written down. A request that has nothing to do with the chat tells nothing of
        its client, and another process may know more of that one."""
        return Doubted(self.habit.written() if self.habit.in_touch else None, self.passed)


def _keys_of(history: Sequence[NewMessage]) -> list[str]:
    """What a chat may be known by, from the newest words on."""
    return [m.hash.hex() for m in _questions(history)]


def _parts_of(history: Sequence[NewMessage]) -> list[str]:
    """The same by paragraphs: what a client joins to its words differs from request to request."""
    marks = (mark for m in _questions(history) for mark in normal.marks(m.body))
    return [mark.hex() for mark in islice(marks, PARTS_LOOKED_AT)]


def _questions(said: Sequence[NewMessage]) -> list[NewMessage]:
    return [one for one in reversed(said) if one.role == "user"][:KEYS_LOOKED_AT]


def _asked(history: Sequence[NewMessage], appends: Sequence[NewMessage]) -> list[str]:
    """The keys of the questions in a turn, the last one first: as the client will show them again,
    not with what it has joined to them or put behind them this time, as far as that is known."""
    questions = _questions(appends)
    if not questions:
        return _keys_of(history)[:1]
    said = [one for one in reversed(history) if one.role == "user"]
    whole = [_as_shown(said, one).hash.hex() for one in questions]
    joined = any(normal.PARAGRAPH in one.body for one in questions)
    return [*whole, *_parts_of(questions)] if joined else whole


def _as_shown(said: Sequence[NewMessage], question: NewMessage) -> NewMessage:
    words = normal.bare(question.body)
    return next((one for one in said if normal.bare(one.body) == words), question)


class Sending:
    """One per application; closed with it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._notes: OrderedDict[int, Note] = OrderedDict()  # the newest of each chat
        self._leaving: Mapping[int, Note] = {}  # those that are being written down
        self._asked: OrderedDict[str, ChatRef] = OrderedDict()  # the last that were asked with each
        self._turns: deque[Note] = deque(maxlen=NOTED_MAX)
        self._doubts: OrderedDict[int, _Doubt] = OrderedDict()  # of each chat
        self._writing: asyncio.Task[None] | None = None

    def note(self, note: Note) -> None:
        """This went upstream and was answered."""
        if self._service.store.read_only:
            return
        note.at_ms = self._service.now_ms()
        if note.ref.id in self._doubts and not self._doubts[note.ref.id].is_since(note):
            del self._doubts[note.ref.id]
        self._turns.append(note)
        for key in note.keys:
            self._asked[key] = note.ref
            self._asked.move_to_end(key)
        while len(self._asked) > NOTED_MAX:
            self._asked.popitem(last=False)
        self._notes[note.ref.id] = note
        self._notes.move_to_end(note.ref.id)
        if len(self._notes) > NOTED_MAX:
            self._notes.popitem(last=False)
        self._write_later()

    def doubt(self, ref: ChatRef, habit: Habit, why: str) -> None:
        """A request was not understood; this is what its client is known by since. `why`, once it
        was answered."""
        if self._service.store.read_only:
            return
        passed = Passed(1, why, self._service.now_ms()) if why else None
        self._keep_doubt(_Doubt(ref, habit, passed))
        if len(self._doubts) > NOTED_MAX:
            self._doubts.popitem(last=False)
        self._write_later()

    def is_behind(self, ref: ChatRef) -> bool:
        """Whether this process knows more of a chat's client than is written down."""
        return any(ref.id in some for some in (self._notes, self._leaving, self._doubts))

    def _keep_doubt(self, doubt: _Doubt) -> None:
        before = self._doubts.pop(doubt.ref.id, None)
        self._doubts[doubt.ref.id] = doubt if before is None else before.before(doubt)

    def _write_later(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    async def chats(self, history: Sequence[NewMessage]) -> list[ChatRef]:
        """The chats whose newest turn may have been asked with one of these questions; or an
        earlier one, if this process remembers it: somebody may have put his last one otherwise."""
        keys = _keys_of(history)
        noted = (*self._notes.values(), *self._leaving.values())
        fresh = [note.ref for note in noted if note.key in keys]
        told = (*keys, *_parts_of(history))
        fresh += [self._asked[key] for key in told if key in self._asked]
        stored = await self._service.store.chats_by_tail(OWNER, keys) if keys else []
        return list(dict.fromkeys([*fresh, *stored]))

    async def _write_soon(self) -> None:
        await asyncio.sleep(WRITE_EVERY_S)
        await self.write()

    async def write(self) -> None:
        """Write down what was noted; what cannot be written now is tried with the next."""
        notes, self._notes = self._notes, OrderedDict()
        self._leaving = notes
        turns, doubts = list(self._turns), self._doubts
        self._turns.clear()
        self._doubts = OrderedDict()
        doubts = _newer(doubts, notes)
        told = {chat_id: doubt.told() for chat_id, doubt in doubts.items()}
        try:
            await self._service.store.keep_sent([note.sent() for note in turns], told)
        except PreviouslyError as error:
            log.warning("what was sent last is not written down yet: %s", error)
            self._put_back(notes, turns, doubts)
            return
        finally:
            self._leaving = {}
        for ref in dict.fromkeys(one.ref for one in (*notes.values(), *doubts.values())):
            self._service.changed(ref)  # charts have one point more, or something went on as it was

    def _put_back(
        self, notes: Mapping[int, Note], turns: list[Note], doubts: Mapping[int, _Doubt]
    ) -> None:
        """What could not be written down, before what has come since."""
        self._notes = OrderedDict({**notes, **self._notes})
        self._turns.extendleft(reversed(turns[: NOTED_MAX - len(self._turns)]))
        since, self._doubts = self._doubts, OrderedDict(doubts)
        for doubt in since.values():
            self._keep_doubt(doubt)

    async def close(self) -> None:
        """Write down the rest."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._notes or self._doubts:
            await self.write()


def _newer(doubts: Mapping[int, _Doubt], notes: Mapping[int, Note]) -> dict[int, _Doubt]:
    """What was seen after the turns that are noted of the same chats."""
    return {n: one for n, one in doubts.items() if n not in notes or one.is_since(notes[n])}


def habit_in(sent: Sent | None) -> Mapping[str, Any]:
    """What the client's requests had shown of it, up to the turn that this tells of."""
    return json.loads(sent.facts).get("habit", {}) if sent else {}


def _told_of(outgoing: Outgoing, model: str) -> tuple[str, Weight | None]:
    assert outgoing.turn is not None
    prompt = outgoing.prompt
    weight = None if prompt is None else _weight(outgoing, prompt)
    facts = {
        "model": model,
        "tokens": outgoing.prompt_tokens,
        "client_tokens": outgoing.client_tokens,
        "budget_tokens": prompt.trace.budget_tokens if prompt else None,
        "fold": prompt.trace.fold.version if prompt else None,
        "trace": outgoing.trace,
        "head": len(outgoing.head),
        "blocks": [
            [b.place, b.tokens, " ".join(str(i) for i in b.sources if birth(i.id) < UNBORN)]
            for b in (prompt.trace.blocks if prompt else ())
        ],
        "habit": outgoing.turn.habit.written(),
        "pieces": [known for known, _ in weight.pieces] if weight else [],
    }
    return json.dumps(facts, ensure_ascii=False), weight


def _weight(outgoing: Outgoing, prompt: Prompt) -> Weight:
    layers: Counter[str] = Counter()
    for block in prompt.trace.blocks:
        layers[block.place] += block.tokens
    around = max(0, prompt.tokens - sum(layers.values()))
    return Weight(
        tokens=prompt.tokens,
        client_tokens=outgoing.client_tokens or 0,
        budget_tokens=prompt.trace.budget_tokens,
        layers={HEAD: around, **layers} if around else layers,
        pieces=tuple(_pieces(outgoing, prompt, around)),
    )


def _pieces(outgoing: Outgoing, prompt: Prompt, around: int) -> Iterator[tuple[str, int]]:
    """Each message as it went out; the client's own text is weighed by its length."""
    blocks = prompt.trace.blocks
    laid = [(number, _told(raw)) for number, raw in outgoing.layout.laid(blocks)]
    chars = sum(len(told) for number, told in laid if number is None) or 1
    for number, told in laid:
        if number is None:
            yield f"{OWN}{_digest(told)}", around * len(told) // chars
        else:
            yield _digest(told), blocks[number].tokens


def piece(raw: Mapping[str, Any]) -> str:
    """What tells a message from others: who says what, without a client's own additions."""
    return _digest(_told(raw))


def _told(raw: Mapping[str, Any]) -> str:
    said = f"{raw.get('role')}\0{text_of(raw.get('content'))}"
    calls = raw.get("tool_calls")
    return f"{said}\0{json.dumps(calls, sort_keys=True)}" if calls else said


def _digest(told: str) -> str:
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
