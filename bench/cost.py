"""Billed tokens over 1,000 turns, from prompts that the product really built. Prints JSON.

A role play of 1,000 turns behind a client's head of 2,500 tokens, fragments on, summaries by
extracts. Each prompt is billed as providers with and without a cache do: a hit at a tenth, a write
at its surcharge, one turn in twenty cold, output at five times its input, summaries at a fifth.
Beside it the same talk as full history, as a sliding window and as a summary that is rewritten each
turn, both of the same average prompt. Unit: thousands of uncached input tokens.

    python bench/cost.py [--turns 1000] [--budget-tokens 14000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from previously import app
from previously.llm.extractive import Extractive
from previously.measure import count_tokens, cut_to_tokens
from previously.model import Ask, Block, ChatRef, NewMessage, Prompt, Reply
from search import texts

HEAD_TOKENS = 2_500
SUMMARY_TOKENS = 900  # of the one that is rewritten each turn
INSTRUCTION_TOKENS = 300
OUTPUT_PRICE = 5.0
SECONDARY_PRICE = 0.2
COLD_EVERY = 20
USER_TOKENS, REPLY_TOKENS = 80, 270
REPLY_TEXTS = 4  # that a reply is cut from

Segment = tuple[bytes, int]  # digest, tokens


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt in pieces, with the places that a provider may be told to cache up to."""

    pieces: tuple[Segment, ...]
    marks: tuple[int, ...]  # numbers of pieces

    @property
    def tokens(self) -> int:
        return sum(size for _, size in self.pieces)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a way of building prompts asks for."""

    requests: list[Request]
    secondary: float = 0.0  # billed for summaries, in tokens of the main model
    calls: int = 0
    folds: int = 0
    fragment_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Cache:
    """A provider's rules."""

    hit: float
    write: float = 1.0
    step: int = 1
    least: int = 0
    marked: bool = False  # only what ends at a mark can hit
    units: bool = False  # only whole earlier prompts, and what two of them had in common


CACHES = {
    "openai before 5.6": Cache(0.1, step=128, least=1_024),
    "openai from 5.6": Cache(0.1, write=1.25, least=1_024, marked=True),
    "anthropic, 5 min": Cache(0.1, write=1.25, least=2_048, marked=True),
    "deepseek": Cache(0.1, step=64, units=True),
    "none": Cache(1.0),
}


class Counted(Extractive):
    """Extracts that are billed as a model would be."""

    def __init__(self) -> None:
        self.calls = 0
        self.input_tokens = self.output_tokens = 0

    async def complete(self, ask: Ask) -> Reply:
        """The same, counted."""
        reply = await super().complete(ask)
        self.calls += 1
        self.input_tokens += sum(count_tokens(m["content"]) for m in ask.messages)
        self.output_tokens += count_tokens(reply.text)
        return reply


def piece(text: str, tokens: int) -> Segment:
    """A piece of a prompt; equal texts are equal pieces."""
    return blake2b(text.encode(), digest_size=8).digest(), tokens


HEAD = piece("head", HEAD_TOKENS)


def talk(turns: int) -> Iterator[tuple[NewMessage, NewMessage]]:
    """What the user says and what is answered."""
    said = texts(turns * (1 + REPLY_TEXTS), seed=4)
    while heard := next(said, None):
        answer = " ".join(islice(said, REPLY_TEXTS))
        yield (
            NewMessage("user", cut_to_tokens(heard, USER_TOKENS)),
            NewMessage("assistant", cut_to_tokens(answer, REPLY_TOKENS)),
        )


def request(prompt: Prompt) -> Request:
    """The client's head, then the prompt; marks behind head, summaries and tail."""
    pieces, marks = [HEAD], [1]
    place = ""
    for block in prompt.trace.blocks:
        if place in ("cover", "tail") and block.place != place:
            marks.append(len(pieces))
        pieces += _pieces(block)
        place = block.place
    return Request(tuple(pieces), tuple(marks))


def _pieces(block: Block) -> list[Segment]:
    """A block of notes line by line: what stands before a new line stays cached."""
    text = str(block.wire["content"])
    if block.place != "cover":
        return [piece(text, block.tokens)]
    lines = text.splitlines()
    sizes = [len(line) for line in lines]
    whole = sum(sizes) or 1
    ends = [round(block.tokens * end / whole) for end in accumulate(sizes)]
    tokens = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [piece(line, size) for line, size in zip(lines, tokens, strict=True)]


async def product(turns: int, budget: int, folder: Path) -> Policy:
    """The prompts that are really built, turn by turn."""
    llm = Counted()
    settings = {"budget_tokens": budget}
    house = await app.build(folder / "cost.db", llm=llm, settings=settings)
    made: list[Request] = []
    folds: set[int] = set()
    fragments = 0
    try:
        ref = (await house.service.open_chat("cost")).ref
        for number, (user, reply) in enumerate(talk(turns)):
            built = await _turn(house, ref, user, reply)
            made.append(request(built))
            folds.add(built.trace.fold.version)
            fragments += sum(b.tokens for b in built.trace.blocks if b.place == "fragment")
            if number % 100 == 99:
                print(f"{number + 1} turns", file=sys.stderr)
    finally:
        await house.close()
    billed = SECONDARY_PRICE * (llm.input_tokens + OUTPUT_PRICE * llm.output_tokens)
    return Policy(made, billed, llm.calls, len(folds), fragments)


async def _turn(house: app.House, ref: ChatRef, user: NewMessage, reply: NewMessage) -> Prompt:
    service = house.service
    await service.append(ref, [user])
    built = await service.prompt(ref, head_tokens=HEAD_TOKENS)
    await service.append(ref, [reply])
    await service.settle(ref, 60)
    return built


