"""Five thousand imported messages and a small model."""

from __future__ import annotations

import random

import pytest

from previously.errors import ModelUnavailable
from previously.model import Ask, Message, digest
from tests.core.makers import message
from tests.engine.makers import Shelf, Windowed, drafted, engine, is_merge, request_tokens

WINDOW_TOKENS = 8_000


def hashed(ask: Ask) -> str:
    return f"Note {digest(str(ask.material)).hex()}."


def backlog() -> list[Message]:
    """Three million characters."""
    rng = random.Random(11)
    words = ["lantern", "harbour", "promise", "seventeen", "Mira", "Jonas", "letter", "stair"]
    return [
        message(n, body=f"{n}: " + " ".join(rng.choices(words, k=rng.randint(40, 110))) + ".")
        for n in range(2, 5_002)
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.proves("G-63", "G-64")
async def test_a_backlog_is_noted_whole_within_the_window_and_survives_a_break():
    messages = backlog()
    assert sum(len(m.body) for m in messages) > 2_500_000
    shelf = Shelf()

    def breaks(ask: Ask) -> str | Exception:
        return hashed(ask) if len(shelf.kept) < 60 else ModelUnavailable("gone")

    with pytest.raises(ModelUnavailable):
        await drafted(engine(Windowed(WINDOW_TOKENS, breaks), shelf), messages)
    had = set(shelf.kept)
    llm = Windowed(WINDOW_TOKENS, hashed)
    draft = await drafted(engine(llm, shelf), messages)
    assert llm.refused == []
    assert all(request_tokens(a) + a.tokens_max <= WINDOW_TOKENS for a in llm.asks)
    assert not had & {ask.hash for ask in llm.asks}
    stats = draft.stats
    assert stats["truncated"] is False
    assert stats["answers"] == stats["chunk_count"] + stats["merges"] == len(had) + len(llm.asks)
    read = [text for ask in llm.asks if not is_merge(ask) for _, text in ask.material]
    assert len(read) == len(set(read))
    # Cuts by position fill a window to more than half: within a factor of two of the fewest calls.
    fewest = stats["input_tokens"] / (WINDOW_TOKENS - 1_100)
    assert stats["chunk_count"] <= 2.4 * fewest
