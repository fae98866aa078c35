"""Responses that go on from an earlier one: which messages of a chat are on the way to it.

A chat is one line of messages, and responses make a tree. The branch that is asked for is shown,
all others are hidden; whoever goes on from one of them finds it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from previously.model import CLIENT, RESPONSE, Message
from previously.text.wire import as_object


@dataclass(frozen=True, slots=True)
class Branch:
    """The way to a response."""

    reply: Message
    shows: tuple[int, ...] = ()  # on it and hidden
    hides: tuple[int, ...] = ()  # shown and not on it


def link_of(extra: str | None) -> Mapping[str, Any]:
    """What is known of the response that a message belongs to; empty if it belongs to none."""
    if extra is None or RESPONSE not in extra:
        return {}
    return as_object(as_object(json.loads(extra)).get(RESPONSE))


def branch_to(stored: Sequence[Message], response_id: str, *, complete: bool) -> Branch | None:
    """The branch, from a chat's newest messages; None if they do not tell.

    A response that is shown has all before it shown, so the way back ends at the first of those.
    """
    links = [link_of(m.extra) for m in stored]
    of_it = [i for i, link in enumerate(links) if link.get("id") == response_id]
    if not of_it or stored[of_it[-1]].role != "assistant":
        return None
    tip, join = of_it[-1], None
    wanted, before = response_id, links[of_it[-1]].get("after")
    path: list[int] = []
    for i in range(tip, -1, -1):
        if links[i].get("id") == before is not None:
            wanted, before = before, links[i].get("after")
        if links[i].get("id") != wanted:
            continue
        path.append(i)
        if _is_shown(stored[i]):
            join = i
            break
    if join is None and not complete:
        return None
    join = path[-1] if join is None else join  # what stands before it is nobody's branch
    return Branch(
        stored[tip],
        shows=tuple(stored[i].id for i in reversed(path) if stored[i].hidden_by == CLIENT),
        hides=_others(stored, links, set(path), join),
    )


def _others(
    stored: Sequence[Message], links: Sequence[Mapping[str, Any]], path: set[int], join: int
) -> tuple[int, ...]:
    """What leads to another response. What was said behind all of them is nobody's but the
    chat's."""
    elsewhere = [i for i in range(join, len(stored)) if links[i] and i not in path]
    last = max((i for i in elsewhere if _is_shown(stored[i])), default=-1)
    return tuple(
        stored[i].id for i in range(join, last + 1) if i not in path and _is_shown(stored[i])
    )


def _is_shown(message: Message) -> bool:
    return message.hidden_by != CLIENT
