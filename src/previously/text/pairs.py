"""Tool calls and results in pairs: what providers refuse is mended before it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from previously.measure import message_tokens
from previously.model import Block

NO_RESULT = "[no result available]"


def paired(blocks: Sequence[Block]) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """The blocks with every call answered and every result asked for, and what was mended.

    Calls at the very end still wait for their results and are left alone.
    """
    if not any(b.wire["role"] == "tool" or b.wire.get("tool_calls") for b in blocks):
        return tuple(blocks), ()
    kept: list[Block] = []
    notes: list[str] = []
    open_calls: dict[str, None] = {}  # in the order of the calls
    for block in blocks:
        if block.wire["role"] == "tool":
            if block.wire.get("tool_call_id") not in open_calls:
                notes.append("left out a tool result whose call is not there")
                continue
            del open_calls[str(block.wire["tool_call_id"])]
        else:
            kept += _answers(open_calls, notes)
            open_calls = dict.fromkeys(_calls(block.wire.get("tool_calls")))
        kept.append(block)
    return tuple(kept), tuple(notes)


def _calls(calls: Any) -> Iterator[str]:
    for call in calls or ():
        yield str(call.get("id", ""))


def _answers(open_calls: dict[str, None], notes: list[str]) -> Iterator[Block]:
    for call_id in open_calls:
        notes.append("answered a tool call whose result is not there")
        wire = {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT}
        yield Block("repair", wire, message_tokens("tool", NO_RESULT) + len(json.dumps(call_id)))
