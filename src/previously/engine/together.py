"""Together: one call for several tasks that wait, and each answer kept as if it had come alone.

What arrives is taken apart and kept under the task that it is for before anything is judged. So
each is accepted, refused, committed or spoilt by an edit by itself, and a crash costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from previously.engine.calls import Calls
from previously.engine.limits import SAFETY_RATIO
from previously.engine.request import TaskRequest, ask_together
from previously.errors import TooLong
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import Part, Reply, Task, Usage, digest
from previously.text.answer import LONG_SHARE
from previously.text.parts import parted

MATERIAL_TOKENS_MAX = 6_000  # in one request: a long turn deserves one of its own
HEAD_TOKENS = 48  # that a turn's number and the marks around it may take
PAUSE_FIRST = 16  # tasks that are asked about alone after an answer that could not be taken apart
PAUSE_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Given:
    """The answer to a task that came with others, and whether it was asked for just now."""

    request: str  # what it is kept under
    reply: Reply
    calls: int = 0


@dataclass(slots=True)
class Tact:
    """Which models cannot answer for several at once, and how long not to ask them to.

    In memory: a process that has forgotten it pays for one more call.
    """

    _faults: dict[str, int] = field(default_factory=dict[str, int])
    _pauses: dict[str, int] = field(default_factory=dict[str, int])

    def allows(self, model: str) -> bool:
        """Whether it may be asked now; every no shortens the pause."""
        left = self._pauses.get(model, 0)
        if left:
            self._pauses[model] = left - 1
        return not left

    def note(self, model: str, *, parted: bool) -> None:
        """What came of asking."""
        faults = 0 if parted else self._faults.get(model, 0) + 1
        self._faults[model] = faults
        self._pauses[model] = min(PAUSE_MAX, PAUSE_FIRST << min(faults - 1, 8)) if faults else 0


def in_vain(tasks: int) -> int:
    """How many calls such a model is asked for in vain while so many tasks are worked off."""
    calls, pause = 0, PAUSE_FIRST
    while tasks > 0:
        calls, tasks, pause = calls + 1, tasks - pause, min(PAUSE_MAX, pause * 2)
    return calls


def fitting(tasks: Sequence[Task], window_tokens: int | None) -> tuple[Task, ...]:
    """The first of these that one request and its answer have room for; at least one."""
    if len(tasks) < 2:
        return tuple(tasks)
    material = 0
    weight = _beside(tasks[0]) if window_tokens is not None else 0.0
    for count, task in enumerate(tasks):
        lines = sum(line.tokens for line in TaskRequest(task).lines)
        material += lines
        weight += (lines + HEAD_TOKENS) * SAFETY_RATIO + task.tokens_max * LONG_SHARE
        overfull = window_tokens is not None and weight > window_tokens
        if material > MATERIAL_TOKENS_MAX or overfull:
            return tuple(tasks[: max(1, count)])
    return tuple(tasks)


def _beside(task: Task) -> float:
    """What a request weighs without the turns that it is about."""
    asked = ask_together((task,), "").messages
    sizes = sum(count_tokens(m["content"]) + MESSAGE_OVERHEAD_TOKENS for m in asked)
    return (sizes - sum(line.tokens for line in TaskRequest(task).lines)) * SAFETY_RATIO


class Together:
    """The calls of one model that are for several tasks."""

    def __init__(
        self,
        calls: Calls,
        tact: Tact,
        fence: Callable[[Part], str],
        window_tokens: int | None,
    ) -> None:
        self._calls = calls
        self._tact = tact
        self._fence = fence
        self._window = window_tokens

    async def answer(self, task: Task, company: Sequence[Task]) -> Given | None:
        """The answer that came for this task with others, now or earlier; None: ask for it alone.

        `company` are the tasks that one request may be about, this one first.
        """
        if not self._calls.keeps:
            return None
        key = self._key(task)
        known = await self._calls.kept(task.chat, key)
        if known is not None:
            return Given(key, known)
        tasks = fitting([task, *await self._unanswered(company[1:])], self._window)
        if len(tasks) < 2 or not self._tact.allows(self._calls.model):
            return None
        replies = await self._ask(tasks)
        return Given(key, replies[0], calls=1) if replies else None

    async def _unanswered(self, tasks: Sequence[Task]) -> list[Task]:
        """Those up to the first whose answer is there already: it came with another call."""
        found: list[Task] = []
        for task in tasks:
            if await self._calls.kept(task.chat, self._key(task)) is not None:
                break
            found.append(task)
        return found

    async def _ask(self, tasks: Sequence[Task]) -> list[Reply]:
        """One answer for each, oldest first, as far as there are any; all are kept."""
        lines = tuple(line for task in tasks for line in TaskRequest(task).lines)
        ask = self._calls.addressed(ask_together(tasks, self._fence(Part(0, lines))))
        chat, sources = tasks[0].chat, [m.id for task in tasks for m in task.sources]
        try:
            reply = await self._calls.answer(chat, ask, sources, nullcontext)
        except TooLong:
            self._tact.note(self._calls.model, parted=False)
            return []
        replies = _apart(reply, len(tasks))
        self._tact.note(self._calls.model, parted=bool(replies))
        for task, part in zip(tasks, replies, strict=False):
            await self._calls.keep(chat, self._key(task), part, [m.id for m in task.sources])
        await self._calls.forget(chat, (ask.hash,))
        return replies

    def _key(self, task: Task) -> str:
        """What an answer is kept under: the task, to this model, at this size and language."""
        size = str(task.tokens_max)
        return digest("part", self._calls.model, task.id, size, task.language).hex()


def _apart(reply: Reply, count: int) -> list[Reply]:
    if reply.finish not in ("stop", "length"):
        return []
    notes = parted(reply.text, count, cut=reply.finish == "length")
    shares = _shares(reply.usage, len(notes))
    return [Reply(n, reply.model, usage=u) for n, u in zip(notes, shares, strict=True)]


def _shares(usage: Usage, count: int) -> list[Usage]:
    """What each of them cost: alike, and the first what cannot be divided."""

    def share(whole: int, number: int) -> int:
        return whole // count + (whole % count if number == 0 else 0)

    return [
        Usage(
            share(usage.input_tokens, number),
            share(usage.output_tokens, number),
            share(usage.cached_tokens, number),
            share(usage.reasoning_tokens, number),
        )
        for number in range(count)
    ]
