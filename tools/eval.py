"""Runs the evaluation kit on the product and prints one table; exit code 1 if a hard gate fails.

    python tools/eval.py --kit PATH [--only recall,coverage] [--limit 2] [--seeds 20] [--turns 500]

Each script of the kit is a process of its own, with the kit and this folder on its path; two run
at a time, and each says how far it is. Every figure stands beside the kit's baselines of the same
run. `--limit` and smaller sizes are for a quick look: gates hold for full sizes.

With `--folder` what each part measured stays there, and a part that has ended is not run again: a
run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

AT_ONCE = 2
BUDGET = 8_000  # of the kit's stability and survival scripts
SETS = ("locomo", "kdlong", "longmemeval_s60")
WINDOWS = ("window25_bm25", "window25_bm25_nbr1")
BASELINES = ("last_n", "bm25", *WINDOWS)
BUDGETS = (1_000, 2_000, 4_000, 8_000)
GATED = BUDGETS[1:]
NOISE = 0.02  # below the best window
GROWTH_MAX = 5.0  # tokens per 100 prompts
CACHE_MIN = {"Pipeline": 0.95, "Recalling": 0.85}
BASE_DESIGNS = ("sliding_window", "rolling_summary", "hierarchical", "hierarchical_snips_tail")
SURVIVAL_MIN, SURVIVAL_WHOLE_MIN, GENERATIONS_MAX = 0.85, 0.99, 3

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - thousands of commits are waited for, none is to last
LAST_WORDS = 40  # lines of a script that broke
SAID_CHARS = 150  # of a line on how far it is

Found = Mapping[str, Any]  # what a script wrote down


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    check: str
    case: str
    measured: str
    gate: str = ""
    passed: bool | None = None  # None: reported only
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run."""

    messages: int
    box_turns: int
    turns: int
    seeds: int
    limit: int


@dataclass(frozen=True, slots=True)
class Job:
    """One script of the kit, or of this folder, with its options, and how its answer is read."""

    group: str
    name: str
    script: str
    options: tuple[str, ...]
    rows: Callable[[Found], Iterator[Row]]


def jobs(sizes: Sizes) -> list[Job]:
    """The longest first, so that two at a time end together."""
    limit = ("--limit", str(sizes.limit)) if sizes.limit else ()
    survival = ("--seeds", str(sizes.seeds), "--turns", str(sizes.turns))
    return [
        *(
            Job("survival", f"survival {lang}", "eval_survival", ("--lang", lang, *survival),
                survival_rows)
            for lang in ("en", "zh")
        ),
        *(
            Job("stability", f"stability {kind}", "run_stability",
                (*_on(kind), "--turns", str(sizes.turns)), stability_rows(kind))
            for kind in CACHE_MIN
        ),
        Job("stability", "stability of baselines", "run_stability", ("--turns", str(sizes.turns)),
            base_stability_rows),
        *(
            Job("recall", f"recall {name}", "run_recall",
                (*_on("Product"), "--set", name, "--split", "open", *limit, "--systems",
                 ",".join(BASELINES)), recall_rows)
            for name in reversed(SETS)
        ),
        *(
            Job("story", f"story {name}", "run_recall",
                (*_on("Ordinary"), "--set", name, "--split", "open", *limit), story_rows)
            for name in SETS
        ),
        Job("coverage", "black box", "run_coverage_blackbox",
            (*_on("Pipeline"), "--turns", str(sizes.box_turns)), black_box_rows),
        Job("coverage", "ledger", "run_coverage",
            (*_on("Store"), "--messages", str(sizes.messages)), ledger_rows),
        Job("pairs", "tool pairs", "run_toolpairs", _on("Selector"), tool_pair_rows),
    ]  # fmt: skip


def _on(adapter: str) -> tuple[str, ...]:
    return ("--adapter", f"eval_adapters:{adapter}")


def ledger_rows(found: Found) -> Iterator[Row]:
    """The ledger under a random life: one row per language and seed."""
    for r in found["results"]:
        bad = {name: count for name, count in r["worst"].items() if count}
        said = f"{r['bad_checks']} of {r['checks']} checks bad {_counts(bad)}"
        case = f"{r['lang']} seed {r['seed']}, {r['ops']} changes"
        yield Row("coverage, ledger", case, said, "0", r["bad_checks"] == 0, hard=True)


def black_box_rows(found: Found) -> Iterator[Row]:
    """Marks that the model echoes: one row per language."""
    for r in found["results"]:
        said = f"missing {r['missing']}, multiple {r['multiple']}"
        good = r["missing"] + r["multiple"] == 0
        case = f"{r['lang']}, {r['messages']} messages"
        yield Row("coverage, black box", case, said, "0, 0", good, hard=True)


