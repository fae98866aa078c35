"""CPU of what a page asks for most, in chats of growing length. Prints JSON.

A request goes through the whole application in this process, without a network: guard, routes,
checks of shapes, JSON. The chats are written straight into the tables, under three levels of
summaries; pages are the newest one, the first, and some in the middle.

    python bench/rest.py [--sizes 1000,10000,100000] [--probes 40] [--limit 50]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longchat import fill
from starlette.types import ASGIApp, Message
from turn import cpu_ms, exponent

from previously import app
from previously.web.serve import create_app

BAR_MS = 20.0  # for 50 floors of 100,000


async def get(web: ASGIApp, path: str) -> bytes:
    """One request; the body of its answer."""
    bare, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": bare,
        "raw_path": bare.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await web(scope, receive, send)
    body = b"".join(part.get("body", b"") for part in told[1:])
    assert told[0]["status"] == 200, body
    return body


def paths(chat: str, size: int, limit: int, probes: int) -> dict[str, list[str]]:
    """What is asked for, by kind."""
    dice = random.Random(1)  # noqa: S311 - the same pages every time
    floors = [dice.randrange(limit, size) for _ in range(probes)]
    messages = f"/api/chats/{chat}/messages?limit={limit}"
    return {
        "newest floors": [messages] * probes,
        "first floors": [f"{messages}&page=1"] * probes,
        "floors anywhere": [f"{messages}&before_floor={floor}" for floor in floors],
        "top summaries": [f"/api/chats/{chat}/summaries?limit={limit}"] * probes,
        "chats": ["/api/chats"] * probes,
        "prompt": [f"/api/chats/{chat}/prompt"] * (probes // 4),
    }


async def measure(folder: Path, size: int, limit: int, probes: int) -> dict[str, Any]:
    """One chat of one size."""
    house = await app.build(folder / f"{size}.db", worker=False)
    ref = (await house.service.open_chat("bench")).ref
    await house.store._db.write(fill, ref, size)
    await house.service.prompt(ref)
    web = create_app(house.service, None)
    print(f"{size} messages ready", file=sys.stderr)
    found: dict[str, Any] = {}
    for name, asked in paths(f"c{ref.id}", size, limit, probes).items():
        body = await get(web, asked[0])  # compiles the statements
        times = [await cpu_ms(get(web, path)) for path in asked]
        found[name] = {"cpu_ms": round(statistics.median(times), 2), "kb": len(body) // 1000}
        found[name]["cpu_max_ms"] = round(max(times), 2)
    await house.close()
    return found


async def run(sizes: Sequence[int], limit: int, probes: int, folder: Path) -> dict[str, Any]:
    """Everything, smallest chat first."""
    gc.disable()
    results = {size: await measure(folder, size, limit, probes) for size in sizes}
    kinds = list(results[sizes[0]])
    largest = results[sizes[-1]]
    worst = max(v["cpu_ms"] for k, v in largest.items() if "floors" in k)
    return {
        "messages": results,
        "exponent_cpu": {
            kind: exponent({n: r[kind]["cpu_ms"] for n, r in results.items()}) for kind in kinds
        },
        "floors_bar_ms": BAR_MS,
        "floors_worst_ms": worst,
        "holds": worst <= BAR_MS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--probes", type=int, default=40)
    parser.add_argument("--limit", type=int, default=50)
    args = parser.parse_args()
    sizes = [int(x) for x in args.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(sizes, args.limit, args.probes, Path(folder)))
    print(json.dumps(found, indent=1))
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
