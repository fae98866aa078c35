"""What a request means for a chat's memory: read, answered from it, written down.

A request that is understood goes on with its old part replaced by what the memory shows; one that
is not goes on as it came and leaves no mark.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from previously.align import (
    MENDINGS_MAX,
    NOTHING_KNOWN,
    NOTHING_TOLD,
    Alignment,
    Habit,
    Hints,
    Place,
    align,
    lasting,
    normal,
    rejoin,
)
from previously.align import READ_MORE as READ_MORE
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
from previously.text.items import Told
from previously.text.wire import as_stored, parse, tokens_of
from previously.web.layout import laid_out
from previously.web.outgoing import ROOM, Outgoing, Raw, Room, Turn
from previously.web.sending import habit_in
from previously.web.unread import Request, Unread

log = logging.getLogger(__name__)

RECORD_TRIES = 8  # turns of one chat that may be recorded while this one waits
HEADS_COUNTED_MAX = 256
REFS_KNOWN_MAX = 1_024
HABITS_KNOWN_MAX = 1_024
LOOK_FURTHER = 4  # times as many messages, where the newest ones make no reading certain


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

    @staticmethod
    def going_on(raw: list[Raw], head: list[Raw]) -> Conversation:
        """New messages behind a response, whose input had this in front; all that is said in them
        is history, but the request's word on itself is not."""
        own = sum(isinstance(one, Told) and not one.origin for one in raw[:1])
        raw_head = [*raw[:own], *head]
        said, new = tuple(map(parse, raw_head)), tuple(map(parse, raw[own:]))
        return Conversation(said, new, raw_head, raw[own:])


