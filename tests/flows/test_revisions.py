"""Summaries that are asked for, written anew, or written by the user."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from previously import Chat, Memory
from previously.errors import BadInput, ModelUnavailable, SummaryNotFound
from previously.model import Ask
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener
from tests.flows.test_changes import agrees, notes, said, shown


class Editions:
    """A model whose notes say which edition they are."""

    def __init__(self) -> None:
        self.edition = 1
        self.fails = False

    def __call__(self, ask: Ask) -> str | Exception:
        if self.fails:
            return ModelUnavailable("503")
        return f"edition {self.edition}: {plain_note(ask)}"


@pytest.fixture
def model() -> Editions:
    return Editions()


@pytest.fixture
async def memory(open_memory: Opener, model: Editions) -> AsyncIterator[Memory]:
    llm = ScriptedLlm(model)
    async with open_memory(llm=llm, settings={"visible_floors": 4, "fold_every": 1}) as opened:
        yield opened


@pytest.fixture
async def chat(memory: Memory) -> Chat:
    made = await memory.chat("demo")
    for n in range(8):
        await made.append("user", f"question {n}.")
        await made.append("assistant", f"answer {n}.")
    await made.settle()
    return made


async def test_a_run_now_writes_about_all_but_the_last_turn(chat: Chat, memory: Memory):
    assert len(await notes(chat)) == 6
    await chat.run()
    await chat.settle()
    assert len(await notes(chat)) == 7
    await chat.append("user", "more?")
    await chat.append("assistant", "more.")
    await chat.settle()
    assert len(await notes(chat)) == 7  # the wish was fulfilled once
    await agrees(memory)


async def test_a_rebuild_replaces_each_note_when_its_successor_is_there(
    chat: Chat, memory: Memory, model: Editions
):
    before = await notes(chat)
    messages = await said(chat)
    model.edition = 2
    await chat.rebuild(start=messages[4])
    await chat.settle()
    now = await notes(chat)
    assert [s.text[:9] for s in sorted(now, key=lambda s: s.first_pos)] == [
        *["edition 1"] * 2,
        *["edition 2"] * 4,
    ]
    assert {i for s in now for i in s.covers} == {i for s in before for i in s.covers}
    text = await shown(chat)
    assert text.count("edition 2") == 4
    assert all(text.count(f"question {n}.") == 1 for n in range(8))
    old = await chat.revisions(before[3])
    assert [s.status for s in old] == ["superseded"]
    await agrees(memory)


@pytest.mark.proves("I1")
async def test_while_a_rebuild_fails_the_old_notes_stand(
    chat: Chat, memory: Memory, model: Editions
):
    model.fails = True
    await chat.rebuild()
    settled = await chat.settle()
    assert len(settled.waiting) == 6
    assert len(await notes(chat)) == 6
    assert (await shown(chat)).count("edition 1") == 6
    await agrees(memory)


@pytest.mark.proves("G-27")
async def test_what_a_user_wrote_is_not_overwritten(chat: Chat, memory: Memory, model: Editions):
    note = sorted(await notes(chat), key=lambda s: s.first_pos)[2]
    mine = await chat.edit_summary(note, "My own words.")
    assert mine.edited_by_user
    assert mine.valid
    assert mine.covers == () or len(mine.covers) == 2
    assert "My own words." in await shown(chat)
    assert "question 2." not in await shown(chat)
    model.edition = 2
    await chat.rebuild()
    await chat.settle()
    text = await shown(chat)
    assert "My own words." in text
    assert text.count("edition 2") == 5
    assert [s.status for s in await chat.revisions(mine)] == ["superseded", "ready"]
    await agrees(memory)


@pytest.mark.proves("G-27")
async def test_after_an_edit_of_its_source_a_new_text_is_only_proposed(chat: Chat, memory: Memory):
    note = sorted(await notes(chat), key=lambda s: s.first_pos)[2]
    mine = await chat.edit_summary(note, "My own words.")
    message = (await said(chat))[4]
    await chat.edit(message, "a new question.")
    await chat.settle()
    (proposal,) = [s async for s in chat.summaries() if s.status == "proposed"]
    assert "a new question." in proposal.text
    text = await shown(chat)
    assert "My own words." not in text
    assert text.count("a new question.") == 1
    assert "edition 1: user: a new question." not in text
    await chat.settle()
    assert len([s async for s in chat.summaries() if s.status == "proposed"]) == 1
    await agrees(memory)
    accepted = await chat.restore_summary(proposal)
    assert (accepted.status, accepted.valid) == ("ready", True)
    assert "edition 1: user: a new question." in await shown(chat)
    assert [s.status for s in await chat.revisions(mine)] == ["superseded", "superseded"]
    await agrees(memory)


async def test_a_rejected_proposal_leaves_the_messages_as_they_were_said(
    chat: Chat, memory: Memory
):
    note = sorted(await notes(chat), key=lambda s: s.first_pos)[2]
    await chat.edit_summary(note, "My own words.")
    message = (await said(chat))[4]
    await chat.edit(message, "a new question.")
    await chat.settle()
    (proposal,) = [s async for s in chat.summaries() if s.status == "proposed"]
    await chat.reject_proposal(proposal)
    await chat.settle()
    assert [s async for s in chat.summaries() if s.status == "proposed"] == []
    assert (await shown(chat)).count("a new question.") == 1
    await chat.edit(message, "question 2.")
    assert "My own words." in await shown(chat)
    await agrees(memory)
    with pytest.raises(BadInput):
        await chat.reject_proposal(proposal)


async def test_an_older_revision_can_stand_again(chat: Chat, memory: Memory):
    note = (await notes(chat))[1]
    mine = await chat.edit_summary(note, "Mine.")
    with pytest.raises(BadInput, match="restore"):
        await chat.edit_summary(note, "Too late.")
    with pytest.raises(BadInput, match="words"):
        await chat.edit_summary(mine, "  ")
    back = await chat.restore_summary(note)
    assert (back.id, back.valid) == (note.id, True)
    assert "Mine." not in await shown(chat)
    assert await chat.restore_summary(note) == back
    with pytest.raises(SummaryNotFound):
        await chat.restore_summary(999)
    await agrees(memory)
