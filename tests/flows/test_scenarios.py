"""Acceptance scenarios, each as it is written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from previously import app
from previously.errors import ModelUnavailable
from previously.model import Ask, NewMessage, Reply
from previously.testing import ScriptedLlm, plain_note


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now_ms


FLOORS = range(10, 16)
STORM = [
    ModelUnavailable("500 internal server error"),
    ModelUnavailable("timed out after 120 s"),
    "",
    Reply("half a sen", "m", finish="length"),
]


@pytest.mark.slow
@pytest.mark.proves("S-03", "G-35", "G-74", "G-77", "B-67", "I1")
async def test_a_failure_storm_loses_nothing(tmp_path: Path):
    """Sixty turns; turns 10 to 15 fail in every way on their first three attempts."""
    tried: dict[str, int] = {}

    def answer(ask: Ask) -> str | Reply | Exception:
        turn = ask.material[0][1].split()[1]
        if int(turn) not in FLOORS or "could not be used" in ask.messages[-1]["content"]:
            return plain_note(ask) if int(turn) not in FLOORS else STORM[2]
        tried[turn] = tried.get(turn, 0) + 1
        if tried[turn] > 3:
            return plain_note(ask)
        return STORM[(int(turn) + tried[turn]) % len(STORM)]

    clock = Clock()
    house = await app.build(tmp_path / "s.db", llm=ScriptedLlm(answer), clock=clock)
    try:
        service = house.service
        settings = {"visible_floors": 4, "fold_every": 2, "auto_volume_summary": False}
        chat = await service.open_chat("storm", settings=settings)
        settled = await service.settle(chat.ref, 30)
        for n in range(60):
            await service.append(chat.ref, [NewMessage("user", f"turn {n} begins")])
            await service.append(chat.ref, [NewMessage("assistant", f"turn {n} ends")])
            settled = await service.settle(chat.ref, 30)
            assert settled.done
            shown = json.dumps((await service.prompt(chat.ref)).messages)
            for k in range(n + 1):
                assert shown.count(f"turn {k} begins") == 1, (n, k)
            clock.now_ms += 100
        assert {a.error_class for a in settled.waiting} == {"DraftRejected", "ModelUnavailable"}
        assert all(a.error_text and a.not_before_ms and a.tries for a in settled.waiting)
        # The others were not held up: all but the six have their notes.
        done = [s async for s in service.summaries(chat.ref)]
        assert len(done) == 58 - len(FLOORS)
        for _ in range(4):
            clock.now_ms += 60_000
            settled = await service.settle(chat.ref, 30)
        assert settled.waiting == ()
        covered = [i for s in [s async for s in service.summaries(chat.ref)] for i in s.covers]
        assert len(covered) == len(set(covered)) == 116
    finally:
        await house.close()


@pytest.mark.proves("S-05", "B-78", "G-04")
async def test_a_swipe_while_the_note_is_being_written(tmp_path: Path):
    llm = ScriptedLlm(lambda ask: "note: " + plain_note(ask))
    house = await app.build(tmp_path / "s.db", llm=llm)
    try:
        service = house.service
        chat = await service.open_chat("swipe", settings={"visible_floors": 1})
        llm.hang()
        for n in range(2):
            await service.append(chat.ref, [NewMessage("user", f"question {n}")])
            await service.append(chat.ref, [NewMessage("assistant", f"answer {n}")])
        first = (await house.store.newest(chat.ref, 4))[1]
        assert not (await service.settle(chat.ref, 0.3)).done
        assert llm.waiting == 1
        swiped = await service.swipe(chat.ref, first.id, "another answer 0")
        llm.release()
        assert (await service.settle(chat.ref, 30)).done
        notes = [s async for s in service.summaries(chat.ref) if s.valid]
        assert len(notes) == 1
        assert "another answer 0" in notes[0].text
        assert notes[0].covers[1] == swiped.id
        assert len(llm.asks) == 2
        await service.swipe(chat.ref, first.id, 0)
        assert [s async for s in service.summaries(chat.ref) if s.valid] == []
        await service.settle(chat.ref, 30)
        (back,) = [s async for s in service.summaries(chat.ref) if s.valid]
        assert "assistant: answer 0" in back.text
        await service.swipe(chat.ref, first.id, 1)
        (again,) = [s async for s in service.summaries(chat.ref) if s.valid]
        assert again.id == notes[0].id
        assert len(llm.asks) == 3
    finally:
        await house.close()


@pytest.mark.proves("G-30", "G-31", "G-112", "I2", "I12")
async def test_the_window_changes_and_the_users_hidden_floors_stay_hidden(tmp_path: Path):
    """A hundred floors, three of them hidden; the low mark goes up and down; then all is off."""
    llm = ScriptedLlm(lambda ask: "note: " + plain_note(ask))
    # Without volumes: this model would cut marks away to keep within their size.
    settings = {"mini_tokens": 60, "auto_volume_summary": False}
    house = await app.build(tmp_path / "w.db", llm=llm, settings=settings)
    try:
        service = house.service
        chat = await service.open_chat("window", settings={"fold_every": 1})
        roles = ("user", "assistant")
        said = [NewMessage(roles[n % 2], f"floor ⟦{n}⟧.") for n in range(100)]
        made = await service.append(chat.ref, said)
        await service.mark(chat.ref, "hide", [m.id for m in made[50:53]], hidden_by="user")
        for floors in (20, 60, 5, 1, 100):
            await house.store.change_settings(chat.ref, {"visible_floors": floors})
            await service.settle(chat.ref, 30)
            prompt = await service.prompt(chat.ref, 100_000)
            shown = json.dumps(prompt.messages, ensure_ascii=False)
            for n in range(100):
                assert shown.count(f"⟦{n}⟧") == (0 if 50 <= n <= 52 else 1), (floors, n)
        await house.store.change_settings(chat.ref, {"enabled": False})
        prompt = await service.prompt(chat.ref, 100_000)
        assert [m["content"] for m in prompt.messages] == [
            f"floor ⟦{n}⟧." for n in range(100) if not 50 <= n <= 52
        ]
    finally:
        await house.close()


@pytest.mark.proves("G-09")
async def test_a_late_answer_goes_to_its_own_chat_or_nowhere(tmp_path: Path):
    """While a note is being written the other chat goes on, and the note's source is rewritten."""
    llm = ScriptedLlm(plain_note)
    house = await app.build(tmp_path / "l.db", llm=llm, settings={"visible_floors": 1})
    try:
        service = house.service
        one = await service.open_chat("one")
        two = await service.open_chat("two")
        llm.hang()
        for chat in (one, two):
            for n in range(2):
                name = chat.ref.name
                await service.append(chat.ref, [NewMessage("user", f"{name} asks {n}")])
                await service.append(chat.ref, [NewMessage("assistant", f"{name} answers {n}")])
        assert not (await service.settle(one.ref, 0.2)).done
        first = (await house.store.newest(one.ref, 9))[0]
        await service.edit(one.ref, first.id, "one asks something else")
        llm.release()
        for chat in (one, two):
            assert (await service.settle(chat.ref, 30)).done
        (note,) = [s async for s in service.summaries(one.ref)]
        assert "something else" in note.text
        assert "two" not in note.text
        (other,) = [s async for s in service.summaries(two.ref)]
        assert "one" not in other.text
    finally:
        await house.close()
