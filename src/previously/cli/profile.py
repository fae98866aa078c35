"""`previously profile`: the models that may write summaries."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from previously import app
from previously.cli.options import command
from previously.errors import BadInput, ProfileNotFound
from previously.llm.check import check
from previously.llm.metered import price_of
from previously.llm.profile import CACHE_MARKS, SOURCES, Profile, from_mapping
from previously.llm.remote import new_session
from previously.llm.secrets import resolve
from previously.service import OWNER

MICROS = 1_000_000


def add(commands: Any) -> None:
    """Its options."""
    text = "Name the models that write summaries, and try them out."
    parser: argparse.ArgumentParser = commands.add_parser("profile", help=text, description=text)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_add(actions)
    command(actions, "list", run_list, "List the profiles; keys are never shown.")
    for name, run, help_text in (
        ("test", run_test, "Ask a profile one short question and say in words what came of it."),
        ("rm", run_rm, "Forget a profile; what it wrote stays."),
    ):
        command(actions, name, run, help_text).add_argument("name", help="name of the profile")


def _add_add(actions: Any) -> None:
    parser = command(actions, "add", run_add, "Make a profile, or replace the one of that name.")
    parser.add_argument("name", help="any name; `main` is used unless a chat names another")
    parser.add_argument("--source", choices=SOURCES, default="openai", help="whose API it speaks")
    parser.add_argument("--base-url", default="", metavar="URL", help="such as https://host/v1")
    parser.add_argument("--model", default="", help="the model's name there")
    parser.add_argument(
        "--secret",
        metavar="WHERE",
        help="where the key is kept: env:NAME or file:PATH; never the key itself",
    )
    parser.add_argument("--window-tokens", type=int, metavar="N", help="prompt and answer together")
    parser.add_argument(
        "--output-tokens", type=int, metavar="N", help="room for an answer and thinking"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="from 0 to 2")
    parser.add_argument("--timeout-s", type=float, metavar="S", help="longest wait for an answer")
    parser.add_argument("--price", metavar="IN,OUT[,CACHED]", help="US dollars per million tokens")
    parser.add_argument("--at-once", type=int, metavar="N", help="calls at the same time")
    parser.add_argument("--per-minute", type=int, metavar="N", help="calls in a minute")
    parser.add_argument("--stream", action="store_true", help="read answers as a stream")
    parser.add_argument(
        "--cache-marks",
        choices=[style for style in CACHE_MARKS if style],
        default="",
        help="set marks of this provider's prompt cache in what the proxy sends there",
    )
    parser.add_argument(
        "--params", metavar="JSON", help="further fields of every request, as a JSON object"
    )


async def run_add(args: argparse.Namespace) -> int:
    """Store a profile."""
    given = {
        name: getattr(args, name)
        for name in ("window_tokens", "output_tokens", "temperature", "timeout_s", "secret")
        if getattr(args, name) is not None
    }
    limits = {"at_once": args.at_once, "per_minute": args.per_minute}
    profile = from_mapping(
        {
            "name": args.name,
            "source": args.source,
            "base_url": args.base_url,
            "model": args.model,
            "stream": args.stream,
            "cache_marks": args.cache_marks,
            "price": _price(args.price),
            "limits": limits,
            "params": _params(args.params),
            **given,
        }
    )
    async with await _open(args, read_only=False) as house:
        await house.store.put_profile(OWNER, profile.as_mapping())
    _print(args, _facts(profile), f"{_line(profile)}\nTry it: previously profile test {args.name}")
    return 0


def _price(words: str | None) -> dict[str, int] | None:
    if words is None:
        return None
    try:
        numbers = [round(float(word) * MICROS) for word in words.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3):
        raise BadInput("--price is IN,OUT or IN,OUT,CACHED in US dollars", field="price")
    names = ("input_micro", "output_micro", "cached_input_micro")
    return dict(zip(names, numbers, strict=False))


def _params(words: str | None) -> Mapping[str, Any]:
    try:
        params = json.loads(words or "{}")
    except ValueError:
        params = None
    if not isinstance(params, dict):
        raise BadInput("--params is a JSON object", field="params")
    return params  # pyright: ignore[reportUnknownVariableType]


async def run_list(args: argparse.Namespace) -> int:
    """Print every profile, and the built-in one."""
    async with await _open(args, read_only=True) as house:
        found = [from_mapping(values) for values, _ in await house.store.profiles(OWNER)]
        troubles = await house.store.troubles(OWNER)
    lines = [_line(p) + _warning(troubles.get(p.name)) for p in found]
    facts = [{**_facts(p), "trouble": troubles.get(p.name)} for p in found]
    built_in = "extractive: built in, quotes instead of retelling"
    _print(args, facts, "\n".join([*lines, built_in]))
    return 0


async def run_test(args: argparse.Namespace) -> int:
    """Ask one short question; 1 if the profile does not work."""
    profile = await _find(args)
    async with new_session() as session:
        finding = await check(profile, session, resolve(profile.secret, os.environ))
    lines = [*finding.lines, _about_price(profile)]
    facts = {"ok": finding.ok, "says": list(finding.lines), "answer": finding.answer}
    _print(args, facts, "\n".join(lines))
    return 0 if finding.ok else 1


async def run_rm(args: argparse.Namespace) -> int:
    """Forget a profile."""
    async with await _open(args, read_only=False) as house:
        await house.store.remove_profile(OWNER, args.name)
    _print(args, {"removed": args.name}, f"Profile {args.name} is gone.")
    return 0


async def _find(args: argparse.Namespace) -> Profile:
    async with await _open(args, read_only=True) as house:
        found = await house.store.find_profile(OWNER, args.name)
        known = [values["name"] for values, _ in await house.store.profiles(OWNER)]
    if found is None:
        names = ", ".join(known) or "none yet"
        raise ProfileNotFound(f"no profile named {args.name!r}; there are: {names}")
    return from_mapping(found[0])


async def _open(args: argparse.Namespace, *, read_only: bool) -> app.House:
    location = app.database_location(args.database, args.data)
    return await app.build(location, read_only=read_only, worker=False)


def _facts(profile: Profile) -> dict[str, Any]:
    return {**profile.as_mapping(), "price_known": price_of(profile) is not None}


def _line(profile: Profile) -> str:
    key = f", key in {profile.secret}" if profile.secret else ", no key"
    window = f", window {profile.window_tokens}" if profile.window_tokens else ""
    return f"{profile.name}: {profile.model} at {profile.base_url} ({profile.source}{key}{window})"


def _warning(trouble: str | None) -> str:
    return f"\n  ! main is asked instead: {trouble}" if trouble else ""


def _about_price(profile: Profile) -> str:
    price = price_of(profile)
    if price is None:
        return "Its price is unknown: calls are counted in tokens only. Set it with --price."
    given, made = price.input_micro / MICROS, price.output_micro / MICROS
    return f"It costs ${given:g} per million tokens read, ${made:g} per million written."


def _print(args: argparse.Namespace, facts: Any, text: str) -> None:
    print(json.dumps(facts, ensure_ascii=False, indent=1) if args.json else text)
