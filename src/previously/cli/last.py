"""`previously prompt --last`: what the proxy has sent for a chat's newest turn, and what went on as
it came since."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from previously.app import House
from previously.errors import BadInput
from previously.model import ChatRef, Item, Message, Passed, Sent

NOTHING = "nothing was sent for this chat through the proxy yet"


async def show(args: argparse.Namespace, house: House, ref: ChatRef) -> int:
    """Sizes and ids; texts only if they are asked for."""
    sent, passed = await house.store.last_sent(ref), await house.store.passed_on(ref)
    if sent is None and passed is None:
        raise BadInput(f"{ref.name}: {NOTHING}", field="chat")
    told: dict[str, Any] = {"chat": ref.name, "passed": _passed(passed)}
    if sent is not None:
        told |= await _sent(args, house, ref, sent)
    if args.json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        print("\n".join([*_passed_lines(told), *(_lines(told) if sent is not None else [])]))
    return 0


async def _sent(args: argparse.Namespace, house: House, ref: ChatRef, sent: Sent) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(sent.facts)
    blocks = [_block(*values) for values in facts.pop("blocks")]
    for ours in ("pieces", "habit"):  # what tells this prompt, and its client, from others
        facts.pop(ours, None)
    if args.text:
        texts = await _texts(house, ref, [word for b in blocks for word in b["sources"]])
        for block in blocks:
            block["text"] = "\n".join(texts.get(word, "[gone]") for word in block["sources"])
    return {"sent_at": _time(sent.sent_at_ms), **facts, "blocks": blocks}


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _passed(passed: Passed | None) -> dict[str, Any] | None:
    if passed is None:
        return None
    at = _time(passed.at_ms)
    return {"requests": passed.requests, "reason": passed.reason, "at": at}


def _passed_lines(told: Mapping[str, Any]) -> Iterator[str]:
    passed = told["passed"]
    if passed is None:
        return
    count, at = passed["requests"], passed["at"]
    requests = "1 request" if count == 1 else f"{count} requests"
    yield f"{told['chat']}: {requests} passed on unchanged since the last turn, the last at {at}:"
    yield f"  {passed['reason']}."
    yield "  Nothing of that is stored. The next requests mostly decide; if it stays so,"
    yield "  two stories may share this name: give each its own (/c/NAME/v1)."


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
