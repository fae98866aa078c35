"""`previously explain`: what a client's request would mean for a chat; sends and stores nothing."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

from previously import app
from previously.align import Alignment, Habit, Hints, Place
from previously.cli.options import command
from previously.errors import BadInput
from previously.model import ChatRef, Item, ItemKind
from previously.text.wire import parse
from previously.web.turns import Turns
from previously.web.unread import Request

FILE_BYTES_MAX = 32 << 20  # as much as the proxy takes
EXCERPT_CHARS = 48
CHANGES = ("edits", "hides", "shows", "drops", "inserts")

MEANINGS = {
    "head": "the client's own, before the history; goes on unchanged",
    "loose": "an instruction among the messages; goes on, is not stored",
    "tail": "an instruction after the messages; goes on, is not stored",
    "in doubt": "said, or an instruction: a later request will show",
}


def add(commands: Any) -> None:
    """Its options."""
    text = "Say what a client's request would mean for a chat; sends and stores nothing."
    parser = command(commands, "explain", run, text)
    parser.add_argument("chat", help="name of the chat")
    parser.add_argument(
        "file", nargs="?", default="-", help="the request's JSON body, or its messages; - for stdin"
    )


async def run(args: argparse.Namespace) -> int:
    """Print what each message is, and what would be done."""
    fields = _fields(args.file)
    raw, told = fields["messages"], fields.get("previously")
    ours = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    hints = Hints.read(ours, "", fields.get("stream"))
    request = Request(args.chat, raw, tuple(map(parse, raw)), hints)
    location = app.database_location(args.database, args.data)
    async with await app.build(location, read_only=True) as house:
        chat = await house.service.find_chat(args.chat)
        found = await Turns(house.service, None, _unnoticed).explained(chat.ref, request)
    answer = _told(args.chat, request, found)
    print(json.dumps(answer, ensure_ascii=False, indent=1) if args.json else _in_words(answer))
    return 0


def _unnoticed(ref: ChatRef, habit: Habit, why: str) -> None:
    """Nothing is written down."""


def _fields(name: str) -> dict[str, Any]:
    """The body of a request, with messages that are objects."""
    try:
        raw = sys.stdin.buffer.read(FILE_BYTES_MAX + 1) if name == "-" else _bytes(Path(name))
        read: Any = json.loads(raw) if len(raw) <= FILE_BYTES_MAX else None
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}", field="file") from error
    except ValueError as error:
        raise BadInput(f"{name} is no JSON: {error}", field="file") from error
    if read is None:
        raise BadInput(f"{name} has more than {FILE_BYTES_MAX >> 20} MB", field="file")
    fields: dict[str, Any] = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    messages = cast("Any", read) if isinstance(read, list) else fields.get("messages")
    some = cast("list[Any]", messages) if isinstance(messages, list) else [None]
    if not all(isinstance(one, dict) for one in some):
        raise BadInput(f"{name} holds no list of messages", field="file")
    return {**fields, "messages": some}


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _told(chat: str, request: Request, found: Alignment) -> dict[str, Any]:
    turn = found.turn
    changes = {} if turn is None else {name: len(getattr(turn, name)) for name in CHANGES}
    lines = zip(request.said, found.places, strict=True)
    return {
        "chat": chat,
        "kind": found.kind,
        "sure": found.sure,
        "reason": found.reason,
        "changes": {name: count for name, count in changes.items() if count},
        "messages": [
            {"role": one.role, **_meaning(place), "text": _excerpt(one.body)}
            for one, place in lines
        ],
    }


def _meaning(place: Place) -> dict[str, Any]:
    if place.part != "history":
        return {"is": place.part}
    ids = [str(Item(ItemKind.MESSAGE, one)) for one in place.ids]
    return {"is": "new" if place.new else "stored" if ids else "in doubt", "ids": ids}


def _in_words(answer: dict[str, Any]) -> str:
    would = "would be read as" if answer["sure"] else "would pass through unchanged:"
    lines = [f"{answer['chat']}: {would} {answer['kind']} ({answer['reason']})"]
    lines += [f"  first: {count} {name}" for name, count in answer["changes"].items()]
    for number, one in enumerate(answer["messages"]):
        what = one["is"] if one["is"] != "stored" else " ".join(one["ids"])
        lines.append(f"{number:4} {one['role']:9} {what:22} {one['text']}")
    seen = {one["is"] for one in answer["messages"]}
    lines += [f"  {name}: {text}" for name, text in MEANINGS.items() if name in seen]
    return "\n".join(lines)


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:EXCERPT_CHARS]
