"""`previously prompt`: what a chat's next prompt holds, and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from previously import app
from previously.cli import last
from previously.cli.options import command
from previously.model import Item, ItemKind, Prompt
from previously.service import Place

EXCERPT_CHARS = 56


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "prompt", run, "Show a chat's next prompt; changes nothing.")
    parser.add_argument("chat", help="name of the chat")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="largest prompt")
    parser.add_argument(
        "--trace", action="store_true", help="say for every message how it stands in the prompt"
    )
    parser.add_argument(
        "--last",
        action="store_true",
        help="what the proxy has sent last, by size and id, and what went on as it came since",
    )
    parser.add_argument(
        "--text", action="store_true", help="with --last: also what those ids hold now"
    )


async def run(args: argparse.Namespace) -> int:
    """Print the prompt, or its trace."""
    location = app.database_location(args.database, args.data)
    async with await app.build(location, read_only=True) as house:
        chat = await house.service.find_chat(args.chat)
        if args.last:
            return await last.show(args, house, chat.ref)
        built = await house.service.prompt(chat.ref, args.budget_tokens, preview=True)
        places = [p async for p in house.service.places(chat.ref, built)] if args.trace else []
    if args.json:
        print(json.dumps(_prompt_json(args.chat, built, places), ensure_ascii=False, indent=1))
    elif args.trace:
        print(_trace_text(args.chat, built, places))
    else:
        for message in built.messages:
            print(f"--- {message['role']}\n{message.get('content') or message.get('tool_calls')}")
    return 0


def _prompt_json(chat: str, built: Prompt, places: Sequence[Place]) -> dict[str, Any]:
    trace = built.trace
    return {
        "chat": chat,
        "tokens": built.tokens,
        "budget_tokens": trace.budget_tokens,
        "fold": {"version": trace.fold.version, "reason": trace.fold.reason},
        "blocks": [
            {"place": b.place, "tokens": b.tokens, "sources": [str(i) for i in b.sources]}
            for b in trace.blocks
        ],
        "notes": list(trace.notes),
        "recalled": [
            {"floor": r.floor, "id": str(Item.of(r.message)), "score": r.score, "reason": r.reason}
            for r in trace.recalled
        ],
        "trace": [_place_json(p) for p in places],
        "messages": built.messages,
    }


def _place_json(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = {
        "floor": place.floor,
        "id": str(Item.of(place.message)),
        "role": place.message.role,
        "how": place.how,
    }
    if place.summary_id is not None:
        found["summary"] = _summary(place.summary_id)
    if place.reason:
        found["reason"] = place.reason
    return found


def _summary(summary_id: int) -> str:
    return str(Item(ItemKind.SUMMARY, summary_id))


def _trace_text(chat: str, built: Prompt, places: Sequence[Place]) -> str:
    trace = built.trace
    lines = [
        f"{chat}: {len(places)} messages, {built.tokens} of {trace.budget_tokens} tokens",
        f"Fold {trace.fold.version}: {trace.fold.reason or 'nothing folded yet'}.",
        *trace.notes,
    ]
    covers = [b for b in trace.blocks if b.place == "cover"]
    verbatim = [b for b in trace.blocks if b.place not in ("cover", "fragment")]
    count = sum(len(b.sources) for b in covers)
    lines.append(f"  {'summaries':9}{sum(b.tokens for b in covers):6} tokens in {count} summaries")
    lines.append(
        f"  {'verbatim':9}{sum(b.tokens for b in verbatim):6} tokens in {len(verbatim)} messages"
    )
    lines += [
        f"  recalled  #{r.floor} ({r.reason}; {r.score:.2f}) {_excerpt(r.message.body)}"
        for r in trace.recalled
    ]
    lines += [_place_line(p) for p in places]
    return "\n".join(lines)


def _place_line(place: Place) -> str:
    how = place.how if place.summary_id is None else f"summary {_summary(place.summary_id)}"
    if place.how == "dropped":
        how += f", left out: {place.reason}"
    return f"#{place.floor:<5} {place.message.role:9} {how:14} {_excerpt(place.message.body)}"


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:EXCERPT_CHARS]
