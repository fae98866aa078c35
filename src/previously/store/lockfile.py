"""One writing process per database file: a lock that the system frees when the process dies."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from previously.errors import StoreLocked

if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileLock:
    """Held from construction until `release`."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _try_lock(self._fd)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreLocked(
                f"{database} is open for writing in another process (id {holder}). "
                "Stop that one, or use its address instead; reading commands work beside it."
            ) from error
        os.truncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let the next process in. The file stays: removing it would race with its next holder."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
