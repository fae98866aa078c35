"""Cleaning: what a summarising model is given of a message, by the user's own rules.

Tags first, then each rule in its order, as JavaScript would run it: rules are shared between users
of programs written in that. Each runs in a thread of its own with limits on time and memory, so
that a rule that never ends delays no turn; it is stopped, left out from then on, and named.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from previously.model import BLANKS, Cleaning, Message, Task, Uncovered
from previously.settings import CleanupRule, cleanup_rules
from previously.text.capture import captured
from previously.text.clean import clean

log = logging.getLogger(__name__)

INPUT_BYTES_MAX = 262_144
MEMORY_BYTES_MAX = 67_108_864
RULE_S_MAX = 0.2  # of the processor, for one rule on one message
STOPPED_MAX = 1_000
_COMPILE = "(pattern, flags) => { new RegExp(pattern, flags) }"
_REPLACE = "(pattern, flags, by, text) => text.replace(new RegExp(pattern, flags), by)"


class Cleaner:
    """One per process: one thread, and the rules that were found to take too long."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cleaning")
        self._stopped: dict[CleanupRule, None] = {}

    async def cleaned(self, task: Task) -> tuple[Task, tuple[str, ...]]:
        """The task as its model is to read it, and what was wrong with the rules."""
        if not task.sources or not task.cleaning:
            return task, ()
        loop = asyncio.get_running_loop()
        work = (self._all, task.cleaning, [m.body for m in task.sources])
        bodies, wrong = await loop.run_in_executor(self._thread, *work)
        sources = _with_bodies(task.sources, bodies)
        return replace(task, sources=sources, uncovered=Uncovered((sources,))), wrong

    def _all(self, cleaning: Cleaning, bodies: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
        texts = [captured(body, cleaning.start_tag, cleaning.end_tag) for body in bodies]
        wrong: dict[str, None] = {}
        for number, rule in enumerate(cleanup_rules(cleaning.rules), 1):
            fault = "stopped" if rule in self._stopped else self._apply(rule, texts)
            if fault:
                wrong[f"clean-up rule {fault}: {number}"] = None
        return texts, tuple(wrong)

    def _apply(self, rule: CleanupRule, texts: list[str]) -> str:
        """Run one rule over the texts; the word for what went wrong. A bad rule changes nothing."""
        import quickjs  # noqa: PLC0415 - most chats have no rules

        context = quickjs.Context()
        context.set_memory_limit(MEMORY_BYTES_MAX)
        context.set_time_limit(RULE_S_MAX)
        run = context.eval(_REPLACE)
        for index, text in enumerate(texts):
            if len(text.encode("utf-8", "replace")) > INPUT_BYTES_MAX:
                continue  # so long a text is read as it is
            try:
                texts[index] = clean(str(run(*rule, clean(text))))
            except quickjs.JSException as error:
                return self._fault(rule, str(error))
        return ""

    def _fault(self, rule: CleanupRule, said: str) -> str:
        if "interrupted" not in said and "memory" not in said:
            log.warning("a clean-up rule is passed over: %s", said.partition("\n")[0])
            return "failed"
        log.warning("a clean-up rule took too long and is left out until the next start")
        self._stopped[rule] = None
        if len(self._stopped) > STOPPED_MAX:
            self._stopped.pop(next(iter(self._stopped)))
        return "stopped"


def fault_in(rule: CleanupRule) -> str:
    """What JavaScript says is wrong with a rule; nothing, if it can be run."""
    import quickjs  # noqa: PLC0415 - most chats have no rules

    try:
        quickjs.Context().eval(_COMPILE)(rule.pattern, rule.flags)
    except quickjs.JSException as error:
        return str(error).partition("\n")[0]
    return ""


def _with_bodies(sources: Sequence[Message], bodies: Sequence[str]) -> tuple[Message, ...]:
    """The messages with these words; as they are if nothing of any would be left."""
    if not any(body.strip(BLANKS) for body in bodies):
        return tuple(sources)
    return tuple(replace(m, body=body) for m, body in zip(sources, bodies, strict=True))
