"""`previously usage`: what summaries have cost."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from previously import app
from previously.cli.options import command
from previously.service import OWNER

MICROS = 1_000_000


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "usage", run, "Say what summaries have cost so far.")
    parser.add_argument(
        "--by", choices=("month", "profile", "chat"), default="month", help="what to add up by"
    )


async def run(args: argparse.Namespace) -> int:
    """Print a line for each heading."""
    location = app.database_location(args.database, args.data)
    async with await app.build(location, read_only=True) as house:
        spent = await house.store.usage(OWNER, args.by)
    if args.json:
        print(json.dumps([asdict(s) for s in spent], ensure_ascii=False, indent=1))
        return 0
    for s in spent:
        known = f"${s.cost_micros / MICROS:.4f}"
        unknown = f", {s.unpriced_calls} calls without a known price" if s.unpriced_calls else ""
        tokens = f"{s.input_tokens} tokens read, {s.output_tokens} written"
        print(f"{s.heading}: {s.calls} calls, {tokens}, {known}{unknown}")
    if not spent:
        print("No model was asked yet; extracts cost nothing.")
    return 0
