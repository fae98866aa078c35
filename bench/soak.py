"""Hundreds of streams at once in front of an upstream that fails now and then. Prints JSON.

Every client leads a conversation of its own and counts a turn as said once its stream came to its
end. Afterwards every such turn must be stored. One stream in twenty is reset, ends in garbage or
half-way, or stalls until the client gives up. What a client does then is told by `--broken`: it
asks the same again, drops the turn and says something else, or keeps what came and goes on.

    python bench/soak.py [--streams 500] [--seconds 60] [--broken again|drop|keep]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from proxy import System, free_port, started

from previously import app

FAULT_SHARE = 0.05
FAULTS = ("reset", "garbage", "half", "stall")
CLIENT_TIMEOUT_S = 20.0
PIECES = 12
PIECE_S = 0.05
WARM_S = 20.0
GROWTH_MAX = 0.05
HISTORY = 12  # messages that a client still sends
BROKEN = ("again", "drop", "keep")


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class Upstream:
    """Says a few words slowly, or something goes wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same faults in every run
        self.faults = dict.fromkeys(FAULTS, 0)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked = body["messages"][-1]["content"]
        fault = self.random.choice(FAULTS) if self.random.random() < FAULT_SHARE else ""
        if fault:
            self.faults[fault] += 1
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):
            await self._say(request, response, asked, fault)
        return response

    async def _say(
        self, request: web.Request, response: web.StreamResponse, asked: str, fault: str
    ) -> None:
        for number in range(PIECES):
            if fault and number == PIECES // 2:
                await self._fail(request, response, fault)
                return
            await response.write(event(f"{asked}/{number} "))
            await asyncio.sleep(PIECE_S)
        await response.write(event("", "stop") + b"data: [DONE]\n\n")

    async def _fail(self, request: web.Request, response: web.StreamResponse, fault: str) -> None:
        if fault == "reset" and isinstance(request.transport, asyncio.WriteTransport):
            request.transport.abort()
        elif fault == "garbage":
            await response.write(b"\x00\xff<html>{" * 50)
        elif fault == "half":
            await response.write(event("half")[:20])
        else:
            await asyncio.sleep(CLIENT_TIMEOUT_S * 2)


class Client:
    """One conversation: what it has seen finished, and what went wrong."""

    def __init__(self, url: str, number: int, on_broken: str) -> None:
        self.chat = f"soak-{number}"
        self.on_broken = on_broken
        self.told: list[tuple[str, str]] = []  # what it would send
        self.url = f"{url}/c/{self.chat}/v1/chat/completions"
        self.finished: list[tuple[str, str]] = []
        self.broken = 0
        self.refused = 0

    async def talk(self, session: aiohttp.ClientSession, until_s: float) -> None:
        number = 0
        while time.monotonic() < until_s:
            asked = f"{self.chat} says {number}"
            raw = await self._ask(session, asked)
            reply, whole = _reply(raw), b"data: [DONE]" in raw
            if whole:
                self.finished.append((asked, reply))
            if whole or (self.on_broken == "keep" and reply):
                self.told.append((asked, reply))
            if whole or self.on_broken != "again":
                number += 1

    async def _ask(self, session: aiohttp.ClientSession, asked: str) -> bytes:
        """All that came, whether it came to its end or not."""
        told: list[dict[str, str]] = []
        for user, assistant in self.told[-HISTORY // 2 :]:
            told += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        messages = [*told, {"role": "user", "content": asked}]
        body = {"model": "m", "stream": True, "messages": messages}
        raw = b""
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT_S):
                async with session.post(self.url, json=body) as answer:
                    if answer.status != 200:
                        self.refused += 1
                        return b""
                    async for piece in answer.content.iter_any():
                        raw += piece
        except (aiohttp.ClientError, TimeoutError):
            self.broken += 1
        return raw


def _reply(raw: bytes) -> str:
    """The words of a stream, as far as it came."""
    words: list[str] = []
    for line in raw.splitlines():
        with suppress(ValueError, KeyError):  # an error is an event too
            if line.startswith(b"data: {"):
                words.append(json.loads(line[6:])["choices"][0]["delta"]["content"])
    return "".join(words)


async def watch(system: System, seconds: float) -> list[float]:
    """Memory of the server, once a second."""
    seen: list[float] = []
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        seen.append(system.rss_mb())
    return seen


async def lost(path: Path, clients: list[Client]) -> list[str]:
    """Turns that a client saw finished and that are not stored."""
    missing: list[str] = []
    house = await app.build(path, read_only=True)
    try:
        for client in clients:
            if not client.finished:
                continue
            ref = (await house.service.find_chat(client.chat)).ref
            stored = {m.body.strip() async for m in house.service.messages(ref)}
            for asked, reply in client.finished:
                if asked not in stored or reply.strip() not in stored:
                    missing.append(asked)
    finally:
        await house.close()
    return missing


async def run(streams: int, seconds: float, on_broken: str, folder: Path) -> dict[str, Any]:
    """The storm, then the count."""
    upstream = Upstream(7)
    served = web.Application()
    served.router.add_post("/v1/chat/completions", upstream.completions)
    runner = web.AppRunner(served, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    behind = free_port()
    await web.TCPSite(runner, "127.0.0.1", behind, backlog=1024).start()
    with ExitStack() as stack:
        system = server(stack, behind, folder)
        clients = [Client(system.url, n, on_broken) for n in range(streams)]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            until_s = time.monotonic() + seconds
            memory, *_ = await asyncio.gather(
                watch(system, seconds), *(client.talk(session, until_s) for client in clients)
            )
        assert system.process is not None
        crashed = system.process.poll() is not None
        system.process.terminate()
        system.process.wait()
    await runner.cleanup()
    missing = await lost(folder / "previously.db", clients)
    return result(clients, upstream, memory, missing, crashed=crashed)


def server(stack: ExitStack, behind: int, folder: Path) -> System:
    port = free_port()
    command = [str(Path(sys.executable).parent / "previously"), "serve", "--port", str(port)]
    command += ["--upstream", f"http://127.0.0.1:{behind}/v1", "--data", str(folder)]
    address = f"http://127.0.0.1:{port}"
    process: subprocess.Popen[bytes] = started(stack, command, f"{address}/healthz")
    return System("soak", address, process)


def result(
    clients: list[Client],
    upstream: Upstream,
    memory: list[float],
    missing: list[str],
    *,
    crashed: bool,
) -> dict[str, Any]:
    """Figures and verdict."""
    warm = memory[min(int(WARM_S), len(memory) // 3)]
    growth = memory[-1] / warm - 1
    return {
        "finished": sum(len(c.finished) for c in clients),
        "broken": sum(c.broken for c in clients),
        "refused": sum(c.refused for c in clients),
        "faults": upstream.faults,
        "crashed": crashed,
        "lost": len(missing),
        "lost_some": missing[:100],
        "rss_mb": {"warm": warm, "end": memory[-1], "most": max(memory)},
        "rss_growth": round(growth, 4),
        "bars": {"crashed": False, "lost": 0, "rss_growth": GROWTH_MAX},
        "held": not crashed and not missing and growth < GROWTH_MAX,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--broken", choices=BROKEN, default="again")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = asyncio.run(run(args.streams, args.seconds, args.broken, Path(folder)))
    print(json.dumps(told, indent=1))
    return 0 if told["held"] else 1


if __name__ == "__main__":
    sys.exit(main())
