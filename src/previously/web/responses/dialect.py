"""The Responses interface as a dialect: its items are read as messages, and written as items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from previously.model import digest
from previously.text.items import Told, build_stateless_items, instructions, messages_of
from previously.text.wire import as_list
from previously.web.branches import link_of
from previously.web.exchange import encoded
from previously.web.outgoing import Raw, Turn
from previously.web.responses.hearing import Listener
from previously.web.responses.ids import new_id

SEALED = "reasoning.encrypted_content"

_OURS = ("previous_response_id", "conversation")  # what only we can resolve


class Responses:
    """`/v1/responses`."""

    path = "/responses"
    takes_marks = False

    def messages(self, fields: Mapping[str, Any]) -> list[Any] | None:
        """The instructions, which are no part of the history, and the input."""
        if fields.get("background") is True:
            return None  # the upstream has to keep it, and is asked for it by its own name
        told, said = fields.get("instructions"), fields.get("input")
        head = [instructions(told)] if isinstance(told, str) and told else []
        if isinstance(said, str):
            return [*head, *messages_of([{"type": "message", "role": "user", "content": said}])]
        if said is None and "previous_response_id" in fields:
            return [*head]
        items = as_list(cast(object, said))
        return [*head, *messages_of(items)] if isinstance(said, list) else None

    def sent(self, fields: Raw, messages: list[Raw] | None) -> Raw:
        """The whole input, and nothing that the upstream would have to remember."""
        if fields.get("background") is True:
            return fields
        told = {name: value for name, value in fields.items() if name not in _OURS}
        kept = messages is None and fields.get("store") is False
        if kept:
            return fields if len(told) == len(fields) else told
        if messages is not None:
            told["input"] = build_stateless_items(messages)
        elif isinstance(fields.get("input"), list):
            told["input"] = build_stateless_items(messages_of(as_list(fields["input"])))
        if fields.get("store") is not False:
            told["store"] = False
            if fields.get("reasoning"):
                # Thoughts that nobody keeps can be gone on from only if they are sealed.
                told["include"] = [*dict.fromkeys([*as_list(fields.get("include")), SEALED])]
        return told

    def hearing(self, fields: Mapping[str, Any], turn: Turn | None) -> Listener:
        """A listener that gives the response a name, if it will be kept."""
        if turn is None:
            return Listener(None)
        own = {"id": new_id(turn.ref.id), "model": fields.get("model")}
        link = {**own, **(turn.link or self._link(fields, turn))}
        return Listener(link, fields.get("previous_response_id"))

    def _link(self, fields: Mapping[str, Any], turn: Turn) -> Raw:
        """What whoever goes on from this response needs beside the history: the instructions that
        stood in front of the input. They are the same for many turns, and kept with the first."""
        head = _head(fields)
        last = link_of(turn.last_extra)
        again = turn.record.rerolls is not None
        link: Raw = {"after": last.get("after" if again else "id")}
        if not head or fields.get("store") is False:
            return link
        known = digest(encoded({"head": head})).hex()
        if not again and last.get("known") == known:
            return {**link, "known": known, "head_of": last.get("head_of") or turn.record.after_id}
        return {**link, "known": known, "head": head}

    def starts(self, fields: Mapping[str, Any]) -> bool:
        """Whether the client may come back to the response by its name alone."""
        return fields.get("store") is not False


def _head(fields: Mapping[str, Any]) -> list[Raw]:
    head: list[Raw] = []
    for message in messages_of(as_list(fields.get("input"))):
        if not isinstance(message, Told) or message["role"] not in ("system", "developer"):
            break
        head += message.origin or []
    return head