@dataclass(slots=True)
class History:
    """The same talk, for other policies."""

    users: list[Segment] = field(default_factory=list[Segment])
    replies: list[Segment] = field(default_factory=list[Segment])

    @staticmethod
    def of(turns: int) -> History:
        made = History()
        for user, reply in talk(turns):
            made.users.append(piece(user.body, count_tokens(user.body)))
            made.replies.append(piece(reply.body, count_tokens(reply.body)))
        return made

    def before(self, turn: int, first: int) -> list[Segment]:
        """What was said from one turn up to another, whose reply is still to come."""
        said = zip(self.users[first:turn], self.replies[first:turn], strict=True)
        return [HEAD, *(s for pair in said for s in pair), self.users[turn]]

    def full(self) -> Policy:
        """Everything, each time."""
        requests = [self.before(turn, 0) for turn in range(len(self.users))]
        return Policy([Request(tuple(r), (1, len(r))) for r in requests])

    def window(self, turns: int) -> Policy:
        """The newest turns; only the head is worth a mark."""
        count = range(len(self.users))
        requests = [self.before(turn, max(0, turn - turns)) for turn in count]
        return Policy([Request(tuple(r), (1,)) for r in requests])

    def rewritten(self, turns: int) -> Policy:
        """The newest turns behind a summary that is another one each turn."""
        made: list[Request] = []
        for turn in range(len(self.users)):
            head, *said = self.before(turn, max(0, turn - turns))
            summary = [piece(f"summary {turn}", SUMMARY_TOKENS)] if turn > turns else []
            made.append(Request((head, *summary, *said), (1,)))
        calls = max(0, len(self.users) - turns)
        read = SUMMARY_TOKENS + INSTRUCTION_TOKENS + self._mean()
        billed = SECONDARY_PRICE * calls * (read + OUTPUT_PRICE * SUMMARY_TOKENS)
        return Policy(made, billed, calls)

    def _mean(self) -> float:
        return statistics.mean(size for _, size in (*self.users, *self.replies)) * 2


def common(one: Request, other: Request) -> int:
    """How many pieces two prompts begin with alike."""
    count = 0
    for a, b in zip(one.pieces, other.pieces, strict=False):
        if a != b:
            break
        count += 1
    return count


def size(asked: Request, pieces: int) -> int:
    """Tokens of the first so many pieces."""
    return sum(tokens for _, tokens in asked.pieces[:pieces])


def hit(cache: Cache, asked: Request, before: Request, earlier: Request | None) -> int:
    """Tokens of a prompt that this provider still has."""
    alike = common(asked, before)
    if cache.marked:
        known = [mark for mark in before.marks if mark <= alike]
        alike = max(known, default=0)
    elif cache.units and alike < len(before.pieces):  # a volatile end costs one turn of lag
        alike = 0 if earlier is None else min(alike, common(before, earlier))
    tokens = size(asked, alike)
    tokens -= tokens % cache.step
    return tokens if tokens >= cache.least else 0


def billed(cache: Cache, policy: Policy) -> float:
    """The input of all turns, and the summaries."""
    total = policy.secondary
    before: Request | None = None
    earlier: Request | None = None
    for number, asked in enumerate(policy.requests):
        warm = before is not None and number % COLD_EVERY != 0
        cached = hit(cache, asked, before, earlier) if warm and before is not None else 0
        written = size(asked, asked.marks[-1]) if cache.marked else asked.tokens
        written = max(cached, written)
        total += cache.hit * cached + cache.write * (written - cached) + asked.tokens - written
        before, earlier = asked, before
    return total


def equal_window(history: History, tokens: float) -> int:
    """Turns of a window whose average prompt is nearest to this."""
    averages = {n: _average(history.window(n)) for n in range(2, 60)}
    return min(averages, key=lambda n: abs(averages[n] - tokens))


def _average(policy: Policy) -> float:
    return statistics.mean(asked.tokens for asked in policy.requests)


def table(policies: dict[str, Policy], output: float) -> dict[str, dict[str, int]]:
    """Thousands of tokens by provider and policy."""
    return {
        name: {p: round((billed(cache, policy) + output) / 1_000) for p, policy in policies.items()}
        for name, cache in CACHES.items()
    }


def ratios(found: dict[str, dict[str, int]]) -> dict[str, dict[str, float]]:
    """The product against each of the others."""
    others = ("full history", "sliding window", "summary each turn")
    return {
        name: {other: round(row["previously"] / row[other], 3) for other in others}
        for name, row in found.items()
    }


async def run(turns: int, budget: int, folder: Path) -> dict[str, Any]:
    """Everything."""
    ours = await product(turns, budget, folder)
    history = History.of(turns)
    average = _average(ours)
    newest = equal_window(history, average)
    shorter = equal_window(history, average - SUMMARY_TOKENS)
    policies = {
        "previously": ours,
        "full history": history.full(),
        "sliding window": history.window(newest),
        "summary each turn": history.rewritten(shorter),
    }
    output = OUTPUT_PRICE * sum(tokens for _, tokens in history.replies)
    found = table(policies, output)
    return {
        "prompt_tokens": {
            name: {
                "average": round(_average(policy)),
                "largest": max(asked.tokens for asked in policy.requests),
            }
            for name, policy in policies.items()
        },
        "summaries": {name: policy.calls for name, policy in policies.items()},
        "folds": ours.folds,
        "fragment_tokens_per_turn": round(ours.fragment_tokens / turns),
        "summaries_k_tokens": round(ours.secondary / 1_000),
        "output_k_tokens": round(output / 1_000),
        "k_tokens": found,
        "ratio": ratios(found),
        "bars": {"sliding window, wherever there is a cache": 0.5},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--budget-tokens", type=int, default=14_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(run(args.turns, args.budget_tokens, Path(folder)))
        print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
