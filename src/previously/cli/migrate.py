"""`previously migrate`: bring a database to this version, or move a memory to another database."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from previously import app
from previously.cli.options import command


def add(commands: Any) -> None:
    """Its options."""
    parser = command(
        commands,
        "migrate",
        run,
        "Bring a database to this version; with --to, copy it into an empty one and compare.",
    )
    parser.add_argument(
        "--to", metavar="URL", help="an empty SQLite file or postgresql:// database to copy into"
    )


async def run(args: argparse.Namespace) -> int:
    """Everything or nothing: a copy that differs is taken back."""
    location = app.database_location(args.database, args.data)
    if args.to is None:
        revision = await app.bring_up(location)
        where = app.shown_location(location)
        _answer(args, {"database": where, "schema": revision}, f"{where} has schema {revision}.")
        return 0
    target = app.database_location(args.to)
    moved = await app.move(location, target, _progress)
    print(file=sys.stderr)
    where = app.shown_location(target)
    total = sum(moved.values())
    text = f"{total} rows are in {where}, compared one by one. The source is unchanged."
    _answer(args, {"database": where, "rows": moved}, text)
    return 0


def _progress(table: str, rows: int) -> None:
    print(f"\r{table}: {rows} rows".ljust(60), end="", file=sys.stderr, flush=True)


def _answer(args: argparse.Namespace, facts: dict[str, Any], text: str) -> None:
    print(json.dumps(facts, ensure_ascii=False) if args.json else text)
