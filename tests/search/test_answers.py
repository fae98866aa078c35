"""The same two hundred questions to both databases: the same answers, and the right ones."""

from __future__ import annotations

from typing import Any

import pytest

from previously.model import START, ChatRef
from previously.search import NO_END, hits, query_terms, rank, telling_terms
from previously.store import lookup
from previously.store.sql import SqlStore
from tests.search import corpus, oracle
from tests.search.conftest import catch_up

COUNT = 400
QUERIES = corpus.queries(7)


async def filled(store: SqlStore) -> ChatRef:
    """The same chat in any store, with some of it hidden, taken out and changed."""
    other = (await store.ensure_chat("local", "before it", "volumes", "volumes")).ref
    await store.append(other, corpus.messages(30, 2))
    ref = (await store.ensure_chat("local", "answers", "volumes", "volumes")).ref
    made = await store.append(ref, corpus.messages(COUNT, 1))
    await catch_up(store, 100)
    await store.change(ref, "hide", {m.id: {"hidden_by": "user"} for m in made[10:20]})
    await store.change(ref, "delete", {m.id: {"deleted_at_ms": 5} for m in made[30:40]})
    await store.edit(ref, made[50].id, "白鸦在灯塔 promised 77 candles", None)
    await store.insert(ref, corpus.messages(3, 3), made[60].id)
    await catch_up(store, 7)
    return ref


async def answers(store: SqlStore, ref: ChatRef, limit: int) -> list[list[tuple[Any, ...]]]:
    found: list[list[tuple[Any, ...]]] = []
    for query in QUERIES:
        mine = await hits(store, "local", query, limit, ref=ref)
        found.append([(h.message.id, h.floor, h.score, h.terms, h.reason, h.snippet) for h in mine])
    return found


def test_there_are_two_hundred_different_questions():
    assert len(set(QUERIES)) == 200


@pytest.mark.proves("G-113")
async def test_both_databases_answer_alike(sqlite_store: SqlStore, postgres_store: SqlStore):
    ours = await answers(sqlite_store, await filled(sqlite_store), 20)
    theirs = await answers(postgres_store, await filled(postgres_store), 20)
    assert ours == theirs
    assert sum(1 for found in ours if found) > 150


@pytest.mark.slow
async def test_the_answers_are_those_of_the_formula_over_all_messages(store: SqlStore):
    ref = await filled(store)
    everything = [m for m in await store.page(ref, START, COUNT * 2) if m.shown]
    checked = 0
    for query in QUERIES:
        wanted = oracle.best(everything, query)
        stats = await store.term_stats(ref, telling_terms(query))
        chosen = query_terms(query, stats.counts)
        found = rank(
            await store.term_candidates(ref, chosen, stats, COUNT * 9, NO_END), chosen, stats, query
        )
        assert [r.message.id for r in found] == [i for i, _ in wanted], query
        assert [r.score for r in found] == pytest.approx([s for _, s in wanted], abs=1e-9)
        checked += bool(wanted)
    assert checked > 150


async def test_the_floor_is_the_place_among_those_not_taken_out(store: SqlStore):
    ref = await filled(store)
    plain = (await store.ensure_chat("local", "in order", "volumes", "volumes")).ref
    made = await store.append(plain, corpus.messages(60, 5))
    await store.change(plain, "delete", {m.id: {"deleted_at_ms": 5} for m in made[5:9]})
    for chat in (ref, plain):
        order = [m.id for m in await store.page(chat, START, COUNT * 2)]
        found = await store.shown(chat, order)
        assert {i: floor for i, (_, floor) in found.items()} == {
            i: order.index(i) for i in order if i in found
        }
        assert len(found) > 50


async def test_a_word_of_two_characters_outranks_its_characters_apart(store: SqlStore):
    ref = (await store.ensure_chat("local", "pairs", "volumes", "volumes")).ref
    said = ["白天有一只乌鸦在白墙上，鸦声不断", "白鸦", "鸦和白猫", "没有别的", "白色", "乌鸦"]
    made = await store.append(ref, [corpus.NewMessage("user", text) for text in said])
    await catch_up(store)
    found = await hits(store, "local", "白鸦", 20, ref=ref)
    assert found[0].message.id == made[1].id
    assert {h.message.id for h in found[1:3]} == {made[0].id, made[2].id}
    assert [h.message.id for h in await hits(store, "local", "墙", 20, ref=ref)] == [made[0].id]


async def test_a_part_of_a_word_is_found_where_no_word_is(store: SqlStore):
    ref = (await store.ensure_chat("local", "parts", "volumes", "volumes")).ref
    said = ["Entirely Negative.", "nothing else", "白鸦"]
    made = await store.append(ref, [corpus.NewMessage("user", text) for text in said])
    (found,) = await hits(store, "local", "egativ", 20, ref=ref)
    assert (found.message.id, found.reason, found.score) == (made[0].id, "part of a word", 0.0)
    ((start, end),) = found.snippet.marks
    assert found.snippet.text[start:end] == "egativ"
    assert await hits(store, "local", "%", 20, ref=ref) == []


async def test_what_no_index_knows_yet_is_found_also_behind_many_newer_ones(store: SqlStore):
    ref = (await store.ensure_chat("local", "in a rush", "volumes", "volumes")).ref
    said = ["She Promised him 100% of the Verrin amulet.", "他把霜纹护符藏在灯塔里。"]
    said += [f"On day {n} they walked on." for n in range(2 * lookup.FRESH_MAX)]
    made = await store.append(ref, [corpus.NewMessage("user", text) for text in said])
    for query, wanted in (
        ("amulets", 0),
        ("promises", 0),
        ("护符", 1),
        ("%", None),
        ("am_let", None),
    ):
        found = await hits(store, "local", query, 20, ref=ref)
        assert [h.message.id for h in found] == ([] if wanted is None else [made[wanted].id]), query
