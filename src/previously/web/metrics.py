"""Figures for a monitor, in Prometheus' text form: sizes and counts, never a word of any chat.

Requests are counted as they pass; what the background has done is read from the database, so that
it is the same whichever process is asked.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from previously.service import OWNER, Service

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
MICROS = 1_000_000

Labels = tuple[tuple[str, str], ...]


class Meter:
    """What this process has answered so far."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.turns: Counter[Labels] = Counter()
        self.prompt_tokens = 0
        self.client_tokens = 0
        self._spans: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def answered(self, door: str, status: int, seconds: float, headers: Headers) -> None:
        """One request was answered."""
        self.requests[("door", door), ("status", str(status))] += 1
        self._spans.setdefault(door, [0] * (len(BUCKETS_S) + 1))[
            bisect_left(BUCKETS_S, seconds)
        ] += 1
        self._seconds[door] += seconds  # pyright: ignore[reportArgumentType] - a sum, not a count
        if door != "proxy":
            return
        prompt = headers.get("x-previously-prompt-tokens")
        self.turns[(("memory", "off" if prompt is None else "on"),)] += 1
        self.prompt_tokens += int(prompt or 0)
        self.client_tokens += int(headers.get("x-previously-client-tokens") or 0)

    def lines(self) -> Iterator[str]:
        """Counters and durations."""
        yield from _family("requests_total", "counter", "Requests answered.", self.requests)
        yield from _family("turns_total", "counter", "Proxied requests.", self.turns)
        tokens = {
            (("of", "prompt"),): self.prompt_tokens,
            (("of", "client"),): self.client_tokens,
        }
        yield from _family("turn_tokens_total", "counter", "Tokens sent, and asked with.", tokens)
        yield "# HELP previously_request_seconds How long answers took to end."
        yield "# TYPE previously_request_seconds histogram"
        for door, counts in sorted(self._spans.items()):
            yield from self._histogram(door, counts)

    def _histogram(self, door: str, counts: Sequence[int]) -> Iterator[str]:
        name, seen = "previously_request_seconds", 0
        for limit, count in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
            seen += count
            yield f'{name}_bucket{{door="{door}",le="{limit}"}} {seen}'
        yield f'{name}_sum{{door="{door}"}} {float(self._seconds[door]):.6f}'
        yield f'{name}_count{{door="{door}"}} {seen}'


class Measured:
    """ASGI middleware that counts."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.monotonic()
        answer: list[Message] = []

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.append(message)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            status, headers = 500, Headers()
            if answer:
                status, headers = answer[0]["status"], Headers(raw=answer[0]["headers"])
            seconds = time.monotonic() - began_s
            self._meter.answered(_door(scope["path"]), status, seconds, headers)


def _door(path: str) -> str:
    if path.startswith("/api/"):
        return "rest"
    return "proxy" if path.endswith("/chat/completions") else "other"


async def exposed(service: Service, meter: Meter) -> str:
    """Everything, as a monitor reads it."""
    totals = await service.store.totals(OWNER)
    spent = await service.store.usage(OWNER, "profile")
    lines = [*meter.lines()]
    for name, value in totals["records"].items():
        lines += _family(name, "gauge", f"Stored {name.replace('_', ' ')}.", {(): value})
    verdicts = {(("verdict", k),): v for k, v in totals["attempts"].items()}
    lines += _family("task_attempts", "gauge", "Tasks by what became of them.", verdicts)
    calls = {(("profile", one.heading),): one.calls for one in spent}
    lines += _family("model_calls_total", "counter", "Calls of summarising models.", calls)
    tokens = {
        (("profile", one.heading), ("of", of)): count
        for one in spent
        for of, count in (("input", one.input_tokens), ("output", one.output_tokens))
    }
    lines += _family("model_tokens_total", "counter", "Tokens of those calls.", tokens)
    cost = {(("profile", one.heading),): one.cost_micros / MICROS for one in spent}
    lines += _family("model_cost_usd_total", "counter", "Their cost as far as known.", cost)
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, help_text: str, values: Mapping[Labels, float]) -> Iterator[str]:
    full = f"previously_{name}"
    yield f"# HELP {full} {help_text}"
    yield f"# TYPE {full} {kind}"
    for labels, value in sorted(values.items()):
        inner = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels)
        yield f"{full}{{{inner}}} {value}" if inner else f"{full} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
