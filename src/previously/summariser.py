"""Which model writes a chat's summaries: its profile, within its limits, on the month's budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from zoneinfo import ZoneInfo

import aiohttp

from previously.engine import Cleaner, Engine, Tact
from previously.errors import NotConfigured
from previously.llm import Llm
from previously.llm.extractive import Extractive
from previously.llm.hasty import Hasty, StoodInFor
from previously.llm.limited import Limited
from previously.llm.metered import Metered, Terms, price_of
from previously.llm.profile import Price, Profile, from_mapping
from previously.llm.registry import adapter
from previously.llm.remote import new_session
from previously.llm.secrets import resolve
from previously.model import EXTRACTIVE, ChatRef, Usage
from previously.settings import Settings
from previously.store import Purpose, Store

MAIN = "main"
MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Quote:
    """What asking a chat's summariser comes to."""

    name: str
    costs: bool
    price: Price | None = None  # None: nobody knows, unless it costs nothing
    window_tokens: int | None = None
    per_minute: int | None = None  # calls


async def quote(store: Store, owner: str, settings: Settings, given: Llm | None = None) -> Quote:
    """The terms of the model that would write this chat's summaries now."""
    if given is not None:
        return Quote(given.name, given.costs, window_tokens=given.window_tokens)
    profile, _ = await _chosen(store, owner, settings)
    if profile is None or profile.source == EXTRACTIVE:
        return Quote(EXTRACTIVE, costs=False)
    return Quote(
        profile.name,
        costs=True,
        price=price_of(profile),
        window_tokens=profile.window_tokens,
        per_minute=profile.limits.per_minute,
    )


async def _chosen(
    store: Store, owner: str, settings: Settings
) -> tuple[Profile | None, Profile | None]:
    """The profile that is to be asked, None for extracts, and the one that may stand in for it."""
    wanted = settings.summary_profile
    if wanted == EXTRACTIVE:
        return None, None
    main = await _profile(store, owner, MAIN)
    chosen = main if not wanted else await _profile(store, owner, wanted)
    if chosen is None and wanted:
        raise NotConfigured(
            f"there is no profile named {wanted!r}; make it with `previously profile add "
            f"{wanted}`, or set summary_profile to another one"
        )
    return chosen, main


async def _profile(store: Store, owner: str, name: str) -> Profile | None:
    found = await store.find_profile(owner, name)
    return None if found is None else from_mapping(found[0])


class _Job(NamedTuple):
    """For whom an engine works, and what it may spend."""

    ref: ChatRef
    lane: str
    settings: Settings
    limit_micros: int | None  # of the month; None: whoever asked wants it at any price


class Summarisers:
    """Engines for whoever works off tasks."""

    def __init__(
        self,
        store: Store,
        environment: Mapping[str, str],
        clock_ms: Callable[[], int],
        secret: bytes,
        given: Llm | None = None,
    ) -> None:
        self._store = store
        self._environment = environment  # where profiles may keep their keys
        self._clock_ms = clock_ms
        self._secret = secret
        self._given = given  # a program's own model goes before any profile
        self._session: aiohttp.ClientSession | None = None
        self._tact = Tact()
        self._cleaner = Cleaner()

    async def engine_for(
        self, ref: ChatRef, lane: str, settings: Settings, *, beyond_budget: bool = False
    ) -> Engine:
        """The engine for one lane of one chat, as its settings are now."""
        limit = None if beyond_budget else int(settings.monthly_budget_usd * MICROS)
        llm = await self._llm(_Job(ref, lane, settings, limit))
        return Engine(
            llm,
            self._store,
            self._secret,
            clock_ms=self._clock_ms,
            tact=self._tact,
            cleaner=self._cleaner,
        )

    async def cost(self, ref: ChatRef, settings: Settings) -> bool:
        """Whether an answer costs anything; a model that is missing costs nothing and says so."""
        try:
            return (await quote(self._store, ref.owner, settings, self._given)).costs
        except NotConfigured:
            return False

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()

    async def _llm(self, job: _Job) -> Llm:
        if self._given is not None:
            return self._metered(self._given, job, Terms())
        settings = job.settings
        chosen, main = await _chosen(self._store, job.ref.owner, settings)
        if chosen is None:
            return Extractive()
        llm = self._of_profile(chosen, job)
        if main is None or main == chosen or not settings.fallback_to_main:
            return llm
        owner, name = job.ref.owner, chosen.name
        trouble = (await self._store.troubles(owner)).get(name)
        note = partial(self._store.note_trouble, owner, name)
        return StoodInFor(llm, self._of_profile(main, job), note, trouble)

    def _of_profile(self, profile: Profile, job: _Job) -> Llm:
        if self._session is None:
            self._session = new_session()
        llm = adapter(profile, self._session, resolve(profile.secret, self._environment))
        if job.settings.max_latency_ms:
            llm = Hasty(llm, job.settings.max_latency_ms)
        if profile.limits:
            llm = Limited(llm, profile.limits, self._store)
        terms = Terms(price_of(profile), profile.output_tokens, job.limit_micros)
        return self._metered(llm, job, terms)

    def _metered(self, llm: Llm, job: _Job, terms: Terms) -> Llm:
        if not llm.costs:
            return llm
        month = month_of(self._clock_ms(), job.settings.time_zone)
        purpose = Purpose(job.ref.owner, month, llm.name, job.ref.id, job.lane)
        return Metered(llm, terms, _Entries(self._store, purpose))


class _Entries:
    """The ledger, for calls with one purpose."""

    def __init__(self, store: Store, purpose: Purpose) -> None:
        self._store = store
        self._purpose = purpose

    async def reserve(self, estimate: int | None, limit: int | None) -> int | None:
        return await self._store.reserve(self._purpose, estimate, limit)

    async def settle(self, entry: int, used: Usage, cost_micros: int | None) -> None:
        await self._store.settle_cost(entry, used, cost_micros)

    async def cancel(self, entry: int) -> None:
        await self._store.cancel_cost(entry)


def month_of(now_ms: int, time_zone: str) -> str:
    """The month that a moment belongs to there, as 2026-11."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    if time_zone != "UTC":
        moment = moment.astimezone(ZoneInfo(time_zone))
    return moment.strftime("%Y-%m")
