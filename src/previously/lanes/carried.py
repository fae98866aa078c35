"""What an earlier chat has handed on: how much of it a prompt shows, and in which words.

It covers nothing, so that a client's own history is read as if it were not there; it stands in
front of everything and weighs in the share of summaries.
"""

from __future__ import annotations

from collections.abc import Sequence

from previously.lanes.levels import LABEL_TOKENS, LINE_TOKENS
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import Block, Carried, Item
from previously.prompts import texts
from previously.text.language import language_of

SHARE_MIN = 0.5  # of the room of summaries, that the chat's own leave to it


def size(carried: Sequence[Carried]) -> int:
    """What they weigh in a prompt."""
    return LABEL_TOKENS + sum(c.tokens + LINE_TOKENS for c in carried) if carried else 0


def within(carried: Sequence[Carried], tokens_max: int) -> tuple[Carried, ...]:
    """Those that fit: what was pinned first, then the newest, in their order."""
    chosen: set[int] = set()
    left = tokens_max - LABEL_TOKENS
    for one in sorted(carried, key=lambda c: (not c.stands, -c.id)):
        left -= one.tokens + LINE_TOKENS
        if left < 0:
            break
        chosen.add(one.id)
    return tuple(c for c in carried if c.id in chosen)


def show(carried: Sequence[Carried]) -> Block:
    """One system message: a label that says what this is, then a line for each."""
    wording = texts(language_of("\n".join(c.text for c in carried)))
    extracts = any(c.is_extract for c in carried)
    label = wording.carried_label + (wording.extract_label if extracts else "")
    content = "\n".join([label, *(f"- {c.text}" for c in carried)])
    return Block(
        place="carried",
        wire={"role": "system", "content": content},
        tokens=sum(c.tokens + LINE_TOKENS for c in carried)
        + count_tokens(label)
        + MESSAGE_OVERHEAD_TOKENS,
        sources=tuple(map(Item.of, carried)),
    )
