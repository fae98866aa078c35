"""Responses that were given: found by their names, told again, and what cannot be asked of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from previously.errors import ChatNotFound
from previously.model import ChatRef, Message
from previously.service import Service
from previously.text.items import build_stateless_items
from previously.web.branches import link_of
from previously.web.guard import refusal
from previously.web.identity import recording_is_off
from previously.web.managed import Managed
from previously.web.outgoing import Outgoing
from previously.web.responses.ids import chat_of

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A response, and the chat that it is in."""

    ref: ChatRef
    response_id: str
    reply: Message


class Past:
    """Looks among the chats of the same owner."""

    def __init__(self, service: Service, managed: Managed) -> None:
        self._service = service
        self._managed = managed

    async def find(self, response_id: object) -> Given | None:
        """The response, if it is ours; never a guess."""
        chat_id = chat_of(response_id)
        if chat_id is None or not isinstance(response_id, str):
            return None
        try:
            ref = await self._service.chat_by_id(chat_id)
        except ChatNotFound:
            return None
        _, branch = await self._managed.branch(ref, response_id)
        return None if branch is None else Given(ref, response_id, branch.reply)


def cannot_be(
    request: Request, fields: Mapping[str, Any], ours: Mapping[str, Any]
) -> Response | None:
    """Why a request cannot be answered here, where it cannot."""
    if fields.get("conversation") is not None:
        return refusal(
            400,
            "`conversation` is kept by the upstream, where nothing is stored. Name the chat by the "
            "base URL /c/NAME/v1, or go on with `previous_response_id`.",
            "unsupported_parameter",
        )
    if fields.get("previous_response_id") is None:
        return None
    if fields.get("background") is True or recording_is_off(request, ours):
        return refusal(
            400,
            "`previous_response_id` goes on from what is recorded here: it cannot be asked in the "
            "background, nor with recording off. Send the whole input instead.",
            "unsupported_parameter",
        )
    return None


def not_found(response_id: object) -> Response:
    """As OpenAI says it."""
    return refusal(
        404,
        f"Previous response with id '{response_id}' not found. Send the whole input instead, or "
        "the id of a response of this chat that was not deleted.",
        "previous_response_not_found",
    )


def cannot_go_on(outgoing: Outgoing) -> Response:
    """Its chat is there, but no prompt can be made of it."""
    if outgoing.failed:
        return refusal(503, f"{outgoing.trace}. Send it again.", "memory_failed")
    message = f"The response cannot be gone on from ({outgoing.trace}). Send the whole input."
    return refusal(409, message, "previous_response_unusable")


def cannot_delete() -> Response:
    """A reply is part of a chat, and is taken out of it there."""
    return refusal(
        501,
        "responses are the messages of a chat: delete them on its page, or with "
        "DELETE /api/chats/{id}/messages/{message}",
        "not_implemented",
    )


def told(given: Given) -> Response:
    """A response as it can be told from what is recorded."""
    link = link_of(given.reply.extra)
    response: Raw = {
        "id": given.response_id,
        "object": "response",
        "created_at": given.reply.created_at_ms // 1000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": link.get("model") or "",
        "output": [_as_output(item) for item in build_stateless_items([given.reply.wire()])],
        "parallel_tool_calls": True,
        "previous_response_id": link.get("after"),
        "store": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return Response(json.dumps(response), media_type="application/json")


def _as_output(item: Raw) -> Raw:
    if item.get("type") != "message" or not isinstance(item.get("content"), str):
        return item
    text: Raw = {"type": "output_text", "text": item["content"], "annotations": []}
    return {"id": "msg_0", "status": "completed", **item, "content": [text]}
