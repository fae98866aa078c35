"""kill -9 at any moment costs a delay and nothing else."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from previously import app
from previously.store import audit

pytestmark = pytest.mark.slow

APPENDER = Path(__file__).with_name("appender.py")
APPENDS = 100
RUNS_MAX = 60


def run_until_killed(path: Path, rng: random.Random, first: int) -> list[int]:
    """The numbers that one process said were safe before it was killed."""
    args = [str(path), str(rng.randrange(10**6)), str(first), str(APPENDS)]
    child = subprocess.Popen(
        [sys.executable, str(APPENDER), *args], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    stop_after = rng.randrange(1, 16)
    heard: list[int] = []
    timer: threading.Timer | None = None
    for line in child.stdout:
        heard.append(int(line))
        if len(heard) == stop_after:  # from here on the blow may fall at any moment
            timer = threading.Timer(rng.random() * 0.01, child.send_signal, (signal.SIGKILL,))
            timer.start()
    if timer is not None:
        timer.join()
    child.stdout.close()
    child.wait()
    return heard


@pytest.mark.proves("G-10", "I6", "I1")
@pytest.mark.timeout(300)
async def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path):
    path = tmp_path / "killed.db"
    rng = random.Random(7)
    safe: set[int] = set()
    stored: list[int] = []
    runs = 0
    while len(safe) < APPENDS and runs < RUNS_MAX:
        runs += 1
        safe.update(run_until_killed(path, rng, (stored[-1] + 1) if stored else 0))
        with sqlite3.connect(path) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            bodies = raw.execute("SELECT body FROM message ORDER BY pos").fetchall()
        raw.close()
        stored = [int(body.split()[0]) for (body,) in bodies]
        assert safe <= set(stored)
        assert stored == list(range(len(stored)))
    assert runs > 5
    house = await app.build(path)
    try:
        chat = await house.service.find_chat("killed")
        settled = await house.service.settle(chat.ref, 60)
        assert settled.done
        assert settled.waiting == ()
        database = house.store._db
        written = await database.read(audit.stored, chat.ref, "volumes")
        assert written == await database.read(audit.recompute, chat.ref, "volumes")
        assert written.holes == frozenset()
        prompt = await house.service.prompt(chat.ref, 100_000)
        assert prompt.trace.dropped == ()
        places = [p async for p in house.service.places(chat.ref, prompt)]
        assert len(places) == len(stored)
        assert all(p.how in ("verbatim", "summary") for p in places)
    finally:
        await house.close()
