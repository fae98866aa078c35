"""What a change of the chat costs again: cuts stand by position, so nearly nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from previously.model import Ask, Message, digest
from tests.engine.makers import Shelf, Windowed, drafted, engine, said

LEAVES = 1_000
WINDOW_TOKENS = 1_100  # holds one message, not two
CALLS_MAX = 4 * LEAVES


def hashed(ask: Ask) -> str:
    """A note that differs whenever what it is about differs, all the way up."""
    return f"Note {digest(str(ask.material)).hex()}."


async def calls(shelf: Shelf, messages: Sequence[Message]) -> int:
    llm = Windowed(WINDOW_TOKENS, hashed)
    draft = await drafted(engine(llm, shelf, calls_max=CALLS_MAX, fan_in=2), messages)
    assert draft.stats["truncated"] is False
    return len(llm.asks)


@pytest.mark.slow
@pytest.mark.proves("G-64")
async def test_of_two_thousand_calls_a_change_repeats_about_ten():
    messages = [said(n) for n in range(1, LEAVES + 1)]
    cold = Shelf()
    assert await calls(cold, messages) == 2 * LEAVES - 1

    async def again(changed: Sequence[Message]) -> int:
        shelf = Shelf()
        shelf.kept = dict(cold.kept)
        return await calls(shelf, changed)

    assert await again(messages) == 0
    assert await again([*messages, said(LEAVES + 1)]) <= 10  # a midpoint bisect repeats 99
    assert await again(messages[1:]) <= 11  # 100
    for gone in (511, 700, 999):
        assert await again([m for i, m in enumerate(messages) if i != gone]) <= 12, gone  # 416
    edited = replace(said(5_000), id=messages[333].id, pos=messages[333].pos)
    assert await again([*messages[:333], edited, *messages[334:]]) <= 12
    between = (messages[600].pos + messages[601].pos) // 2
    inserted = replace(said(6_000), pos=between)
    assert await again([*messages[:601], inserted, *messages[601:]]) <= 14
