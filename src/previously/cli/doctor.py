"""`previously doctor`: is everything as it should be, and what to do if not."""

from __future__ import annotations

import argparse
import json
from typing import Any

from previously import app
from previously.cli.options import command


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "doctor", run, "Check the installation and say what to do.")
    parser.add_argument("--upstream", default=app.environment("UPSTREAM"), metavar="URL")
    parser.add_argument(
        "--repair", action="store_true", help="mend what can be mended; stop the server first"
    )


async def run(args: argparse.Namespace) -> int:
    """Print one line per check; 1 if any of them failed."""
    from previously.checkup import examine  # noqa: PLC0415 - nothing else needs it

    location = app.database_location(args.database, args.data)
    findings = await examine(location, args.upstream, repair=args.repair)
    if args.json:
        print(json.dumps([f.as_dict() for f in findings], ensure_ascii=False, indent=1))
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name:10} {finding.says}")
    return 0 if all(f.ok for f in findings) else 1
