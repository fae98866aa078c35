"""Branches a long chat until it is killed. Run by test_branch.py."""

from __future__ import annotations

import asyncio
import sys

from previously import Memory


async def main(path: str) -> None:
    async with Memory.open(path, worker=False) as memory:
        chat = await memory.chat("long")
        print("open", flush=True)
        await chat.branch("branch")
        print("done", flush=True)


asyncio.run(main(sys.argv[1]))
