"""`previously summarize`: a file in; its summary, and what it took, out. Nothing is stored."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from previously import app
from previously.cli.options import command
from previously.engine import Engine, Result, text_request
from previously.errors import BadInput, NotConfigured
from previously.llm import Llm
from previously.llm.extractive import Extractive
from previously.llm.metered import price_of
from previously.llm.profile import Profile, from_mapping
from previously.llm.registry import adapter
from previously.llm.remote import new_session
from previously.llm.secrets import resolve
from previously.measure import count_tokens
from previously.model import EXTRACTIVE, Ask, Reply
from previously.service import OWNER

FILE_BYTES_MAX = 64 * 1024 * 1024
BUDGET_TOKENS = 500
MICROS = 1_000_000


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "summarize", run, "Summarise one file; nothing is stored.")
    parser.add_argument("file", help="text or Markdown; - reads standard input")
    parser.add_argument(
        "--preset",
        default="session",
        help="manner: session, rolling, volumes, plot or recap (default %(default)s)",
    )
    parser.add_argument(
        "--profile", default=EXTRACTIVE, metavar="NAME", help="which model (default: extracts)"
    )
    parser.add_argument(
        "--budget-tokens",
        type=int,
        default=BUDGET_TOKENS,
        metavar="N",
        help="largest summary (default %(default)s)",
    )


async def run(args: argparse.Namespace) -> int:
    """Print the summary; figures go to stderr, or into the JSON."""
    text = await asyncio.to_thread(_read, args.file)
    request = text_request(text, preset=args.preset, tokens_max=args.budget_tokens)
    profile = await _profile(args)
    async with new_session() as session:
        llm: Llm = Extractive()
        if profile is not None:
            llm = adapter(profile, session, resolve(profile.secret, os.environ))
        engine = Engine(_Told(llm), None, os.urandom(16), clock_ms=app.clock_ms)
        result = await engine.summarise(request)
    print(file=sys.stderr)
    figures = _figures(result, text, profile)
    if args.json:
        print(json.dumps({"summary": result.text, **figures}, ensure_ascii=False, indent=1))
    else:
        print(result.text)
        print(_in_words(figures), file=sys.stderr)
    return 0


def _read(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read(FILE_BYTES_MAX + 1) if name == "-" else _bytes(Path(name))
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}", field="file") from error
    if len(raw) > FILE_BYTES_MAX:
        raise BadInput(f"{name} has more than {FILE_BYTES_MAX >> 20} MB", field="file")
    return raw.decode("utf-8", "replace")


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


async def _profile(args: argparse.Namespace) -> Profile | None:
    if args.profile == EXTRACTIVE:
        return None
    location = app.database_location(args.database, args.data)
    async with await app.build(location, read_only=True) as house:
        found = await house.store.find_profile(OWNER, args.profile)
    if found is None:
        raise NotConfigured(f"no profile named {args.profile!r}; see `previously profile list`")
    return from_mapping(found[0])


class _Told:
    """The same model, with a word on stderr for every answer: long work shows that it goes on."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm
        self.name, self.costs, self.window_tokens = llm.name, llm.costs, llm.window_tokens
        self._calls = 0

    async def complete(self, ask: Ask) -> Reply:
        reply = await self._llm.complete(ask)
        self._calls += 1
        print(f"\r{self._calls} answers", end="", file=sys.stderr, flush=True)
        return reply


def _figures(result: Result, text: str, profile: Profile | None) -> dict[str, Any]:
    price = None if profile is None else price_of(profile)
    cost = None if price is None else price.of(result.usage) / MICROS
    return {
        "model": result.model,
        "tokens_before": count_tokens(text),
        "tokens_after": result.tokens,
        "cost_usd": 0.0 if profile is None else cost,
        "stats": result.stats,
    }


def _in_words(figures: dict[str, Any]) -> str:
    stats, cost = figures["stats"], figures["cost_usd"]
    money = "price unknown" if cost is None else f"${cost:.4f}"
    flags = "".join(f"\n  {flag}" for flag in stats["flags"])
    return (
        f"{figures['tokens_before']} tokens became {figures['tokens_after']} in {stats['calls']} "
        f"calls by {figures['model']} ({stats['chunk_count']} chunks, {stats['merges']} merges, "
        f"depth {stats['max_depth']}{', cut' if stats['truncated'] else ''}); {money}{flags}"
    )
