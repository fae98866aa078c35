"""The command line: `previously serve | prompt | doctor`.

Exit codes: 0 done, 1 failed, 2 wrong usage. Answers go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from previously import __version__, app
from previously.errors import BadInput, UserError
from previously.model import Item, Prompt
from previously.service import Place

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8377
EXCERPT_CHARS = 56

Command = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    args = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    command: Command = args.command
    try:
        return _run(command(args), serving=command is serve)
    except BadInput as error:
        print(f"previously: {error}", file=sys.stderr)
        return 2
    except UserError as error:
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
    _add_serve(commands)
    _add_prompt(commands)
    _add_doctor(commands)
    return parser


def _command(commands: Any, name: str, run: Command, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help_text, description=help_text
    )
    parser.set_defaults(command=run)
    parser.add_argument("--data", metavar="DIR", help="folder of the database (PREVIOUSLY_DATA)")
    parser.add_argument(
        "--database", metavar="URL", help="SQLite file or URL (PREVIOUSLY_DATABASE)"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def _add_serve(commands: Any) -> None:
    parser = _command(commands, "serve", serve, "Start the proxy in front of an upstream model.")
    host = app.environment("HOST") or DEFAULT_HOST
    port = app.environment("PORT") or str(DEFAULT_PORT)
    parser.add_argument("--host", default=host, help="loopback address (default %(default)s)")
    parser.add_argument("--port", default=port, type=int, help="port (default %(default)s)")
    parser.add_argument(
        "--upstream",
        default=app.environment("UPSTREAM"),
        metavar="URL",
        help="OpenAI-compatible base URL, such as http://127.0.0.1:11434/v1 (PREVIOUSLY_UPSTREAM)",
    )
    parser.add_argument(
        "--upstream-key-env",
        default="PREVIOUSLY_UPSTREAM_KEY",
        metavar="NAME",
        help="variable that holds the upstream key; unset: the client's own key is passed on",
    )
    parser.add_argument("--no-worker", action="store_true", help="record only; write no summaries")
    parser.add_argument(
        "--budget-tokens", type=int, metavar="N", help="largest prompt (default 8000)"
    )


def _add_prompt(commands: Any) -> None:
    parser = _command(commands, "prompt", prompt, "Show a chat's next prompt; changes nothing.")
    parser.add_argument("chat", help="name of the chat")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="largest prompt")
    parser.add_argument(
        "--trace", action="store_true", help="say for every message how it stands in the prompt"
    )


def _add_doctor(commands: Any) -> None:
    parser = _command(commands, "doctor", doctor, "Check the installation and say what to do.")
    parser.add_argument("--upstream", default=app.environment("UPSTREAM"), metavar="URL")
    parser.add_argument(
        "--repair", action="store_true", help="mend what can be mended; stop the server first"
    )


async def serve(args: argparse.Namespace) -> int:
    """Run the server until it is told to stop."""
    from previously.web.serve import create_app  # noqa: PLC0415 - only this command needs a server
    from previously.web.serve import serve as listen  # noqa: PLC0415

    path = app.database_path(args.database, args.data)
    house = await app.build(
        path, worker=not args.no_worker, settings=_chosen(budget_tokens=args.budget_tokens)
    )

    def ready(host: str, port: int) -> None:
        _announce(args, path, f"http://{host}:{port}")

    try:
        key = os.environ.get(args.upstream_key_env) or None
        web = create_app(house.service, args.upstream, key)
        await listen(web, args.host, args.port, ready=ready)
    finally:
        await house.close()
    return 0


def _announce(args: argparse.Namespace, path: Path, address: str) -> None:
    facts = {
        "address": address,
        "base_url": f"{address}/c/CHAT/v1",
        "upstream": args.upstream,
        "database": str(path),
    }
    if args.json:
        print(json.dumps(facts), flush=True)
        return
    print(f"Previously {__version__} is running.", flush=True)
    print(f"  base URL   {facts['base_url']}   (CHAT is any name you like)")
    print(f"  upstream   {args.upstream or 'none yet: start with --upstream URL'}")
    print(f"  database   {path}")
    print(f"  health     {address}/healthz", flush=True)


def _chosen(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


async def prompt(args: argparse.Namespace) -> int:
    """Print the prompt, or its trace."""
    house = await app.build(app.database_path(args.database, args.data), read_only=True)
    try:
        chat = await house.service.find_chat(args.chat)
        built = await house.service.prompt(chat.ref, args.budget_tokens, preview=True)
        places = [p async for p in house.service.places(chat.ref, built)] if args.trace else []
    finally:
        await house.close()
    if args.json:
        print(json.dumps(_prompt_json(args.chat, built, places), ensure_ascii=False, indent=1))
    elif args.trace:
        print(_trace_text(args.chat, built, places))
    else:
        for message in built.messages:
            print(f"--- {message['role']}\n{message.get('content') or message.get('tool_calls')}")
    return 0


def _prompt_json(chat: str, built: Prompt, places: Sequence[Place]) -> dict[str, Any]:
    trace = built.trace
    return {
        "chat": chat,
        "tokens": built.tokens,
        "budget_tokens": trace.budget_tokens,
        "fold": {"version": trace.fold.version, "reason": trace.fold.reason},
        "blocks": [
            {"place": b.place, "tokens": b.tokens, "sources": [str(i) for i in b.sources]}
            for b in trace.blocks
        ],
        "notes": list(trace.notes),
        "trace": [_place_json(p) for p in places],
        "messages": built.messages,
    }


def _place_json(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = {
        "floor": place.floor,
        "id": str(Item.of(place.message)),
        "role": place.message.role,
        "how": place.how,
    }
    if place.summary_id is not None:
        found["mini"] = _mini(place.summary_id)
    if place.reason:
        found["reason"] = place.reason
    return found


def _mini(summary_id: int) -> str:
    return str(Item(is_summary=True, id=summary_id))


def _trace_text(chat: str, built: Prompt, places: Sequence[Place]) -> str:
    trace = built.trace
    lines = [
        f"{chat}: {len(places)} messages, {built.tokens} of {trace.budget_tokens} tokens",
        f"Fold {trace.fold.version}: {trace.fold.reason or 'nothing folded yet'}.",
        *trace.notes,
    ]
    covers = [b for b in trace.blocks if b.place == "cover"]
    verbatim = [b for b in trace.blocks if b.place != "cover"]
    minis = sum(len(b.sources) for b in covers)
    lines.append(f"  {'minis':9}{sum(b.tokens for b in covers):6} tokens in {minis} minis")
    lines.append(
        f"  {'verbatim':9}{sum(b.tokens for b in verbatim):6} tokens in {len(verbatim)} messages"
    )
    lines += [_place_line(p) for p in places]
    return "\n".join(lines)


def _place_line(place: Place) -> str:
    how = place.how if place.summary_id is None else f"mini {_mini(place.summary_id)}"
    if place.how == "dropped":
        how += f", left out: {place.reason}"
    text = " ".join(place.message.body.split())[:EXCERPT_CHARS]
    return f"#{place.floor:<5} {place.message.role:9} {how:14} {text}"


async def doctor(args: argparse.Namespace) -> int:
    """Print one line per check; 1 if any of them failed."""
    from previously.checkup import examine  # noqa: PLC0415 - nothing else needs it

    path = app.database_path(args.database, args.data)
    findings = await examine(path, args.upstream, repair=args.repair)
    if args.json:
        print(json.dumps([f.as_dict() for f in findings], ensure_ascii=False, indent=1))
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name:10} {finding.says}")
    return 0 if all(f.ok for f in findings) else 1
