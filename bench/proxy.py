"""What the proxy adds to a request, beside a bare pass-through and LiteLLM in the same run.

Every system is a process of its own in front of an upstream that answers at once. A request has 42
messages of some 300 characters; each client leads a conversation of its own and sends the newest
part of it. Systems take turns within each round, so that a busy machine is unfair to all alike.
Prints JSON. CPU is the process's own: `cpu_ms` on the way of a turn, `background_ms` what a turn
causes later (summaries, index), measured apart by letting the background rest for a few turns.

    python bench/proxy.py [--requests 150] [--rounds 3] [--systems direct,pass,off,on,litellm]

LiteLLM is installed into `.venv-litellm` on first use, which takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

SERVERS = Path(__file__).parent / "servers"
ROOT = Path(__file__).parents[1]
LITELLM = ROOT / ".venv-litellm"
LITELLM_VERSION = "1.106.2"
MESSAGES = 42
MESSAGE_CHARS = 300
CLIENTS = (1, 32)
START_TIMEOUT_S = 90.0
BURST_TURNS = 5  # of each client, between two rests: less than a fold takes
QUIET_LOOKS = 4
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class System:
    """One way to the upstream."""

    name: str
    url: str
    process: subprocess.Popen[bytes] | None = None
    rests: bool = False  # its background can be told to wait
    samples: dict[str, list[dict[str, float]]] = field(
        default_factory=dict[str, list[dict[str, float]]]
    )

    def cpu_s(self) -> float:
        """CPU seconds of the process and its threads so far."""
        if self.process is None:
            return 0.0
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def tell(self, number: int) -> None:
        if self.rests and self.process is not None:
            self.process.send_signal(number)

    async def quiet(self) -> None:
        """Until it uses no CPU any more."""
        seen, still = self.cpu_s(), 0
        while self.process is not None and still < QUIET_LOOKS:
            await asyncio.sleep(0.05)
            now = self.cpu_s()
            seen, still = now, still + 1 if now == seen else 0

    def rss_mb(self) -> float:
        if self.process is None:
            return 0.0
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return round(int(line.split()[1]) / 1024, 1)
        return 0.0


class Client:
    """One conversation through one system."""

    def __init__(self, system: System, number: int, run: str) -> None:
        chat = f"{run}-{number}"
        self.url = system.url.replace("CHAT", chat)
        self.turn = 0
        self.head = {"role": "system", "content": said("head", 0)}
        self.talk = [self._line(n) for n in range(MESSAGES - 2)]

    def _line(self, n: int) -> dict[str, str]:
        return {"role": ("user", "assistant")[n % 2], "content": said("line", n)}

    def body(self, *, stream: bool) -> bytes:
        self.turn += 1
        self.talk.append({"role": "user", "content": said("turn", self.turn)})
        messages = [self.head, *self.talk[-(MESSAGES - 1) :]]
        return json.dumps({"model": "zero", "messages": messages, "stream": stream}).encode()

    async def ask(self, session: aiohttp.ClientSession, *, stream: bool) -> tuple[float, float]:
        """Milliseconds until the first token, and until the end."""
        body = self.body(stream=stream)
        headers = {"content-type": "application/json", "authorization": "Bearer x"}
        start = time.perf_counter()
        first, told = 0.0, b""
        async with session.post(self.url, data=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            async for chunk in answer.content.iter_any():
                first = first or time.perf_counter()
                told += chunk
        end = time.perf_counter()
        self.talk.append({"role": "assistant", "content": reply_in(told, stream=stream)})
        return (first - start) * 1000, (end - start) * 1000


def reply_in(told: bytes, *, stream: bool) -> str:
    """What a client would keep."""
    if not stream:
        return json.loads(told)["choices"][0]["message"]["content"]
    events = [line[6:] for line in told.splitlines() if line.startswith(b"data: {")]
    deltas = [json.loads(event)["choices"] for event in events]
    return "".join(d[0]["delta"].get("content") or "" for d in deltas if d)


def said(what: str, n: int) -> str:
    """Some 300 characters that differ."""
    words = f"In the {what} number {n} the keeper counted {n * 7} gulls near rock {n % 13}. "
    return (words * 6)[:MESSAGE_CHARS]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def started(stack: ExitStack, command: list[str], url: str, **env: str) -> subprocess.Popen[bytes]:
    """A process that answers at `url`; killed at the end."""
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command,
        env={**os.environ, **env},  # noqa: TID251 - a child's, not ours
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=2)  # noqa: S310 - our own address
        except urllib.error.HTTPError:
            return process
        except OSError:
            time.sleep(0.1)
        else:
            return process
        assert process.poll() is None, f"{command[0]} has ended"
    raise TimeoutError(command)


def systems(stack: ExitStack, wanted: list[str], folder: Path) -> list[System]:
    """Everything that is compared, up and running."""
    python = sys.executable
    behind = free_port()
    zero = str(SERVERS / "zero.py")
    upstream = f"http://127.0.0.1:{behind}/v1/chat/completions"
    started(stack, [python, zero, "upstream", str(behind)], upstream)
    made = [System("direct", upstream)]
    if "pass" in wanted:
        port = free_port()
        address = f"http://127.0.0.1:{port}/v1/chat/completions"
        process = started(stack, [python, zero, "pass", str(port), str(behind)], address)
        made.append(System("pass", address, process))
    made += [previously(stack, n, behind, folder) for n in ("off", "on") if n in wanted]
    if "litellm" in wanted and has_litellm():
        made.append(litellm(stack, behind, folder))
    return made


def previously(stack: ExitStack, related: str, behind: int, folder: Path) -> System:
    port = free_port()
    command = [sys.executable, str(SERVERS / "served.py"), str(port)]
    command += [f"http://127.0.0.1:{behind}/v1", str(folder / related)]
    address = f"http://127.0.0.1:{port}"
    process = started(stack, command, f"{address}/healthz", PREVIOUSLY_RELATED=related)
    return System(related, f"{address}/c/CHAT/v1/chat/completions", process, rests=True)


def has_litellm() -> bool:
    """Install it if need be, in an environment of its own: it wants other versions of all."""
    if (LITELLM / "bin" / "litellm").exists():
        return True
    print("installing LiteLLM (once)", file=sys.stderr)
    wanted = f"litellm[proxy]=={LITELLM_VERSION}"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(LITELLM)], check=True)  # noqa: S603
        (LITELLM / ".gitignore").write_text("*\n")
        command = [str(LITELLM / "bin" / "pip"), "install", "-q", wanted]
        subprocess.run(command, check=True)  # noqa: S603
    except subprocess.CalledProcessError as error:
        print(f"LiteLLM cannot be installed and is left out: {error}", file=sys.stderr)
        return False
    return True


def litellm(stack: ExitStack, behind: int, folder: Path) -> System:
    config = folder / "litellm.json"
    params = {"model": "openai/zero", "api_base": f"http://127.0.0.1:{behind}/v1", "api_key": "x"}
    models = [{"model_name": "zero", "litellm_params": params}]
    config.write_text(json.dumps({"model_list": models}))
    port = free_port()
    command = [str(LITELLM / "bin" / "litellm"), "--config", str(config)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    address = f"http://127.0.0.1:{port}"
    process = started(
        stack,
        command,
        f"{address}/health/liveliness",
        LITELLM_LOG="ERROR",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        NO_DOCS="True",
        LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true",  # on this machine only
    )
    return System("litellm", f"{address}/v1/chat/completions", process)


async def measured(system: System, clients: list[Client], count: int, *, stream: bool) -> None:
    """`count` requests, shared among the clients, and what they took."""
    connector = aiohttp.TCPConnector(limit=64)
    times: list[tuple[float, float]] = []
    cpu_s = background_s = wall_s = 0.0
    async with aiohttp.ClientSession(connector=connector) as session:

        async def talk(client: Client, turns: int) -> None:
            times.extend([await client.ask(session, stream=stream) for _ in range(turns)])

        if clients[0].turn == 0:  # the first request brings the history along
            await asyncio.gather(*(talk(client, 1) for client in clients))
            await system.quiet()
            times.clear()
        turns = max(1, count // len(clients))
        while turns > 0:
            system.tell(signal.SIGUSR1)
            before, start = system.cpu_s(), time.perf_counter()
            burst = min(turns, BURST_TURNS)
            await asyncio.gather(*(talk(client, burst) for client in clients))
            turns -= burst
            between = system.cpu_s()
            wall_s += time.perf_counter() - start
            cpu_s += between - before
            system.tell(signal.SIGUSR2)
            await system.quiet()
            background_s += system.cpu_s() - between
    first, whole = zip(*times, strict=True)
    kind = f"{'sse' if stream else 'json'}/{len(clients)}"
    system.samples.setdefault(kind, []).append(
        {
            "cpu_ms": cpu_s * 1000 / len(times),
            "background_ms": background_s * 1000 / len(times),
            "p50_ms": statistics.median(whole),
            "p99_ms": statistics.quantiles(whole, n=100)[-1] if len(whole) > 1 else whole[0],
            "first_ms": statistics.median(first),
            "per_s": len(times) / wall_s,
        }
    )


async def run(made: list[System], count: int, rounds: int) -> None:
    """Every kind of request on every system, in turns."""
    for stream in (False, True):
        for many in CLIENTS:
            run_name = f"{'sse' if stream else 'json'}{many}"
            talkers = {s.name: [Client(s, i, run_name) for i in range(many)] for s in made}
            for number in range(rounds + 1):
                for system in made:
                    await measured(system, talkers[system.name], count, stream=stream)
                    if number == 0:
                        system.samples[next(reversed(system.samples))].clear()  # to warm up
            print(f"{run_name} done", file=sys.stderr)


def summary(made: list[System]) -> dict[str, Any]:
    """The median of the rounds, and the differences that have a bar."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for system in made:
        for kind, samples in system.samples.items():
            middle = {n: statistics.median(s[n] for s in samples) for n in samples[0]}
            figures.setdefault(kind, {})[system.name] = {n: round(v, 3) for n, v in middle.items()}
    for by_name in figures.values():
        for name, values in by_name.items():
            for other, word in (("pass", "above_pass"), ("direct", "added")):
                if other in by_name and name not in ("direct", other):
                    what = "cpu_ms" if other == "pass" else "p50_ms"
                    values[f"{word}_{what}"] = round(values[what] - by_name[other][what], 3)
    bars = {
        "off.above_pass_cpu_ms": 1.5,
        "on.above_pass_cpu_ms": 5.0,
        "litellm.cpu_ms / off.cpu_ms": 5.0,
        "json/1 off.added_p50_ms": 3.0,
    }
    return {"figures": figures, "rss_mb": {s.name: s.rss_mb() for s in made}, "bars": bars}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", default="direct,pass,off,on,litellm")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made = systems(stack, args.systems.split(","), Path(folder))
        asyncio.run(run(made, args.requests, args.rounds))
        print(json.dumps(summary(made), indent=1))


if __name__ == "__main__":
    main()
