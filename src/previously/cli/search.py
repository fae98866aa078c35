"""`previously search`: where something was said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from previously import app
from previously.cli.options import command
from previously.model import Item
from previously.search import HITS_DEFAULT, Hit


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "search", run, "Find messages by their words; changes nothing.")
    parser.add_argument("text", help="words to look for, in any language")
    parser.add_argument("--chat", metavar="NAME", help="look in this chat only")
    parser.add_argument(
        "--participant",
        action="append",
        metavar="NAME",
        help="look only in chats that this person takes part in; may be given several times",
    )
    parser.add_argument(
        "--limit", type=int, default=HITS_DEFAULT, metavar="N", help="most hits (default 20)"
    )


async def run(args: argparse.Namespace) -> int:
    """Print the hits, best first."""
    location = app.database_location(args.database, args.data)
    async with await app.build(location, read_only=True) as house:
        found = await house.service.search(
            args.text, chat=args.chat, participants=args.participant, limit=args.limit
        )
    if args.json:
        print(json.dumps([_as_json(hit) for hit in found], ensure_ascii=False, indent=1))
    else:
        print(_as_text(found))
    return 0


def _as_json(hit: Hit) -> dict[str, Any]:
    return {
        "chat": hit.chat.name,
        "floor": hit.floor,
        "id": str(Item.of(hit.message)),
        "speaker": hit.message.speaker,
        "snippet": hit.snippet.text,
        "marks": [list(mark) for mark in hit.snippet.marks],
        "score": round(hit.score, 4),
        "reason": hit.reason,
    }


def _as_text(found: Sequence[Hit]) -> str:
    if not found:
        return "Nothing found."
    return "\n".join(
        f"{hit.chat.name} #{hit.floor:<5} {hit.message.speaker:9} {hit.score:6.2f} {_marked(hit)}"
        for hit in found
    )


def _marked(hit: Hit) -> str:
    """The snippet on one line, with what was found in brackets."""
    text, made, at = hit.snippet.text, "", 0
    for start, end in hit.snippet.marks:
        made += f"{text[at:start]}[{text[start:end]}]"
        at = end
    return " ".join((made + text[at:]).split())
