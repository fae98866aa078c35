"""Use cases: what the doors may ask of the house."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from previously import folding, search
from previously.assembler import (
    answer_room,
    assemble,
    assemble_answer,
    before_tail,
    tail_from,
)
from previously.errors import (
    BadInput,
    Conflict,
    NotConfigured,
    PreviouslyError,
    StaleDraft,
    TaskNotFound,
)
from previously.estimate import Estimate, estimate
from previously.lanes.registry import DEFAULT_PRESET, history_lane
from previously.llm import Llm
from previously.model import (
    START,
    Attempt,
    Block,
    Chat,
    ChatRef,
    Fold,
    FoldKey,
    Message,
    NewMessage,
    Prompt,
    Recall,
    Snapshot,
    Summary,
    key,
    total_tokens,
)
from previously.planner import BACKFILL, NEVER_MS, TAIL_LOOKED_AT, due, is_held, piled_up
from previously.recall import recalled
from previously.settings import (
    BUDGET_MIN,
    COVERS_LOADED_MAX,
    COVERS_SHARE,
    Settings,
    checked,
)
from previously.store import ChatFacts, FloorPage, Kept, Progress, Store
from previously.summariser import quote
from previously.text.turns import pending_start

T = TypeVar("T")

AS_SAID = FoldKey("(as said)")  # nobody ever folds this one

OWNER = "local"  # until tokens name others
PAGE = 200
SETTLE_LOOK_EVERY_S = 0.1
ANSWERS = ("yes", "no")  # an attempt that was answered waits for nothing
EVENTS_LOOK_EVERY_S = 5.0  # changes made by another process are seen by then
RENDERED_KEPT = 256  # folds whose text is held in memory
NAME_CHARS_MAX = 200
BODY_CHARS_MAX = 4_000_000
WAITS_FOR_BACKFILL = "waits for `previously backfill`"
IMPORT_BATCH = 500  # messages per transaction: a turn that waits for the writer waits for one batch
IMPORT_MESSAGES_MAX = 1_000_000
WOKEN_MAX = 1_000  # chats that are looked at anew when the settings of all change
BRANCH_TRIES = 3  # a chat that changes faster than it can be copied is told so


@dataclass(frozen=True, slots=True)
class Settled:
    """How a wait for the background work ended."""

    done: bool  # nothing is due any more
    waiting: tuple[Attempt, ...] = ()  # failed for now, with reason and time of the next try
    reason: str = ""  # why there is work that is not done until somebody asks for it


@dataclass(frozen=True, slots=True)
class Place:
    """How one message stands in a prompt."""

    message: Message
    floor: int
    how: str  # verbatim | standing | summary | dropped
    summary_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskState:
    """Due work and what became of it so far."""

    id: str
    kind: str
    messages: tuple[int, ...]
    attempt: Attempt | None
    reason: str = ""  # why it is not done until somebody asks for it
    children: tuple[int, ...] = ()  # summaries that it reads instead of messages


class AtMost(int):
    """A budget that gives way to a smaller one of the chat's own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at a chat: what its next prompt starts from, and its newest messages."""

    snapshot: Snapshot
    budget_tokens: int
    newest: tuple[Message, ...]


class _Telling(NamedTuple):
    """How a prompt is wanted."""

    budget: int
    head_tokens: int
    pending: tuple[Message, ...]
    audience: Collection[str]
    preview: bool


class Background(Protocol):
    """What works off the tasks in this process."""

    def wake(self, ref: ChatRef) -> None: ...

    def heard(self, chat_id: int) -> None: ...

    async def idle(self, ref: ChatRef, timeout_s: float) -> bool: ...


