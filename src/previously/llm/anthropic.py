"""Anthropic's messages: the system's words stand apart, and each request limits its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from previously.llm.body import as_count, as_text, events, first_object, is_stream
from previously.llm.failure import ERROR_INSIDE, Answer, failure
from previously.llm.remote import Remote, Said, no_answer, unreadable
from previously.model import Ask, Usage
from previously.text.wire import as_list, as_object

API_VERSION = "2023-06-01"


class AnthropicLlm(Remote):
    """Anthropic itself, or a server with its `/v1/messages`."""

    def _url(self) -> str:
        return self.profile.base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"

    def _headers(self) -> dict[str, str]:
        headers = {"anthropic-version": API_VERSION}
        if self._secret is not None:
            headers["x-api-key"] = self._secret.reveal()
        return headers

    def _body(self, ask: Ask, answer_tokens: int, *, stream: bool) -> dict[str, Any]:
        system, messages = _apart(ask.messages)
        body: dict[str, Any] = {
            **self.profile.params,
            "model": self.profile.model,
            "messages": messages,
            "max_tokens": answer_tokens,
            "stream": stream,
        }
        if system:
            body["system"] = system
        if self.profile.temperature is not None:
            body["temperature"] = self.profile.temperature
        return body

    def _read(self, raw: bytes) -> Said:
        message = self._streamed(raw) if is_stream(raw) else first_object(raw)
        if message is None:
            raise unreadable(self.profile, raw)
        self._check_error(message)
        if not isinstance(message.get("content"), list):
            raise no_answer(self.profile, "the answer is empty: it has no content")
        blocks = [as_object(block) for block in as_list(message["content"])]
        return Said(
            text="".join(as_text(block.get("text")) for block in blocks if _is(block, "text")),
            model=as_text(message.get("model")),
            finish=as_text(message.get("stop_reason")),
            usage=_usage(as_object(message.get("usage"))),
            reasoning="".join(as_text(b.get("thinking")) for b in blocks if _is(b, "thinking")),
        )

    def _streamed(self, raw: bytes) -> dict[str, Any]:
        """The message that a stream's events add up to."""
        message: dict[str, Any] = {}
        pieces: list[dict[str, Any]] = []
        ended = False
        for event in events(raw):
            self._check_error(event)
            kind = event.get("type")
            if kind == "message_start":
                message = as_object(event.get("message"))
            elif kind == "content_block_start":
                pieces.append(as_object(event.get("content_block")))
            elif kind == "content_block_delta":
                pieces.append(_piece(as_object(event.get("delta"))))
            elif kind == "message_delta":
                ended = True
                usage = {**as_object(message.get("usage")), **as_object(event.get("usage"))}
                message = {**message, **as_object(event.get("delta")), "usage": usage}
        if not ended:
            raise no_answer(self.profile, "the answer broke off")
        return {**message, "content": pieces}

    def _check_error(self, part: Mapping[str, Any]) -> None:
        if part.get("type") == "error" or part.get("error"):
            said = json.dumps({"error": part.get("error")}).encode()
            raise failure(self.profile, Answer(ERROR_INSIDE, {}, said))


def _apart(messages: tuple[Mapping[str, str], ...]) -> tuple[str, list[dict[str, str]]]:
    """The system's words before the talk, and the talk; it cannot be empty."""
    talk = [dict(message) for message in messages]
    head: list[str] = []
    while len(talk) > 1 and talk[0]["role"] == "system":
        head.append(talk.pop(0)["content"])
    for message in talk:
        if message["role"] == "system":
            message["role"] = "user"  # there is no other place for it here
    return "\n\n".join(head), talk


def _piece(delta: Mapping[str, Any]) -> dict[str, Any]:
    """A delta as the block that it is a piece of."""
    return {**delta, "type": as_text(delta.get("type")).removesuffix("_delta")}


def _is(block: Mapping[str, Any], kind: str) -> bool:
    return block.get("type") == kind


def _usage(reported: Mapping[str, Any]) -> Usage:
    """Input counts whole: Anthropic leaves out what its cache read or wrote."""
    read = as_count(reported.get("cache_read_input_tokens"))
    written = as_count(reported.get("cache_creation_input_tokens"))
    details = as_object(reported.get("output_tokens_details"))
    return Usage(
        as_count(reported.get("input_tokens")) + read + written,
        as_count(reported.get("output_tokens")),
        read,
        as_count(details.get("thinking_tokens")),
    )
