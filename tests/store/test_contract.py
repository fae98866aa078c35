"""What every database must do."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa

from previously.errors import ChatNotFound, LeaseLost, StaleDraft
from previously.model import (
    CANCELLED,
    Attempt,
    Chat,
    Draft,
    Fold,
    FoldKey,
    Item,
    ItemKind,
    Lease,
    Message,
    NewMessage,
    Reply,
    State,
    Summary,
    Task,
    TurnRecord,
    Uncovered,
    Usage,
)
from previously.store import Database, audit
from previously.store.schema import llm_result, message, variant, work
from previously.store.sql import SqlStore
from tests.store.conftest import Clock

PLANNING = FoldKey("plan")


async def chat_with(store: SqlStore, count: int, name: str = "story") -> tuple[Chat, list[Message]]:
    chat = await store.ensure_chat("local", name, "volumes", "volumes")
    roles = ("user", "assistant")
    said = [NewMessage(roles[n % 2], f"message {n}") for n in range(count)]
    return chat, list(await store.append(chat.ref, said)) if said else []


async def lease_on(store: SqlStore, chat: Chat) -> Lease:
    lease = await store.claim(chat.ref, "w", 60_000)
    assert lease is not None
    return lease


def draft(chat: Chat, sources: list[Message], text: str = "a note", paid: int = 0) -> Draft:
    task = Task(
        chat=chat.ref,
        lane="volumes",
        kind="mini",
        sources=tuple(sources),
        context=(),
        tokens_max=50,
        language="en",
        uncovered=Uncovered((tuple(sources),)),
    )
    provenance = {"model": "m", "profile": "p", "paid": paid > 0}
    return Draft(task, text, 2, provenance, Usage(paid, paid))


async def agrees(database: Database, chat: Chat) -> None:
    """What is written down equals what hashes alone say."""
    written = await database.read(audit.stored, chat.ref, "volumes")
    assert written == await database.read(audit.recompute, chat.ref, "volumes")


async def test_messages_come_back_in_order_and_as_they_were(store: SqlStore):
    chat, said = await chat_with(store, 5)
    page = await store.page(chat.ref, 0, 3)
    rest = await store.page(chat.ref, page[-1].pos, 10)
    assert [*page, *rest] == said
    assert await store.newest(chat.ref, 2) == tuple(said[3:])
    assert [m.pos for m in said] == sorted({m.pos for m in said})


async def test_every_field_of_a_message_is_kept(store: SqlStore):
    chat, _ = await chat_with(store, 0)
    new = NewMessage("tool", "x 😀", "Mara", None, "call-1", '["p"]', extra='{"a":1}')
    (made,) = await store.append(chat.ref, [new])
    (read,) = await store.newest(chat.ref, 1)
    assert read == made
    assert (read.body, read.name, read.tool_call_id) == ("x 😀", "Mara", "call-1")
    assert (read.parts, read.extra, read.hash) == ('["p"]', '{"a":1}', new.hash)


async def test_a_chat_is_made_once_and_found_by_name(store: SqlStore):
    chat, _ = await chat_with(store, 1)
    again = await store.ensure_chat("local", "story", "volumes", "volumes")
    assert again.ref == chat.ref
    assert [c.ref for c in await store.chats("local", 10)] == [chat.ref]
    with pytest.raises(ChatNotFound, match="story"):
        await store.find_chat("local", "other")
    with pytest.raises(ChatNotFound):
        await store.find_chat("somebody", "story")


async def test_only_system_messages_at_the_very_start_stand(store: SqlStore):
    chat, _ = await chat_with(store, 0)
    await store.append(chat.ref, [NewMessage("system", "a")])
    await store.append(chat.ref, [NewMessage("system", "b"), NewMessage("user", "c")])
    await store.append(chat.ref, [NewMessage("system", "d")])
    page = await store.page(chat.ref, 0, 10)
    assert [m.pinned for m in page] == [True, True, False, False]


async def test_many_writers_lose_nothing(store: SqlStore):
    chat, _ = await chat_with(store, 0)
    await asyncio.gather(
        *(store.append(chat.ref, [NewMessage("user", str(n))]) for n in range(200))
    )
    page = await store.page(chat.ref, 0, 500)
    assert sorted(int(m.body) for m in page) == list(range(200))
    assert len({m.pos for m in page}) == 200


@pytest.mark.proves("I6")
async def test_a_transaction_that_fails_leaves_its_neighbours_alone(
    store: SqlStore, database: Database
):
    chat, _ = await chat_with(store, 0)

    def breaks(conn: sa.Connection) -> None:
        conn.execute(sa.update(work).values(rev=999))
        raise ValueError("on purpose")

    good = [store.append(chat.ref, [NewMessage("user", str(n))]) for n in range(20)]
    done = await asyncio.gather(
        *good[:10], database.write(breaks), *good[10:], return_exceptions=True
    )
    assert sum(isinstance(d, ValueError) for d in done) == 1
    assert len(await store.page(chat.ref, 0, 100)) == 20
    assert (await store.work_state(chat.ref)).rev == 20


@pytest.mark.proves("G-68")
async def test_a_commit_writes_summary_links_and_coverage_at_once(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 6)
    lease = await lease_on(store, chat)
    made = await store.commit(lease, draft(chat, said[:2]))
    (read,) = await store.summaries(chat.ref, 0, 10)
    assert read == made
    assert read.covers == (said[0].id, said[1].id)
    assert await store.covering(chat.ref, "volumes", [m.id for m in said]) == {
        said[0].id: (made.id,),
        said[1].id: (made.id,),
    }
    snapshot = await store.load(chat.ref, PLANNING, wide=True)
    assert snapshot.covered_to == said[1].pos
    assert snapshot.backlog is not None
    assert [m for run in snapshot.backlog.uncovered.runs for m in run] == said[2:]
    await agrees(database, chat)


@pytest.mark.proves("G-04", "I4", "I6")
async def test_a_draft_whose_source_changed_is_refused_and_changes_nothing(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 4)
    lease = await lease_on(store, chat)
    other = NewMessage("assistant", "something else")

    def edit(conn: sa.Connection) -> None:
        change = sa.update(message).where(message.c.id == said[1].id)
        conn.execute(change.values(body=other.body, hash=other.hash))

    await database.write(edit)
    with pytest.raises(StaleDraft):
        await store.commit(lease, draft(chat, said[:2]))
    assert await store.summaries(chat.ref, 0, 10) == ()
    await agrees(database, chat)


@pytest.mark.proves("I2", "G-03")
async def test_no_message_is_covered_twice(store: SqlStore, database: Database):
    chat, said = await chat_with(store, 6)
    lease = await lease_on(store, chat)
    await store.commit(lease, draft(chat, said[:4]))
    for sources in (said[:4], said[2:6], said[2:4]):
        with pytest.raises(StaleDraft):
            await store.commit(lease, draft(chat, sources))
    await agrees(database, chat)


@pytest.mark.proves("G-39")
async def test_what_a_leaf_jumps_over_stays_due_as_a_hole(store: SqlStore, database: Database):
    chat, said = await chat_with(store, 10)
    lease = await lease_on(store, chat)
    await store.commit(lease, draft(chat, said[4:6]))
    await agrees(database, chat)
    await store.commit(lease, draft(chat, said[0:2]))
    await agrees(database, chat)
    snapshot = await store.load(chat.ref, PLANNING, wide=True)
    assert snapshot.backlog is not None
    runs = snapshot.backlog.uncovered.runs
    assert [list(run) for run in runs] == [said[2:4], said[6:]]
    await store.commit(lease, draft(chat, said[2:4]))
    await agrees(database, chat)
    after = await store.load(chat.ref, PLANNING, wide=True)
    assert after.backlog is not None
    assert [list(run) for run in after.backlog.uncovered.runs] == [said[6:]]


async def test_holes_with_a_covered_message_between_them_are_two_runs(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 8)
    lease = await lease_on(store, chat)
    await store.commit(lease, draft(chat, said[6:8]))
    await store.commit(lease, draft(chat, said[2:4]))
    snapshot = await store.load(chat.ref, PLANNING, wide=True)
    assert snapshot.backlog is not None
    assert [list(r) for r in snapshot.backlog.uncovered.runs] == [said[0:2], said[4:6]]
    await agrees(database, chat)


@pytest.mark.proves("A-09", "G-10", "I5")
async def test_a_chat_has_one_worker_until_its_lease_ends(store: SqlStore, clock: Clock):
    chat, said = await chat_with(store, 4)
    first = await lease_on(store, chat)
    assert await store.claim(chat.ref, "other", 60_000) is None
    clock.now_ms += 60_001
    second = await store.claim(chat.ref, "other", 60_000)
    assert second is not None
    assert second.fence > first.fence
    for late in (
        store.commit(first, draft(chat, said[:2])),
        store.finish(first, 1, None),
        store.renew(first, 60_000),
        store.release(first),
        store.record_attempt(first, Attempt("t", "volumes", "failed", "E", "e", 1, 0)),
    ):
        with pytest.raises(LeaseLost):
            await late
    assert await store.summaries(chat.ref, 0, 10) == ()
    await store.commit(second, draft(chat, said[:2]))


async def test_a_lease_can_be_held_longer_and_given_back(store: SqlStore, clock: Clock):
    chat, _ = await chat_with(store, 2)
    lease = await lease_on(store, chat)
    clock.now_ms += 50_000
    await store.renew(lease, 60_000)
    clock.now_ms += 50_000
    assert await store.claim(chat.ref, "other", 1) is None
    await store.release(lease)
    assert await store.claim(chat.ref, "other", 1) is not None


@pytest.mark.proves("G-10")
async def test_leases_of_a_dead_process_are_forgotten_only_where_nobody_else_can_hold_one(
    store: SqlStore,
):
    chat, _ = await chat_with(store, 2)
    await lease_on(store, chat)
    assert await store.recover() == (1 if store.exclusive else 0)
    taken = await store.claim(chat.ref, "other", 1)
    assert (taken is not None) == store.exclusive


async def test_a_chat_is_due_when_it_changed_and_again_when_its_retry_comes(
    store: SqlStore, clock: Clock
):
    chat, _ = await chat_with(store, 2)
    ((ref, rev),) = await store.due(10)
    assert ref == chat.ref
    lease = await lease_on(store, chat)
    assert await store.due(10) == []
    await store.finish(lease, rev, clock.now_ms + 500)
    assert await store.due(10) == []
    clock.now_ms += 500
    assert [r for r, _ in await store.due(10)] == [chat.ref]
    await store.append(chat.ref, [NewMessage("user", "x")])
    await store.finish(await lease_on(store, chat), rev, None)
    assert [r for r, _ in await store.due(10)] == [chat.ref]
    await store.settled([(chat.ref.id, rev + 1)])
    assert await store.due(10) == []


@pytest.mark.proves("G-74")
async def test_an_attempt_is_kept_until_its_task_succeeds(store: SqlStore):
    chat, said = await chat_with(store, 2)
    lease = await lease_on(store, chat)
    made = draft(chat, said)
    failed = Attempt(made.task.id, "volumes", "failed", "ModelUnavailable", "503", 2, 77)
    await store.record_attempt(lease, replace(failed, tries=1))
    await store.record_attempt(lease, failed)
    assert await store.attempts(chat.ref) == {made.task.id: failed}
    await store.commit(lease, made)
    assert await store.attempts(chat.ref) == {}


async def test_who_cancels_a_task_that_runs_has_the_last_word(store: SqlStore):
    chat, said = await chat_with(store, 2)
    lease = await lease_on(store, chat)
    failed = Attempt(
        draft(chat, said).task.id, "volumes", "failed", "ModelUnavailable", "503", 1, 7
    )
    await store.record_attempt(lease, failed)
    assert await store.decide(chat.ref, failed.task_id, CANCELLED, 99)
    await store.record_attempt(lease, replace(failed, tries=2))
    assert (await store.attempts(chat.ref))[failed.task_id].verdict == CANCELLED
    assert await store.decide(chat.ref, failed.task_id, "failed", 0)
    await store.record_attempt(lease, replace(failed, tries=2))
    assert (await store.attempts(chat.ref))[failed.task_id].tries == 2


@pytest.mark.proves("G-64")
async def test_a_paid_answer_is_kept_until_its_summary_is_committed(
    store: SqlStore, database: Database
):
    chat, said = await chat_with(store, 2)
    lease = await lease_on(store, chat)
    reply = Reply("a note", "m", "stop", Usage(10, 3))
    await store.keep_paid(chat.ref, "hash", reply, [said[0].id])
    await store.keep_paid(chat.ref, "hash", reply, [said[0].id])
    assert await store.paid(chat.ref, "hash") == reply
    other, _ = await chat_with(store, 0, "other")
    assert await store.paid(other.ref, "hash") is None
    made = draft(chat, said, paid=10)
    made = replace(made, provenance={**made.provenance, "request": "hash"})
    await store.commit(lease, made)
    assert await store.paid(chat.ref, "hash") is None

    def kept(conn: sa.Connection) -> int:
        return conn.execute(sa.select(sa.func.count()).select_from(llm_result)).scalar_one()

    assert await database.read(kept) == 0


async def test_an_edit_lets_go_of_answers_that_read_the_old_text_and_no_others(store: SqlStore):
    chat, said = await chat_with(store, 4)
    reply = Reply("a note", "m")
    await store.keep_paid(chat.ref, "old", reply, [said[0].id, said[1].id])
    await store.keep_paid(chat.ref, "other", reply, [said[2].id])
    await store.change(chat.ref, "hide", {said[1].id: {"hidden_by": "user"}})
    assert await store.paid(chat.ref, "old") == reply
    await store.edit(chat.ref, said[1].id, "changed", None)
    assert await store.paid(chat.ref, "old") is None
    assert await store.paid(chat.ref, "other") == reply


async def test_a_fold_is_read_back_with_what_it_shows(store: SqlStore):
    chat, said = await chat_with(store, 6)
    lease = await lease_on(store, chat)
    note = await store.commit(lease, draft(chat, said[:2]))
    key = FoldKey("", 4_000)
    items = (Item.of(note), Item.of(said[2]))
    fold = Fold(key, 1, said[3].pos, 0, items, 3_900, "because")
    await store.save_fold(chat.ref, fold, (await store.work_state(chat.ref)).rev)
    snapshot = await store.load(chat.ref, key, wide=False)
    assert snapshot.fold == fold
    assert snapshot.shown == (replace(note, covers=()), said[2])
    assert snapshot.tail == tuple(said[3:])
    again = await store.load(chat.ref, key, wide=True)
    assert again.shown is snapshot.shown
    assert again.backlog is not None
    assert again.backlog.room_tokens == 3_900
    assert (await store.load(chat.ref, FoldKey("", 8_000), wide=False)).fold.version == 0


async def test_an_older_fold_never_overwrites_a_newer_one(store: SqlStore):
    chat, said = await chat_with(store, 6)
    key, rev = FoldKey("", 4_000), (await store.work_state(chat.ref)).rev
    await store.save_fold(chat.ref, Fold(key, 5, said[4].pos, reason="five"), rev)
    await store.save_fold(chat.ref, Fold(key, 4, said[1].pos, reason="four"), rev)
    assert (await store.load(chat.ref, key, wide=False)).fold.reason == "five"


async def test_a_long_tail_is_loaded_from_its_newest_end(store: SqlStore):
    chat, said = await chat_with(store, 30)
    snapshot = await store.load(chat.ref, PLANNING, wide=True, tail_max=10, covers_max=5)
    assert snapshot.tail == tuple(said[20:])
    assert snapshot.tail_cut
    whole = await store.load(chat.ref, PLANNING, wide=False, tail_max=30)
    assert not whole.tail_cut


@pytest.mark.proves("G-06", "G-16")
async def test_settings_of_a_chat_are_its_own(store: SqlStore):
    chat, _ = await chat_with(store, 1)
    other, _ = await chat_with(store, 1, "other")
    await store.change_settings(chat.ref, {"visible_floors": 7, "fold_every": 3})
    await store.change_settings(chat.ref, {"visible_floors": 8})
    mine = (await store.load(chat.ref, PLANNING, wide=False)).settings
    assert (mine.visible_floors, mine.fold_every) == (8, 3)
    await store.change_settings(chat.ref, {"visible_floors": None})
    assert (await store.load(chat.ref, PLANNING, wide=False)).settings.visible_floors == 20
    assert (await store.load(other.ref, PLANNING, wide=False)).settings.fold_every == 20


async def test_settings_that_change_nothing_are_no_change(store: SqlStore):
    chat, _ = await chat_with(store, 1)
    await store.change_settings(chat.ref, {"visible_floors": 7})
    rev = (await store.work_state(chat.ref)).rev
    await store.change_settings(chat.ref, {"visible_floors": 7})
    assert (await store.work_state(chat.ref)).rev == rev


async def test_a_proxied_turn_is_recorded_as_candidates_and_confirmed_by_its_echo(
    store: SqlStore, database: Database
):
    chat, _ = await chat_with(store, 0)
    ask = NewMessage("user", "hello", state=State.CANDIDATE)
    reply = NewMessage("assistant", " hi \n")
    await store.record_turn(chat.ref, TurnRecord(None, None, (), (ask,), reply, None))
    first, second = await store.newest(chat.ref, 5)
    assert (first.state, second.state) == ("candidate", "candidate")
    again = NewMessage("assistant", "another hi")
    await store.record_turn(chat.ref, TurnRecord(second.id, second.hash, (), (), again, second.id))
    shown = (await store.newest(chat.ref, 5))[1]
    assert (shown.id, shown.body, shown.variant) == (second.id, "another hi", 1)
    cleaned = NewMessage("assistant", "hi")
    confirms = ((first.id, None), (second.id, cleaned))
    well = NewMessage("user", "well", state=State.CANDIDATE)
    more = TurnRecord(second.id, again.hash, confirms, (well,), None, None)
    await store.record_turn(chat.ref, more)
    page = await store.page(chat.ref, 0, 10)
    assert [(m.body, m.state) for m in page] == [
        ("hello", "confirmed"),
        ("hi", "confirmed"),
        ("well", "candidate"),
    ]

    def texts(conn: sa.Connection) -> list[str]:
        return list(conn.execute(sa.select(variant.c.body).order_by(variant.c.idx)).scalars())

    assert await database.read(texts) == [" hi \n", "another hi", "hi"]


async def test_swiping_back_to_a_text_adds_no_variant(store: SqlStore, database: Database):
    chat, _ = await chat_with(store, 0)
    reply = NewMessage("assistant", "one")
    turn = TurnRecord(None, None, (), (NewMessage("user", "u"),), reply, None)
    await store.record_turn(chat.ref, turn)
    for text in ("two", "one", "two"):
        (last,) = await store.newest(chat.ref, 1)
        said = NewMessage("assistant", text)
        again = TurnRecord(last.id, last.hash, (), (), said, last.id)
        await store.record_turn(chat.ref, again)

    def count(conn: sa.Connection) -> int:
        return conn.execute(sa.select(sa.func.count()).select_from(variant)).scalar_one()

    assert await database.read(count) == 2
    assert (await store.newest(chat.ref, 1))[0].body == "two"


async def test_a_turn_aligned_against_an_older_state_is_refused(store: SqlStore):
    chat, said = await chat_with(store, 2)
    await store.append(chat.ref, [NewMessage("user", "meanwhile")])
    for hash_, id_ in ((said[-1].hash, said[-1].id), (b"other", said[-1].id + 1)):
        late = TurnRecord(id_, hash_, (), (NewMessage("user", "x"),), None, None)
        with pytest.raises(StaleDraft):
            await store.record_turn(chat.ref, late)
    assert len(await store.page(chat.ref, 0, 10)) == 3


async def test_a_chat_that_is_gone_takes_nothing(store: SqlStore):
    chat, _ = await chat_with(store, 0)
    gone = replace(chat.ref, id=999)
    with pytest.raises(ChatNotFound):
        await store.append(gone, [NewMessage("user", "x")])
    with pytest.raises(ChatNotFound):
        await store.load(gone, PLANNING, wide=False)


async def test_the_installation_has_one_secret(store: SqlStore, database: Database, clock: Clock):
    first = await store.secret()
    assert len(first) == 32
    assert await SqlStore(database, clock, {}).secret() == first


async def test_a_summary_that_is_gone_is_not_shown(store: SqlStore):
    chat, said = await chat_with(store, 4)
    note: Summary = await store.commit(await lease_on(store, chat), draft(chat, said[:2]))
    key = FoldKey("", 4_000)
    items = (Item.of(note), Item(ItemKind.SUMMARY, note.id + 50), Item.of(said[2]))
    rev = (await store.work_state(chat.ref)).rev
    await store.save_fold(chat.ref, Fold(key, 1, said[3].pos, items=items), rev)
    shown = (await store.load(chat.ref, key, wide=False)).shown
    assert [x.id for x in shown] == [note.id, said[2].id]
