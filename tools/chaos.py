"""kill -9 every one or two seconds under random changes to sixty chats. Prints one JSON line.

A child process changes chats through the library while its background asks a model behind HTTP,
which this process plays, with a few injected errors. Whatever the child acknowledged must be in
the file after each kill; the one change per hand that was under way may be there or not. At the
end every chat is settled, and what is stored about coverage must be what its hashes say.

    python tools/chaos.py [--seconds 20] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import math
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from chaos_child import CHATS, MARK, SETTINGS, Log, LoopbackLlm
from chaos_model import Change, ChatModel, State

from previously import app
from previously.lanes.volumes import NAME as LANE
from previously.model import Chat
from previously.service import Place
from previously.store import Database, audit
from previously.store.sqlite import SqliteDatabase

FAIL_SHARE = 0.05
KEPT_AFTER_S = 0.1  # an answer that arrived this long before a kill is never asked for again
START_MAX_S = 5.0
LOOK_EVERY_S = 0.01
LIFE_MAX_S = 1.5  # with its start that makes a kill every one or two seconds
SETTLE_MAX_S = 25.0
ROOMY_TOKENS = 200_000
CHILD = Path(__file__).with_name("chaos_child.py")


@dataclass(slots=True)
class ModelServer:
    """Answers after some milliseconds, now and then with an error; remembers who asked what."""

    rng: random.Random
    fail_share: float = FAIL_SHARE
    asked: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    overlaps: int = 0
    _open: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    async def answer(self, request: web.Request) -> web.Response:
        """One note."""
        body = await request.json()
        worker = (body["child"], body["chat"])
        self.asked.append((*worker, body["hash"]))
        self._open[worker] += 1
        self.overlaps += self._open[worker] > 1
        try:
            await asyncio.sleep(0.002 + self.rng.random() * 0.01)
        finally:
            self._open[worker] -= 1
        if self.rng.random() < self.fail_share:
            return web.Response(status=503)
        return web.Response(text="note of " + " ".join(body["marks"]))


@dataclass(slots=True)
class Ledger:
    """What the children said, replayed."""

    path: Path
    models: list[ChatModel] = field(default_factory=lambda: [ChatModel() for _ in range(CHATS)])
    under_way: dict[int, Change] = field(default_factory=dict[int, Change])
    answers: list[tuple[int, int, str, float]] = field(
        default_factory=list[tuple[int, int, str, float]]
    )
    changes: int = 0
    _read_to: int = 0

    def replay(self, child: int) -> None:
        """Take in what one child wrote."""
        raw = self.path.read_bytes()[self._read_to :] if self.path.exists() else b""
        self._read_to += len(raw)
        for line in raw.decode().splitlines():
            said = json.loads(line)
            chat: int = said["chat"]
            match said["event"]:
                case "try":
                    self.under_way[chat] = said["change"]
                case "done":
                    change = self.under_way.pop(chat)
                    self.models[chat].apply(change, said["key"])
                    self.changes += 1
                case _:
                    self.answers.append((child, chat, said["hash"], said["at"]))

    def lost(self, stored: Mapping[int, State]) -> int:
        """Messages that are not as acknowledged; what was under way is taken as it is found."""
        count = 0
        for number, found in stored.items():
            model = self.models[number]
            after = _with(model, self.under_way.pop(number, None), found)
            if found == after.state():
                self.models[number] = after
            elif found != model.state():
                count += len(set(found.items()) ^ set(model.state().items()))
        return count


def _with(model: ChatModel, change: Change | None, found: State) -> ChatModel:
    """The chat as it is if this unacknowledged change has happened."""
    if change is None:
        return model
    after = copy.deepcopy(model)
    born = [key for key in found if key not in model.said]
    if change["op"] != "append" or born:
        after.apply(change, born[0] if change["op"] == "append" else change.get("key", 0))
    return after


def _stored(database: Path) -> dict[int, State]:
    """Every chat's messages, read past the product."""
    query = (
        "SELECT m.id, m.body, m.hidden_by IS 'user', m.deleted_at IS NOT NULL, m.variant "
        "FROM message m JOIN chat c ON c.id = m.chat_id WHERE c.name = ? ORDER BY m.pos"
    )
    with closing(sqlite3.connect(database)) as db:
        return {n: as_state(db.execute(query, (f"chat {n}",))) for n in range(CHATS)}


def as_state(rows: Iterable[Sequence[Any]]) -> State:
    """Rows of id, body, hidden, deleted, variant."""
    return {key: (body, bool(h), bool(d), v) for key, body, h, d, v in rows}


