"""Cost of a change in the middle of a long chat under three levels of summaries. Prints JSON.

Messages and summaries (minis over two messages, volumes over 20 minis, eras over 20 volumes) are
written straight into the tables, in batches; what is timed is the product's own transactions. The
smallest chat is checked against a recomputation from hashes, before and after.

    python bench/edit.py [--sizes 1000,10000,100000] [--probes 30]
"""

from __future__ import annotations

import gc
import sqlite3
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from longchat import LEVELS, fill
from turn import cpu_ms, exponent, tell

from previously.app import clock_ms
from previously.lanes.volumes import NAME as LANE
from previously.model import ChatRef, NewMessage, key
from previously.service import Service
from previously.store import audit
from previously.store.schema import link, summary
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase

P = ParamSpec("P")
T = TypeVar("T")


class Counting(SqliteDatabase):
    """SQLite that says how many rows the last write touched."""

    rows_written = 0

    async def write(
        self, function: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        def counted(conn: sa.Connection) -> T:
            raw = conn.connection.dbapi_connection
            assert isinstance(raw, sqlite3.Connection)
            before = raw.total_changes
            result = function(conn, *args, **kw)
            self.rows_written = raw.total_changes - before
            return result

        return await super().write(counted)


def above(conn: sa.Connection, message_id: int) -> list[bool]:
    """Whether each level above a message is valid, lowest first."""
    found: list[bool] = []
    target, is_summary = message_id, False
    while True:
        query = sa.select(summary.c.id, summary.c.valid).join(
            link, link.c.summary_id == summary.c.id
        )
        row = conn.execute(
            query.where(link.c.target_id == target, link.c.target_is_summary.is_(is_summary))
        ).first()
        if row is None:
            return found
        found.append(bool(row.valid))
        target, is_summary = row.id, True


@dataclass(slots=True)
class Probe:
    """One chat, and what each kind of change cost in it."""

    database: Counting
    service: Service
    ref: ChatRef
    cpu: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    rows: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    flips: int = 0  # changes after which every level above was invalid, and valid once undone
    asked: int = 0

    async def timed(self, name: str, work_: Any) -> None:
        """Await one change and note what it cost."""
        self.cpu.setdefault(name, []).append(await cpu_ms(work_))
        self.rows.setdefault(name, []).append(self.database.rows_written)

    async def there_and_back(self, name: str, work_: Any, around: int) -> None:
        """A change that breaks what stands above a message, and its undoing."""
        before = await self.database.read(above, around)
        await self.timed(name, work_)
        broken = await self.database.read(above, around)
        await self.timed("undo", self.service.undo(self.ref))
        healed = await self.database.read(above, around)
        self.asked += 1
        levels = len(LEVELS)
        self.flips += (before, broken, healed) == ([True] * levels, [False] * levels, before)

    async def one(self, n: int) -> None:
        """Every kind of change to the n-th message, which is the second of its mini."""
        ref, service, mine = self.ref, self.service, key(self.ref.id, n)
        far = key(ref.id, n + 61)
        new = [NewMessage("user", f"put in before {n}")]
        await self.there_and_back("edit", service.edit(ref, mine, f"edited {n}"), mine)
        await self.there_and_back("delete", service.delete(ref, [mine]), mine)
        await self.there_and_back("insert", service.insert(ref, new, mine), mine)
        await self.there_and_back("move", service.move(ref, mine, far), mine)
        await service.swipe(ref, mine, f"another {n}")
        await self.timed("swipe back", service.swipe(ref, mine, 0))

    async def exact(self) -> bool:
        """Whether what is written about coverage is what hashes say."""
        written = await self.database.read(audit.stored, self.ref, LANE)
        return written == await self.database.read(audit.recompute, self.ref, LANE)


async def measure(path: Path, size: int, probes: int, *, check: bool) -> dict[str, Any]:
    """One chat of one size."""
    database = Counting(path)
    store = SqlStore(database, clock_ms, {})
    service = Service(store, None, clock_ms)
    ref = (await service.open_chat("bench")).ref
    await database.write(fill, ref, size)
    await service.prompt(ref)  # so that there is a fold to make stale
    probe = Probe(database, service, ref)
    exact = [await probe.exact()] if check else []
    print(f"{size} messages ready", file=sys.stderr)
    middle = size // 4 * 2
    await probe.one(middle - 2)  # compiles the statements
    probe.cpu.clear()
    probe.rows.clear()
    for i in range(probes):
        await probe.one(middle + 2 * i)
    exact += [await probe.exact()] if check else []
    await store.close()
    return {
        "cpu_ms": {name: round(statistics.median(v), 3) for name, v in probe.cpu.items()},
        "rows": {name: statistics.median(v) for name, v in probe.rows.items()},
        "three_levels_fell_and_came_back": f"{probe.flips} of {probe.asked}",
        **({"equals_recomputation": all(exact)} if check else {}),
    }


async def run(sizes: Sequence[int], probes: int, folder: Path) -> dict[str, Any]:
    """Everything, smallest chat first."""
    gc.disable()
    results = {
        size: await measure(folder / f"{size}.db", size, probes, check=size == sizes[0])
        for size in sizes
    }
    names = list(results[sizes[0]]["cpu_ms"])
    return {
        "messages": results,
        "exponent_cpu": {
            name: exponent({n: r["cpu_ms"][name] for n, r in results.items()}) for name in names
        },
        "exponent_rows": {
            name: exponent({n: r["rows"][name] for n, r in results.items()}) for name in names
        },
    }


if __name__ == "__main__":
    tell(run, __doc__, "1000,10000,100000", 30)
