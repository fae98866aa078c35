"""The commands as processes: what they say, how they end, and that no password is ever printed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa
from openai import AsyncOpenAI

from previously import Memory
from previously.store.migrate import HEAD
from previously.testing import FakeUpstream
from tests.postgres import Server
from tests.store.test_migrations import FIRST, LINES, at, on_postgres, on_sqlite

PREVIOUSLY = Path(sys.executable).parent / "previously"
PASSWORD = "hunter2-of-the-test"
SMALL = {"visible_floors": 2, "fold_every": 1}


def environment(**more: str) -> dict[str, str]:
    inherited = os.environ.items()  # noqa: TID251 - a child needs PATH and the like
    kept = {k: v for k, v in inherited if not k.startswith("PREVIOUSLY_")}
    return {**kept, "PYTHONIOENCODING": "utf-8", **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    command = [str(PREVIOUSLY), *words]
    return subprocess.run(
        command,
        env=environment(**more),
        capture_output=True,
        encoding="utf-8",
        timeout=45,
        check=False,
    )


@contextmanager
def started(*words: str, **more: str) -> Generator[subprocess.Popen[str]]:
    """A command that runs until it is told to stop."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen([str(PREVIOUSLY), *words], env=environment(**more), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def with_password(url: str, *, in_query: bool = False) -> str:
    """The server asks local users for none; what is sent does not matter to it."""
    made = sa.make_url(url)
    if in_query:
        made = made.set(username=None).update_query_dict({"user": "postgres", "password": PASSWORD})
    else:
        made = made.set(password=PASSWORD)
    return made.render_as_string(hide_password=False)


def test_a_worker_of_its_own_refuses_a_file(tmp_path: Path):
    ended = run("worker", "--database", str(tmp_path / "x.db"))
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "--database postgresql://user@host/name" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_works_until_it_is_told_to_stop(postgres_url: str, number: int):
    with started("worker", "--database", with_password(postgres_url)) as worker:
        assert re.fullmatch(
            r"Working on postgresql://postgres:\*\*\*@/test_.*\.\n", first_line(worker)
        )
        async with Memory.open(postgres_url, worker=False) as memory:
            chat = await memory.chat("c", settings=SMALL)
            for n in range(8):
                await chat.append(("user", "assistant")[n % 2], f"line {n}.")
            assert (await chat.settle()).done
            assert len([s async for s in chat.summaries()]) == 3
        start = time.monotonic()
        worker.send_signal(number)
        assert worker.wait(timeout=10) == 0
        assert time.monotonic() - start < 3
        assert worker.stderr is not None
        assert worker.stderr.read() == ""


def test_a_worker_says_where_it_works_in_json(postgres_url: str):
    with started("worker", "--json", PREVIOUSLY_DATABASE=with_password(postgres_url)) as worker:
        told = json.loads(first_line(worker))
    assert told["database"].startswith("postgresql://postgres:***@/test_")


def test_a_worker_without_its_database_says_so(postgres_url: str):
    gone = sa.make_url(postgres_url).set(database="no_such", password=PASSWORD)
    ended = run("worker", "--database", gone.render_as_string(hide_password=False))
    assert ended.returncode == 1
    assert "no_such" in ended.stderr
    assert PASSWORD not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.proves("G-72")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_migrate_brings_a_database_up(kind: str, tmp_path: Path, postgres: Server):
    if kind == "sqlite":
        old = on_sqlite(tmp_path / "old.db")
        location = where = str(old.location)
    else:
        old = on_postgres(postgres.database("template1"))
        location, where = with_password(str(old.location)), "postgresql://postgres:***@/test_"
    at(old, FIRST)
    ended = run("migrate", "--database", location)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(where)
    assert ended.stdout.endswith(f" has schema {HEAD}.\n")
    again = json.loads(run("migrate", "--database", location, "--json").stdout)
    assert again["schema"] == HEAD
    assert again["database"].startswith(where)
    shown = run("prompt", "旧的", "--database", location)
    assert LINES[-1] in shown.stdout, shown.stderr


