"""`previously worker`: summaries in a process of their own, beside servers on one database."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from typing import Any

from previously import app
from previously.cli.options import command
from previously.errors import BadInput


def add(commands: Any) -> None:
    """Its options."""
    command(
        commands,
        "worker",
        run,
        "Write summaries for every server that shares a PostgreSQL database.",
    )


async def run(args: argparse.Namespace) -> int:
    """Work until told to stop; what was running is taken over by the next worker."""
    location = app.database_location(args.database, args.data)
    if not isinstance(location, str):
        raise BadInput(
            "a worker of its own needs a database that processes can share: "
            "--database postgresql://user@host/name. On a SQLite file the server is the worker.",
            field="database",
        )
    told = _told_to_stop()
    async with await app.build(location):
        where = app.shown_location(location)
        print(json.dumps({"database": where}) if args.json else f"Working on {where}.", flush=True)
        await told.wait()
    return 0


def _told_to_stop() -> asyncio.Event:
    told = asyncio.Event()
    if sys.platform != "win32":  # there Ctrl-C is all there is, and it ends the loop
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told
