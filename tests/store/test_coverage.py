"""Which summaries are valid after a change, level by level, and that nothing else is touched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa

from previously.model import (
    Chat,
    Draft,
    Fold,
    FoldKey,
    Lease,
    Message,
    NewMessage,
    Reply,
    Summary,
    Task,
    Uncovered,
    Usage,
)
from previously.store import Database, audit, coverage
from previously.store.sql import SqlStore
from tests.flows.image import image
from tests.store.test_contract import agrees, chat_with, draft, lease_on


@dataclass
class Tower:
    """Twelve messages; five minis on ten of them, two volumes on four minis, an era on those."""

    store: SqlStore
    database: Database
    chat: Chat
    said: list[Message]
    lease: Lease
    minis: list[Summary]
    volumes: list[Summary]
    era: Summary

    async def stands(self) -> dict[int, int | None]:
        """Every summary that is valid, with the one above it."""
        found = await self.store.summaries(self.chat.ref, 0, 100)
        await agrees(self.database, self.chat)
        return {s.id: s.covered_by for s in found if s.valid}

    async def holes(self) -> set[int]:
        found = await self.database.read(audit.stored, self.chat.ref, "volumes")
        return {self.said.index(m) for m in self.said if m.id in found.holes}


def merging(chat: Chat, children: list[Summary]) -> Draft:
    task = Task(
        chat=chat.ref,
        lane="volumes",
        kind="volume",
        sources=(),
        context=(),
        tokens_max=50,
        language="en",
        uncovered=Uncovered(()),
        children=tuple(children),
    )
    return Draft(task, f"{len(children)} in one", 2, {"model": "m", "profile": "p"}, Usage())


@pytest.fixture
async def tower(store: SqlStore, database: Database) -> Tower:
    chat, said = await chat_with(store, 12)
    lease = await lease_on(store, chat)
    minis = [
        await store.commit(lease, draft(chat, said[i : i + 2], f"mini {i}"))
        for i in range(0, 10, 2)
    ]
    volumes = [await store.commit(lease, merging(chat, minis[i : i + 2])) for i in (0, 2)]
    era = await store.commit(lease, merging(chat, volumes))
    return Tower(store, database, chat, said, lease, minis, volumes, era)


def whole(tower: Tower) -> dict[int, int | None]:
    (a, b, c, d, e), (left, right), era = tower.minis, tower.volumes, tower.era
    under = {a.id: left.id, b.id: left.id, c.id: right.id, d.id: right.id, e.id: None}
    return {**under, left.id: era.id, right.id: era.id, era.id: None}


def without_the_first(tower: Tower) -> dict[int, int | None]:
    """The first mini is not valid: what it carried is not, what stood beside it is seen again."""
    _, b, c, d, e = tower.minis
    right = tower.volumes[1]
    return {b.id: None, c.id: right.id, d.id: right.id, e.id: None, right.id: None}


@pytest.mark.proves("I4", "G-24")
async def test_a_change_is_carried_up_to_the_top_and_taken_back_from_there(tower: Tower):
    assert await tower.stands() == whole(tower)
    await tower.store.edit(tower.chat.ref, tower.said[0].id, "changed", None)
    assert await tower.stands() == without_the_first(tower)
    assert await tower.holes() == {0, 1}
    await tower.store.undo(tower.chat.ref)
    assert await tower.stands() == whole(tower)
    assert await tower.holes() == set()


async def test_the_last_message_that_is_covered_becomes_a_hole_like_any_other(tower: Tower):
    await tower.store.edit(tower.chat.ref, tower.said[9].id, "changed", None)
    assert tower.minis[4].id not in await tower.stands()
    assert await tower.holes() == {8, 9}
    await tower.store.edit(tower.chat.ref, tower.said[10].id, "changed", None)
    assert await tower.holes() == {8, 9}


async def test_what_is_put_between_two_messages_of_a_note_parts_it(tower: Tower):
    new = [NewMessage("user", "put in later")]
    (made,) = await tower.store.insert(tower.chat.ref, new, tower.said[3].id)
    assert tower.minis[1].id not in await tower.stands()
    await tower.store.change(tower.chat.ref, "delete", {made.id: {"deleted_at_ms": 1}})
    assert await tower.stands() == whole(tower)


async def test_what_is_put_between_two_notes_parts_neither(tower: Tower):
    new = [NewMessage("user", "put in later")]
    (made,) = await tower.store.insert(tower.chat.ref, new, tower.said[4].id)
    assert await tower.stands() == whole(tower)
    found = await tower.database.read(audit.stored, tower.chat.ref, "volumes")
    assert found.holes == {made.id}


async def test_a_note_that_moves_takes_everything_above_it_along(tower: Tower):
    """A message goes to another place in the same gap: the order stays, the ends do not."""
    first = await tower.store.move(tower.chat.ref, tower.said[0].id, tower.said[1].id)
    assert first.pos > tower.said[0].pos
    assert await tower.stands() == whole(tower)
    found = await tower.store.summaries(tower.chat.ref, 0, 100)
    starts = {s.id: s.first_pos for s in found}
    for carried in (tower.minis[0], tower.volumes[0], tower.era):
        assert starts[carried.id] == first.pos
    assert starts[tower.minis[1].id] == tower.said[2].pos


async def test_a_note_written_anew_frees_what_stood_beside_it(tower: Tower):
    task = replace(
        draft(tower.chat, tower.said[:2]).task,
        replaces=tower.minis[0].id,
        uncovered=Uncovered((tuple(tower.said[:2]),)),
    )
    anew = Draft(task, "better", 2, {"model": "m", "profile": "p"}, Usage())
    made = await tower.store.commit(tower.lease, anew)
    assert await tower.stands() == {**without_the_first(tower), made.id: None}
    assert await tower.holes() == set()


@pytest.mark.proves("I4")
async def test_a_volume_stands_on_the_words_of_its_notes(tower: Tower):
    ref, mini = tower.chat.ref, tower.minis[0]
    mine = await tower.store.edit_summary(ref, mini.id, "my own words")
    assert await tower.stands() == {**without_the_first(tower), mine.id: None}
    await tower.store.restore_summary(ref, mini.id)
    assert await tower.stands() == whole(tower)


async def test_every_message_is_told_what_stands_for_it_from_its_note_upward(tower: Tower):
    asked = [tower.said[n].id for n in (0, 7, 9, 11)]
    found = await tower.store.covering(tower.chat.ref, "volumes", asked)
    assert found == {
        asked[0]: (tower.minis[0].id, tower.volumes[0].id, tower.era.id),
        asked[1]: (tower.minis[3].id, tower.volumes[1].id, tower.era.id),
        asked[2]: (tower.minis[4].id,),
    }
    assert await tower.store.covering(tower.chat.ref, "pairs", asked) == {}


async def test_only_folds_that_show_what_changed_turn_stale(tower: Tower):
    ref, said = tower.chat.ref, tower.said
    keys = {n: FoldKey("", 1_000 + n) for n in (4, 5, 6, 10)}
    for n, key in keys.items():
        rev = (await tower.store.work_state(ref)).rev
        await tower.store.save_fold(ref, Fold(key, 1, said[n].pos), rev)

    async def stale() -> set[int]:
        looked = {n: await tower.store.load(ref, key, wide=False) for n, key in keys.items()}
        return {n for n, found in looked.items() if found.fold.stale}

    await tower.store.edit(ref, said[11].id, "after every fold", None)
    assert await stale() == set()
    await tower.store.edit(ref, said[5].id, "under a note that begins one earlier", None)
    assert await stale() == {5, 6, 10}


@pytest.mark.parametrize(("edited", "kept"), [(0, False), (3, False), (4, True)])
async def test_an_answer_goes_with_what_it_was_written_from(tower: Tower, edited: int, kept: bool):
    """A paid answer about the first volume: it read two notes, and they read four messages."""
    ref = tower.chat.ref
    reply = Reply("paid", "m")
    await tower.store.keep_paid(ref, "asked", reply, [-tower.volumes[0].id])
    await tower.store.edit(ref, tower.said[edited].id, "changed", None)
    assert (await tower.store.paid(ref, "asked") == reply) is kept


@pytest.mark.proves("I4")
async def test_a_change_in_one_chat_touches_no_other(tower: Tower):
    other, said = await chat_with(tower.store, 4, "other")
    lease = await lease_on(tower.store, other)
    await tower.store.commit(lease, draft(other, said[:2]))
    before = await tower.database.read(image, tower.chat.ref)
    await tower.store.edit(other.ref, said[1].id, "changed", None)
    await tower.store.insert(other.ref, [NewMessage("user", "put in later")], said[3].id)
    await agrees(tower.database, other)
    assert await tower.database.read(image, tower.chat.ref) == before


async def test_a_repair_writes_down_what_hashes_say(tower: Tower):
    def spoil(conn: sa.Connection) -> None:
        coverage.set_state(conn, tower.minis[0].id, (7, 9), valid=False)
        coverage.put_under(conn, [(tower.minis[4].id, tower.era.id)])
        coverage.open_holes(conn, tower.chat.ref, "volumes", [tower.said[4].id], 1)
        coverage.put_under(conn, [])

    await tower.database.write(spoil)
    assert not await tower.store.is_sound(tower.chat.ref, "volumes")
    assert await tower.store.repair(tower.chat.ref, "volumes")
    assert await tower.stands() == whole(tower)
    assert not await tower.store.repair(tower.chat.ref, "volumes")


async def test_a_chat_is_reached_by_its_own_summaries_only(tower: Tower):
    other, others = await chat_with(tower.store, 12, "other")

    async def reached(chat: Chat, message: Message) -> bool:
        return await tower.database.read(coverage.reaches, chat.ref, message.pos)

    assert await reached(tower.chat, tower.said[9])
    assert not await reached(tower.chat, tower.said[10])
    assert not await reached(other, others[0])


async def test_a_volume_spans_from_its_first_message_to_its_last(tower: Tower):
    found = {s.id: s for s in await tower.store.summaries(tower.chat.ref, 0, 100)}
    spans = [(found[s.id].first_pos, found[s.id].last_pos) for s in (*tower.volumes, tower.era)]
    at = [m.pos for m in tower.said]
    assert spans == [(at[0], at[3]), (at[4], at[7]), (at[0], at[7])]
    moved = await tower.store.move(tower.chat.ref, tower.said[10].id, tower.said[0].id)
    assert moved.pos < at[0]
    await tower.store.move(tower.chat.ref, tower.said[7].id, None)
    found = {s.id: s for s in await tower.store.summaries(tower.chat.ref, 0, 100)}
    assert tower.minis[3].id in found
    assert not found[tower.minis[3].id].valid, "the last message stands apart from the first now"
    await tower.store.undo(tower.chat.ref)
    found = {s.id: s for s in await tower.store.summaries(tower.chat.ref, 0, 100)}
    assert (found[tower.era.id].first_pos, found[tower.era.id].last_pos) == (at[0], at[7])
    await agrees(tower.database, tower.chat)
