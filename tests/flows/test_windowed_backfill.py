"""Five thousand floors through a small window, killed on the way, on either database."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from previously import app
from previously.model import digest
from previously.store.schema import summary
from previously.testing import FakeUpstream
from tests.cli.test_commands import PREVIOUSLY, environment, run
from tests.flows.test_backfill import every_floor_is_covered_once

FLOORS, CHARS = 5_000, 3_000_000
GIANT_EVERY, GIANT_CHARS = 250, 50_000
WINDOW_TOKENS = 8_000
ALONE = {"PREVIOUSLY_MINIS_PER_CALL": "1"}  # this upstream writes one note, whatever it is asked


def story() -> Iterator[str]:
    """Three million characters, some floors of which no window holds."""
    giants = FLOORS // GIANT_EVERY
    plain = (CHARS - giants * GIANT_CHARS) // (FLOORS - giants)
    for n in range(FLOORS):
        size = GIANT_CHARS if n % GIANT_EVERY == 7 else plain
        sentence = f"On floor {n} the Heron {n} passed, and Mara was promised lamp {n}. "
        role = ("user", "assistant")[n % 2]
        yield json.dumps({"role": role, "content": (sentence * (size // len(sentence) + 1))[:size]})


def short_note(body: dict[str, Any]) -> str:
    """A note that no other text gets."""
    asked = body["messages"][-1]["content"]
    return f"Mara was promised lamp {digest(asked).hex()[:12]}."


async def killed(words: list[str], upstream: FakeUpstream, after: int) -> None:
    child = await asyncio.create_subprocess_exec(
        *words, env=environment(**ALONE), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while child.returncode is None and len(upstream.requests) < after:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert child.returncode is None, "it was done before it was killed"
    child.kill()
    await child.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.proves("S-11", "G-48", "G-110")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_a_backlog_is_noted_through_a_small_window(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
):
    shared = database == "postgres"
    where = request.getfixturevalue("postgres_url") if shared else tmp_path / "previously.db"
    at = ("--database", str(where))
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(story()), encoding="utf-8")
    async with FakeUpstream(short_note) as upstream:
        upstream.window_tokens = WINDOW_TOKENS
        model = ("--base-url", upstream.url, "--model", "small", "--output-tokens", "500")
        sizes = ("--window-tokens", str(WINDOW_TOKENS), "--price", "1,2")
        await asyncio.to_thread(run, "profile", "add", "main", *model, *sizes, *at)
        assert (await asyncio.to_thread(run, "import", str(file), *at)).returncode == 0
        plan = await asyncio.to_thread(run, "backfill", "log", "--json", *at, **ALONE)
        expected = json.loads(plan.stdout)["plan"]["calls"]
        assert upstream.requests == []  # nobody has agreed yet
        words = [str(PREVIOUSLY), "backfill", "log", "--yes", "--json", *at]
        await killed(words, upstream, expected // 2)
        done = await asyncio.to_thread(
            subprocess.run,
            words,
            env=environment(**ALONE),
            capture_output=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2_000:]
        made = len(upstream.requests)
        again = Counter(seen.raw for seen in upstream.requests)
    print(f"expected {expected} calls, made {made}")
    assert abs(expected - made) <= 0.2 * made
    # Only what was on its way when the process died is asked for again.
    assert sum(again.values()) - len(again) <= 8
    await every_floor_is_covered_once(where)
    assert await truncated(where) == 0


async def truncated(where: app.Location) -> int:
    def count(conn: sa.Connection) -> int:
        stats = conn.execute(sa.select(summary.c.stats)).scalars()
        return sum(json.loads(one)["truncated"] for one in stats if one)

    house = await app.build(where, worker=False)
    try:
        return await house.store._db.read(count)
    finally:
        await house.close()
