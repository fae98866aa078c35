"""`previously prompt --last`: what the model has read, beside a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from previously import cli
from previously.align.ending import NO_MATCH
from previously.model import NewMessage
from tests.web.rig import Talk, opened, say
from tests.web.test_passed import ask_another_story
from tests.web.test_turns import SMALL, words


async def talked(folder: Path) -> None:
    async with opened(folder, settings=SMALL) as door:
        client, talk = door.client(), Talk([{"role": "system", "content": "head"}])
        for turn in range(14):
            await say(client, talk, words(turn))


def ask(*options: str) -> int:
    return cli.main(["prompt", "demo", "--last", *options])


async def test_sizes_and_ids_are_shown_and_texts_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await talked(tmp_path)
    house = ["--database", str(tmp_path / "previously.db")]
    assert await asyncio.to_thread(ask, *house, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    places = [block["place"] for block in told["blocks"]]
    assert "cover" in places
    assert places[-1] == "pending"
    assert told["tokens"] == 4 + 1 + sum(b["tokens"] for b in told["blocks"])
    assert all("text" not in block for block in told["blocks"])
    assert await asyncio.to_thread(ask, *house) == 0
    shown = capsys.readouterr().out
    assert "gulls" not in shown
    assert "cover" in shown
    assert await asyncio.to_thread(ask, *house, "--text") == 0
    assert "gulls" in capsys.readouterr().out


async def test_what_went_on_as_it_came_since_is_said_first(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    house = ["--database", str(tmp_path / "previously.db")]
    async with opened(tmp_path) as door:
        ref = (await door.house.service.open_chat("demo")).ref
        said = [NewMessage("user", words(0)), NewMessage("assistant", words(1))]
        await door.house.store.append(ref, said)  # as an import would
        await ask_another_story(door)
    assert await asyncio.to_thread(ask, *house) == 0
    shown = capsys.readouterr().out
    assert "1 request passed on unchanged" in shown
    assert NO_MATCH in shown
    talking = tmp_path_factory.mktemp("talking")
    await talked(talking)
    async with opened(talking, settings=SMALL) as door:
        await ask_another_story(door)
        await ask_another_story(door)
    more = ["--database", str(talking / "previously.db")]
    assert await asyncio.to_thread(ask, *more, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["passed"]["requests"], told["passed"]["reason"]) == (2, NO_MATCH)
    assert told["blocks"]
    assert await asyncio.to_thread(ask, *more) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "2 requests" in first
    assert "pending" in last


async def test_a_chat_that_sent_nothing_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path) as door:
        await door.house.service.open_chat("demo")
    assert await asyncio.to_thread(ask, "--database", str(tmp_path / "previously.db")) == 2
    assert "through the proxy" in capsys.readouterr().err