def tool_pair_rows(found: Found) -> Iterator[Row]:
    """Tool calls and their results: one row per source and budget."""
    for r in found["results"]:
        lost, split = r["newest_message_lost"], r["prompts_with_violation"]
        said = f"split {split}, newest lost {lost} {_counts(r['kinds'])}"
        case = f"{r['source']} at {r['budget']}, {r['prompts']} prompts"
        yield Row("tool pairs", case, said.strip(), "0, 0", split + lost == 0, hard=True)


def recall_rows(found: Found) -> Iterator[Row]:
    """The product beside the baselines, a row for each budget."""
    results, name = found["results"], found["set"]
    product = results["product"]
    for budget in BUDGETS:
        best = max(_recall(results[window], budget) for window in WINDOWS)
        mine = _recall(product, budget)
        beside = " ".join(f"{b} {_recall(results[b], budget):.3f}" for b in BASELINES)
        passed = mine >= best - NOISE if budget in GATED else None
        gate = f"≥ {best - NOISE:.3f}" if budget in GATED else ""
        yield Row("recall, query", f"{name} at {budget}", f"{mine:.3f}  ({beside})", gate, passed)
    over = product["over_budget"]
    yield Row("over budget", f"{name}, query", str(over), "0", over == 0, hard=True)


def story_rows(found: Found) -> Iterator[Row]:
    """What an ordinary turn calls up: reported."""
    mine = found["results"]["product_story"]
    said = " ".join(f"{b}: {_recall(mine, b):.3f}" for b in BUDGETS)
    yield Row("recall, story", found["set"], said)
    yield Row("over budget", f"{found['set']}, story", str(mine["over_budget"]), "0",
              mine["over_budget"] == 0, hard=True)  # fmt: skip


def _recall(system: Found, budget: int) -> float:
    return float(system["budgets"][str(budget)]["ev_frac"])


def mean_row(found: Sequence[Found]) -> Iterator[Row]:
    """Over all sets and budgets with a gate: not only not worse, but better."""
    cells = [(f["results"], b) for f in found for b in GATED]
    if not cells:
        return
    mine = fmean(_recall(results["product"], b) for results, b in cells)
    best = fmean(max(_recall(results[w], b) for w in WINDOWS) for results, b in cells)
    yield Row("recall, query", "mean of these", f"{mine:.3f}", f"> {best:.3f}", mine > best)


def survival_rows(found: Found) -> Iterator[Row]:
    """Planted facts after the whole stream: a row for each case."""
    for r in found["results"]:
        if r["case"] in BASE_DESIGNS:
            beside = f"{r['lang']}, 5 % loss per call, baseline {r['case']}"
            yield Row("survival", beside, f"{r['survival']:.3f}")
            continue
        said = f"{r['survival']:.3f} (least {r['survival_min']:.3f} of {r['seeds']} seeds)"
        said += f", generations ≤ {r['generations_max']}"
        least = {"no loss": None, "no loss, sizes doubled": SURVIVAL_WHOLE_MIN}
        gate = least.get(r["case"], SURVIVAL_MIN)
        few = r["generations_max"] <= GENERATIONS_MAX
        yield Row(
            "survival",
            f"{r['lang']}, {r['case']}",
            said,
            f"≥ {gate}, ≤ {GENERATIONS_MAX}" if gate else "",
            r["survival"] >= gate and few if gate else None,
        )


def stability_rows(kind: str) -> Callable[[Found], Iterator[Row]]:
    """How still prompts stand, with or without fragments, and whether they grow."""
    shown = "with fragments" if kind == "Recalling" else "without fragments"

    def rows(found: Found) -> Iterator[Row]:
        for r in found["results"]:
            case = f"{r['lang']}, {shown}, {r['prompts']} prompts"
            share, growth = r["cacheable_share_mean"], r["slope_tokens_per_100_prompts"]
            least = CACHE_MIN[kind]
            yield Row("cacheable", case, f"{share:.3f}", f"≥ {least}", share >= least)
            yield Row("growth", case, f"{growth:+.1f} tokens per 100 prompts",
                      f"± {GROWTH_MAX:.0f}", abs(growth) <= GROWTH_MAX, hard=True)  # fmt: skip
            most = r["tokens_max"]
            yield Row("over budget", case, f"at most {most}", f"≤ {BUDGET}", most <= BUDGET,
                      hard=True)  # fmt: skip
            wrong = r["coverage_missing_max"] + r["coverage_multiple_max"]
            yield Row("coverage, prompts", case, str(wrong), "0", wrong == 0, hard=True)

    return rows


def base_stability_rows(found: Found) -> Iterator[Row]:
    """The kit's own designs over the same stream: reported."""
    for r in found["results"]:
        if r["design"] in BASE_DESIGNS:
            case = f"{r['lang']}, baseline {r['design']}"
            growth = f"{r['slope_tokens_per_100_prompts']:+.1f} tokens per 100 prompts"
            yield Row("cacheable", case, f"{r['cacheable_share_mean']:.3f}")
            yield Row("growth", case, f"{growth}, at most {r['tokens_max']}")


