"""How a transaction is run: on which database, by which clock, with a chat held or not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from previously.model import ChatRef, FoldKey
from previously.settings import Settings
from previously.store import Database, work
from previously.store.folds import KnownFold
from previously.store.recent import Recents

P = ParamSpec("P")
T = TypeVar("T")


class Connected:
    """One database, one clock, three caches: what every part of the store stands on."""

    def __init__(
        self,
        database: Database,
        clock_ms: Callable[[], int],
        base_settings: Mapping[str, Any],
    ) -> None:
        self._db = database
        self._clock_ms = clock_ms
        self._base = dict(base_settings)
        self._settings: dict[int, tuple[tuple[object, ...], Settings]] = {}
        self._folds: OrderedDict[tuple[int, FoldKey], KnownFold] = OrderedDict()
        self._recent = Recents()  # a recorded turn is added, the next prompt reads it

    @property
    def read_only(self) -> bool:
        return self._db.read_only

    async def close(self) -> None:
        await self._db.close()

    async def _change(
        self,
        ref: ChatRef,
        function: Callable[Concatenate[sa.Connection, ChatRef, P], T],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """A transaction that reads of a chat before it writes: nobody else may come between."""

        def held(conn: sa.Connection) -> T:
            work.hold(conn, ref)
            return function(conn, ref, *args, **kw)

        return await self._db.write(held)

    def _now_ms(self, conn: sa.Connection) -> int:
        """The clock that leases go by: one for all processes that share the database."""
        shared = self._db.now_ms(conn)
        return self._clock_ms() if shared is None else shared
