"""`previously` with extracts that leave a mark for every call. Run by test_backfill.py, and killed.

python backfiller.py CALLS_FILE WORDS…
"""

from __future__ import annotations

import sys
from pathlib import Path

from previously import cli, summariser
from previously.llm.extractive import Extractive
from previously.model import Ask, Reply

CALLS = Path(sys.argv[1])


class Counted(Extractive):
    """The built-in summariser; a file grows by one byte for each of its answers."""

    async def complete(self, ask: Ask) -> Reply:
        _count()
        return await super().complete(ask)


def _count() -> None:
    with CALLS.open("ab") as file:
        file.write(b".")


summariser.Extractive = Counted
sys.exit(cli.main(sys.argv[2:]))