@dataclass(slots=True)
class Storm:
    """The whole run."""

    folder: Path
    url: str
    server: ModelServer
    rng: random.Random
    kills: dict[int, float] = field(default_factory=dict[int, float])  # child → when
    lost: int = 0
    wrong: list[str] = field(default_factory=list[str])
    settle_s: float = 0.0

    @property
    def database(self) -> Path:
        return self.folder / "chaos.db"

    @property
    def log(self) -> Path:
        return self.folder / "chaos.log"

    async def blow(self, seconds: float) -> Ledger:
        """Start a child, kill it, compare; again and again."""
        ledger = Ledger(self.log)
        await (await app.build(self.database, worker=False)).close()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            child = len(self.kills)
            await self._one_life(child)
            ledger.replay(child)
            self.lost += ledger.lost(_stored(self.database))
        return ledger

    async def _one_life(self, child: int) -> None:
        args = [str(self.database), self.url, str(self.log), str(child)]
        process = await asyncio.create_subprocess_exec(sys.executable, str(CHILD), *args)
        await self._at_work()
        await asyncio.sleep(self.rng.random() * LIFE_MAX_S)
        if process.returncode is not None:
            raise SystemExit(f"the child ended by itself, with {process.returncode}")
        self.kills[child] = time.monotonic()
        process.kill()
        await process.wait()

    async def _at_work(self) -> None:
        """Wait until the child has made itself heard; one in five is killed at its start."""
        patience_s = START_MAX_S if self.rng.random() < 0.8 else self.rng.random()
        heard = self._log_bytes()
        for _ in range(int(patience_s / LOOK_EVERY_S)):
            if self._log_bytes() > heard:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    def _log_bytes(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    async def settle(self) -> None:
        """Open the file once more and work off all that is due, now without errors."""
        child = len(self.kills)
        self.kills[child] = math.inf
        self.server.fail_share = 0.0
        start = time.monotonic()
        async with aiohttp.ClientSession() as session:
            llm = LoopbackLlm(session, self.url, child, Log(str(self.log)))
            house = await app.build(self.database, llm=llm, settings=SETTINGS)
            try:
                chats = [await house.service.find_chat(f"chat {n}") for n in range(CHATS)]
                self.wrong += await unsettled(house, chats)
                self.settle_s = time.monotonic() - start
                self.wrong += [w for chat in chats async for w in misplaced(house, chat)]
            finally:
                await house.close()
        database = SqliteDatabase(self.database, read_only=True)
        self.wrong += await underived(database, chats)
        await database.close()

    def repeated(self, ledger: Ledger) -> int:
        """Requests for an answer that a child had long enough before it was killed."""
        safe = {
            (chat, request): child
            for child, chat, request, at in ledger.answers
            if at <= self.kills[child] - KEPT_AFTER_S
        }
        return sum(child > safe.get((chat, h), math.inf) for child, chat, h in self.server.asked)


async def underived(database: Database, chats: Sequence[Chat]) -> list[str]:
    """Chats whose coverage is not what messages and hashes say."""
    return [
        f"{chat.ref.name}: what is stored is not what hashes say"
        for chat in chats
        if await database.read(audit.stored, chat.ref, LANE)
        != await database.read(audit.recompute, chat.ref, LANE)
    ]


async def unsettled(house: app.House, chats: Sequence[Chat]) -> list[str]:
    """Wait until nothing is due and nothing waits for another try; the chats where that fails."""
    end = time.monotonic() + SETTLE_MAX_S
    while True:
        ends = await asyncio.gather(*(house.service.settle(c.ref, SETTLE_MAX_S) for c in chats))
        states = [await house.store.work_state(c.ref) for c in chats]
        busy = [
            f"{chat.ref.name}: not settled in time ({state})"
            for chat, settled, state in zip(chats, ends, states, strict=True)
            if not settled.done or state.due_at_ms is not None
        ]
        if not busy or time.monotonic() > end:
            return busy
        await asyncio.sleep(0.25)


async def misplaced(house: app.House, chat: Chat) -> AsyncIterator[str]:
    """Messages without a place, and texts that a prompt shows twice or should not show."""
    prompt = await house.service.prompt(chat.ref, ROOMY_TOKENS)
    places = [p async for p in house.service.places(chat.ref, prompt)]
    for place in places:
        if place.how == "dropped" and not _with_reason(place):
            yield f"{chat.ref.name}: message {place.floor} has no place"
    # What a turn calls up is quoted beside the summary that tells it.
    blocks = [b.wire for b in prompt.trace.blocks if b.place != "fragment"]
    shown = Counter(m.group() for m in MARK.finditer(json.dumps(blocks, ensure_ascii=False)))
    wanted = Counter(p.message.body.split()[0] for p in places if p.how != "dropped")
    if shown != wanted:
        yield f"{chat.ref.name}: {dict(shown - wanted)} too many, {dict(wanted - shown)} missing"


def _with_reason(place: Place) -> bool:
    return not place.message.shown or place.reason not in ("", "unknown", "not for summaries")


@asynccontextmanager
async def served(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncGenerator[str]:
    """The URL of a model that answers like this."""
    application = web.Application()
    application.router.add_post("/note", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/note"
    finally:
        await runner.cleanup()


async def run(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """The storm, and what it found."""
    rng = random.Random(seed)  # noqa: S311 - a seed, not a secret
    server = ModelServer(rng)
    async with served(server.answer) as url:
        storm = Storm(folder, url, server, rng)
        ledger = await storm.blow(seconds)
        kills = len(storm.kills)
        await storm.settle()
        ledger.replay(kills)
        storm.lost += ledger.lost(_stored(storm.database))
    for line in storm.wrong[:10]:
        print(line, file=sys.stderr)
    return {
        "changes": ledger.changes,
        "kills": kills,
        "calls": len(server.asked),
        "lost": storm.lost,
        "wrong": len(storm.wrong),
        "overlaps": server.overlaps,
        "repeated": storm.repeated(ledger),
        "settle_s": round(storm.settle_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="previously-chaos-") as folder:
        result = asyncio.run(run(args.seconds, args.seed, Path(folder)))
    print(json.dumps(result))
    sys.exit(1 if any(result[k] for k in ("lost", "wrong", "overlaps", "repeated")) else 0)


if __name__ == "__main__":
    main()
