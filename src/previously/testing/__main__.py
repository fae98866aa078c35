"""The fake upstream from a shell."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from previously.testing.upstream import FakeUpstream


async def _run(host: str, port: int) -> None:
    async with FakeUpstream(host=host, port=port) as upstream:
        sys.stdout.write(f"a fake upstream answers at {upstream.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the upstream until it is stopped."""
    parser = argparse.ArgumentParser(prog="python -m previously.testing", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8378, help="port (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_run(options.host, options.port))
    except KeyboardInterrupt:
        sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main()
