"""Which model a request goes to: the upstream that the server was started with, or a profile.

A request that asks for the model `NAME` goes to the profile of that name, under the model's own
name there. Other profiles only tell what the upstream's models can take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from previously.errors import NotConfigured, PreviouslyError, UserError
from previously.llm.profile import OPENAI, Profile, from_mapping
from previously.llm.secrets import resolve
from previously.service import OWNER, Service
from previously.web.upstream import Upstream

log = logging.getLogger(__name__)

FRESH_S = 5.0  # how long a change of profiles may go unnoticed

NOT_CONFIGURED = (
    "no upstream is configured: start the server with `previously serve --upstream URL`, "
    "where URL is an OpenAI-compatible address such as https://api.openai.com/v1"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    upstream: Upstream
    model: str  # as it is called there
    profile: Profile | None = None  # what is known about it


class Routing:
    """The route table: profiles by name, looked up again every few seconds."""

    def __init__(
        self, service: Service, default: Upstream | None, environment: Mapping[str, str]
    ) -> None:
        self.default = default
        self._service = service
        self._environment = environment
        self._profiles: list[Profile] = []
        self._read_at_s: float | None = None

    async def target(self, asked: object) -> Target:
        """Where a request for this model goes; `NotConfigured` says what is missing."""
        model = asked if isinstance(asked, str) else ""
        profiles = await self._known()
        named = next((p for p in profiles if p.name == model), None)
        if named is None and self.default is None:
            named = next((p for p in profiles if p.model == model), None)
        if named is not None:
            key = resolve(named.secret, self._environment)
            shown = None if key is None else str.__str__(key.reveal())
            upstream = Upstream(named.base_url, shown, takes_clients_key=False)
            return Target(upstream, named.model, named)
        if self.default is None:
            raise NotConfigured(NOT_CONFIGURED)
        home = self.default.base_url
        about = (p for p in profiles if p.model == model and p.base_url.rstrip("/") == home)
        return Target(self.default, model, next(about, None))

    async def _known(self) -> list[Profile]:
        """A fault here must not break a chat: what was known last stands."""
        now_s = asyncio.get_running_loop().time()
        if self._read_at_s is None or now_s - self._read_at_s > FRESH_S:
            self._read_at_s = now_s
            try:
                found = await self._service.store.profiles(OWNER)
            except PreviouslyError as error:
                log.warning("the profiles could not be read: %s", error)
            else:
                self._profiles = [p for p in map(_usable, (v for v, _ in found)) if p is not None]
        return self._profiles


def _usable(values: Mapping[str, object]) -> Profile | None:
    try:
        profile = from_mapping(values)
    except UserError as error:
        log.warning("a profile cannot be used: %s", error)
        return None
    return profile if profile.source == OPENAI else None
