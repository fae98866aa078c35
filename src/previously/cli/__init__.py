"""The command line: one file per command.

Exit codes: 0 done, 1 failed, 2 wrong usage. Answers go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from previously import __version__
from previously.cli import (
    backfill,
    continue_,
    demo,
    doctor,
    explain,
    import_,
    migrate,
    profile,
    prompt,
    search,
    serve,
    summarize,
    usage,
    worker,
)
from previously.cli.options import Command
from previously.errors import BadInput, PreviouslyError

COMMANDS = (
    demo,
    serve,
    worker,
    import_,
    backfill,
    continue_,
    prompt,
    explain,
    search,
    summarize,
    profile,
    usage,
    migrate,
    doctor,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    command: Command = args.command
    try:
        return _run(command(args), serving=command is serve.run)
    except BadInput as error:
        print(f"previously: {error}", file=sys.stderr)
        return 2
    except PreviouslyError as error:
        print(f"previously: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough, as in `previously prompt … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(work: Coroutine[Any, Any, int], *, serving: bool) -> int:
    if not serving:
        return asyncio.run(work)
    from previously.web.serve import run  # noqa: PLC0415 - only a server needs the fastest loop

    return run(work)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="previously",
        description="Long conversations at a bounded prompt size. 让长对话保持连贯。",
    )
    parser.add_argument("--version", action="version", version=f"previously {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    return parser
