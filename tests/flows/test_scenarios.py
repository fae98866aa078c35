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
        chat = await service.open_chat("storm", settings={"visible_floors": 4, "fold_every": 2})
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
