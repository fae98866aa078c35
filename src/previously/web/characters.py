"""Whose chat it is, where a client says so: noted once, and never over what a user has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request

from previously.model import ChatRef
from previously.service import NAME_CHARS_MAX, Service

HEADER = "x-previously-character"
MET_MAX = 4_096


def character_of(request: Request, ours: Mapping[str, Any]) -> str | None:
    """The character that a request names; one of a group is not the whole chat's."""
    said = request.headers.get(HEADER)
    found = unquote(said) if said else "" if ours.get("group") else ours.get("char")
    name = found.strip() if isinstance(found, str) else ""
    return name if 0 < len(name) <= NAME_CHARS_MAX and name.isprintable() else None


class Characters:
    """One per application."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._met: dict[int, None] = {}

    async def meet(self, ref: ChatRef, name: str) -> None:
        """Give the chat this character if it has none; asked of the database once per chat."""
        if ref.id in self._met:
            return
        await self._service.meet_character(ref, name)
        self._met[ref.id] = None
        if len(self._met) > MET_MAX:
            self._met.pop(next(iter(self._met)))
