"""Stored state. `Store` is what the house asks for; `Database` is what a backend supplies.

A transaction is a plain function of a SQLAlchemy Core connection, the same for every backend.
"""

from __future__ import annotations

from typing import Protocol

from previously.store.ports.access import Access, KeptAnswer, Token
from previously.store.ports.chats import Branching, ChatCard, ChatFacts, Chats
from previously.store.ports.database import Database
from previously.store.ports.messages import FloorPage, Kept, Messages, Variant
from previously.store.ports.profiles import Profiles, Purpose, Spent
from previously.store.ports.prompts import Prompts
from previously.store.ports.search import Candidate, Found, Search, TermStats
from previously.store.ports.settings import Scope, StoredSettings, Whose
from previously.store.ports.summaries import Pace, Progress, Summaries, SummaryPage
from previously.store.ports.work import Work

__all__ = [
    "Branching",
    "Candidate",
    "ChatCard",
    "ChatFacts",
    "Database",
    "FloorPage",
    "Found",
    "Kept",
    "KeptAnswer",
    "Pace",
    "Progress",
    "Purpose",
    "Scope",
    "Spent",
    "Store",
    "SummaryPage",
    "TermStats",
    "Token",
    "Variant",
    "Whose",
]


class Store(
    Chats, Messages, Summaries, Prompts, Work, Search, StoredSettings, Profiles, Access, Protocol
):
    """Everything the house keeps. Methods that take a `ChatRef` trust it: a look-up made it."""

    @property
    def read_only(self) -> bool: ...

    async def close(self) -> None: ...
