"""A branch is a whole copy that shares nothing with its source, or it is not there at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa

from previously.errors import BadInput, ChatNotFound, MessageNotFound, StaleDraft
from previously.model import Chat, ChatRef, FoldKey, Message, NewMessage, State, birth, key
from previously.store import Branching, Database, audit, changes
from previously.store.branches import BATCH_ROWS
from previously.store.schema import chat as chat_table
from previously.store.schema import (
    lane_state,
    link,
    message,
    presence,
    setting,
    summary,
    variant,
    work,
)
from previously.store.sql import SqlStore
from previously.store.sql.chats import BUILDING_MS_MAX
from tests.store.conftest import Clock
from tests.store.test_contract import agrees, chat_with, draft, lease_on

TABLES = (message, summary, lane_state, presence, work)
PLAIN = FoldKey("plan")


async def copied(store: SqlStore, made: Branching) -> None:
    for part, level in made.parts:
        while await store.copy_part(made, part, level):
            pass


async def branch(store: SqlStore, ref: ChatRef, name: str, at: Message | None = None) -> Chat:
    made = await store.start_branch(ref, name, None if at is None else at.id)
    await copied(store, made)
    return await store.finish_branch(made)


async def rows_of(database: Database, table: sa.Table, ref: ChatRef) -> list[dict[str, Any]]:
    """A chat's rows, with birth numbers instead of keys."""

    def read(conn: sa.Connection) -> list[dict[str, Any]]:
        query = sa.select(table).where(table.c.chat_id == ref.id)
        return [dict(row) for row in conn.execute(query.order_by(*table.primary_key)).mappings()]

    keys = {"id", "covered_by", "root_id", "prev_id", "superseded_by"}
    found = await database.read(read)
    for row in found:
        assert row.pop("chat_id") == ref.id
        for name in keys & row.keys():
            assert row[name] is None or table is presence or row[name] >> 32 == ref.id
            row[name] = row[name] if row[name] is None else birth(row[name])
    return found


async def summarised(store: SqlStore, chat: Chat, said: list[Message], *turns: int) -> list[int]:
    lease = await lease_on(store, chat)
    made = [await store.commit(lease, draft(chat, said[n : n + 2], f"note {n}")) for n in turns]
    await store.release(lease)
    return [s.id for s in made]


async def put_above(database: Database, chat: Chat, children: list[int]) -> int:
    """A summary of summaries, written as a lane with levels would."""

    def write(conn: sa.Connection) -> int:
        mine = conn.execute(sa.select(summary).where(summary.c.id.in_(children))).mappings().all()
        born = sa.update(work).where(work.c.chat_id == chat.ref.id)
        n = conn.execute(
            born.values(next_s=work.c.next_s + 1).returning(work.c.next_s)
        ).scalar_one()
        upper = key(chat.ref.id, n - 1)
        ends = {
            "first_pos": min(c["first_pos"] for c in mine),
            "last_pos": max(c["last_pos"] for c in mine),
        }
        level = max(c["level"] for c in mine) + 1
        own = {"id": upper, "root_id": upper, "level": level, "text": f"volume of {len(mine)}"}
        conn.execute(sa.insert(summary), {**mine[0], **own, **ends, "covered_by": None})
        targets = [
            {
                "summary_id": upper,
                "position": i,
                "target_is_summary": True,
                "target_id": c["id"],
                "target_hash": c["hash"],
            }
            for i, c in enumerate(mine)
        ]
        conn.execute(sa.insert(link), targets)
        below = sa.update(summary).where(summary.c.id.in_(children))
        conn.execute(below.values(covered_by=upper))
        return upper

    return await database.write(write)


