"""Three processes change and summarise sixty chats on one PostgreSQL; each second one is killed.

Each child changes a third of the chats and works on all of them; a fourth process only works, and
must live through everything. Meanwhile the database is restarted twice, the second time as after a
crash, and the model, which this process plays, fails now and then. At the end all errors are off,
every chat is settled, and everything is checked. Prints one JSON line; fails on `lost`, `wrong`,
`overlaps` or a dead worker.

    python tools/chaos_shared.py [--seconds 20] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import sqlalchemy as sa
from aiohttp import web
from chaos import (
    FAIL_SHARE,
    KEPT_AFTER_S,
    LOOK_EVERY_S,
    START_MAX_S,
    Ledger,
    as_state,
    misplaced,
    served,
    underived,
    unsettled,
)
from chaos_child import CHATS, SETTINGS, Log, LoopbackLlm, shorten_leases, text
from chaos_model import State

from previously import app
from previously.app import clock_ms
from previously.model import NewMessage
from previously.store.postgres import PostgresDatabase

sys.path.append(str(Path(__file__).parents[1]))
from tests.postgres import Server

NURSERY = Path(__file__).with_name("chaos_nursery.py")
THIRDS = 3
LEASE_S = 3.0
BACK_AFTER_S = 9.0  # a child tries for so long to reach a database that was restarted
PAUSE_S = 0.3  # of a hand between two changes: two cores are to have time for the rest
FILL_TURNS = 4
RESTARTS = ("fast", "immediate")
LONG_CALL_S = 1.5 * LEASE_S  # only whoever renews its lease has it to the end
LONG_SHARE = 0.01
SPY = (  # every claim, with what it found
    "CREATE TABLE claim (name text, fence bigint, until bigint, at bigint)",
    """CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO claim SELECT c.name, NEW.fence, OLD.lease_until,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      FROM chat c WHERE c.id = NEW.chat_id; RETURN NULL; END $$""",
    """CREATE TRIGGER spy AFTER UPDATE OF fence ON work FOR EACH ROW
      WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION spy()""",
)


@dataclass(slots=True)
class Call:
    """A question that has not been answered yet."""

    child: int
    connection: Any

    @property
    def stands(self) -> bool:
        """Whether somebody still waits for the answer."""
        return self.connection is not None and not self.connection.is_closing()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two children asking about one chat at the same time."""

    chat: int
    first: int
    second: int
    second_ms: int


@dataclass(slots=True)
class SharedModel:
    """Answers slowly and knows who else is asking about the same chat.

    A second question about a chat is suspicious if the first one still stands: its process lives
    and waits for the answer. It is an overlap unless the first one's lease had run out by then,
    which the database has written down (`SPY`): no lease can be renewed while it is restarted.
    """

    rng: random.Random
    fail_share: float = FAIL_SHARE
    dead: set[int] = field(default_factory=set[int])
    asked: list[tuple[float, int, int, str]] = field(
        default_factory=list[tuple[float, int, int, str]]
    )
    suspicious: list[Pair] = field(default_factory=list[Pair])
    taken_over_s: list[float] = field(default_factory=list[float])
    orphans: dict[int, float] = field(default_factory=dict[int, float])  # chat → since when
    _open: dict[int, list[Call]] = field(default_factory=dict[int, list[Call]])

    async def answer(self, request: web.Request) -> web.Response:
        """One note."""
        body = await request.json()
        child, chat = int(body["child"]), int(body["chat"])
        now = time.monotonic()
        self.asked.append((now, child, chat, body["hash"]))
        waiting = self._open.setdefault(chat, [])
        for other in waiting:
            if other.child not in self.dead and other.stands:
                self.suspicious.append(Pair(chat, other.child, child, clock_ms()))
        if chat in self.orphans:
            self.taken_over_s.append(now - self.orphans.pop(chat))
        call = Call(child, request.transport)
        waiting.append(call)
        try:
            await asyncio.sleep(self._takes_s())
        finally:
            waiting.remove(call)
        if self.rng.random() < self.fail_share:
            return web.Response(status=503)
        return web.Response(text="note of " + " ".join(body["marks"]))

    def _takes_s(self) -> float:
        if self.fail_share and self.rng.random() < LONG_SHARE:
            return LONG_CALL_S
        return 0.02 + self.rng.random() * (0.4 if self.fail_share else 0.02)

    def bury(self, child: int) -> None:
        """A child is dead from now on; its open calls are for others to make again."""
        self.dead.add(child)
        for chat, calls in self._open.items():
            if any(call.child == child for call in calls):
                self.orphans.setdefault(chat, time.monotonic())


