"""`previously serve`: the proxy in front of an upstream model."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from previously import __version__, app
from previously.cli.options import chosen, command

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8377


def add(commands: Any) -> None:
    """Its options."""
    parser = command(commands, "serve", run, "Start the proxy in front of an upstream model.")
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


async def run(args: argparse.Namespace) -> int:
    """Run the server until it is told to stop."""
    # Only this command needs a server.
    from previously.web.serve import create_app, only_serves  # noqa: PLC0415
    from previously.web.serve import serve as listen  # noqa: PLC0415

    location = app.database_location(args.database, args.data)
    house = await app.build(
        location, worker=not args.no_worker, settings=chosen(budget_tokens=args.budget_tokens)
    )

    def ready(host: str, port: int) -> None:
        only_serves()
        _announce(args, location, f"http://{host}:{port}")

    try:
        key = os.environ.get(args.upstream_key_env) or None
        token = app.environment("TOKEN")
        web = create_app(
            house.service,
            args.upstream,
            key,
            token=token,
            environment=os.environ,
            keys=app.key_folder(location),
        )
        await listen(web, args.host, args.port, ready=ready)
    finally:
        await house.close()
    return 0


def _announce(args: argparse.Namespace, location: app.Location, address: str) -> None:
    from previously.web.pages import is_built  # noqa: PLC0415 - only this command needs a server

    facts = {
        "address": address,
        "base_url": f"{address}/c/CHAT/v1",
        "upstream": args.upstream,
        "database": app.shown_location(location),
    }
    if args.json:
        print(json.dumps(facts), flush=True)
        return
    print(f"Previously {__version__} is running.", flush=True)
    built = is_built()
    print(f"  page       {address}/" if built else "  page       not built: make page")
    print(f"  base URL   {facts['base_url']}   (CHAT is any name you like)")
    print(f"  upstream   {args.upstream or 'none yet: start with --upstream URL'}")
    print(f"  database   {facts['database']}")
    print(f"  health     {address}/healthz", flush=True)
