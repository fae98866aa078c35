"""A crash at every point of the life of a mini and of a volume costs a delay and nothing else."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from previously import app
from previously.store import audit

POINTS_MIN = 20  # how many there are differs a little from run to run: the index is fed at leisure
CRASHER = Path(__file__).with_name("crasher.py")


def play(path: Path, points: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CRASHER), str(path), str(points), when]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def told(path: Path) -> tuple[list[str], list[tuple[str, tuple[int, ...], bool, int]]]:
    """What is stored in the end: messages, and summaries with what they stand for."""
    house = await app.build(path, worker=False)
    try:
        chat = await house.service.find_chat("crash")
        written = await house.store._db.read(audit.stored, chat.ref, "volumes")
        assert written == await house.store._db.read(audit.recompute, chat.ref, "volumes")
        bodies = [m.body async for m in house.service.messages(chat.ref)]
        notes = [
            (s.text, s.covers, s.valid, s.ordinal) async for s in house.service.summaries(chat.ref)
        ]
        return bodies, notes
    finally:
        await house.close()


@pytest.mark.slow
@pytest.mark.proves("G-10", "G-67", "G-68", "I6")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_any_point_ends_in_the_same_state(tmp_path: Path, when: str):
    whole = play(tmp_path / "whole.db", 0, "never")
    assert whole.returncode == 0, whole.stderr
    expected = await told(tmp_path / "whole.db")
    assert len(expected[1]) == 5
    for point in itertools.count(1):
        path = tmp_path / f"{point}.db"
        died = play(path, point, when)
        if died.returncode == 0 and point > POINTS_MIN:
            break  # it was over before it came to this point
        assert died.returncode == 9, died.stderr
        rest = play(path, 0, "never")
        assert rest.returncode == 0, rest.stderr
        assert await told(path) == expected, point
        asked = Counter(path.with_suffix(".calls").read_text().split())
        # Only a call whose answer had not arrived on disk is made again, and that at most once.
        assert max(asked.values()) <= 2
        assert sum(asked.values()) <= 6, point
