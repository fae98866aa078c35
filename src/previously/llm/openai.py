"""OpenAI's chat completions, as OpenAI and everyone who copied them speak it.

Copies differ: in the name of the answer's limit, in what they leave out, in where they put an
error. What they leave out is done without; how they want to be asked is learnt from their refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from previously.llm.body import (
    as_count,
    as_text,
    events,
    first_object,
    is_stream,
    leaves,
)
from previously.llm.failure import ERROR_INSIDE, SIZE_STATUSES, Answer, failure
from previously.llm.remote import Remote, Said, no_answer, unreadable
from previously.model import Ask, Usage
from previously.text.wire import as_list, as_object

_OLD_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
_NOT_KNOWN = re.compile(
    r"not supported|unsupported|not permitted|not allowed|unrecognized|unknown|unexpected|extra"
    r"|forbidden|不支持",
    re.I,
)
_DONE = re.compile(rb"^data:\s*\[DONE\]", re.M)


class _Manner(NamedTuple):
    """How this server wants to be asked."""

    limit_name: str = _OLD_LIMIT  # all copies know it; newer models of OpenAI do not
    asks_for_usage: bool = True  # of a stream


class OpenAiLlm(Remote):
    """Any server with `/chat/completions` behind its base URL."""

    _manner = _Manner()

    def _url(self) -> str:
        return self.profile.base_url.rstrip("/") + "/chat/completions"

    def _headers(self) -> dict[str, str]:
        return {} if self._secret is None else {"authorization": self._secret.reveal("Bearer ")}

    def _body(self, ask: Ask, answer_tokens: int, *, stream: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            **self.profile.params,
            "model": self.profile.model,
            "messages": [dict(message) for message in ask.messages],
            self._manner.limit_name: answer_tokens,
            "stream": stream,
        }
        if self.profile.temperature is not None:
            body["temperature"] = self.profile.temperature
        if stream and self._manner.asks_for_usage:
            body["stream_options"] = {"include_usage": True}
        return body

    def _learnt(self, answer: Answer) -> bool:
        if answer.status not in SIZE_STATUSES:
            return False
        text = " ".join(str(value) for _, value in leaves(answer.body))
        if not _NOT_KNOWN.search(text):
            return False
        manner = self._manner
        if "stream_options" in text and manner.asks_for_usage:
            manner = manner._replace(asks_for_usage=False)
        elif _OLD_LIMIT in text and manner.limit_name == _OLD_LIMIT:
            manner = manner._replace(limit_name=_NEW_LIMIT)
        changed = manner != self._manner
        self._manner = manner
        return changed

    def _read(self, raw: bytes) -> Said:
        return self._read_events(raw) if is_stream(raw) else self._read_object(raw)

    def _read_object(self, raw: bytes) -> Said:
        answer = first_object(raw)
        if answer is None:
            raise unreadable(self.profile, raw)
        self._check_error(answer)
        choice = _first_choice(answer)
        if not choice:
            raise no_answer(self.profile, "the answer is empty: it has no choices")
        self._check_error(choice)
        message = as_object(choice.get("message"))
        return Said(
            text=as_text(message.get("content")) or as_text(choice.get("text")),
            model=as_text(answer.get("model")),
            finish=as_text(choice.get("finish_reason")),
            usage=_usage(answer.get("usage")),
            reasoning=_reasoning(message),
            refusal=as_text(message.get("refusal")),
        )

    def _read_events(self, raw: bytes) -> Said:
        chunks = list(events(raw))
        for chunk in chunks:
            self._check_error(chunk)
            self._check_error(_first_choice(chunk))
        choices = [choice for choice in map(_first_choice, chunks) if choice]
        finish = _last(choice.get("finish_reason") for choice in choices)
        if finish is None and not _DONE.search(raw):
            raise no_answer(self.profile, "the answer broke off")
        deltas = [as_object(choice.get("delta") or choice.get("message")) for choice in choices]
        return Said(
            text="".join(as_text(delta.get("content")) for delta in deltas),
            model=as_text(_last(chunk.get("model") for chunk in chunks)),
            finish=as_text(finish),
            usage=_usage(_last(chunk.get("usage") for chunk in chunks)),
            reasoning="".join(map(_reasoning, deltas)),
            refusal="".join(as_text(delta.get("refusal")) for delta in deltas),
        )

    def _check_error(self, part: dict[str, Any]) -> None:
        """Some put their refusal into an answer that says that all is well."""
        error = part.get("error") or (part if part.get("object") == "error" else None)
        if error:
            said = json.dumps({"error": error}).encode()
            raise failure(self.profile, Answer(ERROR_INSIDE, {}, said))


def _first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    choices = as_list(answer.get("choices"))
    return as_object(choices[0]) if choices else {}


def _last(values: Iterable[Any]) -> Any:
    """The last that says anything."""
    found = [value for value in values if value]
    return found[-1] if found else None


def _reasoning(message: Mapping[str, Any]) -> str:
    return as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))


def _usage(reported: object) -> Usage:
    """What was reported, in whichever of its spellings."""
    usage = as_object(reported)
    cached = (
        as_object(usage.get("prompt_tokens_details")).get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
    )
    thought = as_object(usage.get("completion_tokens_details")).get("reasoning_tokens")
    return Usage(
        as_count(usage.get("prompt_tokens")),
        as_count(usage.get("completion_tokens")),
        max(map(as_count, cached)),
        as_count(thought),
    )
