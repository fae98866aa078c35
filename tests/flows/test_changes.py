"""What becomes of summaries when messages change, one story at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from previously import Chat, Memory
from previously.errors import BadInput, Conflict, MessageNotFound
from previously.model import Message, Prompt, Summary
from previously.store import audit
from previously.testing import ScriptedLlm, plain_note
from tests.flows.conftest import Opener


@pytest.fixture
def llm() -> ScriptedLlm:
    return ScriptedLlm(lambda ask: "noted that " + plain_note(ask))


@pytest.fixture
async def memory(open_memory: Opener, llm: ScriptedLlm) -> AsyncIterator[Memory]:
    async with open_memory(llm=llm, settings={"visible_floors": 2, "fold_every": 1}) as opened:
        yield opened


@pytest.fixture
async def chat(memory: Memory) -> Chat:
    """Ten turns; the first nine have their minis."""
    made = await memory.chat("demo")
    for n in range(10):
        await made.append("user", f"question {n}.")
        await made.append("assistant", f"answer {n}.")
    await made.settle()
    return made


async def said(chat: Chat) -> list[Message]:
    return [m async for m in chat.messages()]


async def notes(chat: Chat) -> list[Summary]:
    return [s async for s in chat.summaries() if s.valid and s.status == "ready"]


def text(prompt: Prompt) -> str:
    return json.dumps(prompt.messages, ensure_ascii=False)


async def shown(chat: Chat) -> str:
    return text(await chat.prompt())


async def agrees(memory: Memory) -> None:
    store = memory._house.store
    ref = (await store.find_chat("local", "demo")).ref
    written = await store._db.read(audit.stored, ref, "volumes")
    assert written == await store._db.read(audit.recompute, ref, "volumes")


@pytest.mark.proves("G-24", "I4")
async def test_an_edit_shows_at_once_and_its_note_is_written_anew(chat: Chat, memory: Memory):
    messages = await said(chat)
    await chat.edit(messages[4], "another question.")
    now = await shown(chat)
    assert "another question." in now
    assert "question 2." not in now
    assert now.count("answer 2.") == 1
    await agrees(memory)
    await chat.settle()
    assert len(await notes(chat)) == 9
    await chat.append("user", "and then?")
    await chat.append("assistant", "then this.")
    await chat.settle()
    assert "noted that user: another question." in await shown(chat)  # from the next fold on
    await agrees(memory)


@pytest.mark.proves("G-14", "G-24")
async def test_a_deleted_message_is_gone_from_the_next_prompt(chat: Chat, memory: Memory):
    messages = await said(chat)
    await chat.delete(messages[4], messages[9])
    now = await shown(chat)
    assert "question 2." not in now
    assert "answer 4." not in now
    assert now.count("answer 2.") == now.count("question 4.") == 1
    await chat.settle()
    covered = [i for s in await notes(chat) for i in s.covers]
    assert len(covered) == len(set(covered)) == 16
    await agrees(memory)


@pytest.mark.proves("I2", "G-24")
async def test_what_comes_back_is_not_covered_twice(chat: Chat, memory: Memory):
    """Deleted, written about without it, and brought back: the older note stands again."""
    messages = await said(chat)
    (whole,) = [s for s in await notes(chat) if messages[4].id in s.covers]
    await chat.delete(messages[4])
    await chat.settle()
    (part,) = [s for s in await notes(chat) if messages[5].id in s.covers]
    assert part.covers == (messages[5].id,)
    await chat.undo()
    standing = [s.id for s in await notes(chat) if messages[5].id in s.covers]
    assert standing == [whole.id]
    assert (await shown(chat)).count("answer 2.") == 1
    await agrees(memory)


@pytest.mark.proves("B-78", "B-134")
async def test_swiping_back_restores_the_note_that_was_written_for_it(
    chat: Chat, memory: Memory, llm: ScriptedLlm
):
    messages = await said(chat)
    before = [s.id for s in await notes(chat)]
    await chat.swipe(messages[5], "a better answer.")
    await chat.settle()
    assert "a better answer." in await shown(chat)
    assert "answer 2." not in await shown(chat)
    asked = len(llm.asks)
    await chat.swipe(messages[5], 0)
    assert [s.id for s in await notes(chat)] == before
    await chat.settle()
    assert len(llm.asks) == asked
    assert "answer 2." in await shown(chat)
    with pytest.raises(BadInput, match="no variant 7"):
        await chat.swipe(messages[5], 7)
    await agrees(memory)


async def test_a_message_put_between_two_that_share_a_note_joins_them(chat: Chat, memory: Memory):
    messages = await said(chat)
    made = await chat.insert("user", "a question forgotten.", before=messages[5])
    bodies = [m.body for m in await said(chat)]
    assert bodies[4:7] == ["question 2.", "a question forgotten.", "answer 2."]
    now = await shown(chat)
    assert [now.count(w) for w in ("question 2.", "forgotten.", "answer 2.")] == [1, 1, 1]
    await agrees(memory)
    await chat.settle()
    (note,) = [s for s in await notes(chat) if made.id in s.covers]
    assert note.covers == (messages[4].id, made.id, messages[5].id)
    assert await chat.undo() == 1
    assert [m.body for m in await said(chat)] == [b for b in bodies if "forgotten" not in b]
    await agrees(memory)


async def test_messages_can_be_put_in_front_of_all_others(chat: Chat, memory: Memory):
    first = (await said(chat))[0]
    for n in range(3):
        await chat.insert("user", f"prologue {n}.", before=first)
    assert [m.body for m in await said(chat)][:4] == [
        *(f"prologue {n}." for n in range(3)),
        "question 0.",
    ]
    await agrees(memory)
    await chat.settle()
    now = await shown(chat)
    assert all(now.count(f"prologue {n}.") == 1 for n in range(3))
    await agrees(memory)


async def test_forty_insertions_at_one_place_find_room(chat: Chat, memory: Memory):
    messages = await said(chat)
    for n in range(40):
        await chat.insert("user", f"squeezed {n}.", before=messages[5])
    bodies = [m.body for m in await said(chat)]
    assert bodies[5:45] == [f"squeezed {n}." for n in range(40)]
    assert bodies[45] == "answer 2."
    await agrees(memory)
    await chat.append("user", "and on.")
    assert (await said(chat))[-1].body == "and on."
    await chat.settle()
    assert (await shown(chat)).count("and on.") == 1
    await agrees(memory)


async def test_a_moved_message_takes_its_new_place(chat: Chat, memory: Memory):
    messages = await said(chat)
    await chat.move(messages[4], before=messages[10])
    order = [m.body for m in await said(chat)]
    assert order[8:11] == ["answer 4.", "question 2.", "question 5."]
    await agrees(memory)
    await chat.settle()
    assert (await shown(chat)).count("question 2.") == 1
    await chat.move(messages[4], before=None)
    assert (await said(chat))[-1].id == messages[4].id
    await chat.undo()
    assert [m.body for m in await said(chat)] == order
    await agrees(memory)


@pytest.mark.proves("G-30")
async def test_what_the_user_hides_is_never_summarised_and_never_shown(
    chat: Chat, memory: Memory, llm: ScriptedLlm
):
    messages = await said(chat)
    await chat.hide(messages[4], messages[5])
    asked = len(llm.asks)
    assert "question 2." not in await shown(chat)
    await chat.settle()
    assert "question 2." not in await shown(chat)
    assert len(llm.asks) == asked
    await agrees(memory)
    await chat.hide(messages[4], messages[5], hidden=False)
    assert (await shown(chat)).count("question 2.") == 1
    await agrees(memory)


async def test_an_excluded_message_reaches_no_summary(chat: Chat, memory: Memory, llm: ScriptedLlm):
    messages = await said(chat)
    await chat.exclude(messages[4])
    await chat.settle()
    assert "question 2." not in llm.asks[-1].messages[1]["content"]
    assert "question 2." not in await shown(chat)
    await agrees(memory)


async def test_a_pinned_message_is_in_every_prompt_word_for_word(chat: Chat, memory: Memory):
    messages = await said(chat)
    await chat.pin(messages[4])
    await chat.settle()
    prompt = await chat.prompt()
    assert prompt.messages[0] == {"role": "user", "content": "question 2."}
    assert text(prompt).count("question 2.") == 1
    await agrees(memory)


@pytest.mark.proves("A-10", "G-11", "A-15")
async def test_while_a_client_recalculates_nothing_is_written(
    chat: Chat, memory: Memory, llm: ScriptedLlm
):
    await chat.recalculating(on=True)
    asked = len(llm.asks)
    for n in range(5):
        await chat.append("user", f"later {n}.")
        await chat.append("assistant", f"later answer {n}.")
    await chat.settle()
    assert len(llm.asks) == asked
    await chat.recalculating(on=False)
    await chat.settle()
    assert len(await notes(chat)) == 14
    await agrees(memory)


@pytest.mark.proves("G-11")
async def test_an_answer_that_arrives_during_a_recalculation_is_discarded(
    chat: Chat, llm: ScriptedLlm
):
    llm.hang()
    await chat.append("user", "late question.")
    await chat.append("assistant", "late answer.")
    assert not (await chat.settle(timeout_s=0.3)).done
    await chat.recalculating(on=True)
    llm.release()
    await chat.settle()
    assert len(await notes(chat)) == 9
    await chat.recalculating(on=False)
    await chat.settle()
    assert len(await notes(chat)) == 10


async def test_every_change_can_be_taken_back_one_by_one(chat: Chat, memory: Memory):
    start = [(m.id, m.body, m.hidden_by) for m in await said(chat)]
    notes_then = [s.id for s in await notes(chat)]
    messages = await said(chat)
    await chat.edit(messages[2], "x.")
    await chat.edit(messages[2], "y.")
    await chat.delete(messages[6], messages[7])
    await chat.hide(messages[0])
    await chat.swipe(messages[9], "z.")
    await chat.move(messages[12], before=messages[3])
    assert [await chat.undo() for _ in range(7)] == [1, 1, 1, 2, 1, 1, 0]
    assert [(m.id, m.body, m.hidden_by) for m in await said(chat)] == start
    assert [s.id for s in await notes(chat)] == notes_then
    await agrees(memory)


@pytest.mark.proves("G-23")
async def test_an_edit_of_something_that_changed_meanwhile_is_refused(chat: Chat):
    message = (await said(chat))[3]
    await chat.edit(message, "first.", version=message.version)
    with pytest.raises(Conflict, match="meanwhile"):
        await chat.edit(message, "second.", version=message.version)
    with pytest.raises(MessageNotFound):
        await chat.edit(12345, "nobody")
    other = (await said(chat))[3]
    assert other.body == "first."


async def test_a_message_can_only_be_changed_through_its_own_chat(chat: Chat, memory: Memory):
    mine = (await said(chat))[3]
    other = await memory.chat("other")
    await other.append("user", "hello")
    for change in (
        other.edit(mine, "stolen"),
        other.delete(mine),
        other.swipe(mine, "stolen"),
        other.move(mine, before=None),
        other.insert("user", "stolen", before=mine),
    ):
        with pytest.raises(MessageNotFound):
            await change
    assert (await said(chat))[3] == mine
    assert [m.body for m in await said(other)] == ["hello"]


async def test_a_change_that_changes_nothing_leaves_no_trace(chat: Chat, memory: Memory):
    message = (await said(chat))[3]
    await chat.edit(message, message.body)
    assert await chat.undo() == 0
    assert (await said(chat))[3].version == message.version
    await agrees(memory)


@pytest.mark.proves("I12", "G-112")
async def test_switched_off_the_chat_is_shown_as_it_was_said(
    chat: Chat, memory: Memory, llm: ScriptedLlm
):
    before = await chat.prompt()
    asked = len(llm.asks)
    await memory.chat("demo", settings={"enabled": False})
    await chat.append("user", "still there?")
    await chat.settle()
    off = await chat.prompt()
    assert [m["content"] for m in off.messages] == [m.body for m in await said(chat)]
    assert len(llm.asks) == asked
    assert [s.valid async for s in chat.summaries()] == [True] * 9
    await memory.chat("demo", settings={"enabled": True})
    on = await chat.prompt()
    assert on.messages[0] == before.messages[0]


@pytest.mark.proves("G-102")
async def test_a_result_whose_call_the_user_took_out_is_not_sent(chat: Chat):
    call = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    await chat.append("user", "look!")
    made = await chat.append("assistant", "", tool_calls=call)
    await chat.append("tool", "a door", tool_call_id="c1")
    await chat.append("assistant", "There is a door.")
    await chat.append("user", "open it")
    await chat.delete(made)
    prompt = await chat.prompt()
    assert "tool" not in [m["role"] for m in prompt.messages]
    assert prompt.trace.notes == ("left out a tool result whose call is not there",)


@pytest.mark.proves("I2")
async def test_what_was_noted_elsewhere_and_is_moved_back_behind_all_notes_is_covered(
    chat: Chat, memory: Memory
):
    """The newest answer is noted in front of all, and moved back to where nothing is noted yet."""
    messages = await said(chat)
    await chat.move(messages[19], before=messages[0])
    await chat.settle()
    (alone,) = [s for s in await notes(chat) if messages[19].id in s.covers]
    assert alone.covers == (messages[19].id,)
    await chat.undo()
    await agrees(memory)
    for n in range(10, 12):
        await chat.append("user", f"question {n}.")
        await chat.append("assistant", f"answer {n}.")
    async with asyncio.timeout(20):  # it used to write about it again and again, in vain
        await chat.settle()
    covered = [i for s in await notes(chat) for i in s.covers]
    assert len(covered) == len(set(covered)) == 22
    await agrees(memory)
