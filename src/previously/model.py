"""The nouns: frozen values that check themselves, with no clock, database or network behind them.

`docs/glossary.md` has one word for each. A message's key packs its chat and its birth number, so
that identity never depends on order; `pos` is order and may change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from previously.errors import BadInput
from previously.settings import Settings

BIRTH_BITS = 32
BIRTH_MASK = (1 << BIRTH_BITS) - 1
POS_GAP = 1 << 32  # room for 32 insertions by halving between any two neighbours
START = -(1 << 62)  # before every message; positions may be negative, insertions go anywhere
DIGEST_BYTES = 16
BACKLOG_MAX = 400  # uncovered messages; who would pay for more is asked first

BLANKS = " \t\r\n\f\v\u00a0\u3000"  # what may surround a text; the database trims the same set
ROLES = frozenset({"system", "user", "assistant", "tool"})
CLIENT = "client"  # hides a message by no longer sending it, and shows it by sending it again
HIDING = ("user", CLIENT)  # whose hiding keeps a message out of every prompt
IMPORTED = "previously:imported"  # in `extra`: what a file said of a message; never sent on


class Kind(StrEnum):
    """What a message is."""

    SPEECH = "speech"
    NOTICE = "notice"  # of the client's own making: kept, never shown to a model
    PLACEHOLDER = "summary_placeholder"


_SPEECH = Kind.SPEECH.value  # looked up once: this is asked of every message of every request


class State(StrEnum):
    """Whether the client has been seen to keep a message."""

    CANDIDATE = "candidate"
    CONFIRMED = "confirmed"


def key(chat_id: int, n: int) -> int:
    """The key of the n-th record born in a chat."""
    return chat_id << BIRTH_BITS | n


def birth(record_key: int) -> int:
    """The birth number inside a key."""
    return record_key & BIRTH_MASK


def digest(*parts: str | bytes | None) -> bytes:
    """A short content hash; parts are framed by length, so that they cannot run together."""
    h = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        if part is None:
            h.update(b"\xff")
            continue
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "big"))
        h.update(raw)
    return h.digest()


@dataclass(frozen=True, slots=True)
class ChatRef:
    """The right to read and write one chat; only a look-up that checked the owner makes one."""

    id: int
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation."""

    ref: ChatRef
    title: str
    preset: str
    lane: str
    revision: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What a client says; the store gives it identity and order."""

    role: str
    body: str
    name: str | None = None
    tool_calls: str | None = None  # JSON, as it will be serialised
    tool_call_id: str | None = None
    parts: str | None = None  # JSON of structured content; `body` is its text form
    present: frozenset[str] | None = None  # who was there; None: everybody
    state: State = State.CONFIRMED
    extra: str | None = None  # JSON object of the client's other fields

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            known = ", ".join(sorted(ROLES))
            raise BadInput(f"role {self.role!r} is none of {known}", field="role")

    @property
    def hash(self) -> bytes:
        """What a summary remembers of its source."""
        return digest(
            self.role, self.name, self.body, self.tool_calls, self.tool_call_id, self.parts
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One recorded final output."""

    id: int
    pos: int
    role: str
    body: str
    hash: bytes
    tokens: int
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    parts: str | None = None
    extra: str | None = None
    kind: str = Kind.SPEECH
    state: str = State.CONFIRMED
    hidden_by: str | None = None
    excluded: bool = False
    pinned: bool = False
    presence: int | None = None
    variant: int = 0
    version: int = 1
    created_at_ms: int = 0
    deleted_at_ms: int | None = None

    @property
    def speaker(self) -> str:
        """The name a reader would see in front of the text."""
        return self.name or self.role

    @property
    def shown(self) -> bool:
        """Whether a prompt may hold this message at all."""
        hidden = self.hidden_by is not None and self.hidden_by in HIDING
        return self.deleted_at_ms is None and not hidden and self.kind == _SPEECH

    @property
    def eligible(self) -> bool:
        """Whether a summary may and must stand for this message: one rule for every lane."""
        return (
            self.shown
            and not self.excluded
            and not self.pinned
            and self.state == State.CONFIRMED
            and bool(self.body.strip(BLANKS) or self.tool_calls)
        )

    def wire(self) -> dict[str, Any]:
        """The message as the OpenAI format has it, with the client's own fields kept."""
        out: dict[str, Any] = json.loads(self.extra) if self.extra else {}
        out.pop(IMPORTED, None)
        out.setdefault("role", self.role)  # a client's own word for it comes back as it was
        if self.parts is not None:
            out["content"] = json.loads(self.parts)
        elif self.body or self.tool_calls is None:
            out["content"] = self.body
        if self.name is not None:
            out["name"] = self.name
        if self.tool_calls is not None:
            out["tool_calls"] = json.loads(self.tool_calls)
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        return out


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What a finished proxied turn changes: echoes confirmed, new messages, a reply."""

    after_id: int | None  # the newest message that the aligner saw…
    after_hash: bytes | None  # …and its text at that moment
    confirms: tuple[tuple[int, NewMessage | None], ...]  # the client's text, where it differs
    appends: tuple[NewMessage, ...]
    reply: NewMessage | None
    rerolls: int | None  # the message that the reply is another variant of
    others: tuple[NewMessage, ...] = ()  # replies that came beside it, for the client to choose
    grows: int | None = None  # the message that the reply goes on with
    edits: tuple[tuple[int, NewMessage], ...] = ()  # other words where they stood
    hides: tuple[int, ...] = ()  # missing between two that the client shows
    shows: tuple[int, ...] = ()  # hidden so before, and there again
    drops: tuple[int, ...] = ()  # gone from the end: the story goes on without them
    inserts: tuple[tuple[int, tuple[NewMessage, ...]], ...] = ()  # older ones, before which

    @property
    def mends(self) -> bool:
        """Whether it changes what is stored, beside adding to it."""
        return bool(self.edits or self.hides or self.shows or self.drops or self.inserts)

    def answered(self, replies: Sequence[NewMessage]) -> TurnRecord:
        """With its reply: the first; the others came beside it."""
        return replace(self, reply=replies[0], others=tuple(replies[1:]))

    @property
    def rewords(self) -> bool:
        """Whether a message that was in doubt gets the client's words for its own."""
        return any(text is not None for _, text in self.confirms)

    def beside(self, replies: Sequence[NewMessage]) -> TurnRecord:
        """With replies that may be chosen, while the one that is there stays."""
        return replace(self, reply=None, others=tuple(replies))

    def mending(self) -> TurnRecord:
        """Only that part."""
        return replace(
            self, confirms=(), appends=(), reply=None, others=(), rerolls=None, grows=None
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """What went upstream for a chat's newest turn: sizes and ids, no texts."""

    chat_id: int
    tail_key: str  # finds the chat of a request that names none
    facts: str  # JSON
    sent_at_ms: int
    weight: Weight | None = None  # None: it is not drawn in any chart


@dataclass(frozen=True, slots=True)
class Weight:
    """What one prompt has weighed, and of what pieces it was."""

    tokens: int
    client_tokens: int
    budget_tokens: int
    layers: Mapping[str, int]
    pieces: tuple[tuple[str, int], ...]  # in order: what tells it from others, and its tokens


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A prompt that was sent, as a chart shows it."""

    n: int
    tokens: int
    client_tokens: int
    chat_tokens: int  # what the whole chat weighed by then
    budget_tokens: int
    same_tokens: int  # the beginning that it had in common with the one before
    layers: Mapping[str, int]
    sent_at_ms: int


EXTRACTIVE = "extractive"  # the summariser that is no model
PINNED = "pinned"  # the kind of what a chat carries over word for word
REST = "rest"  # the kind of what had no summary yet when it was carried over


class SummaryStatus(StrEnum):
    """Where a summary stands in its own history of revisions."""

    READY = "ready"
    PROPOSED = "proposed"  # waits for the user, who had edited what it would replace
    SUPERSEDED = "superseded"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Summary:
    """An immutable record of a lane that stands for its sources."""

    id: int
    lane: str
    kind: str
    level: int
    ordinal: int
    text: str
    tokens: int
    hash: bytes
    first_pos: int
    last_pos: int
    message_count: int
    status: str = SummaryStatus.READY
    valid: bool = True
    covered_by: int | None = None
    edited_by_user: bool = False
    pinned: bool = False
    created_at_ms: int = 0
    provenance: str | None = None  # JSON: model, prompt, profile, sizes
    presence: int | None = None  # the set of those who were there, as its messages have it
    covers: tuple[int, ...] = ()  # keys of the messages it stands for, where they were asked for

    @property
    def is_extract(self) -> bool:
        """Whether it only quotes."""
        return json.loads(self.provenance or "{}").get("model") == EXTRACTIVE


@dataclass(frozen=True, slots=True)
class NewCarried:
    """What one chat hands on to another that continues it."""

    text: str
    tokens: int
    lane: str
    kind: str  # of the record that said so; `pinned` for a message, `rest` for what had none yet
    is_extract: bool
    present: frozenset[str] | None  # who was there; None: everybody
    from_chat: int
    from_title: str
    from_record: int | None  # the summary's or message's key in that chat, where there is one


@dataclass(frozen=True, slots=True)
class Carried:
    """What an earlier chat has handed on: shown, never summarised, covering nothing."""

    id: int
    text: str
    tokens: int
    lane: str
    kind: str
    is_extract: bool
    presence: int | None
    from_chat: int
    from_title: str
    from_record: int | None
    created_at_ms: int = 0

    @property
    def stands(self) -> bool:
        """Whether it gives way to nothing but the budget itself, as a pinned message."""
        return self.kind == PINNED


Shown = Carried | Message | Summary  # what may stand before the tail


class ItemKind(StrEnum):
    """What an item shows, as it is written down."""

    MESSAGE = "m"
    SUMMARY = "s"
    CARRIED = "c"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing shown before the tail: what was carried over, a summary, or a message that no
    summary stands for."""

    kind: ItemKind
    id: int

    @staticmethod
    def of(thing: Shown) -> Item:
        """The item that shows this record."""
        if isinstance(thing, Message):
            return Item(ItemKind.MESSAGE, thing.id)
        carried = isinstance(thing, Carried)
        return Item(ItemKind.CARRIED if carried else ItemKind.SUMMARY, thing.id)

    @property
    def is_message(self) -> bool:
        """Whether it shows a message as it was said."""
        return self.kind == ItemKind.MESSAGE

    @property
    def is_summary(self) -> bool:
        """Whether it shows a summary."""
        return self.kind == ItemKind.SUMMARY

    def __str__(self) -> str:
        return f"{self.kind}{birth(self.id)}"

    @staticmethod
    def parse(chat_id: int, text: str) -> Item:
        """The item that `str` wrote down for a chat."""
        return Item(ItemKind(text[0]), key(chat_id, int(text[1:])))


@dataclass(frozen=True, slots=True)
class FoldKey:
    """Whose prompt, at which budget."""

    audience: str = ""
    budget_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """Where the verbatim tail starts and what stands before it."""

    key: FoldKey
    version: int = 0  # 0: nothing was ever folded
    tail_pos: int = START
    from_pos: int = START  # what stands before this did not fit and is not shown at all
    items: tuple[Item, ...] = ()
    room_tokens: int = 0  # the budget less what was fixed when it moved
    reason: str = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The eligible messages that no valid summary stands for, oldest first, as far as loaded.

    A run holds neighbours: no covered message lies between two messages of one run.
    """

    runs: tuple[tuple[Message, ...], ...] = ()

    def between(self, first: Message, last: Message) -> tuple[Message, ...]:
        """Those from `first` to `last`, both included."""
        return tuple(m for run in self.runs for m in run if first.pos <= m.pos <= last.pos)


@dataclass(frozen=True, slots=True)
class Intent:
    """Something that a user asked for and that state alone cannot imply."""

    id: int
    lane: str
    kind: str  # run: all that is closed, now; rebuild: write anew; backfill: all that piled up
    from_pos: int = START
    before_id: int = 0  # summaries born before this are the ones to write anew
    beyond_budget: bool = False  # whoever asked was told what it costs and wants it anyway


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A summary that is to be written anew from the same messages."""

    intent_id: int
    summary: Summary
    sources: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What planning and folding need beyond the tail."""

    uncovered: Uncovered = field(default_factory=Uncovered)
    uncovered_cut: bool = False  # there are more than were loaded
    uncovered_count: int = 0  # of all there are; counted as far as BACKLOG_MAX and one more
    open_since: Mapping[int, int] = field(default_factory=dict[int, int])  # of holes, in ms
    covers: tuple[Summary, ...] = ()  # valid, not under another valid one; oldest first, capped
    children: Mapping[int, tuple[Summary, ...]] = field(  # of covers that reach into the tail
        default_factory=dict[int, "tuple[Summary, ...]"]
    )
    from_pos: int = START  # where the caps cut: of what stands before this, not all was loaded
    standing: tuple[Message, ...] = ()  # pinned messages before the tail, oldest first
    carried: tuple[Carried, ...] = ()  # of the chat that this one continues, oldest first
    attempts: Mapping[str, Attempt] = field(default_factory=dict[str, "Attempt"])
    intents: tuple[Intent, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    proposed: frozenset[int] = frozenset()  # holes with a new text that waits for the user
    waiting: frozenset[int] = frozenset()  # summaries that a new text of their volume waits over
    room_tokens: int | None = None  # the tightest room that any prompt of this chat had


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of one chat: all that planner, folding and assembler may look at."""

    ref: ChatRef
    lane: str
    settings: Settings
    rev: int
    fold: Fold
    covered_to: int
    tail: tuple[Message, ...]  # from the fold on, oldest first
    tail_cut: bool = False  # the tail holds only its newest part
    shown: tuple[Shown, ...] = ()  # the fold's items, resolved
    presences: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    recalculating: bool = False  # the client rebuilds its state: write nothing about it now
    recording: bool = True  # proxied turns are kept
    backlog: Backlog | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one chat for a while; a higher fence ends it."""

    ref: ChatRef
    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class WorkState:
    """How far the background work of one chat has come."""

    rev: int
    done_rev: int
    due_at_ms: int | None
    leased: bool


CANCELLED = "cancelled"  # the user's verdict on a task, which no run writes over


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a task so far."""

    task_id: str
    lane: str
    verdict: str
    error_class: str
    error_text: str
    tries: int
    not_before_ms: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What of a message a summarising model is given; false if it is given all."""

    start_tag: str = ""
    end_tag: str = ""
    rules: str = "[]"  # as the setting has them

    def __bool__(self) -> bool:
        return bool(self.start_tag or self.end_tag) or self.rules != "[]"


@dataclass(frozen=True, slots=True)
class Task:
    """Due work with its exact sources: messages, or summaries. It cannot be built with a gap."""

    chat: ChatRef
    lane: str
    kind: str
    sources: tuple[Message, ...]
    context: tuple[str, ...]
    tokens_max: int
    language: str
    uncovered: InitVar[Uncovered]
    replaces: int | None = None  # the summary it is written anew for
    children: tuple[Summary, ...] = ()  # what it reads instead of messages, oldest first
    template: str = ""  # the user's own words to ask with; empty: ours
    cleaning: Cleaning = Cleaning()
    id: str = field(init=False, default="")

    def __post_init__(self, uncovered: Uncovered) -> None:
        if bool(self.sources) == bool(self.children):
            raise ValueError("a task reads messages, or summaries")
        if len({thing.presence for thing in (*self.sources, *self.children)}) > 1:
            raise ValueError("a task reads what the same people were there for")
        if self.sources:
            self._check_sources(uncovered)
        else:
            self._check_children(uncovered)
        things = (*self.sources, *self.children)
        hashes = (part for thing in things for part in (str(thing.id), thing.hash))
        anew = "" if self.replaces is None else str(self.replaces)
        object.__setattr__(self, "id", digest(self.lane, self.kind, anew, *hashes).hex())

    def _check_sources(self, uncovered: Uncovered) -> None:
        if uncovered.between(self.sources[0], self.sources[-1]) != self.sources:
            raise ValueError("a task reads every uncovered message between its ends, in order")

    def _check_children(self, uncovered: Uncovered) -> None:
        if any(child.level > self.children[0].level for child in self.children):
            raise ValueError("a task reads no summary of a higher level than its first")
        if any(a.last_pos >= b.first_pos for a, b in pairwise(self.children)):
            raise ValueError("a task reads summaries in order")
        first, last = self.children[0].first_pos, self.children[-1].last_pos
        if any(first <= m.pos <= last for run in uncovered.runs for m in run):
            raise ValueError("a message between these summaries has none of its own")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the material that a summarising model reads: who says what."""

    source: int  # key of its message; in plain text, the number of its paragraph
    pos: int  # where it stands in the order; cuts are placed by it
    speaker: str
    text: str
    tokens: int  # as it is written out
    joined: bool = False  # never parted from the line before: a tool's result from its call
    continued: bool = False  # it begins in the middle of its message


@dataclass(frozen=True, slots=True)
class Part:
    """What one request of a run is about: a stretch of the material, or notes on such stretches."""

    tokens_max: int
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()  # to be made into one, oldest first
    opens: bool = True  # it begins where the material begins

    @property
    def material(self) -> tuple[tuple[str, str], ...]:
        """Who says what; a note is said by nobody."""
        said = tuple((line.speaker, line.text) for line in self.lines)
        return said or tuple(("", note) for note in self.notes)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The words of an answer that will do, and what is doubtful about them."""

    text: str
    tokens: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a summarising model."""

    messages: tuple[Mapping[str, str], ...]
    material: tuple[tuple[str, str], ...]  # (speaker, text), for a summariser that is no model
    tokens_max: int
    language: str
    asked_of: str = ""  # the identity of the model that it is put to
    parts: tuple[Part, ...] = ()  # where it is about several things, each answered by itself

    @property
    def hash(self) -> str:
        """What an answer is paid for once by: everything that determines it."""
        body = json.dumps([list(self.messages), self.tokens_max], sort_keys=True)
        return digest(self.asked_of, body).hex()


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost, as the provider reports it."""

    input_tokens: int = 0  # all of the prompt, also what came from the provider's cache
    output_tokens: int = 0  # all that was written, also the thinking
    cached_tokens: int = 0  # of the input
    reasoning_tokens: int = 0  # of the output, where the provider says


@dataclass(frozen=True, slots=True)
class Reply:
    """What a summarising model answered."""

    text: str
    model: str
    finish: str = "stop"  # stop | length | content_filter | tool | other
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""  # what a thinking model said to itself; no part of the text


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer that was accepted and waits for its commit."""

    task: Task
    text: str
    tokens: int
    provenance: Mapping[str, Any]
    usage: Usage
    stats: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how its run went
    spent: tuple[str, ...] = ()  # requests whose kept answers have served their purpose


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model's yes or no about a task; nothing is written but that it was said."""

    task: Task
    yes: bool


@dataclass(frozen=True, slots=True)
class Recalled:
    """A message of long ago that the pending turn calls up, and why."""

    message: Message
    floor: int
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Recall:
    """All that a turn calls up, and what stands beside that, best first."""

    found: tuple[Recalled, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt with its source, place and size."""

    place: str  # carried | standing | cover | raw | tail | fragment | pending
    wire: Mapping[str, Any]
    tokens: int
    sources: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages that the prompt leaves out, and why: everything from one position up to another."""

    from_pos: int
    before_pos: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What went into a prompt, what did not, and why."""

    budget_tokens: int
    tokens: int
    fold: Fold
    blocks: tuple[Block, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...] = ()
    recalled: tuple[Recalled, ...] = ()  # what the fragments quote


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages ready to send, with their trace."""

    messages: list[dict[str, Any]]
    tokens: int
    trace: Trace


def wire_all(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """The blocks as plain messages that a caller may change."""
    return [dict(block.wire) for block in blocks]


def total_tokens(things: Sequence[Shown | Block]) -> int:
    """The sum of their sizes."""
    return sum(thing.tokens for thing in things)
