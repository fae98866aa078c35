"""Stored state. `Store` is what the house asks for; `Database` is what a backend supplies.

A transaction is a plain function of a SQLAlchemy Core connection, the same for every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from previously.model import (
    Attempt,
    Carried,
    Chat,
    ChatRef,
    Draft,
    Fold,
    FoldKey,
    Lease,
    Message,
    NewCarried,
    NewMessage,
    Reply,
    Sent,
    SentTurn,
    Snapshot,
    Summary,
    TurnRecord,
    Usage,
    WorkState,
)
from previously.settings import COVERS_LOADED_MAX, TAIL_LOADED_MAX

P = ParamSpec("P")
T = TypeVar("T")


class Database(Protocol):
    """Runs transactions: durable before `write` returns, consistent within `read`."""

    @property
    def read_only(self) -> bool: ...

    @property
    def exclusive(self) -> bool:
        """Whether one process at most can have it open for writing."""
        ...

    def now_ms(self, connection: Connection) -> int | None:
        """The database's own clock, which every process shares; None: it has none to offer."""
        ...

    async def listen(self, heard: Callable[[int], None]) -> None:
        """Tell of every chat that any process changes, by its key, until cancelled."""
        ...

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T: ...

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T: ...

    def at_once(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T | None:
        """What one short read finds, on this very thread; None where that might take a while.

        For a read of a row or two, which costs less than to hand it over and wait for it.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Branching:
    """A copy that is being made: from where, up to where, into which chat that nobody sees yet."""

    source: ChatRef
    target: ChatRef
    name: str  # the target's, once it is whole
    at_id: int | None  # the last message that is copied; None: there is none at all
    at_pos: int
    parts: tuple[tuple[str, int], ...]  # what to copy in which order, as `copy_part` takes it


@dataclass(frozen=True, slots=True)
class Kept:
    """One message as a save remembers it."""

    id: int
    hash: bytes
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])  # hidden_by, excluded, pinned


@dataclass(frozen=True, slots=True)
class TermStats:
    """What ranking needs to know about a chat: nothing of any other chat is in it."""

    messages: int = 0  # in the index
    tokens: int = 0  # of those messages together
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # how many hold each term
    indexed_to: tuple[int, int] = (0, 1)  # revision, and the birth number that comes next
    behind: bool = False  # something is not in the index yet


class Candidate(NamedTuple):
    """A message that may answer a query: as much of it as ranking needs."""

    id: int
    pos: int
    tokens: int
    created_at_ms: int
    presence: int | None
    body: str


@dataclass(frozen=True, slots=True)
class Purpose:
    """Who pays, and what for."""

    owner: str
    month: str
    profile: str
    chat_id: int | None
    lane: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used, under one heading."""

    heading: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int  # of the calls whose price is known
    unpriced_calls: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the summaries of a chat have come."""

    uncovered: int  # eligible messages that no summary stands for
    summaries: int


@dataclass(frozen=True, slots=True)
class Pace:
    """How the newest summaries of a chat were made, together."""

    summaries: int = 0
    calls: int = 0
    duration_ms: int = 0
    tokens: int = 0
    tokens_max: int = 0  # that they might have had


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at the index gave: all that ranking needs."""

    stats: TermStats
    terms: tuple[str, ...]  # those of the query that were chosen
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class FloorPage:
    """Messages from one floor on."""

    total: int  # in the chat
    first: int  # floor of the first one
    messages: tuple[Message, ...] = ()
    variants: Mapping[int, int] = field(default_factory=dict[int, int])  # where there are several


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the texts that a message has had."""

    index: int
    body: str
    tokens: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class ChatCard:
    """A chat with what a list of chats shows of it."""

    chat: Chat
    messages: int
    summaries_written: int  # every revision counts
    active_at_ms: int  # of its newest message
    recording: bool
    recalculating: bool
    branch_of: int | None
    character: str | None  # whose settings lie between those of all chats and its own
    deleted_at_ms: int | None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a request that has a key of its own."""

    request: str  # digest of what was asked
    status: int | None  # none: it is being made
    headers: str  # JSON
    body: bytes


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """What takes a look at all of a chat to say."""

    tokens: int  # of its messages together
    summaries: int  # that are valid
    proposals: int  # that wait for the user
    wishes: tuple[str, ...]  # kinds of open intents


@dataclass(frozen=True, slots=True)
class SummaryPage:
    """Some summaries, with the floors they stand for."""

    summaries: tuple[Summary, ...]
    floors: Mapping[int, int]  # of their first and last positions
    children: Mapping[int, int]  # how many summaries each is made of; minis have none
    flags: Mapping[int, tuple[str, ...]]  # what is doubtful about them


Whose = int | str | None  # a chat's key, a character's name, or none for all chats


@dataclass(frozen=True, slots=True)
class Scope:
    """Settings that are stored in one place."""

    values: Mapping[str, Any]
    revision: int


@dataclass(frozen=True, slots=True)
class Token:
    """A key to this server: what it is for, never what it is."""

    id: int
    name: str
    scopes: frozenset[str]
    created_at_ms: int


class Store(Protocol):
    """Everything the house keeps. Methods that take a `ChatRef` trust it: a look-up made it."""

    @property
    def read_only(self) -> bool: ...

    async def close(self) -> None: ...

    async def secret(self) -> bytes: ...

    async def ensure_chat(self, owner: str, name: str, preset: str, lane: str) -> Chat: ...

    async def find_chat(self, owner: str, name: str) -> Chat: ...

    async def chats(self, owner: str, limit: int) -> list[Chat]: ...

    async def change_settings(self, ref: ChatRef, changes: Mapping[str, Any]) -> None: ...

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]: ...

    async def insert(
        self, ref: ChatRef, new: Sequence[NewMessage], before_id: int
    ) -> tuple[Message, ...]: ...

    async def change(
        self, ref: ChatRef, what: str, new: Mapping[int, Mapping[str, Any]]
    ) -> tuple[Message, ...]: ...

    async def edit(
        self, ref: ChatRef, message_id: int, text: str, version: int | None
    ) -> Message: ...

    async def move(self, ref: ChatRef, message_id: int, before_id: int | None) -> Message: ...

    async def swipe(self, ref: ChatRef, message_id: int, choice: int | str) -> Message: ...

    async def undo(self, ref: ChatRef) -> tuple[Message, ...]: ...

    async def set_lane(self, ref: ChatRef, preset: str, lane: str) -> Chat: ...

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None: ...

    async def repair(self, ref: ChatRef, lane: str) -> bool: ...

    async def start_branch(self, ref: ChatRef, name: str, at_id: int | None) -> Branching: ...

    async def copy_part(self, made: Branching, part: str, level: int) -> bool: ...

    async def finish_branch(self, made: Branching) -> Chat: ...

    async def continue_chat(
        self, ref: ChatRef, name: str, handed_on: Sequence[NewCarried]
    ) -> ChatRef: ...

    async def carried(self, ref: ChatRef) -> tuple[Carried, ...]: ...

    async def remove_carried(self, ref: ChatRef, carried_id: int) -> None: ...

    async def start_import(self, owner: str, name: str, preset: str, lane: str) -> ChatRef: ...

    async def finish_import(self, ref: ChatRef, name: str) -> Chat: ...

    async def remove_unfinished(self, ref: ChatRef) -> int: ...

    async def save(self, ref: ChatRef) -> tuple[Kept, ...]: ...

    async def restore(self, ref: ChatRef, kept: Sequence[Kept]) -> tuple[Message, ...]: ...

    async def rollback(self, ref: ChatRef, to_id: int) -> tuple[Message, ...]: ...

    async def record_turn(self, ref: ChatRef, turn: TurnRecord) -> None: ...

    async def keep_sent(self, sent: Sequence[Sent]) -> None: ...

    async def keep_doubts(self, habits: Mapping[int, Mapping[str, Any]]) -> None: ...

    async def last_sent(self, ref: ChatRef) -> Sent | None: ...

    async def claim_answer(self, slot: str, request: str) -> KeptAnswer | None: ...

    async def keep_answer(self, slot: str, status: int, headers: str, body: bytes) -> None: ...

    async def drop_answer(self, slot: str) -> None: ...

    async def sent_turns(self, ref: ChatRef, before: int, limit: int) -> tuple[SentTurn, ...]: ...

    async def chats_by_tail(self, owner: str, keys: Sequence[str]) -> list[ChatRef]: ...

    async def page(self, ref: ChatRef, after_pos: int, limit: int) -> tuple[Message, ...]: ...

    async def newest(self, ref: ChatRef, limit: int) -> tuple[Message, ...]: ...

    async def summaries(self, ref: ChatRef, after_id: int, limit: int) -> tuple[Summary, ...]: ...

    async def covering(
        self, ref: ChatRef, lane: str, ids: Sequence[int]
    ) -> dict[int, tuple[int, ...]]: ...

    async def load(
        self,
        ref: ChatRef,
        fold_key: FoldKey,
        *,
        wide: bool,
        onward: bool = False,
        tail_max: int = TAIL_LOADED_MAX,
        covers_max: int = COVERS_LOADED_MAX,
    ) -> Snapshot: ...

    async def glance(
        self, ref: ChatRef, fold_key: FoldKey, newest_max: int
    ) -> tuple[Snapshot, tuple[Message, ...]]: ...

    async def save_fold(self, ref: ChatRef, moved: Fold, seen_rev: int) -> bool:
        """Whether it stands, or a newer one: False if the chat has changed since `seen_rev`."""
        ...

    async def now_ms(self) -> int: ...

    @property
    def exclusive(self) -> bool: ...

    async def listen(self, heard: Callable[[int], None]) -> None: ...

    async def refs(self, chat_ids: Sequence[int]) -> list[ChatRef]: ...

    async def recover(self) -> int: ...

    async def due(self, limit: int) -> list[tuple[ChatRef, int]]: ...

    async def settled(self, seen: Sequence[tuple[int, int]]) -> None: ...

    async def work_state(self, ref: ChatRef) -> WorkState: ...

    async def attempts(self, ref: ChatRef) -> dict[str, Attempt]: ...

    async def decide(
        self, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int
    ) -> bool: ...

    async def forget_attempts(self, lease: Lease, task_ids: Sequence[str]) -> None: ...

    async def claim(self, ref: ChatRef, worker: str, lease_ms: int) -> Lease | None: ...

    async def renew(self, lease: Lease, lease_ms: int) -> None: ...

    async def finish(
        self,
        lease: Lease,
        seen_rev: int,
        due_at_ms: int | None,
        fulfilled: Sequence[int] = (),
    ) -> None: ...

    async def wish(
        self, ref: ChatRef, lane: str, kind: str, from_pos: int, *, beyond_budget: bool = False
    ) -> int: ...

    async def withdraw(self, ref: ChatRef, lane: str, kind: str) -> bool: ...

    async def uncovered_page(
        self, ref: ChatRef, lane: str, after_pos: int, limit: int
    ) -> tuple[Message, ...]: ...

    async def progress(self, ref: ChatRef, lane: str) -> Progress: ...

    async def pace(self, ref: ChatRef, lane: str) -> Pace: ...

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary: ...

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary: ...

    async def delete_summary(self, ref: ChatRef, summary_id: int, not_before_ms: int) -> None: ...

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None: ...

    async def revisions(self, ref: ChatRef, summary_id: int) -> tuple[Summary, ...]: ...

    async def release(self, lease: Lease) -> None: ...

    async def commit(self, lease: Lease, draft: Draft) -> Summary: ...

    async def record_attempt(self, lease: Lease, made: Attempt) -> None: ...

    async def put_profile(self, owner: str, values: Mapping[str, Any]) -> int: ...

    async def profiles(self, owner: str) -> list[tuple[dict[str, Any], int]]: ...

    async def find_profile(self, owner: str, name: str) -> tuple[dict[str, Any], int] | None: ...

    async def remove_profile(self, owner: str, name: str) -> None: ...

    async def note_trouble(self, owner: str, name: str, trouble: str | None) -> None:
        """Why a profile cannot be asked, or None: it can again. Changing it forgets the reason."""
        ...

    async def troubles(self, owner: str) -> dict[str, str]: ...

    async def reserve(
        self, purpose: Purpose, estimate_micros: int | None, limit_micros: int | None
    ) -> int | None: ...

    async def settle_cost(self, entry: int, used: Usage, cost_micros: int | None) -> None: ...

    async def cancel_cost(self, entry: int) -> None: ...

    async def spent(self, owner: str, month: str) -> int: ...

    async def usage(self, owner: str, by: str) -> list[Spent]: ...

    async def take_place(
        self, profile: str, holder: str, limits: tuple[int | None, int | None], lease_ms: int
    ) -> int: ...

    async def give_place_back(self, profile: str, holder: str) -> None: ...

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None: ...

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None: ...

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None: ...

    async def index_some(self, limit: int, *, ripe: bool = True) -> int: ...

    async def forget_terms(self, ref: ChatRef) -> None: ...

    async def term_stats(self, ref: ChatRef, terms: Sequence[str]) -> TermStats: ...

    async def term_candidates(
        self, ref: ChatRef, terms: Sequence[str], stats: TermStats, limit: int, before_pos: int
    ) -> tuple[Candidate, ...]: ...

    async def find_terms(
        self,
        ref: ChatRef,
        terms: Sequence[str],
        choose: Callable[[TermStats], tuple[str, ...]],
        limit: int,
        before_pos: int,
    ) -> Found: ...

    async def term_chats(
        self, owner: str, terms: Sequence[str], people: frozenset[str] | None
    ) -> list[ChatRef]: ...

    async def containing(self, ref: ChatRef, part: str, limit: int) -> tuple[Candidate, ...]: ...

    async def shown(self, ref: ChatRef, ids: Sequence[int]) -> dict[int, tuple[Message, int]]: ...

    async def presences(self, ref: ChatRef) -> dict[int, frozenset[str]]: ...

    async def find_chat_by_id(self, owner: str, chat_id: int) -> ChatRef: ...

    async def chat_cards(
        self,
        owner: str,
        limit: int,
        before: tuple[int, int] | None = None,
        *,
        text: str = "",
        deleted: bool = False,
    ) -> list[ChatCard]: ...

    async def chat_card(self, ref: ChatRef) -> ChatCard: ...

    async def chat_facts(self, ref: ChatRef) -> ChatFacts: ...

    async def create_chat(self, owner: str, name: str, preset: str, lane: str) -> ChatRef: ...

    async def set_title(self, ref: ChatRef, title: str) -> None: ...

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None: ...

    async def put_away(self, ref: ChatRef) -> None: ...

    async def bring_back(self, owner: str, chat_id: int) -> ChatRef: ...

    async def purge(self, owner: str, chat_id: int) -> None: ...

    async def floor_page(self, ref: ChatRef, first: int | None, limit: int) -> FloorPage: ...

    async def message(self, ref: ChatRef, message_id: int) -> Message: ...

    async def variants(self, ref: ChatRef, message_id: int) -> tuple[Variant, ...]: ...

    async def messages_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Message, ...]: ...

    async def summaries_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Summary, ...]: ...

    async def floors(self, ref: ChatRef, positions: Sequence[int]) -> dict[int, int]: ...

    async def alter(
        self,
        ref: ChatRef,
        what: str,
        message_id: int,
        values: Mapping[str, Any],
        version: int | None,
    ) -> Message: ...

    async def summary(self, ref: ChatRef, summary_id: int) -> SummaryPage: ...

    async def revision_page(self, ref: ChatRef, summary_id: int) -> SummaryPage: ...

    async def summary_page(
        self, ref: ChatRef, which: str, parent: int | None, after: tuple[int, int], limit: int
    ) -> SummaryPage: ...

    async def rebuildable(self, ref: ChatRef, lane: str, from_pos: int) -> int: ...

    async def busy_chats(self, owner: str, limit: int) -> list[ChatRef]: ...

    async def setting_layers(self, owner: str, whose: Whose) -> dict[str, Scope]: ...

    async def change_scope(
        self, owner: str, whose: Whose, changes: Mapping[str, Any], revision: int | None
    ) -> None: ...

    async def naming(self, owner: str, profile: str) -> list[Whose]: ...

    async def set_character(
        self, ref: ChatRef, character: str | None, *, only_first: bool = False
    ) -> bool: ...

    async def characters(self, owner: str) -> dict[str, int]: ...

    async def alter_profile(
        self, owner: str, values: Mapping[str, Any], version: int | None
    ) -> int: ...

    async def add_token(
        self, owner: str, name: str, digest: bytes, scopes: frozenset[str]
    ) -> Token: ...

    async def tokens(self, owner: str) -> list[Token]: ...

    async def find_token(self, digest: bytes) -> Token | None: ...

    async def remove_token(self, owner: str, token_id: int) -> bool: ...

    async def totals(self, owner: str) -> dict[str, dict[str, int]]: ...
