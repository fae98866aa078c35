"""What was said in requests that were not understood, for as long as that lasts.

A client that sends only its newest messages goes on while the server waits for certainty. When
that comes, the oldest of what it has said since may be out of its window, and nothing would be
left that it shares with the chat. So each request is read together with those before it, as if
the client had sent everything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

from previously.align import Hints
from previously.model import NewMessage

Raw = dict[str, Any]

CHATS_MAX = 64
MESSAGES_MAX = 512
CHARS_MAX = 1_000_000
SHARED_MIN = 2  # messages in a row that tell where one request goes on from another
HEAD_MAX = 4  # instructions before the history that are not sent as the system


@dataclass(frozen=True, slots=True)
class Request:
    """A client's messages, with what it says of them."""

    name: str
    raw: list[Raw]
    said: tuple[NewMessage, ...]
    hints: Hints
    sent: list[Raw] | None = None  # what the client sent of it, if earlier requests lent the rest

    @property
    def own(self) -> list[Raw]:
        """What the client itself sent."""
        return self.raw if self.sent is None else self.sent


class Unread:
    """By chat the last request that was not understood, with what those before it had more."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Request] = OrderedDict()

    def widened(self, request: Request, stored: Collection[bytes]) -> Request:
        """The request with what earlier ones said before it; itself, if nothing is missing.

        `stored` are the hashes of what the chat holds: what is among them is no instruction.
        """
        last = self._last.get(request.name)
        if last is None:
            return request
        gap = _gap(_spoken(last.said), _spoken(request.said), stored)
        if gap is None:
            return request
        at, missing = gap
        raw = [*request.raw[:at], *(last.raw[i] for i in missing), *request.raw[at:]]
        said = (*request.said[:at], *(last.said[i] for i in missing), *request.said[at:])
        return replace(request, raw=raw, said=said, sent=request.own)

    def keep(self, request: Request) -> None:
        """It was not understood: the next one may need it."""
        self.forget(request.name)
        size = sum(len(said.body) for said in request.said)
        if len(request.said) > MESSAGES_MAX or size > CHARS_MAX:
            return
        if len(self._last) >= CHATS_MAX:
            self._last.popitem(last=False)
        self._last[request.name] = request

    def begun(self, said: Sequence[NewMessage]) -> list[str]:
        """The chats to which these messages may belong: those of one begin them, but for what a
        client puts behind each of its requests."""
        return [name for name, last in self._last.items() if _begins(last.said, said)]

    def forget(self, name: str) -> None:
        """A turn was recorded: what came before it is in the chat."""
        self._last.pop(name, None)


Spoken = list[tuple[int, bytes]]  # places and hashes of what is not sent as the system


def _spoken(said: Sequence[NewMessage]) -> Spoken:
    return [(i, one.hash) for i, one in enumerate(said) if one.role != "system"]


def _begins(before: Sequence[NewMessage], now: Sequence[NewMessage]) -> bool:
    told = [known for _, known in _spoken(before)]
    later = [known for _, known in _spoken(now)]
    shared, behind = _common(told, later), _common(told[::-1], later[::-1])
    asked = any(before[i].role == "user" for i, _ in _spoken(before)[:shared])
    return asked and shared + behind >= len(told) and len(later) >= len(told)


def _common(some: Sequence[bytes], others: Sequence[bytes]) -> int:
    """How many are the same from the beginning on."""
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _gap(before: Spoken, now: Spoken, stored: Collection[bytes]) -> tuple[int, list[int]] | None:
    """Where something is missing in the front of what is said now, and what: places in both."""
    matcher = SequenceMatcher(
        None, [known for _, known in before], [known for _, known in now], autojunk=False
    )
    blocks = matcher.get_matching_blocks()  # the last one is empty
    first = blocks[0]
    if not first.size or first.b:
        return None
    if not first.a:  # nothing is missing, unless these are instructions in front of the history
        head = [known for _, known in now[: first.size]]
        if first.size > HEAD_MAX or any(known in stored for known in head):
            return None
        start, first = first.size, blocks[1]
        if first.b != start:
            return None
    else:
        start = 0
    if first.size < min(SHARED_MIN, len(now) - start) or first.a <= start:
        return None
    return now[first.b][0], [i for i, _ in before[start : first.a]]
