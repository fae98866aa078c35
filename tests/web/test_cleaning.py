"""Rules that hang, fail or speak JavaScript, while the chat goes on through a real server."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from previously.model import NewMessage
from previously.testing import ScriptedLlm, plain_note
from tests.web.rig import Door, opened

RULES = [
    {"pattern": "(a+)+$", "flags": ""},
    {"pattern": "(", "flags": "g"},
    {"pattern": "(\\w+)=(\\w+)", "flags": "", "replacement": "$2 [$&]"},
    {"pattern": "^lamp", "flags": "", "replacement": "LAMP"},
]
STUCK = "a" * 50_000 + "b"
REPLY = f"plan <正文>lamp one=two three=four</正文> status 7 <正文>{STUCK}"
DELAY_S_MAX = 0.1


async def answer_s(door: Door) -> float:
    began = time.perf_counter()
    await door.client("other").chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hello."}]
    )
    return time.perf_counter() - began


@pytest.mark.proves("S-24", "B-80")
async def test_the_chat_answers_while_a_rule_hangs_and_the_others_do_their_work(
    tmp_path: Path,
) -> None:
    llm = ScriptedLlm(plain_note)
    settings = {"visible_floors": 1, "fold_every": 1, "minis_per_call": 1}
    tags = {"capture_start_tag": "<正文>", "capture_end_tag": "</正文>"}
    rules = {"message_cleanup_regex": RULES}  # from the environment, which nobody has tried out
    async with opened(tmp_path, llm=llm, settings={**settings, **tags, **rules}) as door:
        service = door.house.service
        quiet = [await answer_s(door) for _ in range(8)]
        ref = (await service.open_chat("demo")).ref
        turn = (NewMessage("user", "Light a lamp."), NewMessage("assistant", REPLY))
        await service.append(ref, [*turn, *turn, NewMessage("user", "Thanks.")])
        meanwhile = [await answer_s(door) for _ in range(8)]
        await door.settle()
        async with door.http.get(
            f"http://127.0.0.1:{door.port}/api/chats/c{ref.id}/summaries"
        ) as told:
            made = (await told.json())["items"]
    assert statistics.median(meanwhile) <= statistics.median(quiet) + DELAY_S_MAX
    read = [text for ask in llm.asks for _, text in ask.material if "one" in text]
    assert read
    assert {text.partition("a" * 100)[0] for text in read} == {"LAMP two [one=two] three=four\n"}
    flags = {flag for summary in made for flag in summary["flags"]}
    assert {"clean-up rule stopped: 1", "clean-up rule failed: 2"} <= flags