class Turns:
    """The memory behind the proxy."""

    def __init__(
        self,
        service: Service,
        budget_tokens: int | None,
        doubted: Callable[[ChatRef, Habit, str], None],
        unwritten: Callable[[ChatRef], bool] = lambda _: False,
    ) -> None:
        self._service = service
        self._doubted = doubted  # told what a request has shown that was not understood
        self._unwritten = unwritten  # whether what is known of a client is yet to be written down
        self._budget_tokens = budget_tokens
        self._heads: OrderedDict[bytes, int] = OrderedDict()
        self._refs: OrderedDict[str, ChatRef] = OrderedDict()
        self._habits: OrderedDict[str, Habit] = OrderedDict()
        self.unread = Unread()
        self._asked = itertools.count(1)
        self._newest: OrderedDict[int, int] = OrderedDict()  # the last asked turn that is recorded

    async def prepare(
        self, name: str, messages: list[Any], room: Room = ROOM, hints: Hints = NOTHING_TOLD
    ) -> Outgoing:
        """The request as the chat's memory would have it. A chat is made only for a sure one."""
        try:
            if not all(isinstance(m, dict) for m in messages):
                return Outgoing.unchanged("a message is not an object")
            request = Request(name, messages, tuple(map(parse, messages)), hints)
            for _ in range(RECORD_TRIES):
                with contextlib.suppress(StaleDraft, ChatNotFound):
                    return await self._prepared(request, room)
                self._refs.pop(name, None)
        except BadInput as error:
            return Outgoing.unchanged(str(error))
        return Outgoing.unchanged("other turns kept being recorded meanwhile")

    async def _prepared(self, request: Request, room: Room) -> Outgoing:
        request, ref, seen, found, note = await self._understood(request, room)
        if found.turn is None:
            recorded = seen is None or seen.snapshot.recording
            doubt = found.reason if found.kind == "unsure" and recorded else ""
            return replace(Outgoing.unchanged(note + found.reason), doubt=doubt)
        if ref is None:
            ref = (await self._service.open_chat(request.name)).ref
        return await self._outgoing(ref, request, found, seen, room, note)

    async def _understood(
        self, request: Request, room: Room
    ) -> tuple[Request, ChatRef | None, Glance | None, Alignment, str]:
        """What a request means, after what it shows to have changed was written down."""
        ref = await self._find(request.name)
        if ref is not None:
            await self._look_up(ref)
        request, seen, found = await self._read_whole(ref, request, room)
        note = ""
        if ref is not None and seen is not None:
            found = self._rejoined(seen, request, found)
            seen, found, note = await self._mended(ref, request, room, (seen, found))
        self._note(request.name, found.habit)
        if found.turn is None:
            if found.kind == "unsure":
                self.unread.keep(request)
                if ref is not None:
                    self._doubted(ref, found.habit, "")
            self._refs.pop(request.name, None)  # it may be deleted, and another one have its name
        return request, ref, seen, found, note

    async def _mended(
        self, ref: ChatRef, request: Request, room: Room, first: tuple[Glance, Alignment]
    ) -> tuple[Glance, Alignment, str]:
        """What a request means once the chat is what it shows, and a note on what has changed."""
        seen, found = first
        note = ""
        for _ in range(MENDINGS_MAX + 1):
            if found.turn is not None and found.turn.mends and not note:
                found = self._lasting(seen, request, found)
            if found.turn is None or not found.turn.mends:
                break
            # The client's word on the past goes before the prompt that is made of it.
            await self._service.store.record_turn(ref, found.turn.mending())
            self._service.wake(ref)
            note += f"{_mended(found.turn)}: "
            seen, found = await self._read_again(ref, request, room)
        return seen, found, note

    async def _read_whole(
        self, ref: ChatRef | None, request: Request, room: Room
    ) -> tuple[Request, Glance | None, Alignment]:
        """The reading; of what is not sure by itself, together with what was not sure before it. So
        with what begins a chat: a short window may have moved on since the first request."""
        seen, found = await self._first_read(ref, request, room)
        whole = self.unread.restored(request, seen.newest if seen is not None else ())
        if whole is not request:
            request = whole
            seen, found = await self._first_read(ref, request, room)
        if found.kind not in ("first", "unsure"):
            return request, seen, found
        known = seen.newest if seen is not None else ()
        wide = self.unread.widened(request, {m.hash for m in known})
        if wide is request:
            return request, seen, found
        also, read = await self._first_read(ref, wide, room)
        better = read.sure or not found.sure
        return (wide, also, read) if better else (request, seen, found)

    async def explained(self, ref: ChatRef, request: Request) -> Alignment:
        """What a request would mean to a server that has just been started; changes nothing."""
        await self.habit(ref)
        seen, found = await self._read_again(ref, request, ROOM)
        return self._lasting(seen, request, found) if found.turn and found.turn.mends else found

    async def _read_again(
        self, ref: ChatRef, request: Request, room: Room
    ) -> tuple[Glance, Alignment]:
        """The reading of a request that is whole already."""
        seen, found = await self._read(ref, request, room)
        return seen, self._rejoined(seen, request, found)

    def _rejoined(self, seen: Glance, request: Request, found: Alignment) -> Alignment:
        """The reading, or after a doubt that has lasted what the client has said since it began."""
        if found.kind != "unsure":
            return found
        habit = self._habits.get(request.name, NOTHING_KNOWN)
        return rejoin(found, seen.newest, request.said, request.hints, habit)

    async def _first_read(
        self, ref: ChatRef | None, request: Request, room: Room
    ) -> tuple[Glance | None, Alignment]:
        """The reading; over nothing, if the chat is not made yet."""
        if ref is not None:
            return await self._read(ref, request, room)
        habit = self._habits.get(request.name, NOTHING_KNOWN)
        return None, align((), request.said, request.hints, habit)

    async def _read(self, ref: ChatRef, request: Request, room: Room) -> tuple[Glance, Alignment]:
        """One look at the chat and the reading over it; further back if that may help."""
        habit = self._habits.get(request.name, NOTHING_KNOWN)
        limit, budget = len(request.said) + READ_MORE, room.budget(self._budget_tokens)
        seen = await self._service.glance(ref, budget, limit)
        found = _aligned(seen.newest, limit, request, habit)
        if not found.complete and found.kind == "unsure":
            limit *= LOOK_FURTHER
            seen = await self._service.glance(ref, budget, limit)
            found = _aligned(seen.newest, limit, request, habit)
        return seen, found

    def _lasting(self, seen: Glance, request: Request, found: Alignment) -> Alignment:
        habit = self._habits.get(request.name, NOTHING_KNOWN)
        return lasting(found, seen.newest, request.said, request.hints, habit)

    async def habit(self, ref: ChatRef) -> Habit:
        """How the client of this chat is known to be."""
        if ref.name not in self._habits:
            await self._recall(ref)
        return self._habits[ref.name]

    async def _look_up(self, ref: ChatRef) -> None:
        """Know what requests before this one have shown of the client; where other processes answer
        them too, what those have written down."""
        alone = self._service.store.exclusive or self._unwritten(ref)
        if ref.name not in self._habits or not alone:
            await self._recall(ref)

    async def _recall(self, ref: ChatRef) -> None:
        """Take in what requests to other processes, or before a restart, have shown."""
        known = self._habits.get(ref.name, NOTHING_KNOWN)
        written = habit_in(await self._service.store.last_sent(ref))
        self._note(ref.name, known.recalling(written))

    def _note(self, name: str, habit: Habit) -> None:
        """Remember how this client is, while this process lives."""
        self._habits.pop(name, None)
        if len(self._habits) >= HABITS_KNOWN_MAX:
            self._habits.popitem(last=False)
        self._habits[name] = habit

    async def _outgoing(
        self,
        ref: ChatRef,
        request: Request,
        found: Alignment,
        seen: Glance | None,
        room: Room,
        note: str,
    ) -> Outgoing:
        assert found.turn is not None
        stored = seen.newest if seen is not None else ()
        pending = as_pending(ref, stored, found.turn.appends)
        told = list(zip(request.said, found.places, strict=True))
        around = [said for said, place in told if place.part != "history"]
        head_tokens = sum(map(self._tokens, around))
        prompt = await self._prompt(ref, found, head_tokens, pending, room, seen)
        check_still(prompt, stored, pending)
        layout = laid_out(request.raw, found, [m.id for m in pending])
        messages = layout.rendered(prompt.trace.blocks)
        sizes = {m.id: m for m in stored}
        history = (self._size(said, place, sizes) for said, place in told)
        fold = f"fold {prompt.trace.fold.version}"
        return Outgoing(
            trace="; ".join([found.kind, fold, *prompt.trace.notes, note + found.reason]),
            messages=None if _same_objects(messages, request.own) else messages,
            turn=self._turn(ref, request, found, stored[-1].extra if stored else None),
            prompt_tokens=prompt.tokens,
            client_tokens=head_tokens + sum(history),
            prompt=prompt,
            layout=layout,
        )

    def _turn(
        self, ref: ChatRef, request: Request, found: Alignment, last_extra: str | None = None
    ) -> Turn:
        assert found.turn is not None
        return Turn(
            ref,
            request.said,
            found.turn,
            hints=request.hints,
            habit=found.habit,
            number=next(self._asked),
            last_extra=last_extra,
        )

    def _size(self, said: NewMessage, place: Place, stored: Mapping[int, Message]) -> int:
        """What a message of the client's history weighs; what is stored was counted already."""
        if place.part != "history":
            return 0
        known = stored.get(place.ids[0]) if place.ids else None
        if known is not None and known.body == said.body and known.name == said.name:
            return known.tokens
        return self._tokens(said)

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

    def _tokens(self, said: NewMessage) -> int:
        """A client repeats its head with every request: counted once, known by its hash."""
        known = said.hash
        tokens = self._heads.pop(known, None)
        if tokens is None:
            tokens = tokens_of(said)
            if len(self._heads) >= HEADS_COUNTED_MAX:
                self._heads.popitem(last=False)
        self._heads[known] = tokens
        return tokens

    async def catch_up(
        self, name: str, messages: list[Any], hints: Hints, replies: Sequence[NewMessage]
    ) -> None:
        """Keep a turn that went on as it came because the memory failed when it was asked."""
        request = Request(name, messages, tuple(map(parse, messages)), hints)
        for _ in range(RECORD_TRIES):
            with contextlib.suppress(StaleDraft, ChatNotFound):
                await self._catch_up(request, replies)
                return
            self._refs.pop(name, None)

    async def _catch_up(self, request: Request, replies: Sequence[NewMessage]) -> None:
        request, ref, _, found, _ = await self._understood(request, ROOM)
        if found.turn is None:
            return
        if ref is None:
            ref = (await self._service.open_chat(request.name)).ref
        await self.record(self._turn(ref, request, found), replies)

    async def heard(self, name: str, doubt: str, replies: Sequence[NewMessage]) -> None:
        """A request that was not understood, and why, is answered: its next one may show the
        answer, and people may want to know that it was not kept."""
        before = self.unread.grows(name)
        bodies = [before + reply.body for reply in replies]
        marks = [mark for body in bodies for mark in normal.heard_marks(body)]
        habit = self._habits.get(name, NOTHING_KNOWN).hearing(marks)
        self._note(name, habit)
        ref = await self._find(name)
        if ref is not None:
            self._doubted(ref, habit, doubt)

    def begun(self, history: Sequence[NewMessage]) -> list[str]:
        """The chats in doubt to which a request may belong that names none."""
        habits = self._habits
        return self.unread.begun(history, lambda name: habits.get(name, NOTHING_KNOWN).heard)

    def answered(self, replies: Sequence[Sequence[bytes]]) -> list[str]:
        """The chats in doubt of which several of these replies were heard, by their paragraphs."""
        doubted = ((name, set(habit.heard)) for name, habit in self._habits.items() if habit.heard)
        shown = ((name, sum(heard.issuperset(one) for one in replies)) for name, heard in doubted)
        return [name for name, count in shown if count > 1]

    async def record(self, turn: Turn, replies: Sequence[NewMessage]) -> None:
        """Write the turn down; if others came first, read it against what they left."""
        record: TurnRecord | None = turn.record.answered(replies)
        store = self._service.store
        for _ in range(RECORD_TRIES):
            if record is None:
                log.info("chat %s: a turn was overtaken and is not kept", turn.ref.id)
                return
            try:
                await store.record_turn(turn.ref, record)
            except StaleDraft:
                request = Request(turn.ref.name, [], turn.history, turn.hints)
                found = (await self._read(turn.ref, request, ROOM))[1]
                record = self._still(turn, found.turn, replies)
                if found.turn is None:
                    self._note(request.name, found.habit)  # its next request may make it certain
            else:
                self._recorded(turn)
                self._service.wake(turn.ref)
                return
        raise StaleDraft("other turns kept being recorded meanwhile")

    def _still(
        self, turn: Turn, read: TurnRecord | None, replies: Sequence[NewMessage]
    ) -> TurnRecord | None:
        """What is left of a turn after others were recorded. From one that was asked later it takes
        nothing: that is what the client says last, and this one comes late because it was left."""
        if read is None or self._newest.get(turn.ref.id, 0) <= turn.number:
            return read and read.answered(replies)
        if read.mends or read.rewords or read.grows is not None:
            return None
        return read.beside(replies) if read.rerolls is not None else read.answered(replies)

    def _recorded(self, turn: Turn) -> None:
        self.unread.forget(turn.ref.name)
        newest = max(turn.number, self._newest.pop(turn.ref.id, 0))
        if len(self._newest) >= REFS_KNOWN_MAX:
            self._newest.popitem(last=False)
        self._newest[turn.ref.id] = newest


