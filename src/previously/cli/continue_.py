"""`previously continue`: a new chat that begins with an old one's memory."""

from __future__ import annotations

import argparse
import json
from typing import Any

from previously import app
from previously.cli.options import command
from previously.model import total_tokens


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "continue", run, "Begin a new chat with an old one's memory.")
    parser.add_argument("chat", metavar="CHAT", help="the chat that is continued; it stays")
    parser.add_argument("name", metavar="NAME", help="the new chat's name")


async def run(args: argparse.Namespace) -> int:
    """Make the chat and say what it was handed."""
    location = app.database_location(args.database, args.data)
    async with await app.build(location, worker=False) as house:
        ref = (await house.service.find_chat(args.chat)).ref
        made = await house.service.continue_chat(ref, args.name)
        carried = await house.store.carried(made.ref)
    if args.json:
        told = {"chat": made.ref.name, "carried": len(carried), "tokens": total_tokens(carried)}
        print(json.dumps(told, ensure_ascii=False))
    else:
        size = f"{len(carried)} pieces, {total_tokens(carried)} tokens"
        print(f"{made.ref.name}: continues {ref.name} ({size} of memory)")
    return 0
