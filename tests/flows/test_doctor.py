"""What the doctor finds in a memory, and what it mends."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from previously import Memory, app, cli
from previously.testing import ScriptedLlm
from tests.flows.test_branch import SMALL, bodies, play, text


async def fill(path: Path) -> None:
    async with Memory.open(path, llm=ScriptedLlm(), settings=SMALL) as memory:
        for name in ("good", "bad"):
            chat = await memory.chat(name)
            await play(chat, 8)
            await chat.settle()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path / "x.db"))
    return tmp_path / "x.db"


def spoil(path: Path, *statements: str) -> None:
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


def doctor(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[Any]]:
    code = cli.main(["doctor", "--database", str(path), "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def finding(found: list[Any], name: str) -> dict[str, Any] | None:
    return next((f for f in found if f["name"] == name), None)


BAD = "chat_id = (SELECT id FROM chat WHERE name = 'bad')"
SPOILED = {
    "a summary counts that does not hold": (
        f"UPDATE message SET deleted_at = 5 WHERE {BAD} AND pos < (1 << 33)",
    ),
    "a summary that holds does not count": (f"UPDATE summary SET valid = 0 WHERE {BAD}",),
    "a hole is listed where there is none": (
        f"INSERT INTO hole SELECT chat_id, 'volumes', id, 0, NULL FROM message WHERE {BAD} LIMIT 1",
    ),
    "a summary says it is under another one": (f"UPDATE summary SET covered_by = id WHERE {BAD}",),
}


@pytest.mark.parametrize("what", SPOILED)
def test_wrong_coverage_is_reported_and_mended_on_request(
    path: Path, capsys: pytest.CaptureFixture[str], what: str
):
    code, found = doctor(path, capsys)
    assert (code, finding(found, "coverage")) == (
        0,
        {"name": "coverage", "ok": True, "says": "what is written down agrees with the messages"},
    )
    spoil(path, *SPOILED[what])
    for _ in range(2):  # looking changes nothing
        code, found = doctor(path, capsys)
        wrong = finding(found, "coverage")
        assert wrong is not None
        assert (code, wrong["ok"]) == (1, False)
        assert wrong["says"] == "coverage of chat bad is wrong; run `previously doctor --repair`"
    code, found = doctor(path, capsys, "--repair")
    mended = finding(found, "coverage")
    assert mended is not None
    assert (code, mended["says"]) == (0, "was wrong and is mended; chats: bad")
    code, found = doctor(path, capsys)
    assert code == 0
    asyncio.run(nothing_is_missing(path))


async def nothing_is_missing(path: Path) -> None:
    """After the repair the background works off what turned out to be due."""
    async with Memory.open(path, llm=ScriptedLlm(), settings=SMALL) as memory:
        chat = await memory.chat("bad")
        assert (await chat.settle()).done
        shown = text(await chat.prompt(50_000))
        for body in await bodies(chat):
            assert body.split(" I ")[0] in shown


def test_several_wrong_chats_are_named_together(path: Path, capsys: pytest.CaptureFixture[str]):
    spoil(path, "UPDATE summary SET valid = 0")
    _, found = doctor(path, capsys)
    wrong = finding(found, "coverage")
    assert wrong is not None
    assert wrong["says"].startswith("coverage of chats good, bad is wrong; run ")


def test_what_a_killed_copy_left_is_reported_and_removed(
    path: Path, capsys: pytest.CaptureFixture[str]
):
    async def start() -> None:
        house = await app.build(path, worker=False)
        chat = await house.service.find_chat("good")
        made = await house.store.start_branch(chat.ref, "copy", None)
        await house.store.copy_part(made, "messages", 0)
        await house.close()

    asyncio.run(start())
    code, found = doctor(path, capsys)
    left = finding(found, "copies")
    assert left is not None
    assert (code, left["ok"]) == (0, True)
    assert left["says"] == "unfinished copies of chats: 1; the next start removes them"
    assert finding(found, "database")["says"].endswith("chats: 2")  # pyright: ignore[reportOptionalSubscript]
    _, found = doctor(path, capsys, "--repair")
    removed = finding(found, "copies")
    assert removed is not None
    assert removed["says"] == "unfinished copies removed: 1"
    _, found = doctor(path, capsys)
    assert finding(found, "copies") is None


def test_a_memory_that_is_in_use_is_not_mended(path: Path, capsys: pytest.CaptureFixture[str]):
    spoil(path, *SPOILED["a summary that holds does not count"])

    async def beside() -> tuple[list[Any], list[Any]]:
        from previously.checkup import examine  # noqa: PLC0415

        house = await app.build(path, worker=False)
        try:
            return await examine(path, None), await examine(path, None, repair=True)
        finally:
            await house.close()

    looked, refused = asyncio.run(beside())
    assert "doctor --repair" in next(f.says for f in looked if f.name == "coverage")
    says = next(f.says for f in refused if f.name == "coverage")
    assert "open for writing in another process" in says
    assert doctor(path, capsys)[0] == 1


def test_without_a_database_there_is_nothing_to_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code, found = doctor(tmp_path / "none.db", capsys, "--repair")
    assert code == 0
    assert finding(found, "coverage") is None
    assert not (tmp_path / "none.db").exists()


UNLISTED = {
    "a term is counted too often": "UPDATE term_count SET messages = messages + 1 WHERE {BAD}",
    "a term is not counted": "DELETE FROM term_count WHERE {BAD}",
    "messages are not counted": "UPDATE index_state SET messages = 1 WHERE {BAD}",
    "a message was left out": "DELETE FROM indexed WHERE message_id = (SELECT min(id) FROM message"
    " WHERE {BAD})",
}


async def caught_up(path: Path) -> list[str]:
    """What a search in the spoiled chat finds once its index is there."""
    house = await app.build(path, worker=False)
    try:
        while await house.store.index_some(100, ripe=False):
            pass
        hits = await house.service.search("the key 3 well", chat="bad")
        return [hit.message.body for hit in hits]
    finally:
        await house.close()


@pytest.mark.parametrize("what", UNLISTED)
def test_a_wrong_search_index_is_reported_and_made_anew(
    path: Path, capsys: pytest.CaptureFixture[str], what: str
):
    before = asyncio.run(caught_up(path))
    spoil(path, UNLISTED[what].format(BAD=BAD))
    code, found = doctor(path, capsys)
    wrong = finding(found, "search index")
    assert wrong is not None
    assert (code, wrong["ok"]) == (1, False)
    assert wrong["says"] == "search index of chat bad is wrong; run `previously doctor --repair`"
    code, found = doctor(path, capsys, "--repair")
    mended = finding(found, "search index")
    assert mended is not None
    assert (code, mended["says"]) == (0, "was wrong and is made anew; chats: bad")
    assert asyncio.run(caught_up(path)) == before
    code, found = doctor(path, capsys)
    assert code == 0
