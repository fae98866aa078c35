"""Forks children that have their imports done, so that a short life is not spent on them.

A line of JSON comes in, the arguments of a child; its process id goes out. Run by chaos_shared.py,
with which it ends, and its children with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys

import chaos_child


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    born: list[int] = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(json.loads(line))
        born.append(child)
        print(child, flush=True)
    for child in born:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def live(arguments: list[str]) -> None:
    """All of a child's life."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asyncio.run(chaos_child.main(arguments))
    os._exit(0)


if __name__ == "__main__":
    main()