@dataclass(slots=True)
class Life:
    """One child process."""

    number: int
    third: int
    process: int
    log: Path
    heard: int  # bytes that were in the log at its birth

    @property
    def at_work(self) -> bool:
        """Whether it has begun to change chats."""
        return self.log.exists() and b'"try"' in self.log.read_bytes()[self.heard :]

    @property
    def over(self) -> bool:
        """Whether its process is gone."""
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        return False

    async def kill(self) -> None:
        """At once, if it still lives."""
        while not self.over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            await asyncio.sleep(0.001)


@dataclass(slots=True)
class SharedStorm:
    """The whole run."""

    folder: Path
    postgres: Server
    database: str
    url: str
    model: SharedModel
    rng: random.Random
    nursery: Process
    reader: PostgresDatabase = field(init=False)
    ledgers: list[Ledger] = field(default_factory=list[Ledger])
    lives: list[Life] = field(default_factory=list[Life])
    ends: dict[int, float] = field(default_factory=dict[int, float])  # child → when it died
    born: int = 0
    kills: int = 0
    gave_up: int = 0
    lost: int = 0
    wrong: list[str] = field(default_factory=list[str])
    settle_s: float = 0.0
    last_restart: float = math.inf
    away: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    overlaps: list[Pair] = field(default_factory=list[Pair])
    expired: list[Pair] = field(default_factory=list[Pair])

    def _log(self, third: int) -> Path:
        return self.folder / f"chaos-{third}.log"

    async def blow(self, seconds: int) -> None:
        """Kill one every second, restart the database now and then, compare what is left."""
        self.reader = await PostgresDatabase.open(self.database)
        await self.reader.write(lambda conn: [conn.exec_driver_sql(line) for line in SPY])
        self.ledgers = [Ledger(self._log(third)) for third in range(THIRDS + 1)]
        await self._fill()
        self.lives = [await self._birth(third) for third in range(THIRDS + 1)]
        restarts = {seconds * (n + 1) // (len(RESTARTS) + 1): m for n, m in enumerate(RESTARTS)}
        for second in range(seconds):
            await asyncio.sleep(1.0)
            if second in restarts:
                begun = time.monotonic()
                await asyncio.to_thread(self.postgres.restart, restarts[second])
                self.last_restart = time.monotonic()
                self.away.append((begun, self.last_restart))
            victim = await self._victim()
            for life in self.lives[:THIRDS]:
                if life.over:
                    self.gave_up += 1
                    await self._replace(life)
            if victim in self.lives:
                await self._kill(victim)
        for life in self.lives[:THIRDS]:
            await self._kill(life, again=False)

    async def _fill(self) -> None:
        """Something to summarise from the start."""
        house = await app.build(self.database, worker=False)
        for n in range(CHATS):
            chat = await house.service.open_chat(f"chat {n}")
            roles = ("user", "assistant") * FILL_TURNS
            said = [NewMessage(r, text(n, f"99.{i}", self.rng)) for i, r in enumerate(roles)]
            for made in await house.service.append(chat.ref, said):
                change = {"op": "append", "body": made.body}
                self.ledgers[n % THIRDS].models[n].apply(change, made.id)
        await house.close()

    async def _victim(self) -> Life:
        """Mostly the oldest, which is given the time to get to work; or any, even at its start."""
        if self.rng.random() < 0.2:
            return self.rng.choice(self.lives[:THIRDS])
        oldest = min(self.lives[:THIRDS], key=lambda life: life.number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_MAX_S):
                while not oldest.at_work and not oldest.over:  # noqa: ASYNC110 - a file tells
                    await asyncio.sleep(LOOK_EVERY_S)
        return oldest

    async def _birth(self, third: int) -> Life:
        number, self.born = self.born, self.born + 1
        share = f"{third}/{THIRDS}" if third < THIRDS else "0/0"
        log = self._log(third)
        heard = log.stat().st_size if log.exists() else 0
        args = [self.database, self.url, str(log), str(number)]
        options = ["--share", share, "--lease-s", str(LEASE_S), "--pause-s", str(PAUSE_S)]
        process = await self._fork([*args, *options])
        return Life(number, third, process, log, heard)

    async def _fork(self, arguments: list[str]) -> int:
        into, out = self.nursery.stdin, self.nursery.stdout
        assert into is not None
        assert out is not None
        into.write(json.dumps(arguments).encode() + b"\n")
        return int(await out.readline())

    async def _kill(self, life: Life, *, again: bool = True) -> None:
        self.kills += not life.over
        await life.kill()
        await self._replace(life, again=again)

    async def _replace(self, life: Life, *, again: bool = True) -> None:
        """What a dead child acknowledged is compared with what is there, then another one lives."""
        self.ends[life.number] = time.monotonic()
        self.model.bury(life.number)
        self.ledgers[life.third].replay(life.number)
        self.lost += self.ledgers[life.third].lost(await self._stored(life.third))
        if again:
            self.lives[life.third] = await self._birth(life.third)

    async def _stored(self, third: int) -> dict[int, State]:
        return await self.reader.write(_stored, range(CHATS)[third::THIRDS])

    async def settle(self) -> None:
        """Work off all that is due, now without errors, beside the worker that has lived on."""
        worker = self.lives[THIRDS]
        self.model.fail_share = 0.0
        start = time.monotonic()
        async with aiohttp.ClientSession() as session:
            llm = LoopbackLlm(session, self.url, self.born, Log(str(self.folder / "last.log")))
            house = await app.build(self.database, llm=llm, settings=SETTINGS)
            try:
                chats = [await house.service.open_chat(f"chat {n}") for n in range(CHATS)]
                self.wrong += await unsettled(house, chats)
                self.settle_s = time.monotonic() - start
                self.wrong += [w for chat in chats async for w in misplaced(house, chat)]
            finally:
                await house.close()
        if worker.over or not self._worked(worker.number):
            self.wrong.append("the worker did not live through the restarts")
        self.wrong += await underived(self.reader, chats)
        for pair in self.model.suspicious:
            fair = await self.reader.read(_had_run_out, pair)
            (self.expired if fair else self.overlaps).append(pair)

    def _worked(self, child: int) -> bool:
        return any(
            who == child and at > self.last_restart + LEASE_S for at, who, *_ in self.model.asked
        )

    async def end(self) -> None:
        """Nobody is left."""
        for life in self.lives:
            await life.kill()
        await self.reader.close()
        self.ledgers[THIRDS].replay(self.lives[THIRDS].number)

    def repeated(self, *, away: bool) -> int:
        """Requests for an answer that a child had long enough before it died.

        `away`: it came while there was no database to keep it in, and its child died before there
        was one again.
        """
        had: dict[tuple[int, str], float] = {}
        for ledger in self.ledgers:
            for child, chat, request, at in ledger.answers:
                end = self.ends.get(child, math.inf)
                if at <= end - KEPT_AFTER_S and self._was_away(at, end) == away:
                    had[chat, request] = min(at, had.get((chat, request), math.inf))
        return sum(at > had.get((chat, h), math.inf) for at, _, chat, h in self.model.asked)

    def _was_away(self, at: float, end: float) -> bool:
        return any(
            since <= at + KEPT_AFTER_S and at <= until and end <= until + BACK_AFTER_S
            for since, until in self.away
        )


def _stored(conn: sa.Connection, numbers: Sequence[int]) -> dict[int, State]:
    """Messages of some chats, read past the product.

    A commit that a killed process had sent may still be under way: it holds the lock waited for.
    """
    lock = sa.text(
        "SELECT w.chat_id FROM work w JOIN chat c ON c.id = w.chat_id "
        "WHERE c.name = ANY(:names) FOR UPDATE OF w"
    )
    conn.execute(lock, {"names": [f"chat {n}" for n in numbers]})
    query = sa.text(
        "SELECT m.id, m.body, m.hidden_by IS NOT DISTINCT FROM 'user', m.deleted_at IS NOT NULL, "
        "m.variant FROM message m JOIN chat c ON c.id = m.chat_id WHERE c.name = :name "
        "ORDER BY m.pos"
    )
    return {n: as_state(conn.execute(query, {"name": f"chat {n}"})) for n in numbers}


def _had_run_out(conn: sa.Connection, pair: Pair) -> bool:
    """Whether the second child was let in because the first one's lease was over."""
    query = sa.text(
        "SELECT until IS NOT NULL AND until <= at FROM claim WHERE name = :name AND at <= :second "
        "ORDER BY fence DESC LIMIT 1"
    )
    values = {"name": f"chat {pair.chat}", "second": pair.second_ms}
    return bool(conn.execute(query, values).scalar())


@contextlib.asynccontextmanager
async def nursery(complaints: Path) -> AsyncGenerator[Process]:
    """A process that children are forked from; they may complain into a file."""
    command = (sys.executable, str(NURSERY))
    with complaints.open("wb") as errors:
        made = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=errors
        )
    try:
        yield made
    finally:
        await made.communicate(b"")  # which closes its input