class Service:
    """One store, one background; every method changes all it says or nothing."""

    def __init__(
        self,
        store: Store,
        background: Background | None,
        clock_ms: Callable[[], int],
        llm: Llm | None = None,
    ) -> None:
        self.store = store
        self._llm = llm  # a program's own summariser
        self._background = background
        self._clock_ms = clock_ms
        self._budgets: dict[int, int] = {}
        self._changes: dict[int, asyncio.Event] = {}
        self._facts: dict[int, tuple[int, ChatFacts]] = {}
        self._listeners: set[Callable[[int], None]] = set()
        self._rendered: OrderedDict[tuple[int, FoldKey], tuple[Fold, tuple[Block, ...]]] = (
            OrderedDict()
        )

    async def open_chat(
        self, name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Chat:
        """The chat of that name, made if it is missing."""
        _check_name(name)
        changes = checked(settings or {})
        chosen = preset or DEFAULT_PRESET
        lane = history_lane(chosen)
        if self.store.read_only:
            return await self.store.find_chat(OWNER, name)
        chat = await self.store.ensure_chat(OWNER, name, chosen, lane)
        if changes:
            await self.store.change_settings(chat.ref, changes)
        return chat

    async def find_chat(self, name: str) -> Chat:
        """The chat of that name, or `ChatNotFound`."""
        return await self.store.find_chat(OWNER, name)

    async def settings(self, ref: ChatRef) -> Settings:
        """What holds for this chat now."""
        return (await self.store.load(ref, AS_SAID, wide=False, tail_max=1)).settings

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Record messages; they are durable when this returns."""
        made = await self.store.append(ref, list(_checked(new)))
        self.wake(ref)
        return made

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
                _check_name(name)
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
        for batch in _batches(_checked(messages), IMPORT_BATCH):
            await self.store.append(ref, batch)
            count += len(batch)
            told(name, count)
            if count > IMPORT_MESSAGES_MAX:
                most = f"{IMPORT_MESSAGES_MAX:,}"
                raise BadInput(f"an import has at most {most} messages", field="messages")
        if not count:
            raise BadInput(f"there are no messages for the chat {name!r}", field="messages")

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

    async def branch(self, ref: ChatRef, name: str, at_id: int | None = None) -> Chat:
        """A new chat that holds a copy of this one, up to and including a message."""
        _check_name(name)
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

    async def run_now(self, ref: ChatRef) -> None:
        """Write about every closed turn but the last, whatever the thresholds say."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        self._changed(ref, await self.store.wish(ref, lane, "run", START))

    async def archive(self, ref: ChatRef) -> None:
        """Make the small summaries that stand before the tail into a volume, few as they are."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        self._changed(ref, await self.store.wish(ref, lane, "archive", START))

    async def backfill(self, ref: ChatRef, *, dry_run: bool = False) -> Estimate:
        """Write about all that has piled up, whatever it costs; what that is expected to take.

        It goes on in the background, after a restart too, until nothing is due or it is paused.
        """
        snapshot = await self.store.load(ref, AS_SAID, wide=True)
        quoted = await quote(self.store, ref.owner, snapshot.settings, self._llm)
        expected = await estimate(self.store, ref, quoted)
        assert snapshot.backlog is not None
        wished = any(wish.kind == BACKFILL for wish in snapshot.backlog.intents)
        if not dry_run and expected.calls and not wished:
            await self.store.wish(ref, snapshot.lane, BACKFILL, START)
        if not dry_run:
            self.wake(ref)
        return expected

    async def pause_backfill(self, ref: ChatRef) -> bool:
        """Let what has piled up wait again; whether it was being worked off."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return self._changed(ref, await self.store.withdraw(ref, lane, BACKFILL))

    async def progress(self, ref: ChatRef) -> Progress:
        """How far the summaries of a chat have come."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return await self.store.progress(ref, lane)

    async def _held(self, snapshot: Snapshot) -> str:
        """Why first summaries wait until somebody asks for them; empty if they do not."""
        if not piled_up(snapshot) or not any(map(is_held, due(snapshot))):
            return ""
        try:
            quoted = await quote(self.store, snapshot.ref.owner, snapshot.settings, self._llm)
        except NotConfigured:
            return ""
        return WAITS_FOR_BACKFILL if quoted.costs else ""

    async def rebuild(self, ref: ChatRef, from_pos: int = START) -> None:
        """Write summaries anew; each old one stands until its successor is there.

        What a user has edited is left alone.
        """
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        self._changed(ref, await self.store.wish(ref, lane, "rebuild", from_pos))

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary:
        """The user's own words in a summary's place."""
        if not text.strip():
            raise BadInput("a summary needs words; delete its messages instead", field="text")
        return self._changed(ref, await self.store.edit_summary(ref, summary_id, text))

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary:
        """Let an older revision, or a proposal, stand."""
        return self._changed(ref, await self.store.restore_summary(ref, revision_id))

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None:
        """Leave the messages as they were said instead."""
        self._changed(ref, await self.store.reject_proposal(ref, proposal_id))

    async def switch(self, ref: ChatRef, preset: str) -> Chat:
        """Remember the chat by another preset. Nothing is lost: switching back finds it again."""
        lane = history_lane(preset)
        return self._changed(ref, await self.store.set_lane(ref, preset, lane))

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None:
        """Suspend summaries while a client rebuilds its own state."""
        self._changed(ref, await self.store.set_recalculating(ref, on=on))

    def _changed(self, ref: ChatRef, result: T) -> T:
        self.wake(ref)
        return result

    def now_ms(self) -> int:
        """This house's clock, in UTC epoch milliseconds."""
        return self._clock_ms()

    def wake(self, ref: ChatRef) -> None:
        """Tell the background, and whoever listens, that this chat has changed.

        A shared database tells every process itself, this one too.
        """
        self.changed(ref)
        if self._background is not None and self.store.exclusive:
            self._background.wake(ref)

    async def messages(self, ref: ChatRef) -> AsyncIterator[Message]:
        """Every message, oldest first, in pages."""
        after = START
        while page := await self.store.page(ref, after, PAGE):
            for message in page:
                yield message
            after = page[-1].pos

    async def summaries(self, ref: ChatRef) -> AsyncIterator[Summary]:
        """Every summary in the order they were made, in pages."""
        after = 0
        while page := await self.store.summaries(ref, after, PAGE):
            for summary in page:
                yield summary
            after = page[-1].id

    async def prompt(
        self,
        ref: ChatRef,
        budget_tokens: int | None = None,
        *,
        head_tokens: int = 0,
        pending: Sequence[Message] = (),
        audience: Collection[str] = (),
        preview: bool = False,
        query: str | None = None,
    ) -> Prompt:
        """The next prompt. The fold moves here, and only here; a preview moves nothing.

        `pending` are messages not recorded yet; `head_tokens` is what the caller puts in front.
        A budget that is `AtMost` gives way to a smaller one of the chat's own.
        A `query` is a question about the past: what it calls up goes before summaries.
        """
        if budget_tokens is not None and budget_tokens < BUDGET_MIN:
            raise BadInput(f"a budget has at least {BUDGET_MIN} tokens", field="budget_tokens")
        snapshot, budget = await self._look(ref, budget_tokens, audience, wide=False)
        told = _Telling(budget, head_tokens, tuple(pending), audience, preview)
        if query is None or not snapshot.settings.enabled:
            return await self._told(snapshot, told)
        snapshot = await self._folded(snapshot, told)
        start = answer_room(snapshot, budget, head_tokens)
        found = await self._recall(snapshot, query, audience, start, question=True)
        return assemble_answer(snapshot, found, budget, head_tokens)

    async def glance(self, ref: ChatRef, budget_tokens: int | None, newest_max: int) -> Glance:
        """A chat's newest messages, and all that its next prompt starts from, in one look."""
        guess = self._budgets.get(ref.id) or Settings().budget_tokens
        budget = _within(budget_tokens, guess)
        snapshot, newest = await self.store.glance(ref, FoldKey("", budget), newest_max)
        own = snapshot.settings.budget_tokens
        if own != guess and _may_differ(budget_tokens):
            self._budgets[ref.id] = own  # guessed wrong: the settings have another budget
            return await self.glance(ref, budget_tokens, newest_max)
        return Glance(snapshot, budget, newest)

    async def prompt_of(
        self,
        seen: Glance,
        *,
        head_tokens: int = 0,
        pending: Sequence[Message] = (),
        preview: bool = False,
    ) -> Prompt:
        """The next prompt, as `prompt` gives it, from a look that was just taken."""
        told = _Telling(seen.budget_tokens, head_tokens, tuple(pending), (), preview)
        return await self._told(seen.snapshot, told)

    async def _told(self, snapshot: Snapshot, told: _Telling) -> Prompt:
        if told.pending and not snapshot.recording:
            raise BadInput("recording of this chat is paused", field="recording")
        if not snapshot.settings.enabled:
            raw = await self.store.load(snapshot.ref, AS_SAID, wide=False)
            return assemble(_with(raw, told.pending), (), told.budget, told.head_tokens)
        snapshot = await self._folded(snapshot, told)
        before = self._before_tail(snapshot)
        found = None
        if snapshot.settings.related:
            start = tail_from(snapshot, before, told.budget, told.head_tokens)
            found = await self._called_up(snapshot, told.audience, start)
        return assemble(snapshot, before, told.budget, told.head_tokens, found)

    async def _folded(self, snapshot: Snapshot, told: _Telling) -> Snapshot:
        """The snapshot with the pending turn, under the fold that it should have by now."""
        standing = total_tokens([m for m in snapshot.shown if _stands(m)])
        room = told.budget - told.head_tokens - standing
        reason = folding.wanted(_with(snapshot, told.pending), room, self._clock_ms())
        if reason is None:
            return _with(snapshot, told.pending)
        wide, _ = await self._look(snapshot.ref, told.budget, told.audience, wide=True)
        moved = folding.move(_with(wide, told.pending), room, reason)
        if not told.preview and not self.store.read_only:
            await self.store.save_fold(moved.ref, moved.fold, moved.rev)
        return moved

    async def _called_up(
        self, snapshot: Snapshot, audience: Collection[str], before_pos: int
    ) -> Recall | None:
        """What the pending turn calls up of all that is not in the tail."""
        pending = snapshot.tail[pending_start(snapshot.tail) :]
        text = "\n".join(m.body for m in reversed(pending) if m.role == "user")
        if not text or before_pos == START:
            return None
        return await self._recall(snapshot, text, audience, before_pos)

    async def _recall(
        self,
        snapshot: Snapshot,
        text: str,
        audience: Collection[str],
        before_pos: int,
        *,
        question: bool = False,
    ) -> Recall:
        return await recalled(
            self.store, snapshot, text, audience, before_pos=before_pos, question=question
        )

    def _before_tail(self, snapshot: Snapshot) -> tuple[Block, ...]:
        """Rendered once per fold: between folds this part of a prompt stands still."""
        key = (snapshot.ref.id, snapshot.fold.key)
        fold, blocks = self._rendered.get(key, (None, ()))
        if fold is not snapshot.fold:
            blocks = before_tail(snapshot)
            self._rendered[key] = (snapshot.fold, blocks)
            self._rendered.move_to_end(key)
            if len(self._rendered) > RENDERED_KEPT:
                self._rendered.popitem(last=False)
        return blocks

    async def _look(
        self, ref: ChatRef, budget_tokens: int | None, audience: Collection[str] = (), *, wide: bool
    ) -> tuple[Snapshot, int]:
        guess = self._budgets.get(ref.id) or Settings().budget_tokens
        budget = _within(budget_tokens, guess)
        key = FoldKey(json.dumps(sorted(audience)) if audience else "", budget)
        snapshot = await self._load(ref, key, wide=wide)
        own = snapshot.settings.budget_tokens
        if own != guess and _may_differ(budget_tokens):
            self._budgets[ref.id] = own  # guessed wrong: the settings have another budget
            return await self._look(ref, budget_tokens, audience, wide=wide)
        return (folding.seen_by(snapshot, audience) if audience else snapshot), budget

    async def _load(self, ref: ChatRef, key: FoldKey, *, wide: bool) -> Snapshot:
        """A snapshot with as many covers as its budget has room for: mostly one look."""
        most = COVERS_LOADED_MAX
        while True:
            snapshot = await self.store.load(ref, key, wide=wide, covers_max=most)
            loaded = snapshot.backlog.covers if snapshot.backlog else ()
            if len(loaded) < most or total_tokens(loaded) > key.budget_tokens * COVERS_SHARE:
                return snapshot
            most *= 4

    async def settle(self, ref: ChatRef, timeout_s: float) -> Settled:
        """Wait until nothing is due; says what failed and waits for another try."""
        if self._background is None and (self.store.exclusive or self.store.read_only):
            raise BadInput("this memory runs no background work; open it with worker=True")
        try:
            async with asyncio.timeout(timeout_s):
                done = await self._quiet(ref, timeout_s)
        except TimeoutError:
            done = False
        snapshot = await self.store.load(ref, AS_SAID, wide=True, tail_max=1, covers_max=1)
        if piled_up(snapshot):  # seldom; then the low mark is looked for as well
            snapshot = await self.store.load(ref, AS_SAID, wide=True, tail_max=TAIL_LOOKED_AT)
        tried = (await self.store.attempts(ref)).values()
        waiting = tuple(a for a in tried if a.lane == snapshot.lane and a.verdict not in ANSWERS)
        return Settled(done, waiting, await self._held(snapshot))

    async def _quiet(self, ref: ChatRef, timeout_s: float) -> bool:
        """Until this process has nothing to do, and no other one that shares the database has."""
        while True:
            if self._background is not None and not await self._background.idle(ref, timeout_s):
                return False
            if self.store.exclusive or await self._is_done(ref):
                return True
            await asyncio.sleep(SETTLE_LOOK_EVERY_S)

    async def _is_done(self, ref: ChatRef) -> bool:
        """Whether nothing is due, neither now nor after the rest that follows an edit."""
        state = await self.store.work_state(ref)
        if state.leased or state.rev > state.done_rev:
            return False
        if state.due_at_ms is None:
            return True
        tried = (await self.store.attempts(ref)).values()
        return any(attempt.not_before_ms == state.due_at_ms for attempt in tried)

    async def tasks(self, ref: ChatRef) -> list[TaskState]:
        """What is due in this chat now, each with what became of it so far."""
        snapshot = await self.store.load(ref, AS_SAID, wide=True)
        attempts = await self.store.attempts(ref)
        held = await self._held(snapshot)
        return [
            TaskState(
                task.id,
                task.kind,
                tuple(m.id for m in task.sources),
                attempts.get(task.id),
                held if is_held(task) else "",
                tuple(s.id for s in task.children),
            )
            for task in due(snapshot)
        ]

    async def retry(self, ref: ChatRef, task_id: str) -> None:
        """Try a failed task again now."""
        await self._decide(ref, task_id, "failed", 0)

    async def cancel(self, ref: ChatRef, task_id: str) -> None:
        """Do not try this task again unless its messages change; they stay as they were said."""
        await self._decide(ref, task_id, "cancelled", NEVER_MS)

    async def _decide(self, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int) -> None:
        if not await self.store.decide(ref, task_id, verdict, not_before_ms):
            raise TaskNotFound(f"the chat {ref.name!r} has no failed task {task_id}")
        self.wake(ref)

    async def events(self, ref: ChatRef) -> AsyncIterator[int]:
        """The chat's revision, now and after every change; a slow reader skips to the newest."""
        seen = -1
        while True:
            change = self._changes.setdefault(ref.id, asyncio.Event())
            rev = (await self.store.work_state(ref)).rev
            if rev != seen:
                seen = rev
                yield rev
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVENTS_LOOK_EVERY_S):
                    await change.wait()

    def changed(self, ref: ChatRef) -> None:
        """Somebody who listens to this chat may look again."""
        self._tell(ref.id)

    def heard(self, chat_id: int) -> None:
        """Some process that shares the database has changed this chat."""
        self._tell(chat_id)
        if self._background is not None:
            self._background.heard(chat_id)

    def _tell(self, chat_id: int) -> None:
        event = self._changes.pop(chat_id, None)
        if event is not None:
            event.set()
        for heard in self._listeners:
            heard(chat_id)

    async def places(self, ref: ChatRef, prompt: Prompt) -> AsyncIterator[Place]:
        """How every message of the chat stands in this prompt, oldest first."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        after, floor = START, 0
        while page := await self.store.page(ref, after, PAGE):
            covering = await self.store.covering(ref, lane, [m.id for m in page])
            for place in _places(page, floor, covering, prompt):
                yield place
            floor += len(page)
            after = page[-1].pos

    async def search(
        self,
        query: str,
        *,
        chat: str | None = None,
        participants: Collection[str] | None = None,
        limit: int = search.HITS_DEFAULT,
    ) -> list[search.Hit]:
        """The messages that answer a query best, in one chat or in all.

        With participants only in chats in which all of them take part.
        """
        if not 1 <= limit <= search.HITS_MAX:
            raise BadInput(f"a search has 1 to {search.HITS_MAX} hits", field="limit")
        if participants is not None and not (participants and all(participants)):
            raise BadInput("name at least one participant, or leave them out", field="participants")
        ref = None if chat is None else (await self.find_chat(chat)).ref
        people = None if participants is None else frozenset(participants)
        return await search.hits(self.store, OWNER, query, limit, ref=ref, people=people)

    async def prompt_again(
        self,
        ref: ChatRef,
        reply_id: int,
        budget_tokens: int | None = None,
        *,
        head_tokens: int = 0,
        preview: bool = False,
    ) -> Prompt:
        """The prompt that the newest reply answered, for another one: under the same fold."""
        snapshot, budget = await self._look(ref, budget_tokens, wide=False)
        unfolded = snapshot.fold.stale or snapshot.fold.version == 0
        if unfolded and preview:
            wide, _ = await self._look(ref, budget, wide=True)
            snapshot = folding.move(wide, budget - head_tokens, folding.FIRST)
        elif unfolded:
            await self.prompt(ref, budget, head_tokens=head_tokens)
            snapshot, budget = await self._look(ref, budget, wide=False)
        tail = tuple(m for m in snapshot.tail if m.id != reply_id)
        before = self._before_tail(snapshot)
        return assemble(replace(snapshot, tail=tail), before, budget, head_tokens)

    async def chat_by_id(self, chat_id: int) -> ChatRef:
        """The chat with that key, or `ChatNotFound`."""
        return await self.store.find_chat_by_id(OWNER, chat_id)

    async def create_chat(
        self, name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> ChatRef:
        """A chat that was not there before; `BadInput` if its name is taken."""
        _check_name(name)
        chosen = preset or DEFAULT_PRESET
        lane, changes = history_lane(chosen), checked(settings or {})
        ref = await self.store.create_chat(OWNER, name, chosen, lane)
        if changes:
            await self.store.change_settings(ref, changes)
        return self._changed(ref, ref)

    async def set_title(self, ref: ChatRef, title: str) -> None:
        """Another title for people to read; the name in addresses stays."""
        _check_name(title)
        self._changed(ref, await self.store.set_title(ref, title))

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None:
        """Keep proxied turns of this chat, or pass them through and keep nothing."""
        self._changed(ref, await self.store.set_recording(ref, on=on))

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
        self._budgets.pop(chat_id, None)
        self._tell(chat_id)

    async def floors(
        self, ref: ChatRef, first: int | None, limit: int
    ) -> tuple[FloorPage, tuple[Place, ...]]:
        """Messages from a floor on, or the newest, and how each stands in the next prompt."""
        page = await self.store.floor_page(ref, first, limit)
        if not page.messages:
            return page, ()
        prompt = await self.prompt(ref, preview=True)
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        covering = await self.store.covering(ref, lane, [m.id for m in page.messages])
        return page, tuple(_places(page.messages, page.first, covering, prompt))

    async def facts(self, ref: ChatRef) -> ChatFacts:
        """What takes a look at all of a chat, taken once for each of its revisions."""
        rev = (await self.store.work_state(ref)).rev
        known = self._facts.get(ref.id)
        if known is None or known[0] != rev:
            known = (rev, await self.store.chat_facts(ref))
            self._facts[ref.id] = known
            if len(self._facts) > RENDERED_KEPT:
                self._facts.pop(next(iter(self._facts)))
        return known[1]

    async def alter(
        self, ref: ChatRef, message_id: int, values: Mapping[str, Any], version: int | None = None
    ) -> Message:
        """Text and marks of one message in one step; `Conflict` if it is not at `version`."""
        what = "edit" if "body" in values else next(iter(values), "edit")
        made = await self.store.alter(ref, what, message_id, values, version)
        return self._changed(ref, made)

    async def change_settings(
        self, ref: ChatRef | None, changes: Mapping[str, Any], revision: int | None = None
    ) -> None:
        """Settings of one chat, or of all that have none of their own; None takes one back."""
        chat_id = None if ref is None else ref.id
        await self.store.change_scope(OWNER, chat_id, checked(changes), revision)
        if ref is not None:
            self.wake(ref)
            return
        for found in await self.store.busy_chats(OWNER, WOKEN_MAX):
            self.wake(found)

    async def plan_rebuild(self, ref: ChatRef, from_pos: int = START) -> int:
        """How many summaries a rebuild would write anew."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return await self.store.rebuildable(ref, lane, from_pos)

    async def stop_rebuild(self, ref: ChatRef) -> bool:
        """Leave the summaries that were not written anew yet; whether any rebuild was under way."""
        lane = (await self.store.find_chat(ref.owner, ref.name)).lane
        return self._changed(ref, await self.store.withdraw(ref, lane, "rebuild"))

    @contextlib.contextmanager
    def listening(self, heard: Callable[[int], None]) -> Generator[None]:
        """Call back with the key of every chat that changes, as long as the block runs."""
        self._listeners.add(heard)
        try:
            yield
        finally:
            self._listeners.discard(heard)


