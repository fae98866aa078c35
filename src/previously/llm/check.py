"""Check: whether a profile works, and if not, what to do; in words."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import aiohttp

from previously.errors import (
    AnswerError,
    BadInput,
    ModelUnavailable,
    PreviouslyError,
)
from previously.llm.profile import Profile
from previously.llm.registry import adapter
from previously.llm.secrets import Secret
from previously.model import EXTRACTIVE, Ask, Reply, Usage

TIMEOUT_S_MAX = 60.0
LINE_CHARS_MAX = 120

_ASK = Ask(
    messages=(
        {"role": "system", "content": "You are being tested. Answer in one short line."},
        {"role": "user", "content": "Say that you are ready."},
    ),
    material=(("user", "Say that you are ready."),),
    tokens_max=64,
    language="en",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found out: each line is a sentence for the user."""

    ok: bool
    lines: tuple[str, ...]
    answer: str = ""
    usage: Usage | None = None  # None: there was none, or the server does not say


async def check(
    profile: Profile, session: aiohttp.ClientSession, secret: Secret | None = None
) -> Finding:
    """Ask one short question. Costs a few tokens; never raises for what the upstream does."""
    if profile.source == EXTRACTIVE:
        return Finding(ok=True, lines=("extractive is built in: it needs no server and no key.",))
    hurried = replace(profile, timeout_s=min(profile.timeout_s, TIMEOUT_S_MAX))
    started_s = asyncio.get_running_loop().time()
    try:
        reply = await adapter(hurried, session, secret).complete(_ASK)
    except PreviouslyError as error:
        return _failed(error)
    return _answered(profile, reply, asyncio.get_running_loop().time() - started_s)


def _failed(error: PreviouslyError) -> Finding:
    """The fault in its own words, what works all the same, and what to do."""
    if isinstance(error, ModelUnavailable):
        wait = "" if error.retry_after_s is None else f" in {error.retry_after_s:.0f} s"
        return Finding(ok=False, lines=(str(error), f"This may pass: try again{wait}."))
    if isinstance(error, AnswerError):
        works = "The server is reached, and it knows the key and the model."
        return Finding(ok=False, lines=(works, str(error), "Try another model."))
    if isinstance(error, BadInput):
        return Finding(ok=False, lines=("The server is reached.", str(error), "Check params."))
    return Finding(ok=False, lines=(str(error),))


def _answered(profile: Profile, reply: Reply, took_s: float) -> Finding:
    line = " ".join(reply.text.split())[:LINE_CHARS_MAX]
    key = "" if profile.secret is None else ", and the key is accepted"
    lines = [f"{reply.model} answers after {took_s:.1f} s{key}."]
    if line:
        lines.append(f"It says: {line}")
    else:
        lines.append(
            f"It says nothing in {reply.usage.output_tokens} tokens. If it thinks before it "
            f"speaks, raise output_tokens (now {profile.output_tokens}) or turn thinking off in "
            "params."
        )
    lines.append(_about_usage(reply.usage))
    if profile.window_tokens is None:
        lines.append("Set window_tokens, so that no request is sent which it can only refuse.")
    return Finding(bool(line), tuple(lines), line, reply.usage if _is_told(reply.usage) else None)


def _is_told(usage: Usage) -> bool:
    return bool(usage.input_tokens or usage.output_tokens)


def _about_usage(usage: Usage) -> str:
    if not _is_told(usage):
        return "It does not say how many tokens a call takes; they will be counted here."
    return f"It reports {usage.input_tokens} tokens read and {usage.output_tokens} written."
