"""Where a conversation may be cut: between turns, and never inside a tool call and its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate

from previously.model import Message, total_tokens

TURN_MESSAGES_MAX = 12  # a log without replies still has to end its units somewhere
TURN_TOKENS_MAX = 3_000


def calls_of(message: Message) -> frozenset[str]:
    """The ids of the tool calls a message makes."""
    if message.tool_calls is None:
        return frozenset()
    return frozenset(str(call.get("id", "")) for call in json.loads(message.tool_calls))


def groups(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Messages in pieces that belong together: a call with all its results, or one message."""
    out: list[list[Message]] = []
    waiting: set[str] = set()
    for message in messages:
        if out and message.role == "tool" and message.tool_call_id in waiting:
            out[-1].append(message)
            waiting.discard(message.tool_call_id)
            continue
        out.append([message])
        waiting = set(calls_of(message)) if message.tool_calls is not None else waiting and set()
    return [tuple(group) for group in out]


def _is_open(group: Sequence[Message]) -> bool:
    answered = {m.tool_call_id for m in group if m.role == "tool"}
    return bool(calls_of(group[0]) - answered)


def _closes(turn: Sequence[Message], group: Sequence[Message]) -> bool:
    last = group[-1]
    if last.role == "assistant" and last.tool_calls is None:
        return True
    # The sizes first: they are looked at for every message, and tell nearly always.
    small = len(turn) < TURN_MESSAGES_MAX and total_tokens(turn) < TURN_TOKENS_MAX
    return not small and not _is_open(group)


def turns(messages: Sequence[Message]) -> tuple[list[tuple[Message, ...]], tuple[Message, ...]]:
    """The closed turns, and what is left open at the end.

    A turn ends with a reply that calls no tool; everything said before it belongs to it.
    """
    closed: list[tuple[Message, ...]] = []
    current: list[Message] = []
    for group in groups(messages):
        if current and current[-1].presence != group[0].presence:
            closed.append(tuple(current))  # who was not there must not learn of it from a summary
            current = []
        current.extend(group)
        if _closes(current, group):
            closed.append(tuple(current))
            current = []
    return closed, tuple(current)


def pending_start(messages: Sequence[Message]) -> int:
    """Index of the pending turn: what waits for a reply, back to the words that asked for it."""
    index = len(messages)
    while index and (messages[index - 1].role == "tool" or messages[index - 1].tool_calls):
        index -= 1
    while index and messages[index - 1].role in ("user", "system"):
        index -= 1
    return index


def tail_start(messages: Sequence[Message], messages_min: int, tokens_max: int) -> int:
    """Index where the tail may start so that it keeps `messages_min` messages within `tokens_max`.

    The last turn is always kept whole, whatever its size.
    """
    closed, rest = turns(messages)
    lengths = [len(turn) for turn in (closed if rest else closed[:-1])]
    starts = [0, *accumulate(lengths)]
    latest = min(starts[-1], pending_start(messages))
    left = list(accumulate((m.tokens for m in reversed(messages)), initial=0))[::-1]
    best = 0
    for start in starts:
        if start > latest:
            break
        if len(messages) - start >= messages_min or left[best] > tokens_max:
            best = start
    return best
