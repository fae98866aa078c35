"""Asking: from one part to one note: asked for, judged, asked for once more, shortened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from previously.engine.calls import Calls
from previously.engine.limits import Limits, Tally
from previously.engine.request import Request
from previously.engine.together import Given
from previously.errors import DraftRejected, TooLong
from previously.lanes.wording import ask_again, ask_to_shorten
from previously.model import Accepted, Ask, Part, Reply
from previously.text.answer import cut_to_size, is_long, judge


@dataclass(frozen=True, slots=True)
class Note:
    """What was written about a part, from which messages, by whom and upon which request."""

    text: str
    sources: tuple[int, ...]
    model: str = ""
    request: str = ""


class Asking:
    """The calls of one run: counted, limited, and none begun after one has failed."""

    def __init__(
        self,
        request: Request,
        calls: Calls,
        limits: Limits,
        fence: Callable[[Part], str],
        given: Given | None = None,
    ) -> None:
        self._request = request
        self._given = given  # an answer about all of it that is there already
        self._calls = calls
        self._limits = limits
        self._fence = fence
        self._slots = asyncio.Semaphore(limits.at_once)
        self._failure: BaseException | None = None
        self.tally = Tally(calls=given.calls if given else 0)

    def ask(self, part: Part) -> Ask:
        """The request about a part, as it is put to this model."""
        return self._calls.addressed(self._request.ask(part, self._fence(part)))

    async def is_paid(self, part: Part) -> bool:
        """Whether the answer is already there."""
        return await self._calls.known(self._request.chat, self.ask(part)) is not None

    async def note(self, part: Part, sources: Sequence[int]) -> Note:
        """The note on a part; `TooLong` if the part is, `DraftRejected` after two bad answers."""
        request, reply, found = await self._accepted(part, sources)
        if is_long(found, part.tokens_max):
            found = await self._shortened(found, part.tokens_max, sources)
        self.tally.flags.update(dict.fromkeys(found.flags))
        return Note(found.text, tuple(sources), reply.model, request)

    async def _accepted(self, part: Part, sources: Sequence[int]) -> tuple[str, Reply, Accepted]:
        return await self._accepted_of_given(part) or await self._asked_for(part, sources)

    async def _accepted_of_given(self, part: Part) -> tuple[str, Reply, Accepted] | None:
        """The answer that came with others, if it will do. It has one chance."""
        given, self._given = self._given, None
        if given is None or part.lines != self._request.lines:
            return None
        self.tally.add(given.request, given.reply)
        try:
            found = self._request.accept(part, given.reply, last=False)
        except DraftRejected:
            self.tally.asked_again += 1
            await self._calls.forget(self._request.chat, (given.request,))
            return None
        return given.request, given.reply, found

    async def _asked_for(self, part: Part, sources: Sequence[int]) -> tuple[str, Reply, Accepted]:
        first = self.ask(part)
        reply = await self._reply(first, sources)
        try:
            return first.hash, reply, self._request.accept(part, reply, last=False)
        except DraftRejected as rejected:
            self.tally.asked_again += 1
            again = ask_again(first, str(rejected))
        reply = await self._reply(again, sources)
        try:
            return again.hash, reply, self._request.accept(part, reply, last=True)
        except DraftRejected as rejected:
            await self._calls.forget(self._request.chat, (first.hash, again.hash))
            self._failure = self._failure or rejected
            raise

    async def _shortened(
        self, found: Accepted, tokens_max: int, sources: Sequence[int]
    ) -> Accepted:
        """Said in fewer words if the model can, else cut at a sentence."""
        self.tally.shortened += 1
        part = Part(tokens_max, notes=(found.text,))
        ask = self._calls.addressed(
            ask_to_shorten(found.text, tokens_max, self._fence(part), self._request.language)
        )
        try:
            shorter = judge(part, await self._reply(ask, sources), last=True)
        except (DraftRejected, TooLong):
            return cut_to_size(found, tokens_max)
        return cut_to_size(shorter, tokens_max) if is_long(shorter, tokens_max) else shorter

    async def _reply(self, ask: Ask, sources: Sequence[int]) -> Reply:
        try:
            reply = await self._calls.answer(self._request.chat, ask, sources, self._slot)
        except TooLong:
            self.tally.too_long += 1
            raise
        self.tally.add(ask.hash, reply)
        return reply

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        """Room for one more call. What is on its way when another fails may still arrive, and is
        kept; nothing new is begun."""
        async with self._slots:
            if self._failure is not None:
                raise self._failure
            if self.tally.calls >= self._limits.calls_max:
                spent = f"the run has made its {self._limits.calls_max} calls"
                raise DraftRejected(f"{spent}; what had arrived is kept")
            self.tally.calls += 1
            with ExitStack() as ending:
                ending.push(self._ended)
                yield

    def _ended(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """A call is over. If a part was too long it is cut, and the run goes on."""
        if not isinstance(error, TooLong):
            self._failure = self._failure or error
