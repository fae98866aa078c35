"""Planted facts through the product's own levels of summaries, over several seeds of a model.

    python tools/eval_survival.py --seeds 5 --out FILE     (kit and this folder on the path)

The kit's own script runs one seed and counts every request that shows a fact. Stream, facts, model
and survival here are the kit's; a fact's generations are the summaries between its message and
what the prompt shows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from eval_adapters import Pipeline, Said

FACTS = 150
TURNS = 2_000
AT_ONCE = 20  # messages between two times that the background is waited for
LOSS = 0.05
BESIDE = ("rolling_summary", "hierarchical")  # designs of the kit
DOUBLED = {"mini_tokens": 240, "volume_tokens": 600, "era_tokens": 1_200}


class Doubled(Pipeline):
    """With twice the size for every level."""

    settings: Mapping[str, Any] = {**Pipeline.settings, **DOUBLED}


def planted(lang: str, turns: int) -> tuple[list[Said], list[dict[str, Any]], dict[int, int]]:
    """The kit's stream with its facts, and which message each fact stands in."""
    stream, facts = import_module("run_survival").stream, import_module("memeval.facts")
    made = facts.facts(FACTS, lang)
    messages, where = facts.plant(stream(lang, turns), made)
    return messages, made, where


def survive(kind: type[Pipeline], lang: str, turns: int, loss: float, seed: int) -> dict[str, Any]:
    """One stream through one memory: the share of facts that its last prompt still tells."""
    messages, made, where = planted(lang, turns)
    memory = kind(import_module("memeval.facts").Mock(made, loss, seed))
    for start in range(0, len(messages), AT_ONCE):
        memory.say(messages[start : start + AT_ONCE])
    text = memory.text()
    hands = memory.generations([messages[at]["id"] for at in where.values()])
    memory.close()
    return {"survival": fmean(f["value"] in text for f in made), "generations": max(hands)}


def case(
    name: str, kind: type[Pipeline], lang: str, turns: int, loss: float, seeds: Sequence[int]
) -> dict[str, Any]:
    """The mean over the seeds."""
    runs: list[dict[str, Any]] = []
    for seed in seeds:
        runs.append(survive(kind, lang, turns, loss, seed))
        print(f"{name}: seed {seed} of {len(seeds)}, {runs[-1]}", flush=True)
    each = [run["survival"] for run in runs]
    return {
        "case": name,
        "lang": lang,
        "seeds": len(each),
        "survival": round(fmean(each), 4),
        "survival_min": round(min(each), 4),
        "generations_max": max(run["generations"] for run in runs),
    }


def beside(design: str, lang: str, turns: int, loss: float, seeds: Sequence[int]) -> dict[str, Any]:
    """The same for a design of the kit."""
    messages, made, _ = planted(lang, turns)
    each: list[float] = []
    for seed in seeds:
        llm = import_module("memeval.facts").Mock(made, loss, seed)
        memory = import_module("memeval.designs").DESIGNS[design](llm)
        for message in messages:
            memory.append(message)
        text = memory.text()
        each.append(fmean(f["value"] in text for f in made))
    return {"case": design, "lang": lang, "seeds": len(each), "survival": round(fmean(each), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--lang", choices=("en", "zh"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    results = [
        *(beside(name, args.lang, args.turns, LOSS, range(args.seeds)) for name in BESIDE),
        case("5 % loss per call", Pipeline, args.lang, args.turns, LOSS, range(args.seeds)),
        case("no loss", Pipeline, args.lang, args.turns, 0.0, [0]),
        case("no loss, sizes doubled", Doubled, args.lang, args.turns, 0.0, [0]),
    ]
    args.out.write_text(json.dumps({"results": results}), encoding="utf-8")


if __name__ == "__main__":
    main()