async def run(seconds: int, seed: int, folder: Path, postgres: Server) -> dict[str, Any]:
    """The storm, and what it found."""
    rng = random.Random(seed)  # noqa: S311 - a seed, not a secret
    model = SharedModel(rng)
    shorten_leases(LEASE_S)
    async with served(model.answer) as url, nursery(folder / "complaints.log") as forking:
        storm = SharedStorm(folder, postgres, postgres.database(), url, model, rng, forking)
        try:
            await storm.blow(seconds)
            await storm.settle()
        finally:
            await storm.end()
    for line in [*storm.wrong[:10], *storm.overlaps[:10]]:
        print(line, file=sys.stderr)
    return {
        "changes": sum(ledger.changes for ledger in storm.ledgers),
        "kills": storm.kills,
        "gave_up": storm.gave_up,
        "restarts": len(RESTARTS),
        "calls": len(model.asked),
        "lost": storm.lost,
        "wrong": len(storm.wrong),
        "overlaps": len(storm.overlaps),
        "expired": len(storm.expired),
        "repeated": storm.repeated(away=False),
        "repeated_without_database": storm.repeated(away=True),
        "taken_over": len(model.taken_over_s),
        "take_over_median_s": round(statistics.median(model.taken_over_s or [0.0]), 2),
        "take_over_max_s": round(max(model.taken_over_s, default=0.0), 2),
        "settle_s": round(storm.settle_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="previously-chaos-") as folder:
        postgres = Server(Path(tempfile.mkdtemp(prefix="previously-postgres-")), fast=False)
        result = asyncio.run(run(args.seconds, args.seed, Path(folder), postgres))
    print(json.dumps(result))
    sys.exit(1 if any(result[k] for k in ("lost", "wrong", "overlaps")) else 0)


if __name__ == "__main__":
    main()
