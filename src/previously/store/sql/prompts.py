"""What a prompt is made of, and what went upstream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from previously.model import (
    ChatRef,
    Doubted,
    Fold,
    FoldKey,
    Message,
    Passed,
    Sent,
    SentTurn,
    Shown,
    Snapshot,
)
from previously.settings import COVERS_LOADED_MAX, TAIL_LOADED_MAX, Settings, layered
from previously.store import folds, sending, snapshots
from previously.store.folds import KnownFold
from previously.store.snapshots import Read
from previously.store.sql.connected import Connected

SETTINGS_KEPT = 1_024  # chats whose settings are held in memory
FOLDS_KEPT = 256  # resolved folds held in memory; a fold changes every few turns at most


class Prompts(Connected):
    """States of a chat, folds, prompts that were sent."""

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
            self._recent.get(ref),
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

    async def save_fold(
        self,
        ref: ChatRef,
        moved: Fold,
        seen_rev: int,
        shown: tuple[Shown, ...] | None = None,
    ) -> bool:
        saved = await self._change(ref, folds.save, moved, seen_rev, self._clock_ms())
        if saved.written and shown is not None:
            self._remember((ref.id, moved.key), (moved, shown))
        return saved.stands

    async def keep_sent(
        self, sent: Sequence[Sent], doubts: Mapping[int, Doubted] | None = None
    ) -> None:
        """Replace what is known of these chats, then what was seen of clients since, chat by chat:
        one transaction."""
        await self._db.write(sending.keep, sent, doubts)

    async def passed_on(self, ref: ChatRef) -> Passed | None:
        return await self._db.read(sending.passed_on, ref)

    async def last_sent(self, ref: ChatRef) -> Sent | None:
        return await self._db.read(sending.last, ref)

    async def sent_turns(self, ref: ChatRef, before: int, limit: int) -> tuple[SentTurn, ...]:
        """The newest prompts that were sent before one of them, oldest first."""
        return await self._db.read(sending.turns, ref, before, limit)

    async def chats_by_tail(self, owner: str, keys: Sequence[str]) -> list[ChatRef]:
        return await self._db.read(sending.by_tail, owner, keys)
