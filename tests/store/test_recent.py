"""What is held from one turn to the next is what a fresh look would find, whoever has written."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from previously.errors import PreviouslyError
from previously.model import (
    ChatRef,
    Fold,
    FoldKey,
    Item,
    Message,
    NewMessage,
    State,
    TurnRecord,
)
from previously.store import Database, recent
from previously.store.postgres import PostgresDatabase
from previously.store.recent import Recent, Recents
from previously.store.sql import SqlStore, prompts
from previously.store.sqlite import SqliteDatabase
from tests.store.conftest import Clock
from tests.store.test_contract import chat_with, draft, lease_on

KEY = FoldKey("", 8_000)
LIMITS = (1, 3, 5, 8, 13, 40)


class Hands:
    """Random changes of one chat, each through one of several stores that share its database."""

    def __init__(self, stores: list[SqlStore], ref: ChatRef, chance: random.Random) -> None:
        self.stores, self.ref, self.chance = stores, ref, chance
        self.said = 0

    async def step(self) -> str:
        deeds = [self.turn] * 8 + [
            self.again,
            self.mended,
            self.said_here,
            self.edited,
            self.undone,
        ]
        deeds += [
            self.marked,
            self.moved,
            self.swiped,
            self.inserted,
            self.rolled_back,
            self.folded,
        ]
        deeds += [self.covered, self.set, self.restored]
        deed = self.chance.choice(deeds)
        if not await self.stores[0].newest(self.ref, 1):
            deed = self.said_here
        try:
            await deed(self.chance.choice(self.stores))
        except PreviouslyError as error:
            return f"{deed.__name__}: {error}"
        return deed.__name__

    def words(self, role: str = "user", **more: object) -> NewMessage:
        self.said += 1
        return replace(NewMessage(role, f"{role} says {self.said}"), **more)

    async def some(self, store: SqlStore) -> Message:
        return self.chance.choice(await store.newest(self.ref, 20))

    async def after(self, store: SqlStore) -> tuple[TurnRecord, tuple[Message, ...]]:
        newest = await store.newest(self.ref, 9)
        ask, reply = self.words(state=State.CANDIDATE), self.words("assistant")
        last = (newest[-1].id, newest[-1].hash) if newest else (None, None)
        open_ = tuple((m.id, None) for m in newest if m.state == State.CANDIDATE)
        return TurnRecord(*last, open_, (ask,), reply, None), newest

    async def turn(self, store: SqlStore) -> None:
        record, newest = await self.after(store)
        if self.chance.random() < 0.1 and newest:
            record = replace(record, confirms=((newest[-1].id, self.words(newest[-1].role)),))
        await store.record_turn(self.ref, record)

    async def again(self, store: SqlStore) -> None:
        record, newest = await self.after(store)
        if newest and newest[-1].role == "assistant":
            which = {self.chance.choice(("rerolls", "grows")): newest[-1].id}
            await store.record_turn(self.ref, replace(record, confirms=(), appends=(), **which))

    async def mended(self, store: SqlStore) -> None:
        record, newest = await self.after(store)
        one = self.chance.choice(newest)
        how = self.chance.choice(("edits", "hides", "shows", "drops", "inserts"))
        new = ((one.id, self.words(one.role)),) if how == "edits" else (one.id,)
        changes = {how: ((one.id, (self.words(),)),) if how == "inserts" else new}
        record = replace(record, **changes)
        await store.record_turn(self.ref, self.chance.choice((record, record.mending())))

    async def said_here(self, store: SqlStore) -> None:
        await store.append(self.ref, [self.words() for _ in range(self.chance.randint(1, 3))])

    async def edited(self, store: SqlStore) -> None:
        await store.edit(self.ref, (await self.some(store)).id, self.words().body, None)

    async def undone(self, store: SqlStore) -> None:
        await store.undo(self.ref)

    async def marked(self, store: SqlStore) -> None:
        marks = ({"pinned": True}, {"hidden_by": "user"}, {"excluded": True}, {"deleted_at_ms": 5})
        await store.change(
            self.ref, "mark", {(await self.some(store)).id: self.chance.choice(marks)}
        )

    async def moved(self, store: SqlStore) -> None:
        await store.move(self.ref, (await self.some(store)).id, (await self.some(store)).id)

    async def swiped(self, store: SqlStore) -> None:
        await store.swipe(self.ref, (await self.some(store)).id, self.words().body)

    async def inserted(self, store: SqlStore) -> None:
        await store.insert(self.ref, [self.words()], (await self.some(store)).id)

    async def rolled_back(self, store: SqlStore) -> None:
        await store.rollback(self.ref, (await self.some(store)).id)

    async def restored(self, store: SqlStore) -> None:
        kept = await store.save(self.ref)
        await self.turn(store)
        await store.restore(self.ref, kept)

    async def folded(self, store: SqlStore) -> None:
        seen = await store.load(self.ref, KEY, wide=False)
        first = await self.some(store)
        shown = tuple(m for m in await store.newest(self.ref, 20) if m.pos < first.pos and m.shown)
        items = tuple(map(Item.of, shown))
        moved = Fold(KEY, seen.fold.version + 1, tail_pos=first.pos, items=items, reason="test")
        known = shown if self.chance.random() < 0.7 else None
        await store.save_fold(self.ref, moved, seen.rev, known)

    async def covered(self, store: SqlStore) -> None:
        chat = await store.find_chat(self.ref.owner, self.ref.name)
        page = [m for m in await store.page(self.ref, -(1 << 62), 2) if m.eligible]
        lease = await lease_on(store, chat)
        try:
            await store.commit(lease, draft(chat, page))
        finally:
            await store.release(lease)

    async def set(self, store: SqlStore) -> None:
        deeds: list[Callable[[], Awaitable[object]]] = [
            lambda: store.change_settings(self.ref, {"visible_floors": self.chance.randint(4, 40)}),
            lambda: store.set_recalculating(self.ref, on=self.chance.random() < 0.5),
            lambda: store.set_recording(self.ref, on=self.chance.random() < 0.8),
        ]
        await self.chance.choice(deeds)()


async def compared(stores: list[SqlStore], ref: ChatRef, fresh: SqlStore, limit: int) -> bool:
    """Whether every store tells what one tells that has never looked before."""

    async def told(store: SqlStore) -> list[object]:
        looks = [await store.load(ref, KEY, wide=True, onward=on) for on in (True, False)]
        return [await store.glance(ref, KEY, limit), *looks]

    right = await told(fresh)
    return all([await told(store) == right for store in stores])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
async def test_what_is_held_is_what_a_fresh_look_finds(
    database: Database, clock: Clock, request: pytest.FixtureRequest, seed: int
):
    """Two stores never tell each other anything; on PostgreSQL they are on connections of their
    own, as two servers are."""
    chance = random.Random(seed)
    shared = isinstance(database, PostgresDatabase)
    other = await _another(database, request) if shared else database
    stores = [SqlStore(database, clock, {}), SqlStore(other, clock, {})]
    chat, _ = await chat_with(stores[0], chance.choice((3, 5, 30)))
    hands = Hands(stores, chat.ref, chance)
    done: list[str] = []
    for _ in range(60):
        done.append(await hands.step())
        for limit in chance.sample(LIMITS, 2):
            fresh = SqlStore(database, clock, {})
            assert await compared(stores, chat.ref, fresh, limit), (done, limit)
    if shared:
        await other.close()
    assert sum(word == "turn" for word in done) > 5


async def _another(database: Database, request: pytest.FixtureRequest) -> Database:
    assert isinstance(database, PostgresDatabase)
    return await type(database).open(request.getfixturevalue("postgres_url"))


async def test_turns_of_one_store_are_not_read_again(tmp_path: Path, clock: Clock):
    database = SqliteDatabase(tmp_path / "held.db")
    store = SqlStore(database, clock, {})
    chat, _ = await chat_with(store, 9)
    hands = Hands([store], chat.ref, random.Random(1))
    await store.glance(chat.ref, KEY, 6)
    first = store._recent.get(chat.ref)
    assert first is not None
    await hands.turn(store)
    held = store._recent.get(chat.ref)
    assert held is not None
    assert held.rev == first.rev + 1
    _, newest = await store.glance(chat.ref, KEY, 6)
    assert newest[-1] is held.messages[-1]  # the very object: no row became a message
    assert any(newest[0] is m for m in first.messages)
    await database.close()


async def test_a_summary_makes_no_message_be_read_again(tmp_path: Path, clock: Clock):
    """Between two turns of a person the background has mostly written one."""
    database = SqliteDatabase(tmp_path / "held.db")
    store = SqlStore(database, clock, {})
    chat, _ = await chat_with(store, 9)
    hands = Hands([store], chat.ref, random.Random(1))
    seen, before = await store.glance(chat.ref, KEY, 6)
    await hands.covered(store)
    found, newest = await store.glance(chat.ref, KEY, 6)
    assert found.rev == seen.rev + 1
    assert all(a is b for a, b in zip(before, newest, strict=True))
    await database.close()


async def test_what_a_saved_fold_shows_is_not_read_again(tmp_path: Path, clock: Clock):
    database = SqliteDatabase(tmp_path / "held.db")
    store, other = SqlStore(database, clock, {}), SqlStore(database, clock, {})
    chat, said = await chat_with(store, 9)
    seen, _ = await store.glance(chat.ref, KEY, 6)
    first, late = tuple(said[:2]), tuple(said[:3])
    for mine, shown in ((other, first), (store, late)):
        moved = Fold(KEY, 1, tail_pos=said[4].pos, items=tuple(map(Item.of, shown)))
        assert await mine.save_fold(chat.ref, moved, seen.rev, shown)
        found, _ = await mine.glance(chat.ref, KEY, 6)
        assert found.shown == first
        assert (found.shown is first) == (mine is other)
    await database.close()


def message(n: int, body: str = "words") -> Message:
    return Message(n, n, "user", body, b"", 1)


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recent, "CHATS_KEPT", 3)
    held = Recents()
    refs = [ChatRef(n, "o", str(n)) for n in range(5)]
    for ref in refs:
        held.seen(ref, Recent.of(1, (message(1),), whole=True), 1)
    assert [held.get(ref) is not None for ref in refs] == [False, False, True, True, True]
    held.seen(refs[4], Recent.of(2, (message(1, "x" * (recent.CHARS_KEPT + 1)),), whole=True), 1)
    assert held.get(refs[4]) is None


async def test_settings_are_held_of_so_many_chats(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(prompts, "SETTINGS_KEPT", 3)
    database = SqliteDatabase(tmp_path / "many.db")
    store = SqlStore(database, clock, {})
    for n in range(5):
        chat, _ = await chat_with(store, 2, f"chat {n}")
        await store.glance(chat.ref, KEY, 2)
    assert len(store._settings) == 3
    await database.close()


def test_a_look_that_comes_late_takes_nothing_back():
    held, ref = Recents(), ChatRef(1, "o", "n")
    held.seen(ref, Recent.of(5, (message(1), message(2)), whole=True), 2)
    held.seen(ref, Recent.of(4, (message(1),), whole=True), 1)
    held.seen(ref, Recent.of(5, (message(2),), whole=False), 1)
    assert held.get(ref) == Recent.of(5, (message(1), message(2)), whole=True)
    held.recorded(ref, 7, (), (message(3),))  # another process has written revision 6
    assert held.get(ref) == Recent.of(5, (message(1), message(2)), whole=True)
    held.recorded(ref, 6, (1,), (message(3),))
    found = held.get(ref)
    assert found is not None
    assert [(m.id, m.state) for m in found.messages][::2] == [(1, "confirmed"), (3, "confirmed")]


def test_more_turns_do_not_let_it_grow():
    held, ref = Recents(), ChatRef(1, "o", "n")
    held.seen(ref, Recent.of(0, tuple(map(message, range(10))), whole=False), 10)
    for rev in range(1, 200):
        held.recorded(ref, rev, (), (message(rev + 10), message(rev + 11)))
        known = held.get(ref)
        assert known is not None
        assert known.serves(rev, 10)
        held.seen(ref, known, 10)
        assert len(known.messages) <= 10 + recent.MORE_KEPT + 2
