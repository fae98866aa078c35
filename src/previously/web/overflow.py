"""The safety net of every chat: a request that does not fit is compacted, halved, then refused.

Each try is smaller than the one before, and the pending turn is in all of them word for word. What
is left out of a try stays stored and waits for its summary.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from previously.assembler import NO_SUMMARY_YET
from previously.errors import PreviouslyError
from previously.llm.overflow import Overflow
from previously.model import ChatRef, Trace, total_tokens
from previously.service import Service
from previously.settings import BUDGET_MIN
from previously.text.pairs import paired
from previously.web.opening import Opened
from previously.web.outgoing import Outgoing, Room

log = logging.getLogger(__name__)

COMPACTIONS_MAX = 2
COMPACT_DEADLINE_S = 20.0  # for both together: a client waits
SHRINK = 0.6  # of a prompt that was too long, where nobody says how long it may be

_HISTORY = frozenset({"tail", "raw"})

Prepare = Callable[[Room], Awaitable[Outgoing]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a prompt has to be smaller: the upstream said so, or its window does."""

    said: Overflow
    answer: Opened | None = None  # None: it was foreseen, and never sent


def refusal_in(opened: Opened) -> Refusal | None:
    """The overflow that an answer speaks of."""
    return None if opened.overflow is None else Refusal(opened.overflow, opened)


def foreseen(outgoing: Outgoing, ceiling: int | None) -> Refusal | None:
    """Whether a prompt would not fit the window, or fits only without what has no summary yet."""
    if ceiling is None or outgoing.prompt is None or outgoing.prompt_tokens is None:
        return None
    trace = outgoing.prompt.trace
    too_long = outgoing.prompt_tokens > ceiling
    if too_long or (trace.budget_tokens >= ceiling and _lacks_summaries(trace)):
        return Refusal(Overflow(ceiling, outgoing.prompt_tokens))
    return None


def _lacks_summaries(trace: Trace) -> bool:
    return any(gone.reason == NO_SUMMARY_YET for gone in trace.dropped)


async def smaller(
    service: Service, outgoing: Outgoing, prepare: Prepare, ceiling: Callable[[], int | None]
) -> AsyncIterator[Outgoing]:
    """Ever smaller prompts for the same turn; the caller stops at the first that is taken.

    `ceiling` is asked each time: every refusal may teach it something.
    """
    assert outgoing.turn is not None
    assert outgoing.prompt_tokens is not None
    ref, size, steps = outgoing.turn.ref, outgoing.prompt_tokens, [outgoing.trace]
    clock = asyncio.get_running_loop().time
    deadline_s = clock() + COMPACT_DEADLINE_S
    for number in range(1, COMPACTIONS_MAX + 1):
        left_s = (deadline_s - clock()) / (COMPACTIONS_MAX + 1 - number)
        await _compact(service, ref, left_s)
        made = await prepare(Room(trial=_next_budget(size, ceiling())))
        if made.turn is None or made.prompt_tokens is None:
            return  # the chat has moved on: this turn is no longer understood
        # A prompt that was foreseen not to fit may be as large as before, and hold more.
        if made.prompt_tokens < size or (ceiling() or 0) >= made.prompt_tokens:
            outgoing, size = made, made.prompt_tokens
            steps.append(f"overflow_retry: compacted to {size} tokens")
            yield replace(outgoing, trace="; ".join(steps))
    for limit in halvings(_history_length(outgoing)):
        made = narrowed(outgoing, limit)
        if made.prompt_tokens is not None and made.prompt_tokens < size:
            size = made.prompt_tokens
            steps.append(f"halved to {limit}")
            yield replace(made, trace="; ".join(steps))


def _next_budget(size: int, ceiling: int | None) -> int:
    shrunk = int(size * SHRINK)
    wanted = ceiling if ceiling is not None and ceiling < size else shrunk
    return max(BUDGET_MIN, wanted)


async def _compact(service: Service, ref: ChatRef, deadline_s: float) -> None:
    """Have all that is closed summarised, as far as that is done in time."""
    with suppress(PreviouslyError):
        await service.hurry(ref)
        await service.settle(ref, max(0.0, deadline_s))


def halvings(count: int) -> Iterator[int]:
    """20 → 10, 5, 2, 1: never nothing."""
    while count > 1:
        count //= 2
        yield count


def _history_length(outgoing: Outgoing) -> int:
    assert outgoing.prompt is not None
    return sum(block.place in _HISTORY for block in outgoing.prompt.trace.blocks)


def narrowed(outgoing: Outgoing, limit: int) -> Outgoing:
    """With so many messages of the history at most: beside the head, the summaries and the turn.

    A tool call goes with its results: where a cut would part them, both go.
    """
    prompt = outgoing.prompt
    assert prompt is not None
    history = [i for i, block in enumerate(prompt.trace.blocks) if block.place in _HISTORY]
    gone = frozenset(history[: max(0, len(history) - limit)])
    kept = [
        block
        for i, block in enumerate(prompt.trace.blocks)
        if i not in gone and block.place != "fragment"
    ]
    blocks, _ = paired(kept)
    lost = total_tokens(prompt.trace.blocks) - total_tokens(blocks)
    trace = replace(prompt.trace, blocks=blocks, tokens=prompt.tokens - lost)
    return replace(
        outgoing,
        messages=outgoing.rendered(blocks),
        prompt=replace(prompt, tokens=trace.tokens, trace=trace),
        prompt_tokens=trace.tokens,
    )


def advice(outgoing: Outgoing, said: Overflow) -> str:
    """What to tell a client when nothing is left to leave out."""
    window = f"{said.window_tokens:,} tokens" if said.window_tokens else "the model's window"
    return (
        f"the newest message, with the system text and the summaries that always go with it, has "
        f"about {outgoing.prompt_tokens or 0:,} tokens and does not fit {window}, although all "
        "that could be left out was. Shorten the message or the system text, ask for a shorter "
        "answer (max_tokens), or choose a model with a larger window."
    )
