"""Which chat a request belongs to, as far as it says so itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from previously.service import NAME_CHARS_MAX
from previously.text.wire import as_object

# What clients send already, before anything is made for us.
HEADERS = (
    "x-previously-chat",
    "x-conversation-id",
    "x-chat-id",
    "x-session-id",
    "x-opencode-session",
    "x-openwebui-chat-id",
)


def named(request: Request, body: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The chat's name: of the path, a header, or the body, in this order."""
    path: str | None = request.path_params.get("chat")
    if path is not None:
        return path
    for header in HEADERS:
        if found := _name(request.headers.get(header)):
            return found
    metadata = as_object(body.get("metadata"))
    for value in (
        ours.get("chat"),
        metadata.get("chat_id"),
        body.get("conversation_id"),
        body.get("session_id"),
        body.get("prompt_cache_key"),
    ):
        if found := _name(value):
            return found
    return None


def _name(value: object) -> str | None:
    """A name that a chat can have; anything else names none."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return None
    name = str(value).strip()
    return name if 0 < len(name) <= NAME_CHARS_MAX else None


def recording_is_off(request: Request, ours: Mapping[str, Any]) -> bool:
    """Whether this request is to leave no mark."""
    if ours.get("record") is False:
        return True
    return request.headers.get("x-previously-record", "").lower() == "off"
