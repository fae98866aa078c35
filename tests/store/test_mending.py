"""What a request shows to have changed is recorded with its turn, and taken back by one undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from previously.model import CLIENT, ChatRef, Message, NewMessage, State, TurnRecord
from previously.store import Database, audit
from previously.store.sql import SqlStore
from tests.store.test_contract import chat_with, draft, lease_on

WELL = NewMessage("user", "well", state=State.CANDIDATE)
REPLY = NewMessage("assistant", "indeed")

Line = tuple[str, str | None]


def after(said: list[Message]) -> TurnRecord:
    """A new turn after these, that changes nothing yet."""
    return TurnRecord(said[-1].id, said[-1].hash, (), (WELL,), REPLY, None)


async def lines(store: SqlStore, ref: ChatRef) -> list[Line]:
    return [(m.body, m.hidden_by) for m in await store.page(ref, -(1 << 62), 50)]


async def coverage_is_true(database: Database, ref: ChatRef) -> bool:
    def compared(conn: sa.Connection) -> bool:
        return audit.stored(conn, ref, "volumes") == audit.recompute(conn, ref, "volumes")

    return await database.read(compared)


MENDINGS: dict[str, tuple[Callable[[list[Message]], dict[str, Any]], list[str]]] = {
    "edit": (
        lambda s: {"edits": ((s[1].id, NewMessage("assistant", "other words")),)},
        ["message 0", "other words", "message 2", "message 3"],
    ),
    "hide": (lambda s: {"hides": (s[1].id, s[2].id)}, ["message 0", "message 3"]),
    "fork": (lambda s: {"drops": (s[2].id, s[3].id)}, ["message 0", "message 1"]),
    "all": (
        lambda s: {
            "edits": ((s[0].id, NewMessage("user", "first words")),),
            "hides": (s[1].id,),
            "drops": (s[3].id,),
        },
        ["first words", "message 2"],
    ),
}


@pytest.mark.parametrize("how", MENDINGS)
async def test_a_turn_mends_what_is_stored_and_one_undo_takes_it_back(
    store: SqlStore, database: Database, how: str
):
    chat, said = await chat_with(store, 4)
    lease = await lease_on(store, chat)
    await store.commit(lease, draft(chat, said[:2]))
    before = await lines(store, chat.ref)
    changes, expected = MENDINGS[how]
    await store.record_turn(chat.ref, replace(after(said), **changes(said)))
    shown = [m.body for m in await store.page(chat.ref, 0, 50) if m.shown]
    assert shown == [*expected, "well", "indeed"]
    assert await coverage_is_true(database, chat.ref)
    assert await store.undo(chat.ref)
    assert await lines(store, chat.ref) == [*before, ("well", None), ("indeed", None)]
    assert await coverage_is_true(database, chat.ref)


async def test_what_was_hidden_so_is_shown_again(store: SqlStore):
    chat, said = await chat_with(store, 3)
    hiding = replace(after(said), hides=(said[1].id,)).mending()
    await store.record_turn(chat.ref, hiding)
    assert (await lines(store, chat.ref))[1] == ("message 1", CLIENT)
    await store.record_turn(chat.ref, replace(hiding, hides=(), shows=(said[1].id,)))
    assert (await lines(store, chat.ref))[1] == ("message 1", None)


async def test_it_may_be_shown_again_in_other_words(store: SqlStore):
    chat, said = await chat_with(store, 3)
    hiding = replace(after(said), hides=(said[1].id,)).mending()
    await store.record_turn(chat.ref, hiding)
    other = ((said[1].id, NewMessage(said[1].role, "other words")),)
    await store.record_turn(chat.ref, replace(hiding, hides=(), shows=(said[1].id,), edits=other))
    assert (await lines(store, chat.ref))[1] == ("other words", None)
    assert await store.undo(chat.ref)
    assert (await lines(store, chat.ref))[1] == ("message 1", CLIENT)


async def test_older_messages_go_in_front(store: SqlStore, database: Database):
    chat, said = await chat_with(store, 2)
    older = (NewMessage("user", "once"), NewMessage("assistant", "upon a time"))
    await store.record_turn(chat.ref, replace(after(said), inserts=((said[0].id, older),)))
    bodies = [body for body, _ in await lines(store, chat.ref)]
    assert bodies == ["once", "upon a time", "message 0", "message 1", "well", "indeed"]
    await store.undo(chat.ref)
    assert [body for body, _ in await lines(store, chat.ref)][:2] == ["message 0", "message 1"]
    assert await coverage_is_true(database, chat.ref)


@pytest.mark.parametrize(
    ("said", "more", "grown"),
    [("One.", "Two.", "One. Two."), ("One. ", "Two.", "One. Two."), ("一。", "二。", "一。二。")],
)
async def test_a_reply_goes_on_where_it_ended(store: SqlStore, said: str, more: str, grown: str):
    chat, _ = await chat_with(store, 0)
    made = await store.append(chat.ref, [NewMessage("user", "u"), NewMessage("assistant", said)])
    grows = TurnRecord(
        made[1].id, made[1].hash, (), (), NewMessage("assistant", more), None, grows=made[1].id
    )
    await store.record_turn(chat.ref, grows)
    (now,) = await store.newest(chat.ref, 1)
    assert (now.id, now.body, now.state) == (made[1].id, grown, State.CANDIDATE)
    await store.undo(chat.ref)
    (back,) = await store.newest(chat.ref, 1)
    assert (back.body, back.state, back.hash) == (said, State.CONFIRMED, made[1].hash)


async def test_a_kept_reply_that_is_asked_again_can_be_taken_back(store: SqlStore):
    chat, said = await chat_with(store, 2)
    again = replace(after(said), appends=(), rerolls=said[1].id)
    await store.record_turn(chat.ref, again)
    assert [m.body for m in await store.newest(chat.ref, 5)] == ["message 0", "indeed"]
    await store.undo(chat.ref)
    assert [m.body for m in await store.newest(chat.ref, 5)] == ["message 0", "message 1"]


async def test_a_turn_that_came_too_late_mends_nothing(store: SqlStore):
    chat, said = await chat_with(store, 3)
    await store.append(chat.ref, [NewMessage("user", "meanwhile")])
    with pytest.raises(Exception, match="meanwhile"):
        await store.record_turn(chat.ref, replace(after(said), drops=(said[1].id,)))
    assert len(await lines(store, chat.ref)) == 4
