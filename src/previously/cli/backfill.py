"""`previously backfill`: summarise what has piled up, once somebody has seen what that takes."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from previously import app
from previously.cli.options import command
from previously.errors import NotConfigured, OverBudget
from previously.estimate import Estimate
from previously.model import Attempt, ChatRef
from previously.service import OWNER
from previously.store import Spent

LOOK_EVERY_S = 0.5
TRIES_MAX = 4  # of everything that is left, before the command gives up; the wish stays
HOPELESS = frozenset({OverBudget.__name__, NotConfigured.__name__})
MICROS = 1_000_000


def add(commands: Any) -> None:
    """Its options."""
    parser = command(
        commands,
        "backfill",
        run,
        "Summarise what has piled up in a chat; says first what it takes.",
    )
    parser.add_argument("chat", help="name of the chat")
    parser.add_argument("--yes", action="store_true", help="begin without asking")
    parser.add_argument(
        "--beyond-budget",
        action="store_true",
        help="begin even if it costs more than the month's budget has left",
    )
    parser.add_argument(
        "--pause", action="store_true", help="let what is left wait until it is asked for again"
    )


async def run(args: argparse.Namespace) -> int:
    """Plan, ask, work. Broken off at any moment, the next call goes on where it was."""
    location = app.database_location(args.database, args.data)
    if args.pause:
        return await _pause(args, location)
    expected = await _expected(location, args.chat)
    begin = bool(expected.calls) and (args.yes or (not args.json and await _agreed(expected)))
    if args.json and not begin:
        print(json.dumps({"plan": asdict(expected)}, ensure_ascii=False, indent=1))
        return 0
    if not begin:
        print("Nothing is due." if not expected.calls else "Nothing was begun.")
        return 0
    if args.yes:
        print(_in_words(expected), file=sys.stderr)
    if args.yes and _is_dear(expected) and not args.beyond_budget:
        print("Not begun: add --beyond-budget, or raise monthly_budget_usd.", file=sys.stderr)
        return 1
    return await _work(args, location, expected)


async def _pause(args: argparse.Namespace, location: app.Location) -> int:
    async with await app.build(location, worker=False) as house:
        chat = await house.service.find_chat(args.chat)
        paused = await house.service.pause_backfill(chat.ref)
    if args.json:
        print(json.dumps({"paused": paused}))
    else:
        print("Paused; `previously backfill` goes on." if paused else "There was none to pause.")
    return 0


async def _expected(location: app.Location, name: str) -> Estimate:
    async with await app.build(location, read_only=True) as house:
        chat = await house.service.find_chat(name)
        return await house.service.backfill(chat.ref, dry_run=True)


async def _agreed(expected: Estimate) -> bool:
    print(_in_words(expected), file=sys.stderr)
    question = "Begin, beyond the budget? [y/N] " if _is_dear(expected) else "Begin? [y/N] "
    try:
        answer = await asyncio.to_thread(input, question)
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes", "是", "好")


def _in_words(expected: Estimate) -> str:
    cost, most = expected.cost_usd, expected.cost_max_usd or 0.0
    money = "price unknown" if cost is None else "free" if not cost else f"about ${cost:.2f}"
    money += f", up to ${most:.2f}" if cost and most > cost else ""
    kinds = ", ".join(f"{count} of {kind}" for kind, count in expected.kinds.items())
    rate = "as measured here" if expected.measured else "by rule of thumb"
    return (
        f"{expected.messages} messages wait for their summaries by {expected.model}.\n"
        f"  calls   {expected.calls}{_at_most(expected)} ({kinds})\n"
        f"  tokens  {expected.input_tokens} to read, {expected.output_tokens} to write\n"
        f"  cost    {money}{_left(expected)}\n"
        f"  time    {_span(expected.seconds)} ({rate})"
    )


def _at_most(expected: Estimate) -> str:
    if expected.calls_max <= expected.calls:
        return ""
    return f", or {expected.calls_max} if the model cannot answer for several exchanges at once"


def _left(expected: Estimate) -> str:
    left = expected.budget_left_usd
    return "" if left is None else f"; this month's budget has ${max(0.0, left):.2f} left"


def _is_dear(expected: Estimate) -> bool:
    left = expected.budget_left_usd
    return left is not None and (left <= 0 or (expected.cost_usd or 0.0) > left)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


@dataclass(slots=True)
class _Meter:
    """What has been done since the command began."""

    house: app.House
    ref: ChatRef
    total: int  # messages
    began_s: float
    left: int  # uncovered messages that will stay so: the tail
    summaries: int
    before: Spent

    @staticmethod
    async def start(house: app.House, ref: ChatRef, expected: Estimate) -> _Meter:
        now = await house.service.progress(ref)
        left = max(0, now.uncovered - expected.messages)
        spent = await _spent(house, ref)
        began_s = time.monotonic()
        return _Meter(house, ref, expected.messages, began_s, left, now.summaries, spent)

    async def read(self) -> dict[str, Any]:
        """The figures so far."""
        now = await self.house.service.progress(self.ref)
        spent = await _spent(self.house, self.ref)
        done = min(self.total, max(0, self.total - (now.uncovered - self.left)))
        took_s = time.monotonic() - self.began_s
        unpriced = spent.unpriced_calls > self.before.unpriced_calls
        cost = (spent.cost_micros - self.before.cost_micros) / MICROS
        return {
            "messages": done,
            "of": self.total,
            "summaries": now.summaries - self.summaries,
            "input_tokens": spent.input_tokens - self.before.input_tokens,
            "output_tokens": spent.output_tokens - self.before.output_tokens,
            "cost_usd": None if unpriced else cost,
            "seconds": round(took_s, 1),
            "left_seconds": round(took_s / done * (self.total - done), 1) if done else None,
        }


async def _spent(house: app.House, ref: ChatRef) -> Spent:
    """What this chat has cost ever; extracts are in no ledger."""
    found = await house.store.usage(OWNER, "chat")
    return next((s for s in found if s.heading == str(ref.id)), Spent("", 0, 0, 0, 0, 0))


async def _work(args: argparse.Namespace, location: app.Location, expected: Estimate) -> int:
    house = await app.build(location)
    failed: list[Attempt] = []
    try:
        ref = (await house.service.find_chat(args.chat)).ref
        meter = await _Meter.start(house, ref, expected)
        agreed = args.beyond_budget or not args.yes  # who was asked has seen what is left
        await house.service.backfill(ref, beyond_budget=agreed and _is_dear(expected))
        failed = await _until_done(house, ref, meter)
        figures = await meter.read()
    except asyncio.CancelledError:
        print("\nBroken off; `previously backfill` goes on from here.", file=sys.stderr)
        raise
    finally:
        await house.close()
    print(file=sys.stderr)
    reasons = sorted({f"{a.error_class}: {a.error_text}" for a in failed})
    if args.json:
        whole = {"plan": asdict(expected), "done": figures, "failed": reasons}
        print(json.dumps(whole, ensure_ascii=False, indent=1))
    else:
        print(f"{figures['messages']} messages, {figures['summaries']} summaries.")
        for reason in reasons:
            print(f"Not done: {reason}")
    return 1 if failed else 0


async def _until_done(house: app.House, ref: ChatRef, meter: _Meter) -> list[Attempt]:
    """Until nothing is due; what is left over because it fails again and again."""
    while True:
        settled = await house.service.settle(ref, LOOK_EVERY_S)
        failed = [a for a in settled.waiting if a.verdict == "failed"]
        print(
            f"\r{_line(await meter.read(), failed)}".ljust(78), end="", file=sys.stderr, flush=True
        )
        if settled.done and (not failed or _is_over(failed)):
            return failed
        if settled.done:
            await asyncio.sleep(LOOK_EVERY_S)


def _is_over(failed: Sequence[Attempt]) -> bool:
    return all(a.error_class in HOPELESS or a.tries >= TRIES_MAX for a in failed)


def _line(figures: dict[str, Any], failed: Sequence[Attempt]) -> str:
    tokens = figures["input_tokens"] + figures["output_tokens"]
    cost = figures["cost_usd"]
    money = "price unknown" if cost is None else f"${cost:.4f}"
    left = figures["left_seconds"]
    until = "" if left is None else f", {_span(left)} left"
    again = f", {len(failed)} to be tried again" if failed else ""
    return f"{figures['messages']}/{figures['of']} messages, {tokens} tokens, {money}{until}{again}"
