"""Imports are whole or not there; what has piled up costs nothing until somebody has agreed."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from previously import Memory, app
from previously.errors import BadInput, ChatNotFound
from previously.model import BACKLOG_MAX
from previously.service import changes, chats
from previously.store import audit
from previously.testing import ScriptedLlm, plain_note
from tests.cli.test_commands import environment, run
from tests.flows.conftest import Opener

pytestmark = pytest.mark.slow

BACKFILLER = Path(__file__).with_name("backfiller.py")
FLOORS = 5_000
SINGLY = {"auto_volume_summary": False, "minis_per_call": 1}
WAITS = "waits for `previously backfill`"


def talk(count: int) -> Iterator[dict[str, Any]]:
    roles = ("user", "assistant")
    for n in range(count):
        words = f"Floor {n}. " + f"The Heron {n} passed at dusk, and Mara was promised a lamp. " * 3
        yield {"role": roles[n % 2], "content": words}


def write(path: Path, count: int) -> Path:
    path.write_text("\n".join(map(json.dumps, talk(count))), encoding="utf-8")
    return path


# --- import


async def test_an_import_is_a_chat_like_any_other(open_memory: Opener):
    async with open_memory(settings={"visible_floors": 4}) as memory:
        standing = {"role": "system", "content": "You keep the log."}
        chat = await memory.import_messages("log", [standing, *talk(30)])
        said = [m async for m in chat.messages()]
        assert [m.body for m in said[1:]] == [t["content"] for t in talk(30)]
        assert said[0].pinned
        assert (await chat.settle()).done
        covered = [i for s in [s async for s in chat.summaries()] for i in s.covers]
        assert len(covered) == 26
        assert (await memory.chat("log")).name == "log"


async def test_a_bad_message_far_down_leaves_nothing(open_memory: Opener):
    async with open_memory() as memory:
        bad = [*talk(1_200), {"role": "narrator", "content": "…"}]
        with pytest.raises(BadInput, match=r"message 1200: .*narrator"):
            await memory.import_messages("log", bad)
        store = memory._house.store
        assert await store.unfinished() == 0
        with pytest.raises(ChatNotFound):
            await store.find_chat("local", "log")
        await memory.import_messages("log", talk(3))  # the name is free


async def test_an_import_never_adds_to_a_chat_that_is_there(open_memory: Opener):
    async with open_memory() as memory:
        await memory.import_messages("log", talk(3))
        with pytest.raises(BadInput, match="there is a chat named 'log' already"):
            await memory.import_messages("log", talk(3))
        with pytest.raises(BadInput, match="no messages"):
            await memory.import_messages("empty", [])
        with pytest.raises(BadInput, match="unknown preset"):
            await memory.import_messages("other", talk(3), preset="nonsense")
        assert await memory._house.store.unfinished() == 0


async def test_an_import_has_limits(open_memory: Opener, monkeypatch: pytest.MonkeyPatch):
    async with open_memory() as memory:
        monkeypatch.setattr(chats, "IMPORT_MESSAGES_MAX", 600)
        with pytest.raises(BadInput, match="at most 600 messages"):
            await memory.import_messages("log", talk(601))
        monkeypatch.setattr(changes, "BODY_CHARS_MAX", 100)
        with pytest.raises(BadInput, match="at most 100 characters"):
            await memory.import_messages("log", talk(1))
        assert await memory._house.store.unfinished() == 0


async def test_nobody_sees_half_an_import(open_memory: Opener):
    async with open_memory() as memory:
        store = memory._house.store
        seen: list[int] = []

        def slowly() -> Iterator[dict[str, Any]]:
            for n, said in enumerate(talk(1_501)):
                if n == 1_500:
                    seen.append(len(asyncio.all_tasks()))
                yield said

        async def look() -> list[str]:
            names: list[str] = []
            while not seen:
                names += [c.ref.name for c in await store.chats("local", 9)]
                await asyncio.sleep(0)
            return names

        looked, _ = await asyncio.gather(look(), memory.import_messages("log", slowly()))
        assert looked == []
        assert [c.ref.name for c in await store.chats("local", 9)] == ["log"]


def killed_import(folder: Path, file: Path) -> None:
    """An import that is killed while it is under way."""
    words = backfiller(folder / "calls", "import", str(file), "--data", str(folder))
    child = subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE)
    assert child.stderr is not None
    child.stderr.read(40)  # the first word of progress: a batch is on disk
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stderr.close()


def test_a_killed_import_leaves_nothing(tmp_path: Path):
    file = write(tmp_path / "log.jsonl", 20_000)
    killed_import(tmp_path, file)
    with sqlite3.connect(tmp_path / "previously.db") as raw:
        (rows,) = raw.execute("SELECT count(*) FROM message").fetchone()
        assert 0 < rows < 20_000
    raw.close()
    assert run("prompt", "log", "--data", str(tmp_path)).returncode == 1
    done = run("import", str(file), "--data", str(tmp_path), "--json")
    assert json.loads(done.stdout) == {"chats": [{"chat": "log", "messages": 20_000}]}
    with sqlite3.connect(tmp_path / "previously.db") as raw:
        assert raw.execute("SELECT count(*) FROM message").fetchone() == (20_000,)
        assert raw.execute("SELECT name FROM chat").fetchall() == [("log",)]
    raw.close()


@pytest.mark.timeout(120)
def test_the_command_imports_all_files_or_none(tmp_path: Path):
    one, two = write(tmp_path / "one.jsonl", 3), write(tmp_path / "two.jsonl", 5)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"role": "user", "content": "a"}\n{"role": "user"', encoding="utf-8")
    data = ("--data", str(tmp_path))
    refused = run("import", str(one), str(bad), *data)
    assert refused.returncode == 2
    assert f"{bad}: line 2 is no JSON" in refused.stderr
    assert run("prompt", "one", *data).returncode == 1
    done = run("import", str(one), str(two), *data)
    assert done.returncode == 0
    assert [line.split(".")[0] for line in done.stdout.splitlines()] == [
        "one: 3 messages",
        "two: 5 messages",
    ]
    joined = run("import", str(one), str(two), "--chat", "both", *data, "--json")
    assert json.loads(joined.stdout)["chats"] == [{"chat": "both", "messages": 8}]
    assert "messages" in joined.stderr
    again = run("import", str(one), *data)
    assert again.returncode == 2
    assert "already" in again.stderr
    (tmp_path / "more").mkdir()
    same = run("import", str(one), str(write(tmp_path / "more" / "one.jsonl", 1)), *data)
    assert same.returncode == 2
    assert "--chat" in same.stderr


# --- what has piled up


@pytest.mark.proves("G-110")
async def test_who_would_pay_for_a_backlog_is_asked_first(open_memory: Opener):
    llm = ScriptedLlm()
    async with open_memory(llm=llm) as memory:
        chat = await memory.import_messages("log", talk(600))
        settled = await chat.settle()
        assert (settled.done, settled.reason, llm.asks) == (True, WAITS, [])
        assert {t.reason for t in await chat.tasks()} == {WAITS}
        await chat.append("user", "And now?")
        await chat.append("assistant", "Now we go on.")
        assert (await chat.settle()).reason == WAITS
        assert llm.asks == []
        prompt = await chat.prompt()
        assert prompt.messages[-1]["content"] == "Now we go on."
        assert prompt.tokens <= prompt.trace.budget_tokens

        expected = await chat.backfill(dry_run=True)
        assert (await chat.settle()).reason == WAITS
        assert llm.asks == []
        assert expected.messages == 582
        assert expected.cost_usd is None  # nobody knows the price of a program's own model
        assert expected.kinds["mini"] == 291
        assert expected.seconds > expected.calls

        assert await chat.backfill() == expected
        assert (await chat.settle()).reason == ""
        assert abs(len(llm.asks) - expected.calls) <= 0.2 * expected.calls
        covered = [i for s in [s async for s in chat.summaries()] if not s.level for i in s.covers]
        assert len(covered) == len(set(covered)) == 582
        assert (await chat.backfill(dry_run=True)).calls == 0
        assert (await chat.backfill()).calls == 0
        assert not await chat.pause_backfill()  # the wish was closed when it was fulfilled


@pytest.mark.proves("G-110")
async def test_a_plan_says_what_it_takes_if_the_model_cannot_answer_for_several(tmp_path: Path):
    """Such a model is told apart by its first answers; the rest is asked for one by one."""
    llm = ScriptedLlm(plain_note, parted=False)
    async with Memory.open(tmp_path / "log.db", llm=llm) as memory:
        chat = await memory.import_messages("log", talk(600))
        expected = await chat.backfill()
        await chat.settle()
        made = len(llm.asks)
        print(f"expected {expected.calls} to {expected.calls_max}, made {made}")
        assert made > 1.5 * expected.calls
        assert abs(made - expected.calls_max) <= 0.2 * made
    extracts = Memory.open(tmp_path / "free.db", settings={"auto_volume_summary": False})
    async with extracts as memory:
        free = await (await memory.import_messages("log", talk(600))).backfill(dry_run=True)
        assert free.calls_max == free.calls  # nothing is shared where nothing is paid


async def test_the_tokens_of_a_plan_are_those_that_are_used(tmp_path: Path):
    llm = ScriptedLlm()
    async with Memory.open(tmp_path / "log.db", llm=llm) as memory:
        chat = await memory.import_messages("log", talk(600))
        expected = await chat.backfill()
        await chat.settle()
        used = (await memory._house.store.usage("local", "chat"))[0]
        assert abs(expected.input_tokens - used.input_tokens) <= 0.2 * used.input_tokens
        assert abs(expected.output_tokens - used.output_tokens) <= 0.3 * used.output_tokens


async def test_a_short_backlog_is_worked_off_unasked(tmp_path: Path):
    llm = ScriptedLlm()
    async with Memory.open(tmp_path / "log.db", llm=llm, settings=SINGLY) as memory:
        chat = await memory.import_messages("log", talk(BACKLOG_MAX))
        assert (await chat.settle()).reason == ""
        assert len(llm.asks) == (BACKLOG_MAX - 20) // 2
        longer = await memory.import_messages("longer", talk(BACKLOG_MAX + 1))
        assert (await longer.settle()).reason == WAITS
        assert len(llm.asks) == (BACKLOG_MAX - 20) // 2


async def test_extracts_cost_nothing_and_run_at_once(tmp_path: Path):
    async with Memory.open(tmp_path / "log.db", settings={"auto_volume_summary": False}) as memory:
        chat = await memory.import_messages("log", talk(600))
        assert (await chat.settle()).reason == ""
        assert len([s async for s in chat.summaries()]) == 290


async def test_asking_for_a_run_is_consent_too(tmp_path: Path):
    llm = ScriptedLlm()
    async with Memory.open(tmp_path / "log.db", llm=llm, settings=SINGLY) as memory:
        chat = await memory.import_messages("log", talk(500))
        await chat.run()
        assert (await chat.settle()).reason == ""
        assert len(llm.asks) == 249


async def test_a_paused_backfill_waits_for_the_next_wish(tmp_path: Path):
    llm = ScriptedLlm()
    async with Memory.open(tmp_path / "log.db", llm=llm, settings=SINGLY) as memory:
        chat = await memory.import_messages("log", talk(900))
        llm.hang()
        await chat.backfill()
        assert not (await chat.settle(0.3)).done
        assert await chat.pause_backfill()
        llm.release()
        settled = await chat.settle()
        assert settled.reason == WAITS
        before = len(llm.asks)
        assert 0 < before < 100  # what was planned at one look is done, and no more
        left = await chat.backfill(dry_run=True)
        assert left.messages == 880 - 2 * before
        assert left.measured
        await chat.backfill()
        assert (await chat.settle()).reason == ""
        assert len(llm.asks) == 440


@pytest.mark.proves("G-37")
async def test_what_was_not_summarised_for_a_while_is_found(tmp_path: Path):
    """Greeting, empty and system floors, a time without summaries: all that is eligible gets its
    cover, once somebody has agreed."""
    llm = ScriptedLlm()
    quiet = {"auto_mini_summary": False, "auto_volume_summary": False, "visible_floors": 10}
    async with Memory.open(tmp_path / "log.db", llm=llm) as memory:
        chat = await memory.chat("log", settings=quiet)
        await chat.append("assistant", "Welcome aboard.")
        for said in talk(500):
            await chat.append(said["role"], said["content"])
            if said["content"].startswith("Floor 100."):
                await chat.append("user", "   ")
            if said["content"].startswith("Floor 200."):
                await chat.append("system", "The server will restart at noon.")
        assert (await chat.settle()).reason == ""  # nobody wants minis
        assert await chat.tasks() == []
        await memory.chat("log", settings={"auto_mini_summary": True})
        assert (await chat.settle()).reason == WAITS
        await chat.backfill()
        await chat.settle()
        said = [m async for m in chat.messages()]
        covered = {i for s in [s async for s in chat.summaries()] for i in s.covers}
        assert covered == {m.id for m in said[:-10] if m.eligible}
        assert len(said) - 10 - len(covered) == 1


# --- the command


def backfiller(calls: Path, *words: str) -> list[str]:
    return [sys.executable, str(BACKFILLER), str(calls), *words]


def run_and_kill(words: list[str], calls: Path, after: int) -> None:
    """Kill it once so many calls were made in all."""
    child = subprocess.Popen(
        words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while child.poll() is None and (not calls.exists() or calls.stat().st_size < after):
        time.sleep(0.01)
    assert child.poll() is None, "it was done before it was killed"
    child.kill()
    child.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.proves("G-110")
async def test_five_thousand_floors_survive_two_kills_within_the_estimate(tmp_path: Path):
    data = ("--data", str(tmp_path))
    file = write(tmp_path / "log.jsonl", FLOORS)
    assert run("import", str(file), *data).returncode == 0
    plan = json.loads(run("backfill", "log", "--json", *data).stdout)["plan"]
    calls = tmp_path / "calls"
    words = backfiller(calls, "backfill", "log", "--yes", "--json", *data)
    for after in (plan["calls"] // 4, plan["calls"] // 2):
        await asyncio.to_thread(run_and_kill, words, calls, after)
    done = await asyncio.to_thread(
        subprocess.run, words, env=environment(), capture_output=True, check=True, timeout=500
    )
    figures = json.loads(done.stdout)["done"]
    assert figures["messages"] == figures["of"] < FLOORS
    assert b"messages" in done.stderr
    made = calls.stat().st_size
    print(f"expected {plan['calls']} calls, made {made}")
    assert abs(plan["calls"] - made) <= 0.2 * made
    await every_floor_is_covered_once(tmp_path / "previously.db")


async def every_floor_is_covered_once(path: Path) -> None:
    house = await app.build(path, worker=False)
    try:
        ref = (await house.service.find_chat("log")).ref
        database = house.store._db
        written = await database.read(audit.stored, ref, "volumes")
        assert written == await database.read(audit.recompute, ref, "volumes")
        assert written.holes == frozenset()
        leaves = [s async for s in house.service.summaries(ref) if s.valid and not s.level]
        covered = [i for s in leaves for i in s.covers]
        everything = [m.id async for m in house.service.messages(ref)]
        assert len(covered) == len(set(covered))
        left = len(everything) - len(covered)
        assert sorted(covered) == everything[:-left]
        assert left == 20
        assert not await house.service.pause_backfill(ref)  # the wish was fulfilled
    finally:
        await house.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_command_shows_its_plan_and_begins_only_when_told_to(tmp_path: Path):
    data = ("--data", str(tmp_path))
    run("import", str(write(tmp_path / "log.jsonl", 600)), *data)
    url = ("--base-url", "https://models.example/v1", "--model", "some-model")
    run("profile", "add", "main", *url, "--price", "1,10", "--per-minute", "30", *data)
    plan = json.loads(run("backfill", "log", "--json", *data).stdout)["plan"]
    assert plan["model"] == "main"
    assert plan["cost_usd"] == pytest.approx(
        (plan["input_tokens"] + 10 * plan["output_tokens"]) / 1e6, rel=0.01
    )
    assert plan["seconds"] >= 2 * plan["calls"]
    asked = run("backfill", "log", *data)  # nobody there to say yes
    assert asked.returncode == 0
    assert asked.stdout.endswith("Nothing was begun.\n")
    assert f"about ${plan['cost_usd']:.2f}" in asked.stderr
    imported = run("import", str(write(tmp_path / "next.jsonl", 600)), *data)
    assert 'previously backfill "next"' in imported.stdout
    run("profile", "add", "main", *url, *data)
    assert "price unknown" in run("backfill", "log", *data).stderr
    assert json.loads(run("backfill", "log", "--pause", "--json", *data).stdout) == {
        "paused": False
    }
    run("profile", "rm", "main", *data)
    done = run("backfill", "log", "--yes", *data)
    assert done.returncode == 0
    assert "580 messages" in done.stdout
    assert "580/580 messages" in done.stderr
    assert run("backfill", "log", *data).stdout == "Nothing is due.\n"


@pytest.mark.timeout(120)
def test_the_command_says_what_cannot_be_done_and_goes_on_the_next_time(tmp_path: Path):
    data = ("--data", str(tmp_path))
    run("import", str(write(tmp_path / "log.jsonl", 600)), *data)
    url = ("--base-url", "http://127.0.0.1:9/v1", "--model", "some-model")
    run("profile", "add", "main", *url, "--price", "1,10", *data)
    broke = run("backfill", "log", "--yes", *data, PREVIOUSLY_MONTHLY_BUDGET_USD="0")
    assert broke.returncode == 1
    assert "--beyond-budget" in broke.stderr
    assert run("backfill", "log", "--pause", *data).stdout.startswith("There was none")
    run("profile", "add", "main", *url, "--price", "1,10", "--secret", "env:NOT_THERE", *data)
    anyway = ("--yes", "--beyond-budget")
    begun = run("backfill", "log", *anyway, *data, PREVIOUSLY_MONTHLY_BUDGET_USD="0")
    assert begun.returncode == 1
    assert "Not done: NotConfigured" in begun.stdout, "the key is missing, not the money"
    assert run("backfill", "log", "--pause", *data).stdout.startswith("Paused")
    assert run("backfill", "log", "--pause", *data).stdout.startswith("There was none")
