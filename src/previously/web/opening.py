"""How an answer begins: whether it is one, or says that the prompt was too long.

Some servers accept a request, open a stream, and say only in its first event that it does not fit.
So a stream is read up to the first event that says anything before its status is passed on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

from previously.llm.overflow import Overflow, overflow
from previously.text.wire import as_list, as_object
from previously.web.encoding import is_plain

BODY_BYTES_MAX = 1024 * 1024  # of an answer that is looked at
OPENING_BYTES_MAX = 64 * 1024
OPENING_S = 5.0  # so long a client waits for the first word before it hears of the status
STREAM = "text/event-stream"

_ANNOUNCED = frozenset({"response.created", "response.in_progress", "response.queued"})


class Opened(NamedTuple):
    """An answer of which the beginning is known."""

    answer: aiohttp.ClientResponse
    begun: bytes = b""  # what was read of a stream
    overflow: Overflow | None = None


async def opened(answer: aiohttp.ClientResponse) -> Opened:
    """Look at an answer before anything of it goes on."""
    if answer.status == 200 and answer.content_type == STREAM:
        plain = is_plain(answer.headers.get("content-encoding", ""))
        return await _opened_stream(answer) if plain else Opened(answer)
    if answer.status < 400 and (answer.status != 200 or answer.content_type != "application/json"):
        return Opened(answer)
    body = await answer.read()
    if answer.status != 200:
        return Opened(answer, overflow=overflow(answer.status, body[:BODY_BYTES_MAX]))
    if b'"error"' not in body[:BODY_BYTES_MAX]:
        return Opened(answer)
    return Opened(answer, overflow=_overflow_inside(body))


async def _opened_stream(answer: aiohttp.ClientResponse) -> Opened:
    begun, looked_at = b"", 0
    try:
        async with asyncio.timeout(OPENING_S):
            while len(begun) < OPENING_BYTES_MAX and (chunk := await answer.content.readany()):
                begun += chunk
                *events, _ = begun.replace(b"\r\n", b"\n").split(b"\n\n")
                for event in events[looked_at:]:
                    said = _said(event)
                    if said is not None:
                        error = _error(said)
                        return Opened(answer, begun, overflow(200, error) if error else None)
                looked_at = len(events)
    except (aiohttp.ClientError, TimeoutError, OSError):
        pass  # whoever reads on meets it again
    return Opened(answer, begun)


def _overflow_inside(body: bytes) -> Overflow | None:
    """Of an answer in one piece; a response says of itself whether it is an error."""
    try:
        said = as_object(json.loads(body))
    except (ValueError, RecursionError):
        said = {}
    if said.get("object") != "response":
        return overflow(200, body[:BODY_BYTES_MAX])
    error = said.get("error")
    return overflow(200, {"error": error}) if error else None


def _said(event: bytes) -> Mapping[str, Any] | None:
    """What an event says; None for a comment, or an announcement of who is about to speak."""
    lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
    if not lines:
        return None
    try:
        said = as_object(json.loads(b"\n".join(lines)))
    except (ValueError, RecursionError):
        return {}
    choices = [as_object(choice) for choice in as_list(said.get("choices"))]
    silent = "choices" in said and not any(map(_speaks, choices))
    silent = silent or said.get("type") in _ANNOUNCED
    return None if silent and not _error(said) else said


def _speaks(choice: Mapping[str, Any]) -> bool:
    delta = as_object(choice.get("delta"))
    spoken = any(value for name, value in delta.items() if name != "role")
    return spoken or choice.get("finish_reason") is not None


def _error(said: Mapping[str, Any]) -> object:
    """The part of an event that is one."""
    if said.get("type") == "response.failed":
        return {"error": as_object(said.get("response")).get("error")}
    is_one = said.get("error") or said.get("object") == "error" or said.get("type") == "error"
    return said if is_one else None
