"""The product's server with a gate before its background work, so that turns are measured alone.

SIGUSR1 lets the background rest; SIGUSR2 lets it catch up. Nothing else differs from
`previously serve`.

    python bench/servers/served.py PORT UPSTREAM_URL FOLDER
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from previously import app, runner
from previously.model import ChatRef
from previously.service import Background
from previously.web.serve import create_app, only_serves, serve
from previously.web.serve import run as run_fast


class Gate:
    """What wakes the background, held while the gate is closed."""

    def __init__(self, behind: Background) -> None:
        self._behind = behind
        self._open = True
        self._waiting: dict[int, ChatRef] = {}

    def wake(self, ref: ChatRef) -> None:
        if self._open:
            self._behind.wake(ref)
        else:
            self._waiting[ref.id] = ref

    def heard(self, chat_id: int) -> None:
        self._behind.heard(chat_id)

    async def idle(self, ref: ChatRef, timeout_s: float) -> bool:
        return await self._behind.idle(ref, timeout_s)

    def close(self) -> None:
        self._open = False

    def open(self) -> None:
        self._open = True
        waiting, self._waiting = self._waiting, {}
        for ref in waiting.values():
            self._behind.wake(ref)


async def main(port: int, upstream: str, folder: Path) -> None:
    """Serve until killed."""
    runner.SWEEP_EVERY_S = 3600.0  # wakes are enough here; the index is fed by hand below
    house = await app.build(folder / "previously.db")
    assert house.runner is not None
    gate = Gate(house.runner)
    house.service._background = gate
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, gate.close)
    loop.add_signal_handler(signal.SIGUSR2, lambda: _catch_up(gate, house))
    try:
        web = create_app(house.service, upstream)
        await serve(web, "127.0.0.1", port, ready=lambda *_: only_serves())
    finally:
        await house.close()


_tasks: set[asyncio.Task[None]] = set()


def _catch_up(gate: Gate, house: app.House) -> None:
    gate.open()
    task = asyncio.create_task(_index(house))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _index(house: app.House) -> None:
    while await house.store.index_some(runner.INDEX_MESSAGES, ripe=False):
        pass


if __name__ == "__main__":
    run_fast(main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
