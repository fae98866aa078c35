"""Runs the evaluation kit on the product and prints one table; any fault is exit code 1.

    python tools/eval.py --kit PATH [--messages 1500] [--turns 250]

Each script of the kit is a process of its own, with the kit and this folder on its path. The sizes
are the largest under which every message still has its place in the prompt: beyond them the oldest
minis are left out (and listed in the trace), which these scripts count as missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KIT_MESSAGES = 1_500  # what the kit's own defaults are
KIT_TURNS = 1_000
MESSAGES = 1_500
TURNS = 250
TIMEOUT_S = 1_800


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    check: str
    case: str
    size: str
    faults: int
    detail: str


@dataclass(frozen=True, slots=True)
class Run:
    """One script of the kit, at work."""

    script: str
    out: Path
    process: subprocess.Popen[str]

    def results(self) -> list[Mapping[str, Any]]:
        """What it measured, once it has ended."""
        said, _ = self.process.communicate(timeout=TIMEOUT_S)
        if self.process.returncode != 0:
            raise SystemExit(f"{self.script} broke:\n{said}")
        return json.loads(self.out.read_text(encoding="utf-8"))["results"]


def start(kit: Path, folder: Path, script: str, adapter: str, *options: str) -> Run:
    """Start a script on an adapter of this folder."""
    out = folder / f"{script}.json"
    found = f"{kit}:{Path(__file__).resolve().parent}"
    arguments = ["--adapter", f"eval_adapters:{adapter}", "--out", str(out), *options]
    process = subprocess.Popen(
        [sys.executable, "-B", str(kit / f"{script}.py"), *arguments],
        env={"PYTHONPATH": found, "PYTHONUTF8": "1", "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Run(script, out, process)


def coverage_rows(results: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The ledger under a random life: one row per language and seed."""
    for r in results:
        bad = {name: count for name, count in r["worst"].items() if count}
        size = f"{r['ops']} changes, {r['checks']} checks"
        yield Row("coverage, ledger", f"{r['lang']} seed {r['seed']}", size, r["bad_checks"],
                  _counts(bad))  # fmt: skip


def black_box_rows(results: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Marks that the model echoes: one row per language."""
    for r in results:
        bad = {name: r[name] for name in ("missing", "multiple") if r[name]}
        yield Row("coverage, black box", r["lang"], f"{r['messages']} messages", sum(bad.values()),
                  _counts(bad))  # fmt: skip


def tool_pair_rows(results: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Tool calls and their results: one row per source and budget."""
    for r in results:
        lost = r["newest_message_lost"]
        bad = {**r["kinds"], **({"newest message lost": lost} if lost else {})}
        case = f"{r['source']}, budget {r['budget']}"
        faults = r["prompts_with_violation"] + lost
        yield Row("tool pairs", case, f"{r['prompts']} prompts", faults, _counts(bad))


def _counts(bad: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in bad.items())


def evaluate(kit: Path, messages: int, turns: int) -> list[Row]:
    """All three scripts, side by side."""
    with tempfile.TemporaryDirectory(prefix="previously-eval-") as made:
        folder = Path(made)
        pairs = start(kit, folder, "run_toolpairs", "Selector")
        ledger = start(kit, folder, "run_coverage", "Store", "--messages", str(messages))
        box = start(kit, folder, "run_coverage_blackbox", "Pipeline", "--turns", str(turns))
        try:
            return [
                *coverage_rows(ledger.results()),
                *black_box_rows(box.results()),
                *tool_pair_rows(pairs.results()),
            ]
        finally:
            for run in (pairs, ledger, box):
                run.process.kill()
                run.process.wait()


def table(rows: Sequence[Row]) -> str:
    """The rows in columns."""
    lines = [("check", "case", "size", "faults", "")]
    lines += [(r.check, r.case, r.size, str(r.faults), r.detail) for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def scale_note(messages: int, turns: int) -> str:
    """How much of the kit's own size was run."""
    if messages >= KIT_MESSAGES and turns >= KIT_TURNS:
        return ""
    return (
        f"Run with {messages} of the kit's {KIT_MESSAGES} messages (ledger) and {turns} of its "
        f"{KIT_TURNS} turns (black box): in longer chats the oldest minis are left out of the "
        "prompt, and its trace says so."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--turns", type=int, default=TURNS)
    args = parser.parse_args()
    kit: Path = args.kit.resolve()
    if not (kit / "run_coverage.py").is_file():
        sys.exit(f"There is no evaluation kit at {args.kit}; name its folder with EVAL_KIT.")
    rows = evaluate(kit, args.messages, args.turns)
    faults = sum(row.faults for row in rows)
    print(table(rows))
    print(f"\n{faults} faults. {scale_note(args.messages, args.turns)}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