def test_migrate_moves_a_memory_to_a_server(tmp_path: Path, postgres_url: str):
    old = on_sqlite(tmp_path / "old.db")
    at(old, FIRST)
    target = with_password(postgres_url)
    ended = run("migrate", "--database", str(old.location), "--to", target, "--json")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["rows"]["message"] == len(LINES)
    assert PASSWORD not in ended.stdout + ended.stderr
    again = run("migrate", "--database", str(old.location), "--to", target)
    assert again.returncode == 2
    assert "holds chats already" in again.stderr


@pytest.mark.parametrize("in_query", [False, True])
def test_the_doctor_looks_at_a_server_and_keeps_its_password(postgres_url: str, in_query: bool):
    location = with_password(postgres_url, in_query=in_query)
    ended = run("doctor", "--database", location)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"ok +database +postgresql://.* is sound; chats: 0", ended.stdout)
    assert PASSWORD not in ended.stdout + ended.stderr
    assert "***" in ended.stdout
    findings = json.loads(run("doctor", "--database", location, "--json").stdout)
    assert all(f["ok"] for f in findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "location",
    [
        f"postgresql://someone:{PASSWORD}@127.0.0.1:9/none",
        f"postgresql://127.0.0.1:9/none?user=someone&password={PASSWORD}",
    ],
)
def test_the_doctor_says_that_a_server_is_not_there(location: str):
    ended = run("doctor", "--database", location)
    assert ended.returncode == 1
    assert re.search(r"FAIL +database +.*cannot be reached", ended.stdout)
    assert PASSWORD not in ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["doctor", "worker", "migrate"])
def test_a_url_that_cannot_be_read_is_wrong_usage(command: str):
    ended = run(command, "--database", f"postgresql://someone@host:{PASSWORD}/x")
    assert ended.returncode == 2
    assert "postgresql://user@host/name" in ended.stderr
    assert PASSWORD not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_older_server_is_not_read_but_named(postgres: Server):
    old = on_postgres(postgres.database("template1"))
    at(old, FIRST)
    ended = run("prompt", "旧的", "--database", str(old.location))
    assert ended.returncode == 1
    assert "previously migrate" in ended.stderr


async def test_a_server_records_turns_in_postgres(postgres_url: str):
    async with FakeUpstream() as upstream:
        options = ("--port", "0", "--upstream", upstream.url, "--json")
        with started("serve", "--database", with_password(postgres_url), *options) as server:
            told = json.loads(first_line(server))
            assert told["database"].startswith("postgresql://postgres:***@/test_")
            healthz = told["address"] + "/healthz"
            async with aiohttp.ClientSession() as session, session.get(healthz) as health:
                assert health.status == 200
            base_url = told["base_url"].replace("CHAT", "demo")
            async with AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0) as client:
                talk: list[Any] = [{"role": "user", "content": "你好"}]
                answer = await client.chat.completions.create(model="m", messages=talk)
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=10) == 0
    async with Memory.open(postgres_url, read_only=True) as memory:
        said = [(m.role, m.body) async for m in (await memory.chat("demo")).messages()]
    assert said == [("user", "你好"), ("assistant", answer.choices[0].message.content)]


@pytest.mark.slow
async def test_a_chat_is_continued_from_the_command_line(tmp_path: Path):
    async with Memory.open(tmp_path / "previously.db") as memory:
        chat = await memory.chat("old", settings=SMALL)
        for n in range(6):
            await chat.append("user", f"Mara hid key {n} under the stone.")
            await chat.append("assistant", f"Stone {n} keeps it.")
        await chat.settle()
    ended = run("continue", "old", "new", "--data", str(tmp_path), "--json")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["chat"] == "new"
    assert told["carried"] >= 6
    again = run("continue", "old", "new", "--data", str(tmp_path))
    assert again.returncode == 2
    assert "already" in again.stderr
    assert "continues old" in run("continue", "old", "third", "--data", str(tmp_path)).stdout
