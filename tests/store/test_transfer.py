"""Moving a memory between databases: everything arrives, or nothing has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from previously import Memory
from previously.app import move
from previously.cli import main
from previously.errors import BadInput, Conflict
from previously.store import transfer
from tests.postgres import Server


async def lived(where: str | Path) -> list[tuple[str, str]]:
    """A chat with summaries, edits, variants, a branch; what its prompt says."""
    async with Memory.open(where, settings={"visible_floors": 2, "fold_every": 2}) as memory:
        chat = await memory.chat("demo")
        said = [await chat.append(("user", "assistant")[n % 2], f"第 {n} 句") for n in range(12)]
        await chat.settle()
        await chat.edit(said[1], "改过的话")
        await chat.swipe(said[3], "another way to say it")
        await chat.hide(said[5])
        await chat.branch("other", at=said[7])
        await chat.settle()
        return await prompts(memory)


def silent(_table: str, _rows: int) -> None:
    """Nobody watches."""


async def prompts(memory: Memory) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name in ("demo", "other"):
        prompt = await (await memory.chat(name)).prompt()
        found += [(m["role"], m["content"]) for m in prompt.messages]
    return found


async def test_there_and_back_again(tmp_path: Path, postgres: Server):
    first, last, shared = tmp_path / "a.db", tmp_path / "b.db", postgres.database()
    told = await lived(first)
    seen: list[tuple[str, int]] = []
    there = await move(first, shared, lambda table, rows: seen.append((table, rows)))
    back = await move(shared, last, silent)
    assert there == back
    assert there["message"] == 20
    assert there["summary"] > 3
    assert ("message", 20) in seen
    for where in (shared, last):
        async with Memory.open(where) as memory:
            assert await prompts(memory) == told
            chat = await memory.chat("new one")  # keys go on after those that came along
            await chat.append("user", "hello")
            assert await (await memory.chat("demo")).undo() == 1


async def test_a_target_that_holds_chats_is_refused(tmp_path: Path, postgres_url: str):
    await lived(tmp_path / "a.db")
    await lived(postgres_url)
    with pytest.raises(BadInput, match="empty"):
        await move(tmp_path / "a.db", postgres_url, silent)


async def test_a_copy_that_differs_is_taken_back(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    await lived(tmp_path / "a.db")
    real = transfer._insert

    def lossy(conn: sa.Connection, table: sa.Table, page: Sequence[transfer.Row]) -> None:
        real(conn, table, page[:-1] if table.name == "variant" else page)

    monkeypatch.setattr(transfer, "_insert", lossy)
    with pytest.raises(Conflict, match="table variant"):
        await move(tmp_path / "a.db", postgres_url, silent)
    monkeypatch.undo()
    await move(tmp_path / "a.db", postgres_url, silent)


def test_the_command_says_what_it_moved(
    tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]
):
    source = str(tmp_path / "a.db")
    asyncio.run(lived(source))
    assert main(["migrate", "--database", source, "--to", postgres_url, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"]["message"] == 20
    assert main(["migrate", "--database", postgres_url]) == 0
    assert "has schema" in capsys.readouterr().out
    assert main(["migrate", "--database", source, "--to", postgres_url]) == 2
    assert "empty" in capsys.readouterr().err
