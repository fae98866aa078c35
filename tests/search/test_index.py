"""The index after any life of a chat is what its messages alone would make it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from previously.model import START, ChatRef, Message, NewMessage, State, TurnRecord
from previously.search import NO_END, hits
from previously.service import Service
from previously.store import index, lookup
from previously.store.postgres import PostgresDatabase
from previously.store.schema import chat as chat_table
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from previously.text.terms import speaker_term, terms
from tests.postgres import Server
from tests.search import corpus
from tests.search.conftest import NOW_MS, catch_up, clock_ms

TEXTS = ["白鸦来了", "the candle", "candles 12", "灯塔 tower 🎉", "", "白", "Mara promised"]

numbers = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5)),
        st.tuples(st.just("edit"), numbers, st.sampled_from(TEXTS)),
        st.tuples(st.just("swipe"), numbers, st.sampled_from(TEXTS)),
        st.tuples(st.just("delete"), st.lists(numbers, min_size=1, max_size=4)),
        st.tuples(st.just("hide"), st.lists(numbers, min_size=1, max_size=4), st.booleans()),
        st.tuples(st.just("insert"), numbers, st.sampled_from(TEXTS)),
        st.tuples(st.just("undo")),
        st.tuples(st.just("turn"), st.sampled_from(TEXTS), st.sampled_from([*TEXTS, None])),
        st.tuples(st.just("reroll"), st.sampled_from(TEXTS)),
        st.tuples(st.just("branch")),
        st.tuples(st.just("feed"), st.sampled_from([1, 3, 100])),
    ),
    max_size=25,
)


class Life:
    """One chat, its branches, and what happens to them."""

    def __init__(self, store: SqlStore, ref: ChatRef) -> None:
        self.store = store
        self.service = Service(store, None, clock_ms)
        self.refs = [ref]

    async def messages(self) -> tuple[Message, ...]:
        return await self.store.page(self.refs[0], START, 1_000)

    async def take(self, step: Sequence[Any]) -> None:
        name, *args = step
        await getattr(self, f"do_{name}")(*args)

    async def _at(self, number: int) -> Message | None:
        found = await self.messages()
        return found[number % len(found)] if found else None

    async def do_append(self, texts: list[str]) -> None:
        await self.store.append(self.refs[0], [NewMessage("user", t, "Mara") for t in texts])

    async def do_edit(self, number: int, text: str) -> None:
        if (m := await self._at(number)) is not None:
            await self.store.edit(self.refs[0], m.id, text, None)

    async def do_swipe(self, number: int, text: str) -> None:
        if (m := await self._at(number)) is not None:
            await self.store.swipe(self.refs[0], m.id, text)

    async def _mark(self, numbers: list[int], what: str, **values: Any) -> None:
        found = [m for n in numbers if (m := await self._at(n)) is not None]
        await self.store.change(self.refs[0], what, {m.id: values for m in found})

    async def do_delete(self, numbers: list[int]) -> None:
        await self._mark(numbers, "delete", deleted_at_ms=NOW_MS)

    async def do_hide(self, numbers: list[int], on: bool) -> None:
        await self._mark(numbers, "hide", hidden_by="user" if on else None)

    async def do_insert(self, number: int, text: str) -> None:
        if (m := await self._at(number)) is not None:
            await self.store.insert(self.refs[0], [NewMessage("user", text)], m.id)

    async def do_undo(self) -> None:
        await self.store.undo(self.refs[0])

    async def _turn(self, **values: Any) -> None:
        last = await self.store.newest(self.refs[0], 1)
        turn = TurnRecord(
            after_id=last[0].id if last else None,
            after_hash=last[0].hash if last else None,
            confirms=values.get("confirms", ()),
            appends=values.get("appends", ()),
            reply=values.get("reply"),
            rerolls=values.get("rerolls"),
        )
        await self.store.record_turn(self.refs[0], turn)

    async def do_turn(self, text: str, kept: str | None) -> None:
        """A proxied turn: the reply before it is kept, maybe with another text."""
        last = await self.store.newest(self.refs[0], 1)
        said = None if kept is None else NewMessage("assistant", kept)
        open_ = [m for m in last if m.state == State.CANDIDATE]
        confirms = tuple((m.id, said) for m in open_)
        reply = NewMessage("assistant", text)
        await self._turn(confirms=confirms, appends=(NewMessage("user", text),), reply=reply)

    async def do_reroll(self, text: str) -> None:
        last = await self.store.newest(self.refs[0], 1)
        if last and last[0].state == State.CANDIDATE:
            await self._turn(reply=NewMessage("assistant", text), rerolls=last[0].id)

    async def do_branch(self) -> None:
        if len(self.refs) < 3:
            name = f"{self.refs[0].name} {len(self.refs)}"
            self.refs.append((await self.service.branch(self.refs[0], name)).ref)

    async def do_feed(self, limit: int) -> None:
        await self.store.index_some(limit, ripe=False)


async def check(life: Life) -> None:
    store = life.store
    await catch_up(store, 3)
    for ref in life.refs:
        derived = await store._db.read(index.stored, ref.id)
        assert derived == await store._db.read(index.recompute, ref.id)
        shown = [m for m in await store.page(ref, START, 1_000) if m.shown]
        for term in {*(t for text in TEXTS for t in terms(text)), speaker_term("Mara")}:
            found = await store._db.read(_posted, ref, term)
            speaker = [m.id for m in shown if m.name and speaker_term(m.name) == term]
            assert found == ({m.id for m in shown if term in terms(m.body)} | set(speaker)), term


def _posted(conn: sa.Connection, ref: ChatRef, term: str) -> set[int]:
    scope = lookup._Scope(ref.id, 10_000, NO_END)
    return set(lookup._holding(conn, scope, [term], every=False))


async def live(store: SqlStore, name: str, taken: Sequence[Sequence[Any]]) -> None:
    life = Life(store, (await store.ensure_chat("local", name, "volumes", "volumes")).ref)
    for step in taken:
        await life.take(step)
    await check(life)


@pytest.mark.slow
@settings(max_examples=60)
@given(taken=steps)
def test_any_life_leaves_the_index_that_its_messages_make(taken: list[tuple[Any, ...]]):
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = SqlStore(SqliteDatabase(Path(folder) / "a.db"), clock_ms, {})
            try:
                await live(store, "life", taken)
            finally:
                await store.close()

    asyncio.run(run())


def test_so_it_does_in_postgresql(postgres: Server):
    url = postgres.database()
    lives = iter(range(1_000))

    @settings(max_examples=15)
    @given(taken=steps)
    def any_life(taken: list[tuple[Any, ...]]) -> None:
        async def run() -> None:
            store = SqlStore(await PostgresDatabase.open(url), clock_ms, {})
            try:
                await live(store, f"life {next(lives)}", taken)
            finally:
                await store.close()

        asyncio.run(run())

    any_life()


@pytest.fixture
async def ref(store: SqlStore) -> ChatRef:
    return (await store.ensure_chat("local", "chat", "volumes", "volumes")).ref


async def find(store: SqlStore, ref: ChatRef, query: str) -> list[int]:
    return [h.message.id for h in await hits(store, ref.owner, query, 50, ref=ref)]


@pytest.mark.proves("D-03b")
async def test_recording_does_not_touch_the_index(store: SqlStore, ref: ChatRef):
    (first,) = await store.append(ref, [NewMessage("user", "白鸦 and the lantern")])
    assert await store._db.read(index.stored, ref.id) == index.Derived(0, 0)
    assert await find(store, ref, "白鸦") == [first.id]  # looked through instead
    await catch_up(store)
    (second,) = await store.append(ref, [NewMessage("user", "another lantern")])
    assert set(await find(store, ref, "lanterns")) == {first.id, second.id}


async def test_what_may_not_be_shown_is_not_found_however_late_the_index_is(
    store: SqlStore, ref: ChatRef
):
    made = await store.append(ref, [NewMessage("user", f"白鸦 {n}") for n in range(4)])
    await catch_up(store)
    await store.change(ref, "hide", {made[0].id: {"hidden_by": "user"}})
    await store.change(ref, "delete", {made[1].id: {"deleted_at_ms": NOW_MS}})
    await store.edit(ref, made[2].id, "灯塔", None)
    assert await find(store, ref, "白鸦") == [made[3].id]
    assert await find(store, ref, "灯塔") == [made[2].id]
    await store.undo(ref)
    assert set(await find(store, ref, "白鸦")) == {made[2].id, made[3].id}


async def test_few_messages_wait_for_company_but_not_for_ever(store: SqlStore, ref: ChatRef):
    await store.append(ref, [NewMessage("user", "one")])
    assert await store.index_some(10) == 0
    await store.append(ref, [NewMessage("user", "more")] * index.RIPE_MESSAGES)
    assert await store.index_some(1_000) == index.RIPE_MESSAGES + 1
    await store.append(ref, [NewMessage("user", "last")])
    assert await store.index_some(10) == 0
    store._clock_ms = lambda: NOW_MS + index.QUIET_MS
    assert await store.index_some(10) == 1
    assert await store.index_some(10) == 0


async def test_a_long_text_gets_a_transaction_of_its_own(store: SqlStore, ref: ChatRef):
    long = "a long 故事 " * 20_000
    await store.append(ref, [NewMessage("user", "short"), NewMessage("user", long)])
    assert await store.index_some(256, ripe=False) == 1
    assert await store.index_some(256, ripe=False) == 1
    assert await store.index_some(256, ripe=False) == 0
    assert len(await find(store, ref, "故事")) == 1


async def test_a_batch_that_was_overtaken_changes_nothing(store: SqlStore, ref: ChatRef):
    await store.append(ref, corpus.messages(5, 1))
    batch = await store._db.read(index.look, ref.id, 10)
    assert batch is not None
    await catch_up(store)
    before = await store._db.read(index.stored, ref.id)
    assert not await store._db.write(index.feed, batch)
    assert await store._db.read(index.stored, ref.id) == before


async def test_an_old_text_that_cannot_be_found_again_leaves_true_counts(
    store: SqlStore, ref: ChatRef
):
    made = await store.append(ref, corpus.messages(5, 1))
    await catch_up(store)
    await store.edit(ref, made[2].id, "白鸦", None)

    def forget(conn: sa.Connection) -> None:
        conn.execute(sa.text("UPDATE message_revision SET before = '{}'"))

    await store._db.write(forget)
    await catch_up(store)
    derived = await store._db.read(index.stored, ref.id)
    assert derived == await store._db.read(index.recompute, ref.id)
    assert not await store._db.write(index.repair, ref.id)


async def test_a_purged_chat_leaves_nothing_in_the_index(store: SqlStore, ref: ChatRef):
    other = (await store.ensure_chat("local", "other", "volumes", "volumes")).ref
    for chat in (ref, other):
        await store.append(chat, [NewMessage("user", "白鸦 lantern", "Mara")] * 300)
    await catch_up(store)
    await store.forget_terms(ref)
    assert await store._db.read(_posted, ref, "白鸦") == set()

    def purge(conn: sa.Connection) -> list[int]:
        conn.execute(sa.delete(chat_table).where(chat_table.c.id == ref.id))
        tables = ("index_state", "term_count")
        counts = [f"(SELECT count(*) FROM {t} WHERE chat_id = {ref.id})" for t in tables]
        return list(conn.exec_driver_sql(f"SELECT {', '.join(counts)}").one())

    assert await store._db.write(purge) == [0, 0]
    assert len(await store._db.read(_posted, other, "白鸦")) == 300


@pytest.mark.parametrize(
    "then", [("reroll", "灯塔"), ("turn", "白", "another text"), ("turn", "白", None)], ids=str
)
async def test_a_candidate_that_changes_without_a_revision_is_read_again(
    store: SqlStore, ref: ChatRef, then: tuple[Any, ...]
):
    life = Life(store, ref)
    await life.take(("turn", "the candle", None))
    await catch_up(store)
    await life.take(then)
    await check(life)
