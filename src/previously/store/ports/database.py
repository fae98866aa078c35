"""What a backend supplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


class Database(Protocol):
    """Runs transactions: durable before `write` returns, consistent within `read`."""

    @property
    def read_only(self) -> bool: ...

    @property
    def exclusive(self) -> bool:
        """Whether one process at most can have it open for writing."""
        ...

    def now_ms(self, connection: Connection) -> int | None:
        """The database's own clock, which every process shares; None: it has none to offer."""
        ...

    async def listen(self, heard: Callable[[int], None]) -> None:
        """Tell of every chat that any process changes, by its key, until cancelled."""
        ...

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T: ...

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T: ...

    def at_once(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T | None:
        """What one short read finds, on this very thread; None where that might take a while.

        For a read of a row or two, which costs less than to hand it over and wait for it.
        """
        ...

    async def close(self) -> None: ...
