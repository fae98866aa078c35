"""Another process on a shared database: summarises until its turn to misbehave. Run by
test_shared.py.

It prints `asked` when its model is asked. The model answers when the file `go` is there; with
`die`, the process dies after the answer was kept and before it is used.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from previously import app, runner
from previously.model import Ask, Draft, Lease, Reply, Summary
from previously.testing import ScriptedLlm

SMALL = {"visible_floors": 2, "fold_every": 1, "minis_per_call": 1}


class Patient(ScriptedLlm):
    """Waits for a file."""

    def __init__(self, go: Path) -> None:
        super().__init__(lambda ask: f"by {os.getpid()}: {ask.material[0][1]}")
        self.go = go

    async def complete(self, ask: Ask) -> Reply:
        print("asked", flush=True)
        while not self.go.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        return await super().complete(ask)


async def main(url: str, go: Path, lease_ms: int, how: str) -> None:
    runner.LEASE_MS, runner.RENEW_EVERY_S, runner.SWEEP_EVERY_S = lease_ms, lease_ms / 4000, 0.3
    house = await app.build(url, llm=Patient(go), settings=SMALL)

    async def dies(lease: Lease, draft: Draft) -> Summary:  # noqa: ARG001 - as `commit` has them
        os._exit(9)

    if how == "die":
        house.store.commit = dies
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
