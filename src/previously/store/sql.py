"""The one store: every method is one transaction on whichever database it was given."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

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
    Shown,
    Snapshot,
    Summary,
    TurnRecord,
    Usage,
    WorkState,
)
from previously.settings import COVERS_LOADED_MAX, TAIL_LOADED_MAX, Settings, layered
from previously.store import (
    Branching,
    Candidate,
    ChatCard,
    ChatFacts,
    Database,
    FloorPage,
    Found,
    Kept,
    KeptAnswer,
    Pace,
    Progress,
    Purpose,
    Scope,
    Spent,
    SummaryPage,
    TermStats,
    Token,
    Variant,
    Whose,
    answers,
    audit,
    branches,
    carried,
    catalog,
    changes,
    chats,
    coverage,
    floors,
    folds,
    imports,
    index,
    intents,
    ledger,
    lookup,
    messages,
    profiles,
    progress,
    revisions,
    saves,
    scopes,
    sending,
    snapshots,
    tokens,
    views,
    work,
)
from previously.store.folds import KnownFold
from previously.store.limits import give_back, take
from previously.store.recent import Recents
from previously.store.schema import chat, installation, lane_state, summary
from previously.store.snapshots import Read

P = ParamSpec("P")
T = TypeVar("T")

NO_END = 1 << 62
BUILDING_MS_MAX = 3_600_000  # another process may still be at work on a copy younger than that

INDEX_BATCH = 256  # messages that are taken out of the index in one transaction
SETTINGS_KEPT = 1_024  # chats whose settings are held in memory
FOLDS_KEPT = 256  # resolved folds held in memory; a fold changes every few turns at most


class SqlStore:
    """SQLite or PostgreSQL, one set of transactions."""

    def __init__(
        self,
        database: Database,
        clock_ms: Callable[[], int],
        base_settings: Mapping[str, Any],
    ) -> None:
        self._db = database
        self._clock_ms = clock_ms
        self._base = dict(base_settings)
        self._settings: dict[int, tuple[tuple[object, ...], Settings]] = {}
        self._folds: OrderedDict[tuple[int, FoldKey], tuple[Fold, tuple[Shown, ...]]] = (
            OrderedDict()
        )
        self._recent = Recents()
        self._secret: bytes | None = None

    @property
    def read_only(self) -> bool:
        return self._db.read_only

    async def close(self) -> None:
        await self._db.close()

    async def _change(
        self,
        ref: ChatRef,
        function: Callable[Concatenate[sa.Connection, ChatRef, P], T],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """A transaction that reads of a chat before it writes: nobody else may come between."""

        def held(conn: sa.Connection) -> T:
            work.hold(conn, ref)
            return function(conn, ref, *args, **kw)

        return await self._db.write(held)

    def _now_ms(self, conn: sa.Connection) -> int:
        """The clock that leases go by: one for all processes that share the database."""
        shared = self._db.now_ms(conn)
        return self._clock_ms() if shared is None else shared

    async def secret(self) -> bytes:
        """The installation's own secret, made at the first call."""
        if self._secret is None:
            self._secret = await self._db.read(_secret)
        if self._secret is None:
            self._secret = await self._db.write(_make_secret, self._clock_ms())
        return self._secret

    async def ensure_chat(self, owner: str, name: str, preset: str, lane: str) -> Chat:
        return await self._db.write(chats.ensure, owner, name, preset, lane, self._clock_ms())

    async def find_chat(self, owner: str, name: str) -> Chat:
        return await self._db.read(chats.find, owner, name)

    async def chats(self, owner: str, limit: int) -> list[Chat]:
        return await self._db.read(chats.listing, owner, limit)

    async def change_settings(self, ref: ChatRef, changes: Mapping[str, Any]) -> None:
        await self._change(ref, chats.change_settings, changes)

    async def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> tuple[Message, ...]:
        return await self._db.write(messages.append, ref, new, self._clock_ms())

    async def insert(
        self, ref: ChatRef, new: Sequence[NewMessage], before_id: int
    ) -> tuple[Message, ...]:
        return await self._change(ref, messages.insert, new, before_id, self._clock_ms())

    async def change(
        self, ref: ChatRef, what: str, new: Mapping[int, Mapping[str, Any]]
    ) -> tuple[Message, ...]:
        return await self._change(ref, changes.change, what, new, self._clock_ms())

    async def edit(self, ref: ChatRef, message_id: int, text: str, version: int | None) -> Message:
        return await self._change(ref, changes.edit, message_id, text, version, self._clock_ms())

    async def move(self, ref: ChatRef, message_id: int, before_id: int | None) -> Message:
        return await self._change(ref, changes.move, message_id, before_id, self._clock_ms())

    async def swipe(self, ref: ChatRef, message_id: int, choice: int | str) -> Message:
        return await self._change(ref, changes.swipe, message_id, choice, self._clock_ms())

    async def undo(self, ref: ChatRef) -> tuple[Message, ...]:
        return await self._change(ref, changes.undo, self._clock_ms())

    async def set_lane(self, ref: ChatRef, preset: str, lane: str) -> Chat:
        return await self._change(ref, chats.set_lane, preset, lane)

    async def set_recalculating(self, ref: ChatRef, *, on: bool) -> None:
        await self._change(ref, chats.set_recalculating, on=on)

    async def repair(self, ref: ChatRef, lane: str) -> bool:
        return await self._change(ref, _repair, lane, self._clock_ms())

    async def lanes(self) -> list[tuple[ChatRef, str]]:
        """Every visible chat with every lane that has written about it."""
        return await self._db.read(_lanes)

    async def is_sound(self, ref: ChatRef, lane: str) -> bool:
        """Whether what is written down about coverage is what messages and hashes say."""

        def read(conn: sa.Connection) -> bool:
            return audit.stored(conn, ref, lane) == audit.recompute(conn, ref, lane)

        return await self._db.read(read)

    async def indexed_chats(self) -> list[ChatRef]:
        """Those of which something can be found by search."""
        return await self._db.read(index.held)

    async def index_is_sound(self, ref: ChatRef) -> bool:
        """Whether search knows of a chat what its messages say."""
        return await self._db.read(index.is_sound, ref.id)

    async def reindex(self, ref: ChatRef) -> bool:
        """Let a wrong index of a chat be made anew in the background; whether it was wrong."""
        return await self._db.write(index.rebuild, ref.id)

    async def unfinished(self) -> int:
        """How many chats are being built, or were when a process died."""
        return await self._db.read(branches.unfinished)

    async def start_branch(self, ref: ChatRef, name: str, at_id: int | None) -> Branching:
        return await self._db.write(branches.start, ref, name, at_id, self._clock_ms())

    async def copy_part(self, made: Branching, part: str, level: int) -> bool:
        return await self._db.write(branches.copy, made, part, level)

    async def finish_branch(self, made: Branching) -> Chat:
        return await self._db.write(branches.finish, made, self._clock_ms())

    async def continue_chat(
        self, ref: ChatRef, name: str, handed_on: Sequence[NewCarried]
    ) -> ChatRef:
        """A new chat like this one, with what it is handed and no messages."""
        made = await self._db.write(carried.start, ref, name, handed_on, self._clock_ms())
        return ChatRef(made, ref.owner, name)

    async def carried(self, ref: ChatRef) -> tuple[Carried, ...]:
        return await self._db.read(carried.of_chat, ref)

    async def remove_carried(self, ref: ChatRef, carried_id: int) -> None:
        await self._change(ref, carried.remove, carried_id)

    async def start_import(self, owner: str, name: str, preset: str, lane: str) -> ChatRef:
        return await self._db.write(imports.start, owner, name, preset, lane, self._clock_ms())

    async def finish_import(self, ref: ChatRef, name: str) -> Chat:
        return await self._db.write(imports.finish, ref, name)

    async def remove_unfinished(self, ref: ChatRef) -> int:
        return await self._db.write(branches.remove_unfinished, ref)

    async def remove_abandoned(self) -> int:
        """Remove copies that nobody can be making any more."""
        before_ms = NO_END if self._db.exclusive else self._clock_ms() - BUILDING_MS_MAX
        return await self._db.write(branches.remove_abandoned, before_ms)

    async def save(self, ref: ChatRef) -> tuple[Kept, ...]:
        return await self._db.read(saves.take, ref)

    async def restore(self, ref: ChatRef, kept: Sequence[Kept]) -> tuple[Message, ...]:
        return await self._change(ref, saves.restore, kept, self._clock_ms())

    async def rollback(self, ref: ChatRef, to_id: int) -> tuple[Message, ...]:
        return await self._change(ref, saves.rollback, to_id, self._clock_ms())

    async def record_turn(self, ref: ChatRef, turn: TurnRecord) -> None:
        recorded = await self._change(ref, messages.record_turn, turn, self._clock_ms())
        if recorded is not None:
            kept = {message_id for message_id, _ in turn.confirms}
            self._recent.recorded(ref, recorded.rev, kept, recorded.made)

    async def keep_sent(self, sent: Sequence[Sent]) -> None:
        """Replace what is known of these chats; several in one transaction."""
        await self._db.write(sending.keep, sent)

    async def keep_doubts(self, habits: Mapping[int, Mapping[str, Any]]) -> None:
        """What was seen of clients since, chat by chat; the rest of what was sent stays."""
        await self._db.write(sending.doubt, habits)

    async def last_sent(self, ref: ChatRef) -> Sent | None:
        return await self._db.read(sending.last, ref)

    async def claim_answer(self, slot: str, request: str) -> KeptAnswer | None:
        """What was answered under this key; none: it is the caller's to answer now."""
        return await self._db.write(answers.claim, slot, request, self._clock_ms())

    async def keep_answer(self, slot: str, status: int, headers: str, body: bytes) -> None:
        await self._db.write(answers.keep, slot, status, headers, body, self._clock_ms())

    async def drop_answer(self, slot: str) -> None:
        await self._db.write(answers.drop, slot)

    async def sent_turns(self, ref: ChatRef, before: int, limit: int) -> tuple[SentTurn, ...]:
        """The newest prompts that were sent before one of them, oldest first."""
        return await self._db.read(sending.turns, ref, before, limit)

    async def chats_by_tail(self, owner: str, keys: Sequence[str]) -> list[ChatRef]:
        return await self._db.read(sending.by_tail, owner, keys)

    async def page(self, ref: ChatRef, after_pos: int, limit: int) -> tuple[Message, ...]:
        return await self._db.read(messages.page, ref, after_pos, limit)

    async def newest(self, ref: ChatRef, limit: int) -> tuple[Message, ...]:
        return await self._db.read(messages.newest, ref, limit)

    async def summaries(self, ref: ChatRef, after_id: int, limit: int) -> tuple[Summary, ...]:
        """A page of summaries, each with the messages it covers."""
        return await self._db.read(views.written, ref, after_id, limit)

    async def covering(
        self, ref: ChatRef, lane: str, ids: Sequence[int]
    ) -> dict[int, tuple[int, ...]]:
        return await self._db.read(coverage.covering, ref, lane, ids)

    async def load(
        self,
        ref: ChatRef,
        fold_key: FoldKey,
        *,
        wide: bool,
        onward: bool = False,
        tail_max: int = TAIL_LOADED_MAX,
        covers_max: int = COVERS_LOADED_MAX,
    ) -> Snapshot:
        """One consistent state, as wide as asked for."""
        read = await self._db.read(
            snapshots.read,
            ref,
            fold_key,
            self._folds.get((ref.id, fold_key)),
            snapshots.Extent(wide, onward, tail_max, covers_max),
        )
        return self._snapshot(ref, fold_key, read)

    async def glance(
        self, ref: ChatRef, fold_key: FoldKey, newest_max: int
    ) -> tuple[Snapshot, tuple[Message, ...]]:
        """A narrow snapshot and the newest messages of the same moment, each row read once."""
        fold, recent = self._folds.get((ref.id, fold_key)), self._recent.get(ref)
        limits = newest_max, TAIL_LOADED_MAX
        seen = None
        if fold is not None and recent is not None:
            held = snapshots.glance_at_held, ref, fold_key, fold, recent, limits
            seen = self._db.at_once(*held)
        if seen is None:
            look = snapshots.glance, ref, fold_key, fold, recent, limits
            seen = await self._db.read(*look)
        self._recent.seen(ref, seen.held, seen.needed)
        return self._snapshot(ref, fold_key, seen.read), seen.held.messages[-newest_max:]

    def _snapshot(self, ref: ChatRef, fold_key: FoldKey, read: Read) -> Snapshot:
        self._remember((ref.id, fold_key), (read.fold, read.shown))
        return Snapshot(
            ref=ref,
            lane=read.lane,
            settings=self._effective(ref, read),
            rev=read.rev,
            fold=read.fold,
            covered_to=read.covered_to,
            recalculating=read.recalculating,
            recording=read.recording,
            tail=read.tail,
            tail_cut=read.tail_cut,
            shown=read.shown,
            presences=read.presences,
            backlog=read.backlog,
        )

    def _remember(self, cache_key: tuple[int, FoldKey], known: KnownFold) -> None:
        self._folds[cache_key] = known
        self._folds.move_to_end(cache_key)
        if len(self._folds) > FOLDS_KEPT:
            self._folds.popitem(last=False)

    def _effective(self, ref: ChatRef, read: snapshots.Read) -> Settings:
        revisions_seen = (
            read.shared_revision,
            read.character,
            read.character_revision,
            read.settings_revision,
        )
        known = self._settings.get(ref.id)
        if known is None or known[0] != revisions_seen:
            bodies = (read.shared_body, read.character_body, read.settings_body)
            known = (revisions_seen, layered(self._base, *map(json.loads, bodies))[0])
            self._settings[ref.id] = known
            if len(self._settings) > SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
        return known[1]

    async def save_fold(self, ref: ChatRef, moved: Fold, seen_rev: int) -> bool:
        return await self._change(ref, folds.save, moved, seen_rev, self._clock_ms())

    async def now_ms(self) -> int:
        """The clock that leases and retries go by."""
        return self._clock_ms() if self._db.exclusive else await self._db.read(self._now_ms)

    @property
    def exclusive(self) -> bool:
        return self._db.exclusive

    async def listen(self, heard: Callable[[int], None]) -> None:
        await self._db.listen(heard)

    async def refs(self, chat_ids: Sequence[int]) -> list[ChatRef]:
        return await self._db.read(chats.refs, chat_ids)

    async def recover(self) -> int:
        return await self._db.write(work.recover) if self._db.exclusive else 0

    async def due(self, limit: int) -> list[tuple[ChatRef, int]]:
        return await self._db.read(lambda conn: work.due(conn, self._now_ms(conn), limit))

    async def settled(self, seen: Sequence[tuple[int, int]]) -> None:
        await self._db.write(work.settle, seen)

    async def work_state(self, ref: ChatRef) -> WorkState:
        return await self._db.read(lambda conn: work.state(conn, ref, self._now_ms(conn)))

    async def attempts(self, ref: ChatRef) -> dict[str, Attempt]:
        return await self._db.read(work.attempts, ref)

    async def decide(self, ref: ChatRef, task_id: str, verdict: str, not_before_ms: int) -> bool:
        return await self._change(ref, work.decide, task_id, verdict, not_before_ms)

    async def forget_attempts(self, lease: Lease, task_ids: Sequence[str]) -> None:
        await self._db.write(work.forget_attempts, lease, task_ids)

    async def claim(self, ref: ChatRef, worker: str, lease_ms: int) -> Lease | None:
        def timed(conn: sa.Connection) -> Lease | None:
            return work.claim(conn, ref, worker, self._now_ms(conn), lease_ms)

        return await self._db.write(timed)

    async def renew(self, lease: Lease, lease_ms: int) -> None:
        await self._db.write(lambda conn: work.renew(conn, lease, self._now_ms(conn) + lease_ms))

    async def finish(
        self,
        lease: Lease,
        seen_rev: int,
        due_at_ms: int | None,
        fulfilled: Sequence[int] = (),
    ) -> None:
        now_ms = self._clock_ms()
        await self._db.write(work.finish, lease, seen_rev, due_at_ms, fulfilled, now_ms)

    async def wish(
        self, ref: ChatRef, lane: str, kind: str, from_pos: int, *, beyond_budget: bool = False
    ) -> int:
        now_ms = self._clock_ms()
        return await self._change(
            ref, intents.open_intent, lane, kind, from_pos, now_ms, beyond_budget=beyond_budget
        )

    async def withdraw(self, ref: ChatRef, lane: str, kind: str) -> bool:
        return await self._change(ref, intents.withdraw, lane, kind, self._clock_ms())

    async def uncovered_page(
        self, ref: ChatRef, lane: str, after_pos: int, limit: int
    ) -> tuple[Message, ...]:
        return await self._db.read(progress.page, ref, lane, after_pos, limit)

    async def progress(self, ref: ChatRef, lane: str) -> Progress:
        return await self._db.read(progress.so_far, ref, lane)

    async def pace(self, ref: ChatRef, lane: str) -> Pace:
        return await self._db.read(progress.pace, ref, lane)

    async def edit_summary(self, ref: ChatRef, summary_id: int, text: str) -> Summary:
        return await self._change(ref, revisions.edit, summary_id, text, self._clock_ms())

    async def restore_summary(self, ref: ChatRef, revision_id: int) -> Summary:
        return await self._change(ref, revisions.restore, revision_id, self._clock_ms())

    async def delete_summary(self, ref: ChatRef, summary_id: int, not_before_ms: int) -> None:
        await self._change(ref, revisions.delete, summary_id, not_before_ms, self._clock_ms())

    async def reject_proposal(self, ref: ChatRef, proposal_id: int) -> None:
        await self._change(ref, revisions.reject, proposal_id)

    async def revisions(self, ref: ChatRef, summary_id: int) -> tuple[Summary, ...]:
        return await self._db.read(revisions.history, ref, summary_id)

    async def release(self, lease: Lease) -> None:
        await self._db.write(work.release, lease)

    async def commit(self, lease: Lease, draft: Draft) -> Summary:
        now_ms = self._clock_ms()
        return await self._db.write(work.commit, lease, draft, now_ms)

    async def record_attempt(self, lease: Lease, made: Attempt) -> None:
        await self._db.write(work.record_attempt, lease, made, self._clock_ms())

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None:
        return await self._db.read(work.paid, ref, request_hash)

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None:
        await self._db.write(work.forget_paid, ref, request_hash)

    async def index_some(self, limit: int, *, ripe: bool = True) -> int:
        """Bring one chat's index up by a batch; how many messages that were, 0 if none is due.

        Texts are cut into terms while only reading: the writer is held for as short as can be.
        """
        chat_id = await self._db.read(index.due, self._clock_ms(), ripe=ripe)
        batch = None if chat_id is None else await self._db.read(index.look, chat_id, limit)
        if batch is None:
            return 0
        await self._db.write(index.feed, batch)
        return max(1, batch.size)

    async def forget_terms(self, ref: ChatRef) -> None:
        """Take a chat out of the index, before it is purged."""
        while await self._db.write(index.forget, ref.id, INDEX_BATCH):
            pass

    async def term_stats(self, ref: ChatRef, terms: Sequence[str]) -> TermStats:
        return await self._db.read(lookup.stats, ref, terms)

    async def term_candidates(
        self, ref: ChatRef, terms: Sequence[str], stats: TermStats, limit: int, before_pos: int
    ) -> tuple[Candidate, ...]:
        return await self._db.read(lookup.candidates, ref, terms, stats, limit, before_pos)

    async def find_terms(
        self,
        ref: ChatRef,
        terms: Sequence[str],
        choose: Callable[[TermStats], tuple[str, ...]],
        limit: int,
        before_pos: int,
    ) -> Found:
        """Candidates for those of the terms that `choose` takes, in one look."""
        return await self._db.read(lookup.find, ref, terms, choose, limit, before_pos)

    async def term_chats(
        self, owner: str, terms: Sequence[str], people: frozenset[str] | None
    ) -> list[ChatRef]:
        return await self._db.read(lookup.chats, owner, terms, people)

    async def containing(self, ref: ChatRef, part: str, limit: int) -> tuple[Candidate, ...]:
        return await self._db.read(lookup.containing, ref, part, limit)

    async def shown(self, ref: ChatRef, ids: Sequence[int]) -> dict[int, tuple[Message, int]]:
        """Those of the messages that may be shown, each with its floor."""
        return await self._db.read(lookup.shown, ref, ids)

    async def presences(self, ref: ChatRef) -> dict[int, frozenset[str]]:
        return await self._db.read(lookup.presences, ref)

    async def put_profile(self, owner: str, values: Mapping[str, Any]) -> int:
        return await self._db.write(profiles.put, owner, values)

    async def profiles(self, owner: str) -> list[tuple[dict[str, Any], int]]:
        return await self._db.read(profiles.listing, owner)

    async def find_profile(self, owner: str, name: str) -> tuple[dict[str, Any], int] | None:
        return await self._db.read(profiles.find, owner, name)

    async def remove_profile(self, owner: str, name: str) -> None:
        await self._db.write(profiles.remove, owner, name)

    async def note_trouble(self, owner: str, name: str, trouble: str | None) -> None:
        await self._db.write(profiles.note_trouble, owner, name, trouble)

    async def troubles(self, owner: str) -> dict[str, str]:
        return await self._db.read(profiles.troubles, owner)

    async def reserve(
        self, purpose: Purpose, estimate_micros: int | None, limit_micros: int | None
    ) -> int | None:
        now_ms = self._clock_ms()
        return await self._db.write(ledger.reserve, purpose, estimate_micros, limit_micros, now_ms)

    async def settle_cost(self, entry: int, used: Usage, cost_micros: int | None) -> None:
        await self._db.write(ledger.settle, entry, used, cost_micros)

    async def cancel_cost(self, entry: int) -> None:
        await self._db.write(ledger.cancel, entry)

    async def spent(self, owner: str, month: str) -> int:
        return await self._db.read(ledger.spent, owner, month)

    async def usage(self, owner: str, by: str) -> list[Spent]:
        return await self._db.read(ledger.totals, owner, by)

    async def take_place(
        self, profile: str, holder: str, limits: tuple[int | None, int | None], lease_ms: int
    ) -> int:
        """A place for one model call: 0, or how long to wait before asking again."""

        def timed(conn: sa.Connection) -> int:
            return take(conn, profile, holder, limits, self._now_ms(conn), lease_ms)

        return await self._db.write(timed)

    async def give_place_back(self, profile: str, holder: str) -> None:
        await self._db.write(give_back, profile, holder)

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        await self._change(ref, work.keep_paid, request_hash, reply, sources, self._clock_ms())

    async def find_chat_by_id(self, owner: str, chat_id: int) -> ChatRef:
        return await self._db.read(catalog.find, owner, chat_id)

    async def chat_cards(
        self,
        owner: str,
        limit: int,
        before: tuple[int, int] | None = None,
        *,
        text: str = "",
        deleted: bool = False,
    ) -> list[ChatCard]:
        """Chats by their newest message, those that were put away apart."""
        return await self._db.read(
            catalog.listing, owner, limit, before, text=text, deleted=deleted
        )

    async def chat_card(self, ref: ChatRef) -> ChatCard:
        return await self._db.read(catalog.card, ref)

    async def chat_facts(self, ref: ChatRef) -> ChatFacts:
        return await self._db.read(catalog.facts, ref)

    async def create_chat(self, owner: str, name: str, preset: str, lane: str) -> ChatRef:
        now_ms = self._clock_ms()
        made = await self._db.write(catalog.create, owner, name, preset, lane, now_ms)
        return ChatRef(made, owner, name)

    async def set_title(self, ref: ChatRef, title: str) -> None:
        await self._change(ref, catalog.set_title, title)

    async def set_recording(self, ref: ChatRef, *, on: bool) -> None:
        await self._change(ref, catalog.set_recording, on=on)

    async def put_away(self, ref: ChatRef) -> None:
        await self._change(ref, catalog.put_away, self._clock_ms())

    async def bring_back(self, owner: str, chat_id: int) -> ChatRef:
        return await self._db.write(catalog.bring_back, owner, chat_id)

    async def purge(self, owner: str, chat_id: int) -> None:
        """Remove a chat that was put away, and all that is known of it, in small batches."""
        ref = await self._db.read(catalog.find, owner, chat_id, deleted=True)
        await self._change(ref, catalog.start_purge, self._clock_ms())
        await self.forget_terms(ref)
        while await self._db.write(catalog.purge_some, ref):
            pass
        await self._db.write(catalog.finish_purge, ref)
        await self._db.write(answers.forget)

    async def floor_page(self, ref: ChatRef, first: int | None, limit: int) -> FloorPage:
        return await self._db.read(floors.page, ref, first, limit)

    async def message(self, ref: ChatRef, message_id: int) -> Message:
        return await self._db.read(views.one, ref, message_id)

    async def variants(self, ref: ChatRef, message_id: int) -> tuple[Variant, ...]:
        return await self._db.read(views.variants, ref, message_id)

    async def messages_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Message, ...]:
        """Those of the messages that are stored, deleted or not."""
        return await self._db.read(views.messages, ref, wanted)

    async def summaries_by_id(self, ref: ChatRef, wanted: Sequence[int]) -> tuple[Summary, ...]:
        """Those of the summaries that are stored."""
        return await self._db.read(views.summaries, ref, wanted)

    async def floors(self, ref: ChatRef, positions: Sequence[int]) -> dict[int, int]:
        """For each position how many messages stand before it."""
        return await self._db.read(floors.at, ref, positions)

    async def alter(
        self,
        ref: ChatRef,
        what: str,
        message_id: int,
        values: Mapping[str, Any],
        version: int | None,
    ) -> Message:
        now_ms = self._clock_ms()
        return await self._change(ref, changes.alter, what, message_id, values, version, now_ms)

    async def summary(self, ref: ChatRef, summary_id: int) -> SummaryPage:
        return await self._db.read(views.summary, ref, summary_id)

    async def revision_page(self, ref: ChatRef, summary_id: int) -> SummaryPage:
        """Every text that a summary has had, oldest first."""

        def read(conn: sa.Connection) -> SummaryPage:
            return views.dressed(conn, ref, revisions.history(conn, ref, summary_id))

        return await self._db.read(read)

    async def summary_page(
        self, ref: ChatRef, which: str, parent: int | None, after: tuple[int, int], limit: int
    ) -> SummaryPage:
        return await self._db.read(views.summary_page, ref, which, parent, after, limit)

    async def rebuildable(self, ref: ChatRef, lane: str, from_pos: int) -> int:
        return await self._db.read(views.rebuildable, ref, lane, from_pos)

    async def busy_chats(self, owner: str, limit: int) -> list[ChatRef]:
        return await self._db.read(views.busy_chats, owner, limit)

    async def setting_layers(self, owner: str, whose: Whose) -> dict[str, Scope]:
        """What is set where, lowest first; the environment is one of the places."""
        stored = await self._db.read(scopes.layers, owner, whose)
        return {"environment": Scope(dict(self._base), 0), **stored}

    async def change_scope(
        self, owner: str, whose: Whose, changes: Mapping[str, Any], revision: int | None
    ) -> None:
        await self._db.write(scopes.change, owner, whose, changes, revision)

    async def naming(self, owner: str, profile: str) -> list[Whose]:
        return await self._db.read(scopes.naming, owner, profile)

    async def set_character(
        self, ref: ChatRef, character: str | None, *, only_first: bool = False
    ) -> bool:
        return await self._change(ref, scopes.set_character, character, only_first=only_first)

    async def characters(self, owner: str) -> dict[str, int]:
        """Every character that is named, and how many chats are theirs."""
        return await self._db.read(scopes.characters, owner)

    async def alter_profile(
        self, owner: str, values: Mapping[str, Any], version: int | None
    ) -> int:
        return await self._db.write(profiles.alter, owner, values, version)

    async def add_token(
        self, owner: str, name: str, digest: bytes, scopes: frozenset[str]
    ) -> Token:
        now_ms = self._clock_ms()
        return await self._db.write(tokens.add, owner, name, digest, scopes, now_ms)

    async def tokens(self, owner: str) -> list[Token]:
        return await self._db.read(tokens.listing, owner)

    async def find_token(self, digest: bytes) -> Token | None:
        return await self._db.read(tokens.find, digest)

    async def remove_token(self, owner: str, token_id: int) -> bool:
        return await self._db.write(tokens.remove, owner, token_id)

    async def totals(self, owner: str) -> dict[str, dict[str, int]]:
        return await self._db.read(views.totals, owner)


def _repair(conn: sa.Connection, ref: ChatRef, lane: str, now_ms: int) -> bool:
    wrong = audit.repair(conn, ref, lane, now_ms)
    if wrong:
        changes.take_rev(conn, ref)  # what turned out to be uncovered is due
    return wrong


def _lanes(conn: sa.Connection) -> list[tuple[ChatRef, str]]:
    written = sa.select(summary.c.chat_id, summary.c.lane)
    known = written.union(sa.select(lane_state.c.chat_id, lane_state.c.lane)).subquery()
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name, known.c.lane)
        .join(known, known.c.chat_id == chat.c.id)
        .where(chat.c.building.is_(False), chat.c.deleted_at.is_(None))
        .order_by(chat.c.id, known.c.lane)
    )
    return [(ChatRef(row.id, row.owner, row.name), row.lane) for row in conn.execute(query)]


def _secret(conn: sa.Connection) -> bytes | None:
    return conn.execute(sa.select(installation.c.secret)).scalar()


def _make_secret(conn: sa.Connection, now_ms: int) -> bytes:
    found = _secret(conn)
    if found is not None:
        return found
    made = secrets.token_bytes(32)
    conn.execute(sa.insert(installation).values(id=1, secret=made, created_at=now_ms))
    return made
