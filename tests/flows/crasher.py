"""Plays a short story and dies at one chosen point. Run by test_crash.py.

Points are counted over everything that reaches the database for writing and every model call:
`before` dies as the k-th begins, `after` as soon as it is done.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from previously import app
from previously.model import Ask, NewMessage, Reply
from previously.testing import ScriptedLlm, plain_note

TURNS = 5


class Fuse:
    """Burns down with every point that is passed."""

    def __init__(self, points: int, when: str) -> None:
        self.left = points
        self.when = when

    async def guard(self, work: Callable[[], Awaitable[Any]]) -> Any:
        self.left -= 1
        mine = self.left == 0  # others may pass while this one waits
        if mine and self.when == "before":
            os._exit(9)
        result = await work()
        if mine and self.when == "after":
            os._exit(9)
        return result


class Fused(ScriptedLlm):
    """A model whose calls are points too; each is written down where a crash cannot reach it."""

    def __init__(self, fuse: Fuse, calls: Path) -> None:
        super().__init__(plain_note)
        self.fuse = fuse
        self.calls = calls

    async def complete(self, ask: Ask) -> Reply:
        async def call() -> Reply:
            with self.calls.open("a") as log:
                log.write(ask.hash + "\n")
            return await super(Fused, self).complete(ask)

        return await self.fuse.guard(call)


async def main(path: Path, points: int, when: str) -> None:
    fuse = Fuse(points, when)
    llm = Fused(fuse, path.with_suffix(".calls"))
    house = await app.build(path, llm=llm, settings={"visible_floors": 2, "fold_every": 1})
    write = house.store._db.write

    async def guarded(*args: Any, **kw: Any) -> Any:
        return await fuse.guard(lambda: write(*args, **kw))

    house.store._db.write = guarded
    service = house.service
    chat = await service.open_chat("crash")
    have = [m.body async for m in service.messages(chat.ref)]
    for n in range(len(have), 2 * TURNS):
        role = "user" if n % 2 == 0 else "assistant"
        await service.append(chat.ref, [NewMessage(role, f"line {n} of the story.")])
    await service.settle(chat.ref, 30)
    if not [s async for s in service.summaries(chat.ref) if s.level]:
        await service.archive(chat.ref)
        await service.settle(chat.ref, 30)
    await service.prompt(chat.ref)
    await house.close()


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
