"""Summarises one giant turn, call by call on the record. Run, and killed, by test_kill.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from previously import app
from previously.model import Ask, NewMessage, Reply, digest
from tests.engine.makers import Windowed

PARAGRAPHS = 32
WINDOW_TOKENS = 1_150


def note(ask: Ask) -> str:
    return f"Note {digest(str(ask.material)).hex()}."


class OnRecord(Windowed):
    """Each call is written down where a crash cannot reach it."""

    def __init__(self, calls: Path, delay_s: float) -> None:
        super().__init__(WINDOW_TOKENS, note)
        self.delay_s = delay_s
        self._calls = calls

    async def complete(self, ask: Ask) -> Reply:
        with self._calls.open("a") as log:
            log.write(ask.hash + "\n")
        return await super().complete(ask)


def paragraph(n: int) -> str:
    return " ".join(f"w{n}x{k}" for k in range(70)) + "."


async def main(path: Path, delay_s: float) -> None:
    llm = OnRecord(path.with_suffix(".calls"), delay_s)
    house = await app.build(path, llm=llm, settings={"visible_floors": 1})
    service = house.service
    chat = await service.open_chat("giant")
    if not [m async for m in service.messages(chat.ref)]:
        giant = "\n\n".join(paragraph(n) for n in range(PARAGRAPHS))
        for said in (giant, "I see.", "And now?", "Now we go on."):
            role = "user" if said in (giant, "And now?") else "assistant"
            await service.append(chat.ref, [NewMessage(role, said)])
    settled = await service.settle(chat.ref, 60)
    assert settled.done, settled
    texts = [s.text async for s in service.summaries(chat.ref)]
    print(texts)
    await house.close()


asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
