"""kill -9 in the middle of a tree: what had arrived is not asked for again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BISECTER = Path(__file__).with_name("bisecter.py")
AT_ONCE = 4


def start(path: Path, delay_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(BISECTER), str(path), str(delay_s)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},  # noqa: TID251 - for a child
    )


def finish(path: Path) -> str:
    out, err = start(path, 0.0).communicate(timeout=60)
    assert out, err
    return out


def asked(path: Path) -> list[str]:
    calls = path.with_suffix(".calls")
    return calls.read_text().split() if calls.exists() else []


def rows(path: Path, statement: str) -> list[tuple[str, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.proves("G-64")
@pytest.mark.parametrize("after", [3, 14, 33])
def test_a_kill_in_a_tree_asks_again_only_for_what_had_not_arrived(tmp_path: Path, after: int):
    expected = finish(tmp_path / "whole.db")
    whole = asked(tmp_path / "whole.db")
    assert len(whole) == len(set(whole)) > 32
    path = tmp_path / "killed.db"
    child = start(path, 0.05)
    limit = time.monotonic() + 60
    while len(asked(path)) < after and time.monotonic() < limit:
        assert child.poll() is None, child.communicate()
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.communicate()
    before = asked(path)
    arrived = {row[0] for row in rows(path, "SELECT request_hash FROM llm_result")}
    assert after <= len(before) < len(whole)
    assert len(arrived) >= after - 2 * AT_ONCE
    assert finish(path) == expected
    second = asked(path)[len(before) :]
    assert not arrived & set(second)
    assert max(Counter(before + second).values()) <= 2
    assert len(before) + len(second) <= len(whole) + AT_ONCE


@pytest.mark.slow
@pytest.mark.proves("E-35", "E-37", "E-38", "E-39", "E-40", "E-41")
def test_the_commit_stores_the_figures_and_lets_the_root_go(tmp_path: Path):
    path = tmp_path / "whole.db"
    finish(path)
    stored = [json.loads(row[0]) for row in rows(path, "SELECT stats FROM summary ORDER BY id")]
    figures, small = stored  # the giant message, and the words it was answered with
    calls = asked(path)
    assert (small["calls"], small["chunk_count"], small["max_depth"]) == (1, 1, 0)
    assert figures["calls"] == len(calls) - 1 == figures["chunk_count"] + figures["merges"]
    assert figures["chunk_count"] >= 32
    assert figures["truncated"] is False
    assert figures["algorithm"] == "bisect_v1"
    ratio = figures["output_tokens"] / figures["input_tokens"]
    assert figures["compression_ratio"] == round(ratio, 4)
    kept = rows(path, "SELECT request_hash FROM llm_result")
    assert len(kept) == len(calls) - 2  # both roots are gone