def _counts(bad: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in bad.items())


class Board:
    """Says how far everything is; several threads write on it."""

    def __init__(self, parts: int) -> None:
        self._parts, self._ended = parts, 0
        self._start_s = time.monotonic()
        self._lock = threading.Lock()

    def say(self, name: str, text: str) -> None:
        """One line."""
        minutes, seconds = divmod(int(time.monotonic() - self._start_s), 60)
        line = f"[{minutes:3d}:{seconds:02d}] {name}: {text[:SAID_CHARS]}"
        with self._lock:
            print(line, file=sys.stderr, flush=True)

    def ended(self, name: str, how: str) -> None:
        """One part less to wait for."""
        with self._lock:
            self._ended += 1
            at = f"{self._ended} of {self._parts} parts done"
        self.say(name, f"{how}; {at}")


def run(kit: Path, folder: Path, board: Board, job: Job) -> Found:
    """What a job measured, once it has ended."""
    here = Path(__file__).resolve().parent
    script = (here if job.script.startswith("eval") else kit) / f"{job.script}.py"
    out = folder / f"{job.name}.json"
    if out.is_file():
        board.ended(job.name, "was measured before")
        return json.loads(out.read_text(encoding="utf-8"))
    unfinished, start_s = folder / f"{job.name}.part", time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="previously-eval-", dir=_memory_folder()) as scratch,
        subprocess.Popen(
            [sys.executable, "-B", str(script), *job.options, "--out", str(unfinished)],
            env={"PYTHONPATH": f"{kit}:{here}", "PYTHONUTF8": "1", "TMPDIR": scratch},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = deque[str](maxlen=LAST_WORDS)
        for line in process.stdout:
            said.append(line)
            board.say(job.name, line.rstrip())
    if process.returncode != 0:
        raise SystemExit(f"{job.name} broke:\n{''.join(said)}")
    unfinished.replace(out)
    board.ended(job.name, f"done in {time.monotonic() - start_s:.0f} s")
    return json.loads(out.read_text(encoding="utf-8"))


def _memory_folder() -> Path | None:
    """A folder in memory, if there is one."""
    return MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None


def evaluate(kit: Path, folder: Path, wanted: Sequence[Job]) -> list[Row]:
    """All rows, in the order of the jobs."""
    board = Board(len(wanted))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(partial(run, kit, folder, board), wanted))
    rows = [row for job, result in zip(wanted, found, strict=True) for row in job.rows(result)]
    recalls = [r for job, r in zip(wanted, found, strict=True) if job.group == "recall"]
    return [*rows, *mean_row(recalls)]


def table(rows: Sequence[Row]) -> str:
    """The rows in columns."""
    words = {True: "held", False: "missed", None: "-"}
    lines = [("check", "case", "bar", "", "measured")]
    lines += [
        (r.check, r.case, r.gate, words[r.passed] + (" (hard)" if _is_broken(r) else ""),
         r.measured)
        for r in sorted(rows, key=lambda r: r.check)
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _is_broken(row: Row) -> bool:
    return row.hard and not row.passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--only", default="", help="survival,stability,recall,story,coverage,pairs")
    parser.add_argument("--messages", type=int, default=1_500, help="of the ledger")
    parser.add_argument("--box-turns", type=int, default=1_000, help="of the black box")
    parser.add_argument("--turns", type=int, default=2_000, help="of stability and survival")
    parser.add_argument("--seeds", type=int, default=20, help="of survival")
    parser.add_argument("--limit", type=int, default=0, help="conversations of each set (0: all)")
    parser.add_argument("--folder", type=Path, help="where what was measured stays")
    args = parser.parse_args()
    kit: Path = args.kit.resolve()
    if not (kit / "run_coverage.py").is_file():
        sys.exit(f"There is no evaluation kit at {args.kit}; name its folder with EVAL_KIT.")
    sizes = Sizes(args.messages, args.box_turns, args.turns, args.seeds, args.limit)
    only: str = args.only
    wanted = [job for job in jobs(sizes) if not only or job.group in only.split(",")]
    with tempfile.TemporaryDirectory(prefix="previously-eval-") as made:
        folder: Path = args.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        rows = evaluate(kit, folder, wanted)
    print(table(rows))
    hard = sum(1 for row in rows if _is_broken(row))
    soft = sum(1 for row in rows if not row.hard and row.passed is False)
    gates = sum(1 for row in rows if row.passed is not None)
    print(f"\n{gates} gates: {hard} hard ones missed, {soft} others.")
    sys.exit(1 if hard else 0)


if __name__ == "__main__":
    main()