async def test_everything_of_the_chat_is_copied_with_its_birth_numbers(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 12)
    minis = await summarised(store, chat, said, 0, 2, 4, 6)
    await put_above(database, chat, minis[:2])
    await store.swipe(chat.ref, said[9].id, "another reply")
    await store.change(chat.ref, "hide", {said[10].id: {"hidden_by": "user"}})
    await store.change_settings(chat.ref, {"visible_floors": 3})
    members = {"chat_id": chat.ref.id, "id": 1, "members": '["a:mara"]'}
    await database.write(lambda conn: conn.execute(sa.insert(presence), members) and None)
    made = await branch(store, chat.ref, "branch")
    for table in (message, summary, lane_state, presence):
        assert await rows_of(database, table, made.ref) == await rows_of(database, table, chat.ref)
    (old,), (new,) = [await rows_of(database, work, c.ref) for c in (chat, made)]
    assert [new[k] for k in ("next_n", "next_s")] == [old[k] for k in ("next_n", "next_s")]
    assert (made.preset, made.lane, made.title) == (chat.preset, chat.lane, "branch")
    settings = (await store.load(made.ref, PLAIN, wide=False)).settings
    assert settings.visible_floors == 3
    await agrees(database, made)
    await agrees(database, chat)


@pytest.mark.proves("G-25")
async def test_only_summaries_that_lie_wholly_before_the_branch_point_are_copied(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 12)
    minis = await summarised(store, chat, said, 0, 2, 4, 6)
    inside = await put_above(database, chat, minis[:2])
    await put_above(database, chat, minis[2:])
    await agrees(database, chat)
    made = await branch(store, chat.ref, "branch", at=said[6])
    copied_births = {row["id"] for row in await rows_of(database, summary, made.ref)}
    assert copied_births == {birth(i) for i in (*minis[:3], inside)}
    assert len(await store.page(made.ref, 0, 50)) == 7
    await agrees(database, made)
    snapshot = await store.load(made.ref, PLAIN, wide=True)
    assert snapshot.backlog is not None
    assert [m.body for run in snapshot.backlog.uncovered.runs for m in run] == ["message 6"]
    assert [s.text for s in snapshot.backlog.covers] == ["volume of 2", "note 4"]


async def test_a_summary_that_no_longer_holds_is_not_copied(store: SqlStore, database: Database):
    chat, said = await chat_with(store, 8)
    minis = await summarised(store, chat, said, 0, 2, 4)
    await store.edit(chat.ref, said[2].id, "something else", None)
    made = await branch(store, chat.ref, "branch")
    births = [row["id"] for row in await rows_of(database, summary, made.ref)]
    assert births == [birth(minis[0]), birth(minis[2])]
    holes = (await database.read(audit.stored, made.ref, "volumes")).holes
    assert {birth(i) for i in holes} == {birth(m.id) for m in said[2:4]}
    await agrees(database, made)


async def test_messages_that_were_taken_out_stay_out(store: SqlStore):
    chat, said = await chat_with(store, 6)
    await store.change(chat.ref, "delete", {said[1].id: {"deleted_at_ms": 5}})
    await store.move(chat.ref, said[4].id, said[0].id)
    made = await branch(store, chat.ref, "branch", at=said[3])
    bodies = [m.body for m in await store.page(made.ref, -(1 << 62), 50)]
    assert bodies == ["message 4", "message 0", "message 2", "message 3"]
    assert await store.undo(made.ref) == ()


async def test_what_is_born_after_the_branch_collides_with_nothing(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 6)
    await summarised(store, chat, said, 0)
    made = await branch(store, chat.ref, "branch", at=said[2])
    for ref in (chat.ref, made.ref):
        (new,) = await store.append(ref, [NewMessage("user", "later")])
        assert (new.id >> 32, birth(new.id)) == (ref.id, 7)
        assert (await store.page(ref, -(1 << 62), 50))[-1] == new
    page = list(await store.page(made.ref, -(1 << 62), 50))
    await summarised(store, made, page, 2)
    await agrees(database, made)
    assert len(await store.summaries(chat.ref, 0, 50)) == 1


