"""`previously explain`: what a request would mean, without a server and without a trace."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from previously import cli
from tests.web.rig import Talk, opened, say
from tests.web.test_turns import words


async def talked(folder: Path) -> list[dict[str, Any]]:
    """A chat of three turns; the client's messages."""
    async with opened(folder) as door:
        client, talk = door.client(), Talk([{"role": "system", "content": "head"}])
        for turn in range(3):
            await say(client, talk, words(turn))
    return list(talk)


async def explained(folder: Path, body: object, *options: str) -> int:
    file = folder / "request.json"
    file.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    house = ["--database", str(folder / "previously.db")]
    return await asyncio.to_thread(cli.main, ["explain", "demo", str(file), *house, *options])


async def test_every_message_is_named_and_nothing_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = await talked(tmp_path)
    body = {"messages": [*said, {"role": "user", "content": "and then"}], "stream": False}
    for _ in range(2):  # the second time it means the same
        assert await explained(tmp_path, body, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["kind"], told["sure"], told["changes"]) == ("append", True, {})
        meanings = [one["is"] for one in told["messages"]]
        assert meanings == ["head", *["stored"] * 6, "new"]
    assert await explained(tmp_path, body) == 0
    shown = capsys.readouterr().out
    assert "would be read as append" in shown
    assert "goes on unchanged" in shown


async def test_what_has_changed_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = await talked(tmp_path)
    said[2] = {"role": "assistant", "content": "wholly other words of hers"}
    assert await explained(tmp_path, [*said, {"role": "user", "content": "and then"}]) == 0
    assert "first: 1 edits" in capsys.readouterr().out


async def test_what_is_known_of_a_request_in_doubt_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two questions in a row: one of them may be an instruction."""
    said = await talked(tmp_path)
    asked = [{"role": "user", "content": text} for text in ("and then", "what else")]
    assert await explained(tmp_path, [*said, *asked], "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert not told["sure"]
    meanings = [one["is"] for one in told["messages"]]
    assert meanings == ["head", *["stored"] * 6, "in doubt", "in doubt"]
    assert await explained(tmp_path, [*said, *asked]) == 0
    assert "a later request will show" in capsys.readouterr().out


async def test_another_story_would_pass_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await talked(tmp_path)
    assert await explained(tmp_path, [{"role": "user", "content": "somebody else's"}]) == 0
    assert "demo: would pass through unchanged" in capsys.readouterr().out


@pytest.mark.parametrize("body", ["{", '{"messages": [1]}', "[1]", "7", '{"model": "m"}'])
async def test_what_is_no_request_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str
) -> None:
    await talked(tmp_path)
    assert await explained(tmp_path, body) == 2
    assert "request.json" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", "demo", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
