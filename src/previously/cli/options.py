"""What every command has: where the memory is, and how to answer."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import Any

Command = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def command(commands: Any, name: str, run: Command, help_text: str) -> argparse.ArgumentParser:
    """A command with the options that all have in common."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help_text, description=help_text
    )
    parser.set_defaults(command=run)
    parser.add_argument("--data", metavar="DIR", help="folder of the database (PREVIOUSLY_DATA)")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="SQLite file or postgresql:// URL (PREVIOUSLY_DATABASE)",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def chosen(**values: Any) -> dict[str, Any]:
    """The settings that were given."""
    return {name: value for name, value in values.items() if value is not None}
