"""What routes are given: the house, the chat that an id means, the version that was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from fastapi import Depends, Header, Request, Response
from fastapi import Path as PathParam

from previously.errors import BadInput, Conflict
from previously.model import ChatRef
from previously.service import Service
from previously.web.events import Streams
from previously.web.rest import ids

_ETAG = re.compile(r'(?:W/)?"v(\d{1,18})"')


@dataclass(frozen=True, slots=True)
class Context:
    """Everything behind the REST interface."""

    service: Service
    upstream: str | None = None
    token: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    keys: Path | None = None  # the folder where keys that are typed in are kept
    streams: Streams = field(default_factory=Streams)


def _context(request: Request) -> Context:
    return request.app.state.context


def _service(request: Request) -> Service:
    return _context(request).service


House = Annotated[Context, Depends(_context)]
Use = Annotated[Service, Depends(_service)]


async def _chat(
    use: Use,
    chat: Annotated[str, PathParam(max_length=120, description="A chat's id.", examples=["c1"])],
) -> ChatRef:
    return await use.chat_by_id(ids.chat_key(chat))


TheChat = Annotated[ChatRef, Depends(_chat)]


def _version(
    if_match: Annotated[
        str | None,
        Header(max_length=120, description="The ETag that you have seen: 409 if it is not that."),
    ] = None,
) -> int | None:
    if if_match is None or if_match == "*":
        return None
    found = _ETAG.fullmatch(if_match)
    if found is None:
        raise BadInput("If-Match is an ETag that this server gave out", field="If-Match")
    return int(found[1])


Seen = Annotated[int | None, Depends(_version)]


def tag(response: Response, version: int) -> None:
    """Tell the client which version this is."""
    response.headers["ETag"] = f'"v{version}"'


def check_seen(seen: int | None, version: int, what: str) -> None:
    """`Conflict` if the client has seen another version."""
    if seen is not None and seen != version:
        raise Conflict(f"{what} was changed meanwhile (version {version})")
