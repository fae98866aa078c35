"""What a model really reads of the past, turn by turn: told once, by summaries or word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from previously.llm import Ask
from previously.testing import ScriptedLlm
from tests.web.rig import Talk, opened, say, size
from tests.web.test_turns import words

SMALL = {
    "budget_tokens": 1_200,
    "visible_floors": 6,
    "fold_every": 4,
    "related": False,
    "auto_volume_summary": False,
}


def note(ask: Ask) -> str:
    """One that names its turn and nothing else."""
    day = re.search(r"On day (\d+)", ask.messages[-1]["content"])
    assert day is not None
    return f"Noted of day {day[1]}."


def reply(body: dict[str, Any]) -> str:
    return f"So it was: {body['messages'][-1]['content'][:9]}."


@pytest.mark.proves("A-50", "E-48", "E-49", "E-50", "E-51", "E-53", "E-75")
async def test_the_past_is_told_once_by_summaries_first_and_then_word_for_word(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, llm=ScriptedLlm(note), settings=SMALL) as door:
        door.upstream.answer = reply
        client, talk = door.client(), Talk()
        sent: Talk = []
        noted: list[int] = []
        for turn in range(40):
            request = [*talk, {"role": "user", "content": words(turn)}]
            await say(client, talk, words(turn))
            await door.settle()
            sent = door.upstream.requests[-1].messages
            told = [m for m in sent if m["role"] == "system"]
            spoken = sent[len(told) :]
            assert sent[: len(told)] == told
            assert spoken == request[-len(spoken) :]
            found = re.findall(r"Noted of day (\d+)", "\n".join(m["content"] for m in told))
            noted = [int(day) for day in found]
            # Every turn that is no longer there word for word, once and in order; and no other.
            assert noted == list(range((len(request) - len(spoken)) // 2))
            assert bool(told) == bool(noted)
        assert len(noted) > 25
        assert size(sent) <= SMALL["budget_tokens"] < size(talk)
