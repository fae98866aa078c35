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
from difflib import Match, SequenceMatcher
from itertools import takewhile
from typing import Any

from previously.align import Hints, normal
from previously.model import NewMessage

Raw = dict[str, Any]

CHATS_MAX = 64
MESSAGES_MAX = 512
CHARS_MAX = 1_000_000
SHARED_MIN = 2  # paragraphs that tell where one request goes on from another
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
        gap = _gap(last.said, request.said, stored)
        if gap is None or not gap.missing:
            return request
        at, to, lent = gap.at, gap.to, gap.missing
        raw = [*request.raw[:at], *(last.raw[i] for i in lent), *request.raw[to:]]
        said = (*request.said[:at], *(last.said[i] for i in lent), *request.said[to:])
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


Line = tuple[int, str, bytes]  # which message, whose, and what a paragraph of it says


@dataclass(frozen=True, slots=True)
class _Gap:
    """What is missing in the front of what is said now."""

    at: int  # message before which it is missing…
    to: int  # …and the one with which it goes on: that one itself, if it is shown whole
    missing: list[int]  # messages of the request before


def _lines(said: Sequence[NewMessage]) -> list[Line]:
    """By paragraphs: what is joined to a message differs from request to request."""
    spoken = ((i, one) for i, one in enumerate(said) if one.role != "system")
    return [(i, one.role, mark) for i, one in spoken for mark in _marks(one)]


def _marks(one: NewMessage) -> Sequence[bytes]:
    plain = one.parts is None and one.tool_calls is None
    return (normal.marks(one.body) if plain else ()) or (one.hash,)


def _gap(
    before: Sequence[NewMessage], now: Sequence[NewMessage], stored: Collection[bytes]
) -> _Gap | None:
    """Where one request goes on from another that began earlier."""
    old, new = _lines(before), _lines(now)
    blocks = _blocks(old, new)
    start = 0
    if blocks and not blocks[0].a and not blocks[0].b:
        # Nothing is missing, unless these are instructions in front of the history.
        head = {new[n][0] for n in range(blocks[0].size)}
        if len(head) > HEAD_MAX or any(now[i].hash in stored for i in head):
            return None
        start, blocks = blocks[0].size, blocks[1:]
    while len(blocks) > 1 and _skips(old, *blocks[:2]):
        blocks = blocks[1:]  # an instruction that stands elsewhere now, or something was taken out
    shared = sum(block.size for block in blocks)
    if not blocks or shared < min(SHARED_MIN, len(new) - start) or blocks[0].a <= start:
        return None
    at, source = new[blocks[0].b][0], old[blocks[0].a][0]
    if new[start][0] != at:
        return None  # what came in front of it?
    missing = [i for i in dict.fromkeys(line[0] for line in old[start:]) if i < source]
    whole = _ends_with(before[source], now[at])
    return _Gap(at, at + whole, [*missing, *[source] * whole])


def _blocks(old: Sequence[Line], new: Sequence[Line]) -> list[Match]:
    matcher = SequenceMatcher(
        None, [line[1:] for line in old], [line[1:] for line in new], autojunk=False
    )
    return matcher.get_matching_blocks()[:-1]  # the last one is empty


def _skips(old: Sequence[Line], first: Match, second: Match) -> bool:
    """Whether a whole message stands between what both requests have."""
    last, after = old[first.a + first.size - 1][0], old[second.a][0]
    return any(last < line[0] < after for line in old[first.a + first.size : second.a])


def _ends_with(before: NewMessage, now: NewMessage) -> bool:
    """Whether a window begins in the midst of replies that were joined into one."""
    ours, theirs = _marks(before), _marks(now)
    return now.role == "assistant" and len(ours) > len(theirs) and ours[-len(theirs) :] == theirs
