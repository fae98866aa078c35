"""What was said in requests that were not understood, for as long as that lasts.

A client that sends only its newest messages goes on while the server waits for certainty. When
that comes, the oldest of what it has said since may be out of its window, and nothing would be
left that it shares with the chat. So each request is read together with those before it, as if
the client had sent everything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher
from itertools import takewhile
from typing import Any

from previously.align import Hints, normal
from previously.align.match import matched
from previously.align.phrases import asks_to_continue
from previously.align.views import VIEW_FROM, distances, is_shorter, shortened
from previously.model import Message, NewMessage, State

Raw = dict[str, Any]

CHATS_MAX = 64
MESSAGES_MAX = 512
CHARS_MAX = 1_000_000
SHARED_MIN = 2  # paragraphs that tell where one request goes on from another
WINDOW_MIN = 3  # messages from which a window is known that has moved on
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
        self._own: dict[str, set[bytes]] = {}  # of each, what the first of them did not have yet
        self._ahead: dict[str, set[bytes]] = {}  # what has come before all that the last one had

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
        at, to = gap.at, gap.to
        come = _come_between(last.said, request.said, gap.missing) | self._ahead[request.name]
        lent = [i for i in gap.missing if last.said[i].hash not in come]
        raw = [*request.raw[:at], *(last.raw[i] for i in lent), *request.raw[to:]]
        said = (*request.said[:at], *(last.said[i] for i in lent), *request.said[to:])
        return replace(request, raw=raw, said=said, sent=request.own)

    def restored(self, request: Request, stored: Sequence[Message]) -> Request:
        """The request with the whole of what it shows shortened and is not stored for good. Once
        that is in no more doubt it should be stored as it was said, not as a client's rule for old
        messages leaves it."""
        last = self._last.get(request.name)
        if last is None:
            return request
        kept = {m.hash for m in stored if m.state == State.CONFIRMED}
        cut = _cut_since(last.said, request.said)
        whole = {i: one for i, one in cut.items() if one.hash not in kept}
        said = tuple(whole.get(i, one) for i, one in enumerate(request.said))
        return replace(request, said=said) if whole else request

    def keep(self, request: Request) -> None:
        """It was not understood: the next one may need it."""
        last, own = self._last.get(request.name), self._own.get(request.name, set[bytes]())
        self.forget(request.name)
        size = sum(len(said.body) for said in request.said)
        if len(request.said) > MESSAGES_MAX or size > CHARS_MAX:
            return
        if len(self._last) >= CHATS_MAX:
            self.forget(next(iter(self._last)))
        self._last[request.name] = request
        new = {one.hash for one in request.said} - {one.hash for one in last.said} if last else ()
        self._own[request.name] = own.union(new)
        self._ahead[request.name] = _come_ahead(last.said, request.said) if last else set()

    def grows(self, name: str) -> str:
        """What the answer to the last request goes on with; empty if it stands by itself."""
        last = self._last.get(name)
        if last is None or not last.said:
            return ""
        asks = last.hints.type == "continue" or asks_to_continue(last.said[-1].body)
        spoken = [one.body for one in last.said if one.role == "assistant"]
        return spoken[-1] if asks and spoken else ""

    def begun(
        self, said: Sequence[NewMessage], heard: Callable[[str], Collection[bytes]] = lambda _: ()
    ) -> list[str]:
        """The chats to which these messages may belong: those of one begin them, but for what a
        client puts around each of its requests; or they show what was said since the doubt began,
        also by us: `heard` tells the paragraphs of our replies to a chat. Of more than one the chat
        that shares most, if there is one."""
        now = _spoken(said)
        fitting = {
            name: _common_count(_spoken(last.said), now)
            for name, last in self._last.items()
            if _begins(_spoken(last.said), now) or _goes_on(now, self._own[name], heard(name))
        }
        most = max(fitting.values(), default=0)
        return [name for name, count in fitting.items() if count == most]

    def forget(self, name: str) -> None:
        """A turn was recorded: what came before it is in the chat."""
        self._last.pop(name, None)
        self._own.pop(name, None)
        self._ahead.pop(name, None)


def _spoken(said: Sequence[NewMessage]) -> list[NewMessage]:
    return [one for one in said if one.role != "system"]


def _goes_on(now: Sequence[NewMessage], own: Collection[bytes], heard: Collection[bytes]) -> bool:
    """Whether a question and its reply are shown that only one chat can have, and more after them:
    what a client sends with every request it sends for others too, and what is to begin a reply
    stands last."""
    asked = [one.role == "user" and one.hash in own for one in now]
    told = [one.role == "assistant" and (one.hash in own or _is_made_of(one, heard)) for one in now]
    return any(asked[i - 1] and told[i] for i in range(1, len(now) - 1))


def _is_made_of(said: NewMessage, heard: Collection[bytes]) -> bool:
    return bool(heard) and normal.is_telling(said) and set(normal.marks(said.body)) <= set(heard)


def _common_count(told: Sequence[NewMessage], now: Sequence[NewMessage]) -> int:
    known = {one.hash for one in told}
    return sum(one.hash in known for one in now)


def _begins(told: Sequence[NewMessage], later: Sequence[NewMessage]) -> bool:
    """Whether all that was told begins what is told now, behind what a client puts in front of it,
    or what is left of it in a window that has moved on."""
    ahead = next(
        (k for k, one in enumerate(later[:HEAD_MAX]) if told and _is_left(told[0], one)), 0
    )
    later = later[ahead:]
    moved = next((k for k in range(len(told)) if later and _is_left(told[k], later[0])), 0)
    told = told[moved:]
    shared, behind = _common(told, later), _common(told[::-1], later[::-1])
    asked = any(one.role == "user" for one in told[:shared])
    enough = not moved or (shared >= WINDOW_MIN and len(later) > shared + behind)
    return asked and enough and shared + behind >= len(told) and len(later) >= len(told)


def _common(some: Sequence[NewMessage], others: Sequence[NewMessage]) -> int:
    """How many are the same from the beginning on, but for what is joined to them or left out."""
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _is_left(*pair), pairs))


def _is_left(before: NewMessage, now: NewMessage) -> bool:
    """Whether it is the same, what a rule has left of it, or the same with more joined to it or
    less; or a reply that has grown."""
    if before.hash == now.hash or is_shorter(before, now):
        return True
    if before.role != now.role or not now.body.strip():
        return False
    if before.role == "assistant" and normal.is_telling(before):
        return normal.bare(now.body).startswith(normal.bare(before.body))
    ours, theirs = _marks(before), _marks(now)
    grown = theirs[: len(ours)] == ours
    return grown or (now.role == "user" and set(theirs) <= set(ours))


def _cut_since(before: Sequence[NewMessage], now: Sequence[NewMessage]) -> dict[int, NewMessage]:
    """Replies that are shown shortened now → what they were before. What is missing from a user's
    words had rather been joined to them."""
    places = [i for i, one in enumerate(now) if one.role != "system"]
    theirs, ours = _spoken(now), _spoken(before)
    same = matched([normal.raw_key(one) for one in theirs], [normal.raw_key(one) for one in ours])
    found = shortened(
        [_reply(one) for one in theirs],
        [_reply(one) for one in ours],
        [*same, (len(theirs), len(ours))],
    )
    far = distances(theirs)
    elsewhere = {mark for one in now for mark in normal.marks(one.body)}
    return {
        places[i]: ours[j]
        for i, j in found
        if far[i] >= VIEW_FROM and not _has_gone(ours[j], theirs[i], elsewhere)
    }


def _reply(said: NewMessage) -> NewMessage | None:
    return said if said.role == "assistant" else None


def _has_gone(before: NewMessage, now: NewMessage, elsewhere: Collection[bytes]) -> bool:
    """Whether what is missing stands elsewhere: it had been joined to it."""
    left = normal.marks(now.body)
    return any(mark in elsewhere and mark not in left for mark in normal.marks(before.body))


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
    while len(blocks) > 1 and _strays(old, new, *blocks[:2]):
        blocks = blocks[1:]
    shared = sum(block.size for block in blocks)
    if not blocks or shared < min(SHARED_MIN, len(new) - start) or blocks[0].a <= start:
        return None
    at, source = new[blocks[0].b][0], old[blocks[0].a][0]
    if new[start][0] != at:
        return _changed_front(before, now, (new[start][0], at), (old[start][0], source))
    shown = old[start - 1][0] if start else -1  # what is joined to that one differs only
    missing = [i for i in dict.fromkeys(line[0] for line in old[start:]) if shown < i < source]
    whole = _ends_with(before[source], now[at], stored)
    return _Gap(at, at + whole, [*missing, *[source] * whole])


def _come_between(
    before: Sequence[NewMessage], now: Sequence[NewMessage], missing: Collection[int]
) -> set[bytes]:
    """What stands among messages that both requests have, and not with them before: if it is
    missing in front, it is an instruction that has moved."""
    known = {one.hash for i, one in enumerate(before) if i not in missing}
    behind = _common(before[::-1], now[::-1])
    inside = now[: len(now) - behind]
    ends = max((k for k, one in enumerate(inside) if one.hash in known), default=0)
    return {one.hash for one in inside[:ends]} - known


def _come_ahead(before: Sequence[NewMessage], now: Sequence[NewMessage]) -> set[bytes]:
    """What has come to stand before the first message of the request before: once it is missing
    again it was an instruction rather than something old that is out of the window."""
    first = next((one.hash for one in _spoken(before)), None)
    told = [one.hash for one in _spoken(now)]
    return set(told[: told.index(first)]) if first in told else set()


def _changed_front(
    before: Sequence[NewMessage],
    now: Sequence[NewMessage],
    come: tuple[int, int],
    known: tuple[int, int],
) -> _Gap | None:
    """The same where one message stands in front that the other request did not have: another
    version of a reply, or an instruction. What else it may be is not decided."""
    ours = [i for i in range(*known) if before[i].role != "system"]
    theirs = [i for i in range(*come) if now[i].role != "system"]
    if len(theirs) != 1 or not ours:
        return None
    role, last = now[theirs[0]].role, before[ours[-1]].role
    if role == last == "user":
        return None
    at = theirs[0]
    return _Gap(at, at, ours[:-1] if role == last else ours)


def _blocks(old: Sequence[Line], new: Sequence[Line]) -> list[Match]:
    matcher = SequenceMatcher(
        None, [line[1:] for line in old], [line[1:] for line in new], autojunk=False
    )
    return matcher.get_matching_blocks()[:-1]  # the last one is empty


def _strays(old: Sequence[Line], new: Sequence[Line], first: Match, second: Match) -> bool:
    """Whether the first of two things that both requests have may be an instruction that stands
    elsewhere now: whole messages are missing behind it, with none in their place, and no more is
    said after it than before. A reply is none; behind it something was taken out."""
    gone = _between(old, first.a + first.size, second.a)
    farther = len(new) - first.b > len(old) - first.a
    if not gone or farther or old[first.a][1] == "assistant":
        return False
    come = _between(new, first.b + first.size, second.b)
    return [role for _, role in gone] != [role for _, role in come]


def _between(lines: Sequence[Line], first: int, last: int) -> list[tuple[int, str]]:
    """The messages, and whose they are, of which all is said from one line to before another."""
    ends = {lines[n][0] for n in (first - 1, last)}
    return list(dict.fromkeys(line[:2] for line in lines[first:last] if line[0] not in ends))


def _ends_with(before: NewMessage, now: NewMessage, stored: Collection[bytes]) -> bool:
    """Whether a window begins in the midst of messages that were joined into one: replies, or a
    user's words, if they begin with some that are stored. Else those may be an instruction."""
    ours, theirs = _marks(before), _marks(now)
    if len(ours) <= len(theirs) or ours[-len(theirs) :] != theirs:
        return False
    return now.role == "assistant" or _begins_with(before, stored)


def _begins_with(said: NewMessage, stored: Collection[bytes]) -> bool:
    parts = normal.paragraphs(said.body)
    begun = (normal.PARAGRAPH.join(parts[:n]) for n in range(1, len(parts)))
    return any(replace(said, body=text).hash in stored for text in begun)
