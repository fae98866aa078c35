"""Appends to a chat and says what is safe on disk, until it is killed. Run by test_kill.py."""

from __future__ import annotations

import asyncio
import random
import sys

from previously import Memory


async def main(path: str, seed: int, first: int, count: int) -> None:
    rng = random.Random(seed)
    async with Memory.open(path) as memory:
        chat = await memory.chat("killed", settings={"visible_floors": 2, "fold_every": 2})
        for n in range(first, first + count):
            role = "user" if n % 2 == 0 else "assistant"
            await chat.append(role, f"{n} " + "words " * rng.randrange(1, 200))
            print(n, flush=True)
            if rng.random() < 0.3:
                await chat.prompt(budget_tokens=2_000)


asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
