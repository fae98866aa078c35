"""Engine: one task to one draft, or any text to one summary, each answer paid for once.

`tree` decides what is asked about, `asking` what an answer is worth, `calls` whether it has been
paid for already, `together` which tasks are asked about at once.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from previously.engine.asking import Asking, Note
from previously.engine.calls import Calls
from previously.engine.calls import PaidCalls as PaidCalls
from previously.engine.cleaning import Cleaner as Cleaner
from previously.engine.limits import Limits as Limits
from previously.engine.request import Request, TaskRequest
from previously.engine.request import text_request as text_request
from previously.engine.together import Given, Together
from previously.engine.together import Tact as Tact
from previously.engine.tree import Tree
from previously.errors import ModelUnavailable
from previously.llm import Llm
from previously.measure import count_tokens
from previously.model import Draft, Part, Task, Usage, Verdict, digest
from previously.text.answer import losses

FENCE_HEX = 12


@dataclass(frozen=True, slots=True)
class Result:
    """What a run made."""

    text: str
    tokens: int
    model: str
    request: str  # hash of the request that the text answers
    usage: Usage
    stats: dict[str, Any]
    spent: tuple[str, ...]  # requests whose kept answers no later run can use


def _no_clock() -> int:
    return 0


class Engine:
    """One summarising model, used as the lanes ask."""

    def __init__(
        self,
        llm: Llm,
        paid: PaidCalls | None,
        secret: bytes,
        *,
        limits: Limits | None = None,
        clock_ms: Callable[[], int] = _no_clock,
        tact: Tact | None = None,
        cleaner: Cleaner | None = None,
    ) -> None:
        self._llm = llm
        self._calls = Calls(llm, paid)
        self._secret = secret
        self._limits = limits or Limits()
        self._clock_ms = clock_ms
        self._cleaner = cleaner or Cleaner()
        self._together = Together(self._calls, tact or Tact(), self._fence, llm.window_tokens)

    async def run(self, task: Task, company: Sequence[Task] = ()) -> Draft | Verdict:
        """A draft for the task; `DraftRejected` if a second answer is no better than a first.

        `company`: tasks, this one first, that one call may be made for. The answers to the others
        are kept until they are run.
        """
        read, wrong = await self._cleaner.cleaned(task)
        request = TaskRequest(read)
        if request.decides:
            return await self._decide(task, request)
        began_ms = self._clock_ms()
        given = None
        if task.sources:
            others = [(await self._cleaner.cleaned(one))[0] for one in company[1:]]
            given = await self._together.answer(read, [read, *others])
        made = await self._made(request, given, began_ms, wrong)
        provenance = {
            "model": made.model,
            "tokens_max": task.tokens_max,
            "profile": self._llm.name,
            "request": made.request,
            "paid": self._llm.costs,
        }
        return Draft(
            task,
            made.text,
            made.tokens,
            provenance,
            made.usage,
            stats=made.stats,
            spent=made.spent,
        )

    async def _decide(self, task: Task, request: TaskRequest) -> Verdict:
        """One question, one word; no second try: anything but yes is no."""
        part = Part(task.tokens_max, lines=request.lines)
        ask = self._calls.addressed(request.ask(part, self._fence(part)))
        reply = await self._calls.answer(task.chat, ask, (), nullcontext)
        await self._calls.forget(task.chat, (ask.hash,))
        return Verdict(task, request.verdict(reply))

    async def summarise(self, request: Request) -> Result:
        """One summary of the request's material, whatever its size."""
        return await self._made(request, None, self._clock_ms())

    async def _made(
        self, request: Request, given: Given | None, began_ms: int, wrong: Sequence[str] = ()
    ) -> Result:
        asking = Asking(request, self._calls, self._limits, self._fence, given)
        tree = Tree(request, asking, self._limits, self._llm.window_tokens)
        note, inner = await self._in_time(tree)
        tally, tokens = asking.tally, count_tokens(note.text)
        lost = losses(Part(0, request.lines).material, note.text)
        tally.flags.update(dict.fromkeys((*wrong, *lost)))
        size = sum(line.tokens for line in request.lines)
        kept = set(tally.asked[:inner])
        return Result(
            text=note.text,
            tokens=tokens,
            model=note.model,
            request=note.request,
            usage=tally.usage,
            stats=tally.stats(size, tokens, self._clock_ms() - began_ms),
            spent=tuple(h for h in dict.fromkeys(tally.asked[inner:]) if h not in kept),
        )

    async def _in_time(self, tree: Tree) -> tuple[Note, int]:
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await tree.grow()
        except TimeoutError as error:
            late = f"the run took more than {self._limits.deadline_s:g} s"
            raise ModelUnavailable(f"{late}; what had arrived is kept") from error

    def _fence(self, part: Part) -> str:
        """A line that the quoted text cannot contain by guessing, the same at every retry."""
        lines = (word for x in part.lines for word in (str(x.source), x.speaker, x.text))
        quoted = digest(*lines, *part.notes)
        mark = hmac.digest(self._secret, quoted, "sha256").hex()[:FENCE_HEX]
        return f"=== {mark} ==="