async def test_a_copy_is_made_in_batches_and_nobody_sees_it_before_it_is_whole(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 2 * BATCH_ROWS + 10)
    made = await store.start_branch(chat.ref, "branch", None)
    assert (made.at_id, made.parts[0]) == (said[-1].id, ("messages", 0))
    sizes: list[int] = []
    more = True
    while more:
        before = len(await rows_of(database, message, made.target))
        more = await store.copy_part(made, "messages", 0)
        sizes.append(len(await rows_of(database, message, made.target)) - before)
        assert [c.ref for c in await store.chats("local", 10)] == [chat.ref]
        assert {ref.id for ref, _ in await store.due(10)} == {chat.ref.id}
        with pytest.raises(ChatNotFound):
            await store.find_chat("local", "branch")
    assert sizes == [BATCH_ROWS, BATCH_ROWS, 10]
    for part, level in made.parts[1:]:
        assert not await store.copy_part(made, part, level)
    finished = await store.finish_branch(made)
    assert {c.ref for c in await store.chats("local", 10)} == {chat.ref, finished.ref}
    assert {ref.id for ref, _ in await store.due(10)} == {chat.ref.id, finished.ref.id}
    assert await store.unfinished() == 0


@pytest.mark.slow
async def test_more_variants_and_links_than_one_batch_are_copied(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 4)
    for n in range(BATCH_ROWS // 2):
        await store.swipe(chat.ref, said[1].id, f"one {n}")
        await store.swipe(chat.ref, said[3].id, f"three {n}")
    made = await branch(store, chat.ref, "branch")

    def texts(conn: sa.Connection, ref: ChatRef) -> list[Any]:
        mine = variant.c.message_id.between(key(ref.id, 0), key(ref.id + 1, 0))
        query = sa.select(variant.c.idx, variant.c.body, variant.c.hash).where(mine)
        return list(conn.execute(query.order_by(variant.c.message_id, variant.c.idx)))

    assert await database.read(texts, made.ref) == await database.read(texts, chat.ref)
    assert len(await database.read(texts, made.ref)) == BATCH_ROWS + 2
    found = await store.swipe(made.ref, key(made.ref.id, birth(said[1].id)), 0)
    assert found.body == "message 1"


Change = Callable[[SqlStore, ChatRef, list[Message]], Awaitable[object]]
CHANGES: dict[str, Change] = {
    "edit": lambda store, ref, said: store.edit(ref, said[1].id, "new words", None),
    "delete": lambda store, ref, said: store.change(
        ref, "delete", {said[1].id: {"deleted_at_ms": 5}}
    ),
    "hide": lambda store, ref, said: store.change(ref, "hide", {said[1].id: {"hidden_by": "user"}}),
    "swipe": lambda store, ref, said: store.swipe(ref, said[1].id, "another reply"),
    "insert": lambda store, ref, said: store.insert(ref, [NewMessage("user", "x")], said[1].id),
    "move": lambda store, ref, said: store.move(ref, said[0].id, said[2].id),
    "branch point away": lambda store, ref, said: store.move(ref, said[4].id, None),
    "branch point out": lambda store, ref, said: store.change(
        ref, "delete", {said[4].id: {"deleted_at_ms": 5}}
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_copy_of_a_chat_that_changed_meanwhile_is_refused(store: SqlStore, what: str):
    chat, said = await chat_with(store, 6)
    made = await store.start_branch(chat.ref, "branch", said[4].id)
    await copied(store, made)
    await CHANGES[what](store, chat.ref, said)
    with pytest.raises(StaleDraft):
        await store.finish_branch(made)
    with pytest.raises(ChatNotFound):
        await store.find_chat("local", "branch")


async def test_a_candidate_that_is_confirmed_meanwhile_counts_as_a_change(
    store: SqlStore, database: Database
):
    chat, _ = await chat_with(store, 2)
    new = NewMessage("assistant", "perhaps", state=State.CANDIDATE)
    (candidate,) = await store.append(chat.ref, [new])
    made = await store.start_branch(chat.ref, "branch", None)
    await copied(store, made)
    await database.write(changes.confirm, chat.ref, [(candidate.id, None)], 5)
    with pytest.raises(StaleDraft):
        await store.finish_branch(made)


async def test_what_happens_after_the_branch_point_is_no_change(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 8)
    made = await store.start_branch(chat.ref, "branch", said[3].id)
    await copied(store, made)
    await store.append(chat.ref, [NewMessage("user", "later")])
    await store.edit(chat.ref, said[6].id, "new words", None)
    await summarised(store, chat, said, 0, 2, 4)
    finished = await store.finish_branch(made)
    assert [m.body for m in await store.page(finished.ref, 0, 50)] == [m.body for m in said[:4]]
    await agrees(database, finished)


async def test_a_name_is_given_once(store: SqlStore):
    chat, _ = await chat_with(store, 2)
    with pytest.raises(BadInput, match="story"):
        await store.start_branch(chat.ref, "story", None)
    made = await store.start_branch(chat.ref, "branch", None)
    await copied(store, made)
    other = await store.ensure_chat("local", "branch", "volumes", "volumes")
    with pytest.raises(BadInput, match="branch"):
        await store.finish_branch(made)
    assert (await store.find_chat("local", "branch")).ref == other.ref


async def test_a_branch_point_must_be_a_message_that_the_chat_holds(store: SqlStore):
    chat, said = await chat_with(store, 3)
    other, foreign = await chat_with(store, 1, "other")
    assert other.ref != chat.ref
    await store.change(chat.ref, "delete", {said[1].id: {"deleted_at_ms": 5}})
    for missing in (said[1].id, foreign[0].id, key(chat.ref.id, 99)):
        with pytest.raises(MessageNotFound):
            await store.start_branch(chat.ref, "branch", missing)


async def test_an_empty_chat_has_an_empty_branch(store: SqlStore, database: Database):
    chat, _ = await chat_with(store, 0)
    made = await branch(store, chat.ref, "branch")
    assert await store.page(made.ref, -(1 << 62), 5) == ()
    await store.append(made.ref, [NewMessage("user", "hello")])
    await agrees(database, made)


async def test_the_branch_knows_where_it_comes_from(store: SqlStore, database: Database):
    chat, said = await chat_with(store, 4)
    made = await branch(store, chat.ref, "branch", at=said[1])
    columns = (chat_table.c.branch_of, chat_table.c.branch_at, chat_table.c.building)
    query = sa.select(*columns).where(chat_table.c.id == made.ref.id)
    row = await database.read(lambda conn: conn.execute(query).one())
    assert tuple(row) == (chat.ref.id, said[1].id, False)


async def test_what_was_left_unfinished_can_be_removed_without_a_trace(
    store: SqlStore, database: Database, clock: Clock
):
    chat, said = await chat_with(store, 6)
    await summarised(store, chat, said, 0, 2)
    await store.swipe(chat.ref, said[5].id, "another reply")
    whole = [await rows_of(database, table, chat.ref) for table in TABLES]
    one = await store.start_branch(chat.ref, "one", None)
    other = await store.start_branch(chat.ref, "other", None)
    await copied(store, one)
    assert await store.unfinished() == 2
    assert await store.remove_unfinished(other.target) == 1
    clock.now_ms += BUILDING_MS_MAX + 1  # on a shared database somebody might still be at it
    assert await store.remove_abandoned() == 1
    assert await store.remove_unfinished(chat.ref) == 0
    assert await store.unfinished() == 0

    def keys(conn: sa.Connection) -> set[int]:
        columns = (message.c.id, summary.c.id, variant.c.message_id, link.c.summary_id)
        return {i >> 32 for c in columns for i in conn.execute(sa.select(c)).scalars()}

    assert await database.read(keys) == {chat.ref.id}
    assert [await rows_of(database, table, chat.ref) for table in TABLES] == whole
    query = sa.select(sa.func.count()).select_from(setting)
    assert await database.read(lambda conn: conn.execute(query).scalar_one()) == 0