def _checked(new: Iterable[NewMessage]) -> Iterator[NewMessage]:
    for said in new:
        if len(said.body) > BODY_CHARS_MAX:
            raise BadInput(f"a message has at most {BODY_CHARS_MAX} characters", field="content")
        yield said


def _batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > NAME_CHARS_MAX:
        raise BadInput(f"a chat's name has 1 to {NAME_CHARS_MAX} characters", field="name")


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


def _may_differ(budget_tokens: int | None) -> bool:
    """Whether the chat's own budget has a say."""
    return budget_tokens is None or isinstance(budget_tokens, AtMost)


def _within(budget_tokens: int | None, own: int) -> int:
    """The budget that holds, where the chat's own is `own`."""
    if isinstance(budget_tokens, AtMost):
        return min(own, max(BUDGET_MIN, int(budget_tokens)))
    return budget_tokens or own


def _stands(thing: Message | Summary) -> bool:
    return isinstance(thing, Message) and thing.pinned


def _with(snapshot: Snapshot, pending: Sequence[Message]) -> Snapshot:
    return replace(snapshot, tail=(*snapshot.tail, *pending)) if pending else snapshot


def _places(
    page: Sequence[Message],
    floor: int,
    covering: Mapping[int, tuple[int, ...]],
    prompt: Prompt,
) -> Iterator[Place]:
    shown = {
        (item.is_summary, item.id): block.place
        for block in prompt.trace.blocks
        for item in block.sources
        if block.place != "fragment"  # what is quoted again still has its own place
    }
    for index, message in enumerate(page):
        place = shown.get((False, message.id))
        line = covering.get(message.id, ())
        cover = next((i for i in line if (True, i) in shown), line[0] if line else None)
        number = floor + index
        if place is not None:
            how = "standing" if place == "standing" else "verbatim"
            yield Place(message, number, how)
        elif cover is not None and (True, cover) in shown:
            yield Place(message, number, "summary", cover)
        else:
            yield Place(message, number, "dropped", cover, _why_dropped(message, prompt))


def _why_dropped(message: Message, prompt: Prompt) -> str:
    if not message.eligible:
        return "not for summaries"
    for gone in prompt.trace.dropped:
        if gone.from_pos <= message.pos < gone.before_pos:
            return gone.reason
    return "unknown"
