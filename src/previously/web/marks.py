"""Cache marks: where a provider with explicit breakpoints is told to remember a prompt's beginning.

After the stable head, after the summaries, at the end of the tail: the places up to which the next
prompt will be the same. A client that sets marks of its own is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from previously.model import Block

ANTHROPIC = "anthropic"
OPENAI = "openai"
STYLES = (ANTHROPIC, OPENAI)

Raw = dict[str, Any]

_MARKS: Mapping[str, Raw] = {
    ANTHROPIC: {"cache_control": {"type": "ephemeral"}},
    OPENAI: {"prompt_cache_breakpoint": {"mode": "explicit"}},
}
# Providers take four; OpenAI sets one of them by itself, behind the newest message.
_MOST = {ANTHROPIC: 4, OPENAI: 3}
_WORDS = (b'"cache_control"', b'"prompt_cache_breakpoint"', b'"prompt_cache_options"')
_STABLE = frozenset({"carried", "standing", "cover", "raw"})


def has_marks(body: bytes) -> bool:
    """Whether the client has marked anything itself; a text that only speaks of it counts too."""
    return any(word in body for word in _WORDS)


def places(head: int, blocks: Sequence[Block]) -> list[int]:
    """The messages behind which the next prompt may differ; `head` messages stand before."""
    kinds = [block.place for block in blocks]
    stable = _last(i for i, kind in enumerate(kinds) if kind in _STABLE)
    standing = _last(i for i, kind in enumerate(kinds) if kind == "standing")
    # What is called up changes with every turn: nothing behind it is worth remembering.
    tail_kinds = ("tail",) if "fragment" in kinds else ("tail", "pending")
    tail = _last(i for i, kind in enumerate(kinds) if kind in tail_kinds)
    found = [head - 1 if standing is None else head + standing]
    found += [head + i for i in (stable, tail) if i is not None]
    return sorted({i for i in found if i >= 0})


def marked(messages: Sequence[Raw], at: Sequence[int], style: str) -> list[Raw]:
    """The messages with marks behind those at these places, or behind what stands before them."""
    result = list(messages)
    done: set[int] = set()
    for wanted in at[-_MOST[style] :]:
        index = next((i for i in range(wanted, -1, -1) if _can_bear(result[i], style)), None)
        if index is not None and index not in done:
            done.add(index)
            result[index] = _with_mark(result[index], _MARKS[style])
    return result


def _last(found: Iterable[int]) -> int | None:
    return max(found, default=None)


def _can_bear(message: Mapping[str, Any], style: str) -> bool:
    content = message.get("content")
    if style == OPENAI and message.get("role") == "assistant":
        return False  # an answer's own blocks take no breakpoint there
    return bool(content) and isinstance(content, str | list)


def _with_mark(message: Raw, mark: Raw) -> Raw:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, **mark}]}
    return {**message, "content": [*content[:-1], {**content[-1], **mark}]}
