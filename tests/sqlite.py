"""A file of SQLite for tests: a fresh copy of one that was migrated once.

What a new file is like when the program makes it itself is told in `tests/store` and by every test
that starts a process.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from previously.store.sqlite import bring_up


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ready.db"
        bring_up(path)
        return path.read_bytes()


def fresh(path: Path) -> Path:
    """A database of its own, schema ready; one that is there stays as it is."""
    if not path.exists():
        path.write_bytes(_migrated())
    return path
