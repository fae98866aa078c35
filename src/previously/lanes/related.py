"""Related: what was said long ago and the pending turn calls up again, quoted as it was said.

An overlay: it stands for nothing and covers nothing. It stands behind the tail, because it changes
with every turn: whatever came after it would have to be paid for anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import Block, Item, Message, Recalled
from previously.prompts import texts
from previously.text.language import language_of

NEIGHBOUR_TOKENS_MAX = 120  # a longer one costs more than what it may explain
NEIGHBOURS_FROM = 0.4  # of the best score: who answers that well has neighbours worth hearing
LINE_TOKENS = 8  # floor, speaker and end of a line
LABEL_TOKENS = 48
BESIDE = "beside"


def choose(
    found: Sequence[Recalled], beside: Mapping[int, Sequence[Recalled]], room_tokens: int
) -> tuple[Recalled, ...]:
    """The best that fit, each with neighbours if they are short and it answers well; in order.

    `beside` holds for each message those that stand next to it.
    """
    best = found[0].score if found else 0.0
    chosen: dict[int, Recalled] = {}
    left = room_tokens - LABEL_TOKENS
    for hit in found:
        near = beside.get(hit.message.id, ()) if hit.score >= best * NEIGHBOURS_FROM else ()
        for one in (hit, *(n for n in near if n.message.tokens <= NEIGHBOUR_TOKENS_MAX)):
            cost = one.message.tokens + LINE_TOKENS
            if one.message.id not in chosen and cost <= left:
                chosen[one.message.id] = one
                left -= cost
    return tuple(sorted(chosen.values(), key=lambda r: r.message.pos))


def neighbour(message: Message, floor: int, of: Recalled) -> Recalled:
    """A message that is quoted because of the one beside it."""
    return replace(of, message=message, floor=floor, reason=f"{BESIDE} #{of.floor}")


def show(chosen: Sequence[Recalled]) -> Block:
    """One system message, a line for each, with floor and speaker."""
    wording = texts(language_of("\n".join(r.message.body for r in chosen)))
    lines = [f"#{r.floor} {r.message.speaker}: {r.message.body}" for r in chosen]
    content = "\n".join([wording.recalled_label, *lines])
    return Block(
        place="fragment",
        wire={"role": "system", "content": content},
        tokens=count_tokens(content) + MESSAGE_OVERHEAD_TOKENS,
        sources=tuple(Item.of(r.message) for r in chosen),
    )
