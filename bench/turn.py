"""CPU, WAL and disk per turn as a chat grows, beside bare SQLite in the same run. Prints JSON.

A turn here is one recorded message and one prompt built at the default settings. The history and
its minis are written straight into the tables; what is timed, and what the disk figure measures, is
the product's own work. `behind_turn_ms` is the same where no summary is written yet.

    python bench/turn.py [--sizes 100,1000,10000,100000] [--probes 200]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from longchat import MESSAGE_CHARS, fill, said

from previously import app
from previously.model import ChatRef

Run = Callable[[list[int], int, Path], Coroutine[Any, Any, dict[str, Any]]]


def settled_bytes(path: Path) -> int:
    """Size of the file once the write-ahead log is folded into it."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def wal_frames(path: Path) -> int:
    """Bytes in the write-ahead log."""
    wal = path.with_name(path.name + "-wal")
    return wal.stat().st_size if wal.exists() else 0


async def prefill(house: app.House, size: int) -> ChatRef:
    """A chat of this many messages with their minis, folded once."""
    ref = (await house.service.open_chat(f"bench {size}")).ref
    await house.store._db.write(fill, ref, size, 1)
    await house.service.settle(ref, 60)
    await house.service.prompt(ref)
    return ref


async def growth(folder: Path, count: int = 3_000) -> float:
    """Settled bytes per byte said, for a chat that the product itself recorded and summarised."""
    path = folder / "growth.db"
    house = await app.build(path)
    ref = (await house.service.open_chat("growth")).ref
    empty = settled_bytes(path)
    for start in range(0, count, 500):
        await house.service.append(ref, [said(n) for n in range(start, start + 500)])
    await house.service.settle(ref, 3600)
    await house.close()
    return round((settled_bytes(path) - empty) / (count * MESSAGE_CHARS), 2)


async def probe(house: app.House, ref: ChatRef, first: int, count: int) -> dict[str, float]:
    """Median CPU of append and of prompt; what the background does in between is its own line."""
    background_ms: list[float] = []
    append_ms: list[float] = []
    prompt_ms: list[float] = []
    for n in range(first, first + count):
        append_ms.append(await cpu_ms(house.service.append(ref, [said(n)])))
        background_ms.append(await cpu_ms(house.service.settle(ref, 60)))
        prompt_ms.append(await cpu_ms(house.service.prompt(ref)))
    return {
        "append_ms": round(statistics.median(append_ms), 4),
        "prompt_ms": round(statistics.median(prompt_ms), 4),
        "turn_ms": round(statistics.median(map(sum, zip(append_ms, prompt_ms, strict=True))), 4),
        "turn_mean_ms": round((sum(append_ms) + sum(prompt_ms)) / count, 4),
        "background_mean_ms": round(sum(background_ms) / count, 4),
    }


async def cpu_ms(awaitable: object) -> float:
    """Process time of one awaited call, all threads."""
    start = time.process_time_ns()
    await awaitable  # type: ignore[misc]
    return (time.process_time_ns() - start) / 1e6


async def wal_per_turn(folder: Path, count: int) -> dict[str, float]:
    """Bytes that `count` turns put into the log, on the turn path alone (no background)."""
    path = folder / "wal.db"
    house = await app.build(path, worker=False)
    chat = await house.service.open_chat("wal")
    await house.service.append(chat.ref, [said(n) for n in range(1_000)])
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = wal_frames(path)
    for n in range(count):
        await house.service.append(chat.ref, [said(n)])
        await house.service.prompt(chat.ref)
    grown = wal_frames(path) - before
    await house.close()
    return {"wal_bytes_per_turn": round(grown / count)}


async def behind(folder: Path, size: int, probes: int) -> dict[str, float]:
    """A turn of a chat whose summaries are all late: most of its tail does not fit."""
    house = await app.build(folder / "behind.db", worker=False)
    ref = (await house.service.open_chat("behind")).ref
    await house.service.append(ref, [said(n) for n in range(size)])
    turn_ms: list[float] = []
    for n in range(size, size + probes):
        turn_ms.append(await cpu_ms(house.service.append(ref, [said(n)])))
        turn_ms[-1] += await cpu_ms(house.service.prompt(ref))
    await house.close()
    return {"behind_turn_ms": round(statistics.median(turn_ms), 4)}


def floor(folder: Path, sizes: list[int], probes: int) -> dict[int, dict[str, float]]:
    """The same work on bare SQLite: one insert, then the newest 40 rows."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, role TEXT, body TEXT)")
    out: dict[int, dict[str, float]] = {}
    have = 0
    for size in sizes:
        db.execute("BEGIN")
        rows = [(n, "user", said(n).body) for n in range(have, size)]
        db.executemany("INSERT INTO m VALUES (?,?,?)", rows)
        db.execute("COMMIT")
        times: list[float] = []
        for n in range(size, size + probes):
            start = time.process_time_ns()
            db.execute("INSERT INTO m VALUES (?,?,?)", (n, "user", said(n).body))
            db.execute("SELECT role, body FROM m ORDER BY id DESC LIMIT 40").fetchall()
            times.append((time.process_time_ns() - start) / 1e6)
        out[size] = {"turn_ms": round(statistics.median(times), 4)}
        have = size + probes
    db.close()
    return out


def exponent(points: dict[int, float]) -> float:
    """Slope of log time over log size."""
    xs = [math.log(n) for n in points]
    ys = [math.log(v) for v in points.values()]
    mx, my = statistics.mean(xs), statistics.mean(ys)
    up = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    return round(up / sum((x - mx) ** 2 for x in xs), 3)


async def run(sizes: list[int], probes: int, folder: Path) -> dict[str, Any]:
    """Everything, smallest chat first."""
    house = await app.build(folder / "turn.db")
    results: dict[int, dict[str, float]] = {}
    gc.disable()
    for size in sizes:
        ref = await prefill(house, size)
        print(f"{size} messages ready", file=sys.stderr)
        results[size] = await probe(house, ref, size, probes)
    await house.close()
    return {
        "product": results,
        "floor": floor(folder, sizes, probes),
        "exponent": exponent({n: r["turn_ms"] for n, r in results.items()}),
        "settled_growth_x_message": await growth(folder),
        **await wal_per_turn(folder, 300),
        **await behind(folder, 1_000, probes),
        "bars": {
            "turn_ms": 1.0,
            "exponent": 0.1,
            "wal_bytes_per_turn": 16_384,
            "settled_growth_x_message": 4.0,
        },
    }


def tell(run: Run, about: str | None, sizes: str, probes: int) -> None:
    """Run a benchmark over chats of several sizes, as the command line has it, and print it."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sizes", default=sizes)
    parser.add_argument("--probes", type=int, default=probes)
    args = parser.parse_args()
    chosen = [int(x) for x in args.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(run(chosen, args.probes, Path(folder))), indent=1))


if __name__ == "__main__":
    tell(run, __doc__, "100,1000,10000,100000", 200)
