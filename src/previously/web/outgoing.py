"""What is sent upstream for one request, what it was made of, and what the client is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from previously.align import NOTHING_KNOWN, NOTHING_TOLD, Habit, Hints
from previously.model import Block, ChatRef, NewMessage, Prompt, TurnRecord
from previously.service import AtMost
from previously.web.layout import NO_LAYOUT, Layout
from previously.web.upstream import Header

TRACE_CHARS_MAX = 300

_PLAIN = " !\"#$&'()*+,-./:;<=>?@[]^_`{|}~"  # in a header; everything else is percent-encoded

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Room:
    """How large a prompt may be, beside what the chat's own budget says."""

    most: int | None = None  # that the model takes; the chat's budget may be smaller
    trial: int | None = None  # this one time, in the place of any budget; leaves no mark

    def budget(self, given: int | None) -> int | None:
        """The budget to ask for, where the server was started with `given`; None: the chat's."""
        if self.trial is not None:
            return self.trial
        if self.most is None:
            return given
        return AtMost(self.most) if given is None else min(given, self.most)


ROOM = Room()


@dataclass(frozen=True, slots=True)
class Turn:
    """A request that was understood: whose it is and what it will change."""

    ref: ChatRef
    history: tuple[NewMessage, ...]
    record: TurnRecord
    managed: bool = False  # the client sends only what is new
    hints: Hints = NOTHING_TOLD
    habit: Habit = NOTHING_KNOWN  # what the client's requests have shown of it
    number: int = 0  # in the order in which they were asked
    last_extra: str | None = None  # what is kept beside the words of the newest stored message
    link: Mapping[str, Any] = field(default_factory=dict[str, Any])  # to the response before it


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is sent upstream, and what the client is told about it."""

    trace: str
    messages: list[Raw] | None = None  # None: as they came
    turn: Turn | None = None
    prompt_tokens: int | None = None
    client_tokens: int | None = None
    prompt: Prompt | None = None
    layout: Layout = NO_LAYOUT  # the client's own messages around the prompt's
    failed: bool = False  # the memory did not come to know what it means; it may be able to later
    doubt: str = ""  # why it is not certain to be a turn of the chat that it names
    fresh: bool = False  # it starts a chat, which is made once it is answered

    @staticmethod
    def unchanged(reason: str) -> Outgoing:
        """Pass the request through and remember nothing of it."""
        return Outgoing(f"pass-through: {reason}")

    def headers(self, name: str | None) -> list[Header]:
        """The answer's own headers."""
        told: dict[str, object] = {
            "x-previously-chat": None if name is None else quote(name, safe=""),
            "x-previously-prompt-tokens": self.prompt_tokens,
            "x-previously-client-tokens": self.client_tokens,
            "x-previously-trace": quote(self.trace[:TRACE_CHARS_MAX], safe=_PLAIN),
        }
        return [(k.encode(), str(v).encode()) for k, v in told.items() if v is not None]

    def rendered(self, blocks: Iterable[Block]) -> list[Raw]:
        """These blocks in the client's frame, with its own object where it sent one itself."""
        return self.layout.rendered(blocks)

    @property
    def head(self) -> Sequence[Raw]:
        """The client's own instructions, in front of the prompt."""
        return self.layout.head
