"""Random lives of a role-play client against a real server; says what was not kept as it was.

    make lives ARGS="--first 1000 --count 60 [--unnamed] [--terse] [--steps 20] [--show]"

Exits with 1 if in any of them something was lost, kept twice, or kept though nobody had said it.
Requests that were passed through are counted, and are no fault: a doubt costs a delay.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.web.life import Kind, Life, begun


async def live(seed: int, kind: Kind) -> tuple[list[str], Life]:
    """One life, and what is wrong in its end."""
    with tempfile.TemporaryDirectory() as folder:
        async with begun(Path(folder), seed, kind) as life:
            try:
                await life.lived()
                return await life.faults(), life
            except Exception as error:  # noqa: BLE001 - it is what we look for
                return [f"{type(error).__name__}: {error}"], life


def main() -> int:
    """Run the lives that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=40, help="how many")
    parser.add_argument("--steps", type=int, default=20, help="things that happen in each")
    parser.add_argument("--unnamed", action="store_true", help="clients that name no chat")
    parser.add_argument("--switching", action="store_true", help="presets that come and go")
    parser.add_argument("--wild", action="store_true", help="also what nobody can tell")
    parser.add_argument("--show", action="store_true", help="what happened in each faulty one")
    parser.add_argument("--terse", action="store_true", help="users who say little but 继续")
    asked = parser.parse_args()
    kind = Kind(not asked.unnamed, asked.switching, asked.wild, asked.steps, asked.terse)
    faulty = passed = sent = 0
    for seed in range(asked.first, asked.first + asked.count):
        faults, life = asyncio.run(live(seed, kind))
        passes = sum(trace.startswith("pass") for trace in life.client.traces)
        passed, sent = passed + passes, sent + len(life.client.traces)
        faulty += bool(faults)
        if faults:
            print(f"{seed}: {'; '.join(faults[:4])} ({passes} of {len(life.client.traces)} passed)")
        if faults and asked.show:
            print("  ", " ".join(life.told))
            print("  ", Counter(trace.split(";")[0] for trace in life.client.traces).most_common(5))
        sys.stdout.flush()
    print(
        f"{faulty} of {asked.count} lives are not kept as they were; {passed} of {sent} passed on"
    )
    return 1 if faulty else 0


if __name__ == "__main__":
    raise SystemExit(main())
