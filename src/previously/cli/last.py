"""`previously prompt --last`: what the proxy has sent for a chat's newest turn."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from previously.app import House
from previously.errors import BadInput
from previously.model import ChatRef, Item, Message

NOTHING = "nothing was sent for this chat through the proxy yet"


async def show(args: argparse.Namespace, house: House, ref: ChatRef) -> int:
    """Sizes and ids; texts only if they are asked for."""
    sent = await house.store.last_sent(ref)
    if sent is None:
        raise BadInput(f"{ref.name}: {NOTHING}", field="chat")
    facts: dict[str, Any] = json.loads(sent.facts)
    blocks = [_block(*values) for values in facts.pop("blocks")]
    for ours in ("pieces", "habit"):  # what tells this prompt, and its client, from others
        facts.pop(ours, None)
    at = datetime.fromtimestamp(sent.sent_at_ms / 1000, UTC).isoformat(timespec="seconds")
    if args.text:
        texts = await _texts(house, ref, [word for b in blocks for word in b["sources"]])
        for block in blocks:
            block["text"] = "\n".join(texts.get(word, "[gone]") for word in block["sources"])
    told = {"chat": ref.name, "sent_at": at, **facts, "blocks": blocks}
    if args.json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        print("\n".join(_lines(told)))
    return 0


def _block(place: str, tokens: int, sources: str) -> dict[str, Any]:
    return {"place": place, "tokens": tokens, "sources": sources.split()}


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{told['chat']}: {told['tokens']} of {told['budget_tokens']} tokens to "
        f"{told['model'] or 'the upstream'} at {told['sent_at']}"
    )
    yield f"The client had sent {told['client_tokens']} tokens. {told['trace']}"
    if told["head"]:
        yield f"  {'head':9}{'':6}        {told['head']} of the client's own"
    for block in told["blocks"]:
        names = " ".join(block["sources"])
        yield f"  {block['place']:9}{block['tokens']:6} tokens {names}".rstrip()
        if "text" in block:
            yield block["text"]


async def _texts(house: House, ref: ChatRef, words: list[str]) -> dict[str, str]:
    """What the ids hold now: an edit since then shows."""
    wanted = {word: Item.parse(ref.id, word) for word in words if word}
    found: dict[Item, str] = {}
    messages: list[Message] = [m async for m in house.service.messages(ref)]
    found |= {Item.of(m): m.body for m in messages}
    found |= {Item.of(s): s.text async for s in house.service.summaries(ref)}
    found |= {Item.of(c): c.text for c in await house.store.carried(ref)}
    return {word: found[item] for word, item in wanted.items() if item in found}
