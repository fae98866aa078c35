"""Which adapter speaks a profile's language. A provider is one file and one line here."""

from __future__ import annotations

import aiohttp

from previously.llm import Llm
from previously.llm.anthropic import AnthropicLlm
from previously.llm.extractive import Extractive
from previously.llm.openai import OpenAiLlm
from previously.llm.profile import ANTHROPIC, OPENAI, Profile
from previously.llm.remote import Remote
from previously.llm.secrets import Secret

REMOTES: dict[str, type[Remote]] = {OPENAI: OpenAiLlm, ANTHROPIC: AnthropicLlm}


def adapter(profile: Profile, session: aiohttp.ClientSession, secret: Secret | None = None) -> Llm:
    """The model that a profile describes."""
    remote = REMOTES.get(profile.source)
    return Extractive() if remote is None else remote(profile, session, secret)
