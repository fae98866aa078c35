"""Tree: material of any size to one note, through a model whose window is smaller.

Directly if it fits. Else the material is parted where positions say, each stretch is noted, and
neighbouring notes are made into one. A stretch that cannot be parted any more is read with its
middle left out, as a last resort, and then the summary says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import ceil
from typing import Any, TypeVar

from previously.engine.asking import Asking, Note
from previously.engine.limits import SAFETY_RATIO, Limits
from previously.engine.request import Request
from previously.errors import TooLong
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens, cut_to_tokens
from previously.model import Line, Part
from previously.text.answer import LONG_SHARE, whole_sentences
from previously.text.cuts import Halves, between_messages, count_sources, inside_text, squeezed

FINAL_SHARE = 4  # of a window that a summary may have
LEARNT_SHARE = 0.75  # of a request that was too long, where nobody says how long it may be
NOTE_SHARE = 8  # notes that fit into a window
NOTE_TOKENS_MIN = 32
NOTE_OVERHEAD_TOKENS = 8
SQUEEZED_TOKENS_MIN = 16
TREE_CALLS_MIN = 3  # two halves, and one to make them one

T = TypeVar("T")


class Tree:
    """One run over one request."""

    def __init__(
        self, request: Request, asking: Asking, limits: Limits, window_tokens: int | None
    ) -> None:
        self._request = request
        self._asking = asking
        self._limits = limits
        self._stated = window_tokens
        self._window = window_tokens
        self._learnt = False  # that the window is smaller than was said
        self._proven = window_tokens is not None  # a size is known that the model takes
        # Stretches wait for their turn before they are weighed: what others learnt, they know.
        self._turns = asyncio.Semaphore(limits.at_once)
        self._prompts: dict[bool, int] = {}  # what a request weighs without its material
        # Sizes depend on what is stated, if anything is, and not on what is learnt on the way: the
        # next run must ask the same questions.
        stated = window_tokens or 0
        self._final_tokens = min(request.tokens_max, stated // FINAL_SHARE or request.tokens_max)
        wanted = max(limits.note_tokens_max, request.tokens_max)
        self._note_tokens = max(NOTE_TOKENS_MIN, min(wanted, stated // NOTE_SHARE or wanted))
        self._fan_in = self._notes_at_once()

    async def grow(self) -> tuple[Note, int]:
        """The note on everything, and how many answers were given before its own."""
        notes = await self._notes(self._request.lines, 0, self._limits.calls_max)
        inner = 0 if len(notes) == 1 else len(self._asking.tally.asked)
        return await self._merged(notes, self._final_tokens), inner

    async def _notes(self, lines: tuple[Line, ...], depth: int, calls: int) -> list[Note]:
        """Notes on a stretch, oldest first, few enough to be made into one."""
        tally = self._asking.tally
        tally.depth = max(tally.depth, depth)
        part = self._part(lines, depth)
        try:
            note = await self._direct(part)
        except TooLong as error:
            self._learn(part, error)
            calls -= 1
        else:
            if note is not None:
                return [note]
        halves = self._halves(lines, depth, calls)
        if halves is None:
            return [await self._forced(part)]
        return await self._joined(halves, depth + 1, calls - 1)

    def _part(self, lines: tuple[Line, ...], depth: int) -> Part:
        first = self._request.lines[0]
        opens = lines[0].source == first.source and not lines[0].continued
        size = _tokens(lines)
        target = min(self._note_tokens, max(NOTE_TOKENS_MIN, size // 2))
        return Part(target if depth else self._final_tokens, lines, opens=opens)

    async def _may_ask(self, part: Part) -> bool:
        if self._fits(part, self._window) or not self._limits.bisect:
            return True
        # It may have been answered before this run learnt otherwise.
        return self._learnt and await self._asking.is_paid(part)

    async def _direct(self, part: Part) -> Note | None:
        """The note on a stretch as it is; None if that is not even asked for."""
        async with self._turns:
            if not await self._may_ask(part):
                return None
            note = await self._asking.note(part, _sources(part.lines))
        self._asking.tally.chunks += 1
        self._proven = True
        return note

    def _halves(self, lines: tuple[Line, ...], depth: int, calls: int) -> Halves | None:
        """The stretch in two; None if it is as small as it may get, or no calls are left for it."""
        limits = self._limits
        room = self._room(self._note_tokens, self._window, merge=False)
        if room is not None and room < SQUEEZED_TOKENS_MIN:
            raise self._hopeless()
        exhausted = depth >= limits.depth_max or calls < TREE_CALLS_MIN
        if exhausted or _tokens(lines) < limits.tokens_min:
            return None
        enough = count_sources(lines) >= limits.messages_min
        halves = between_messages(lines) if enough else None
        if halves is None and limits.split_inside_message:
            halves = inside_text(lines)
        return halves

    async def _joined(self, halves: Halves, depth: int, calls: int) -> list[Note]:
        """The notes on both halves; if they are too many together, one for each half."""
        left_lines, right_lines = halves
        share = calls * _tokens(left_lines) // max(1, _tokens(left_lines) + _tokens(right_lines))
        share = max(1, min(calls - 1, share))
        left, right = await self._both(
            lambda: self._notes(left_lines, depth, share),
            lambda: self._notes(right_lines, depth, calls - share),
        )
        if len(left) + len(right) <= self._fan_in:
            return left + right
        merged = await self._both(
            lambda: self._merged(left, self._target(left)),
            lambda: self._merged(right, self._target(right)),
        )
        return list(merged)

    async def _both(
        self,
        left: Callable[[], Coroutine[Any, Any, T]],
        right: Callable[[], Coroutine[Any, Any, T]],
    ) -> tuple[T, T]:
        """Side by side, once a size is known that fits; until then what the left half learns spares
        the right one calls. A failure lets what is on its way arrive."""
        if not self._proven:
            return await left(), await right()
        first, second = await asyncio.gather(left(), right(), return_exceptions=True)
        if isinstance(first, BaseException):
            raise first
        if isinstance(second, BaseException):
            raise second
        return first, second

    # --- notes into one

    async def _merged(self, notes: Sequence[Note], tokens_max: int) -> Note:
        if len(notes) == 1:
            return notes[0]
        part = Part(tokens_max, notes=tuple(note.text for note in notes))
        # Two notes are asked about whatever was learnt elsewhere: all that is left is to cut them.
        if self._fits(part, self._window) or (len(notes) == 2 and self._fits(part, self._stated)):
            try:
                merged = await self._asking.note(part, _sources_of(notes))
            except TooLong as error:
                self._learn(part, error)
            else:
                self._asking.tally.merges += 1
                return merged
        if len(notes) == 2:
            return await self._merged([self._cut(note) for note in notes], tokens_max)
        middle = len(notes) // 2
        older, newer = notes[:middle], notes[middle:]
        both = await self._both(
            lambda: self._merged(older, self._target(older)),
            lambda: self._merged(newer, self._target(newer)),
        )
        return await self._merged(both, tokens_max)

    def _target(self, notes: Sequence[Note]) -> int:
        """One note has no more to say than those it is made of."""
        size = sum(count_tokens(note.text) for note in notes)
        return min(self._note_tokens, max(NOTE_TOKENS_MIN, size))

    def _cut(self, note: Note) -> Note:
        """Half of a note that does not fit beside one other."""
        half = count_tokens(note.text) // 2
        if half < SQUEEZED_TOKENS_MIN:
            raise self._hopeless()
        self._asking.tally.hurt.update(dict.fromkeys(note.sources))
        kept = cut_to_tokens(note.text, half)
        return Note(whole_sentences(kept) or kept, note.sources)

    # --- the last resort

    async def _forced(self, part: Part) -> Note:
        """A note on as much of the stretch as one request can hold, head and tail."""
        limit = self._room(part.tokens_max, self._window, merge=False)
        assert limit is not None  # else it would have been asked about as it is
        while limit >= SQUEEZED_TOKENS_MIN:
            kept, hurt = squeezed(part.lines, limit)
            shown = Part(part.tokens_max, kept, opens=part.opens)
            try:
                note = await self._asking.note(shown, _sources(part.lines))
            except TooLong as error:
                self._learn(shown, error)
                limit //= 2
                continue
            self._asking.tally.hurt.update(dict.fromkeys(hurt))
            self._asking.tally.chunks += 1
            return note
        raise self._hopeless()

    def _hopeless(self) -> TooLong:
        room = "what it takes" if self._window is None else f"{self._window} tokens"
        return TooLong(f"the model's window of {room} is too small to summarise anything in")

    # --- sizes

    def _fits(self, part: Part, window: int | None) -> bool:
        room = self._room(part.tokens_max, window, merge=bool(part.notes))
        return room is None or _weight(part) <= room

    def _room(self, tokens_max: int, window: int | None, *, merge: bool) -> int | None:
        """Tokens of material, in our count, that a window holds beside prompt and answer."""
        if window is None:
            return None
        return int((window - self._beside(tokens_max, merge=merge)) / SAFETY_RATIO)

    def _beside(self, tokens_max: int, *, merge: bool) -> int:
        """What a request and its answer weigh without the material."""
        if merge not in self._prompts:
            messages = self._asking.ask(Part(0, notes=("",) if merge else ())).messages
            sizes = (count_tokens(m["content"]) + MESSAGE_OVERHEAD_TOKENS for m in messages)
            self._prompts[merge] = sum(sizes)
        return self._prompts[merge] + ceil(LONG_SHARE * tokens_max)

    def _learn(self, part: Part, error: TooLong) -> None:
        """The model takes less than was thought, by what it says or by what it refused."""
        if not self._limits.bisect:
            raise error
        beside = self._beside(part.tokens_max, merge=bool(part.notes))
        material = ceil(_weight(part) * SAFETY_RATIO)
        learnt = beside + int(material * LEARNT_SHARE)
        if error.window_tokens is not None and error.window_tokens < beside + material:
            learnt = error.window_tokens
        self._window = learnt if self._window is None else min(self._window, learnt)
        self._learnt = True
        if self._stated is None:
            smaller = max(NOTE_TOKENS_MIN, self._window // NOTE_SHARE)
            self._note_tokens = min(self._note_tokens, smaller)

    def _notes_at_once(self) -> int:
        room = self._room(self._note_tokens, self._stated, merge=True)
        if room is None:
            return self._limits.fan_in
        longest = int(LONG_SHARE * self._note_tokens) + NOTE_OVERHEAD_TOKENS
        return max(2, min(self._limits.fan_in, room // longest))


def _weight(part: Part) -> int:
    if part.lines:
        return _tokens(part.lines)
    return sum(count_tokens(note) + NOTE_OVERHEAD_TOKENS for note in part.notes)


def _tokens(lines: Sequence[Line]) -> int:
    return sum(line.tokens for line in lines)


def _sources(lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.source for line in lines))


def _sources_of(notes: Sequence[Note]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(source for note in notes for source in note.sources))
