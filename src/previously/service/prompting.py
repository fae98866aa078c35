"""The next prompt of a chat. The stored fold moves only here."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from previously import folding
from previously.assembler import (
    answer_room,
    assemble,
    assemble_answer,
    before_tail,
    fits,
    tail_from,
)
from previously.errors import BadInput
from previously.model import (
    START,
    Block,
    ChatRef,
    Fold,
    FoldKey,
    Message,
    Prompt,
    Recall,
    Shown,
    Snapshot,
    total_tokens,
)
from previously.recall import recalled
from previously.service.desk import AS_SAID, Desk
from previously.settings import BUDGET_MIN, COVERS_LOADED_MAX, COVERS_SHARE, Settings
from previously.text.turns import pending_start

FOLD_TRIES = 3  # a summary may be committed while one is made; unsaved, the next turn moves again
RENDERED_KEPT = 256  # folds whose text is held in memory


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
    places: bool = False  # only what stands where is asked for, not what is called up


class Prompting(Desk):
    """Prompts, from a look at a chat."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._budgets: dict[int, int] = {}
        self._rendered: OrderedDict[tuple[int, FoldKey], tuple[Fold, tuple[Block, ...]]] = (
            OrderedDict()
        )

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

    async def prompt_places(self, ref: ChatRef) -> Prompt:
        """A preview of the next prompt that leaves out what it would call up, if the rest stands
        where it stands either way: to look for it is most of the work."""
        snapshot, budget = await self._look(ref, None, wide=False)
        return await self._told(snapshot, _Telling(budget, 0, (), (), preview=True, places=True))

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
        spared = told.places and fits(snapshot, before, told.budget, told.head_tokens)
        if snapshot.settings.related and not spared:
            start = tail_from(snapshot, before, told.budget, told.head_tokens)
            found = await self._called_up(snapshot, told.audience, start)
        return assemble(snapshot, before, told.budget, told.head_tokens, found)

    async def _folded(self, snapshot: Snapshot, told: _Telling) -> Snapshot:
        """The snapshot with the pending turn, under the fold that it should have by now."""
        standing = total_tokens([m for m in snapshot.shown if _stands(m)])
        room = told.budget - told.head_tokens - standing
        asked = _with(snapshot, told.pending)
        reason = folding.wanted(asked, room, self._clock_ms())
        if reason is None:
            return asked
        keeps = not told.preview and not self.store.read_only
        onward = folding.only_onward(reason)
        for tries_left in reversed(range(FOLD_TRIES)):
            wide, _ = await self._look(
                snapshot.ref, told.budget, told.audience, wide=True, onward=onward
            )
            moved = folding.move(_with(wide, told.pending), room, reason)
            fold = moved.ref, moved.fold, moved.rev, moved.shown
            saved = not keeps or await self.store.save_fold(*fold)
            if saved or not tries_left:
                return moved
        raise AssertionError("there is a last try")

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
        self,
        ref: ChatRef,
        budget_tokens: int | None,
        audience: Collection[str] = (),
        *,
        wide: bool,
        onward: bool = False,
    ) -> tuple[Snapshot, int]:
        guess = self._budgets.get(ref.id) or Settings().budget_tokens
        budget = _within(budget_tokens, guess)
        key = FoldKey(json.dumps(sorted(audience)) if audience else "", budget)
        snapshot = await self._load(ref, key, wide=wide, onward=onward)
        own = snapshot.settings.budget_tokens
        if own != guess and _may_differ(budget_tokens):
            self._budgets[ref.id] = own  # guessed wrong: the settings have another budget
            return await self._look(ref, budget_tokens, audience, wide=wide, onward=onward)
        return (folding.seen_by(snapshot, audience) if audience else snapshot), budget

    async def _load(self, ref: ChatRef, key: FoldKey, *, wide: bool, onward: bool) -> Snapshot:
        """A snapshot with as many covers as its budget has room for: mostly one look."""
        most = COVERS_LOADED_MAX
        while True:
            snapshot = await self.store.load(ref, key, wide=wide, onward=onward, covers_max=most)
            loaded = snapshot.backlog.covers if snapshot.backlog else ()
            if len(loaded) < most or total_tokens(loaded) > key.budget_tokens * COVERS_SHARE:
                return snapshot
            most *= 4


def _may_differ(budget_tokens: int | None) -> bool:
    """Whether the chat's own budget has a say."""
    return budget_tokens is None or isinstance(budget_tokens, AtMost)


def _within(budget_tokens: int | None, own: int) -> int:
    """The budget that holds, where the chat's own is `own`."""
    if isinstance(budget_tokens, AtMost):
        return min(own, max(BUDGET_MIN, int(budget_tokens)))
    return budget_tokens or own


def _stands(thing: Shown) -> bool:
    return isinstance(thing, Message) and thing.pinned


def _with(snapshot: Snapshot, pending: Sequence[Message]) -> Snapshot:
    return replace(snapshot, tail=(*snapshot.tail, *pending)) if pending else snapshot
