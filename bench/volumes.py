"""A chat of 100,000 floors under minis, volumes and eras: what still grows? Prints JSON.

Messages and three levels of summaries are written straight into the tables; what is timed is the
product's own work: a turn is one recorded message and one prompt at the default settings, without
fragments and with what an old floor's number calls up. Summaries are extracts, so that every
request to a summariser can be weighed.

    python bench/volumes.py [--sizes 1000,10000,100000] [--probes 100]
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from longchat import fill, said
from turn import cpu_ms, exponent, tell

from previously import app
from previously.llm.extractive import Extractive
from previously.measure import count_tokens
from previously.model import Ask, ChatRef, NewMessage, Prompt, Reply

FEED_MESSAGES = 512
SETTLE_S = 600


class Weighed(Extractive):
    """Extracts that remember how much they were asked to read."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def complete(self, ask: Ask) -> Reply:
        """The same, weighed."""
        self.asked.append(sum(count_tokens(m["content"]) for m in ask.messages))
        return await super().complete(ask)


async def prefill(house: app.House, size: int) -> ChatRef:
    """A chat of this many floors with all that stands for them, in the index too."""
    ref = (await house.service.open_chat(f"bench {size}")).ref
    await house.store._db.write(fill, ref, size)
    while await house.store.index_some(FEED_MESSAGES, ripe=False):
        pass
    await house.service.settle(ref, SETTLE_S)
    await house.service.prompt(ref)
    return ref


def asking(n: int, floor: int) -> NewMessage:
    """A turn that names an old floor."""
    return NewMessage("user", f"{n}: do you remember what was written under number {floor}?")


async def probe(
    house: app.House, ref: ChatRef, first: int, count: int, *, related: bool
) -> dict[str, Any]:
    """Medians over some turns; the largest prompt; how often an old floor was called up."""
    await house.store.change_settings(ref, {"related": related})
    rng = random.Random(first)  # noqa: S311 - the same floors every time
    turn_ms: list[float] = []
    prompts: list[Prompt] = []
    for n in range(first, first + 2 * count, 2):
        append_ms = await cpu_ms(house.service.append(ref, [asking(n, rng.randrange(first))]))
        await house.service.settle(ref, SETTLE_S)  # what the background does is not the turn's
        prompt_ms = await cpu_ms(_keep(prompts, house, ref))
        turn_ms.append(append_ms + prompt_ms)
        await house.service.append(ref, [said(n + 1)])
        await house.service.settle(ref, SETTLE_S)
    return {
        "turn_ms": round(statistics.median(turn_ms), 3),
        "turn_p95_ms": round(statistics.quantiles(turn_ms, n=20)[-1], 3),
        "prompt_tokens_max": max(p.tokens for p in prompts),
        "over_budget": sum(p.tokens > p.trace.budget_tokens for p in prompts),
        "dropped": sum(bool(p.trace.dropped) for p in prompts),
        "called_up": sum(bool(p.trace.recalled) for p in prompts),
    }


async def _keep(prompts: list[Prompt], house: app.House, ref: ChatRef) -> None:
    prompts.append(await house.service.prompt(ref))


async def measure(house: app.House, llm: Weighed, size: int, probes: int) -> dict[str, Any]:
    """One chat of one size."""
    ref = await prefill(house, size)
    print(f"{size} floors ready", file=sys.stderr)
    caught_up = len(llm.asked)
    without = await probe(house, ref, size, probes, related=False)
    fragments = await probe(house, ref, size + 2 * probes, probes, related=True)
    shown = (await house.service.prompt(ref)).trace
    covers = Counter(b.place for b in shown.blocks)
    return {
        "without_fragments": without,
        "with_fragments": fragments,
        "summaries_shown": sum(len(b.sources) for b in shown.blocks if b.place == "cover"),
        "blocks": dict(covers),
        "request_tokens_max": max(llm.asked, default=0),
        "calls_to_catch_up": caught_up,
    }


async def run(sizes: list[int], probes: int, folder: Path) -> dict[str, Any]:
    """Everything, smallest chat first."""
    results: dict[int, dict[str, Any]] = {}
    gc.disable()
    for size in sizes:
        llm = Weighed()
        house = await app.build(folder / f"{size}.db", llm=llm)
        results[size] = await measure(house, llm, size, probes)
        await house.close()
        gc.collect()
    kinds = ("without_fragments", "with_fragments")
    return {
        "floors": results,
        "exponent_cpu": {
            kind: exponent({n: r[kind]["turn_ms"] for n, r in results.items()}) for kind in kinds
        },
        "exponent_prompt": exponent(
            {n: r["with_fragments"]["prompt_tokens_max"] for n, r in results.items()}
        ),
        "exponent_request": exponent({n: r["request_tokens_max"] for n, r in results.items()}),
        "bars": {
            "turn_ms": {"without_fragments": 1.0, "with_fragments": 5.0},
            "exponent": 0.1,
            "over_budget": 0,
        },
    }


if __name__ == "__main__":
    tell(run, __doc__, "1000,10000,100000", 100)
