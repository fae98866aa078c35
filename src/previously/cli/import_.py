"""`previously import`: conversations from files, each a chat of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from previously import app, formats
from previously.cli.options import command
from previously.errors import BadInput
from previously.model import Chat, NewMessage
from previously.planner import BACKFILL


def add(commands: Any) -> None:
    """Its options."""
    parser = command(
        commands, "import", run, "Make chats of files: all of them whole, or none at all."
    )
    parser.add_argument(
        "file", nargs="+", help="OpenAI messages as a JSON array or JSONL; told by their content"
    )
    parser.add_argument(
        "--chat",
        metavar="NAME",
        help="one chat of this name for all files, in this order (default: a chat for each file)",
    )
    parser.add_argument("--preset", metavar="P", help="how the chats are remembered")


async def run(args: argparse.Namespace) -> int:
    """Read every file before any chat is seen."""
    sources = _sources([Path(name) for name in args.file], args.chat)
    counts: dict[str, int] = {}

    def told(name: str, count: int) -> None:
        counts[name] = count
        print(f"\r{name}: {count} messages".ljust(60), end="", file=sys.stderr, flush=True)

    house = await app.build(app.database_location(args.database, args.data), worker=False)
    try:
        made = await house.service.import_chats(sources, args.preset, told)
        hints = [await _hint(house, chat) for chat in made]
    finally:
        if counts:
            print(file=sys.stderr)
        await house.close()
    if args.json:
        facts = [{"chat": chat.ref.name, "messages": counts[chat.ref.name]} for chat in made]
        print(json.dumps({"chats": facts}, ensure_ascii=False, indent=1))
    else:
        for chat, hint in zip(made, hints, strict=True):
            print(f"{chat.ref.name}: {counts[chat.ref.name]} messages. {hint}")
    return 0


def _sources(paths: Sequence[Path], chat: str | None) -> dict[str, Iterable[NewMessage]]:
    if chat is not None:
        return {chat: _said(paths)}
    found: dict[str, Iterable[NewMessage]] = {}
    for path in paths:
        if path.stem in found:
            raise BadInput(
                f"two files are named {path.stem}; give the chat a name with --chat", field="file"
            )
        found[path.stem] = _said([path])
    return found


def _said(paths: Sequence[Path]) -> Iterator[NewMessage]:
    for path in paths:
        yield from formats.read(path, formats.load(path))


async def _hint(house: app.House, chat: Chat) -> str:
    """What becomes of it next."""
    held = any(task.reason for task in await house.service.tasks(chat.ref))
    if not held:
        return "The next server to run writes its summaries."
    return f"What its summaries would cost: previously {BACKFILL} {json.dumps(chat.ref.name)}"