def as_pending(ref: ChatRef, stored: Sequence[Message], new: Sequence[NewMessage]) -> list[Message]:
    """The new messages as the store would have them, under keys that no stored one has."""
    last_pos = stored[-1].pos if stored else 0
    # Their time is that of the last stored one: it tells how long the chat has been quiet.
    last_ms = stored[-1].created_at_ms if stored else 0
    first_n = BIRTH_MASK - len(new)
    return [
        replace(
            as_stored(said, key(ref.id, first_n + i), last_pos + (i + 1) * POS_GAP),
            hash=digest(str(i)),  # nothing is summarised under it
            state=State.CANDIDATE,
            created_at_ms=last_ms,
        )
        for i, said in enumerate(new)
    ]


def _aligned(stored: Sequence[Message], limit: int, request: Request, habit: Habit) -> Alignment:
    return align(stored, request.said, request.hints, habit, complete=len(stored) < limit)


def _same_objects(mine: Sequence[Raw], theirs: Sequence[Raw]) -> bool:
    return len(mine) == len(theirs) and all(map(operator.is_, mine, theirs))


def _mended(turn: TurnRecord) -> str:
    """What a request has shown to have changed, for the trace."""
    counts = {
        "edited": len(turn.edits),
        "hidden": len(turn.hides),
        "shown again": len(turn.shows),
        "gone": len(turn.drops),
        "revealed": sum(len(new) for _, new in turn.inserts),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def check_still(prompt: Prompt, stored: Sequence[Message], pending: Sequence[Message]) -> None:
    """`StaleDraft` if the prompt ends with a message that was recorded after the alignment."""
    ours = {m.id for m in pending}
    known = {m.id for m in stored}
    for block in reversed(prompt.trace.blocks):
        if block.place in ("tail", "pending") and block.sources[0].id not in ours:
            if block.sources[0].id not in known:
                raise StaleDraft("another turn was recorded meanwhile")
            return
