"""Changes chats at random through the library until it is killed. Run by chaos.py, and by
chaos_shared.py with a share of the chats, of which there may be none: then it only summarises.

Every change is announced in the log before it is made and acknowledged after; so is the arrival of
every answer. A line is one `write` to a file opened for appending: it outlives the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from previously import Memory, runner
from previously.errors import ModelUnavailable, StoreUnavailable
from previously.memory import Chat
from previously.model import Ask, Message, Reply, Usage
from previously.store import postgres

CHATS = 60
GAVE_UP = 3  # exit code of a child whose database went away
HANDS = 6  # changes under way at once, never two in one chat
MESSAGES_MIN = 4  # before a chat is changed, it is filled
APPEND_SHARE = 0.45
SETTINGS = {"visible_floors": 2, "fold_every": 2}
WORDS = "rope lantern ledger tide captain promised Thursday compass silver quarrel letter harbour"

MARK = re.compile(r"⟦(\d+)\.[\d.]+⟧")  # chat, process, number: no two texts have the same


def text(chat: int, rest: str, rng: random.Random) -> str:
    """Some words behind a mark of their own."""
    mark = f"⟦{chat}.{rest}⟧"
    return " ".join([mark, *rng.choices(WORDS.split(), k=rng.randrange(10, 40))])


class Log:
    """Lines that a killed process leaves behind."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, **line: Any) -> None:
        """One event."""
        os.write(self._file, json.dumps(line, ensure_ascii=False).encode() + b"\n")


class LoopbackLlm:
    """A summariser behind HTTP: the server sees every request, the log every answer."""

    name = "loopback"
    costs = True
    window_tokens: int | None = None

    def __init__(self, session: aiohttp.ClientSession, url: str, child: int, log: Log) -> None:
        self._session, self._url, self._child, self._log = session, url, child, log

    async def complete(self, ask: Ask) -> Reply:
        """The server's note."""
        marks = [found.group() for _, text in ask.material for found in MARK.finditer(text)]
        chat = int(marks[0][1:].split(".")[0])
        body = {"child": self._child, "chat": chat, "hash": ask.hash, "marks": marks}
        async with self._session.post(self._url, json=body) as response:
            if response.status != 200:
                raise ModelUnavailable(f"HTTP {response.status}")
            text = await response.text()
        self._log.write(event="answer", chat=chat, hash=ask.hash, at=time.monotonic())
        return Reply(text, self.name, usage=Usage(100, 20))


class Hand:
    """Makes one change after the other to some chats."""

    def __init__(
        self, child: int, chats: dict[int, Chat], log: Log, rng: random.Random, pause_s: float
    ) -> None:
        self._child, self._chats, self._log, self._rng = child, chats, log, rng
        self._pause_s = pause_s
        self._there: dict[int, list[int]] = {}  # keys of the messages that are there, by chat
        self._count = 0

    async def work(self) -> None:
        """Until the process ends."""
        for number, chat in self._chats.items():
            self._there[number] = [m.id async for m in chat.messages()]
        while True:
            await self._step(self._rng.choice(list(self._chats)))
            await asyncio.sleep(self._rng.random() * self._pause_s)

    async def _step(self, number: int) -> None:
        there = self._there[number]
        change = self._choose(number, there)
        self._log.write(event="try", chat=number, change=change)
        made = await _do(self._chats[number], change)
        self._log.write(event="done", chat=number, key=made.id if made else change.get("key", 0))
        if made is not None and change["op"] == "append":
            there.append(made.id)
        elif change["op"] == "delete":
            self._there[number] = [key for key in there if key not in change["keys"]]
        elif change["op"] == "undo":
            self._there[number] = [m.id async for m in self._chats[number].messages()]

    def _choose(self, number: int, there: list[int]) -> dict[str, Any]:
        rng = self._rng
        if len(there) < MESSAGES_MIN or rng.random() < APPEND_SHARE:
            role = rng.choice(["user", "assistant"])
            return {"op": "append", "role": role, "body": self._text(number)}
        key = rng.choice(there)
        return rng.choice(
            [
                {"op": "edit", "key": key, "body": self._text(number)},
                {"op": "edit", "key": there[-1], "body": self._text(number)},
                {"op": "delete", "keys": sorted({key, rng.choice(there)})},
                {"op": "swipe", "key": key, "choice": self._text(number)},
                {"op": "swipe", "key": key, "choice": 0},
                {"op": "hide", "key": key, "hidden": rng.random() < 0.6},
                {"op": "undo"},
            ]
        )

    def _text(self, number: int) -> str:
        self._count += 1
        return text(number, f"{self._child}.{self._rng.randrange(10**9)}{self._count}", self._rng)


async def _do(chat: Chat, change: dict[str, Any]) -> Message | None:
    match change["op"]:
        case "append":
            return await chat.append(change["role"], change["body"])
        case "edit":
            return await chat.edit(change["key"], change["body"])
        case "delete":
            await chat.delete(*change["keys"])
        case "swipe":
            return await chat.swipe(change["key"], change["choice"])
        case "hide":
            await chat.hide(change["key"], hidden=change["hidden"])
        case _:
            await chat.undo()
    return None


async def main(argv: Sequence[str] | None = None) -> None:
    """As the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("url")
    parser.add_argument("log")
    parser.add_argument("child", type=int)
    parser.add_argument("--share", default="0/1", help="which part of the chats to change")
    parser.add_argument("--pause-s", type=float, default=0.01, help="longest between two changes")
    parser.add_argument("--lease-s", type=float, help="for how long a chat is leased")
    args = parser.parse_args(argv)
    if args.lease_s is not None:
        shorten_leases(args.lease_s)
    try:
        await change(args)
    except StoreUnavailable:
        os._exit(GAVE_UP)  # as suddenly as if it were killed


def shorten_leases(lease_s: float) -> None:
    """A lease, and all that goes by it, in proportion; and no more connections than are needed."""
    postgres.POOL_SIZE = 4
    runner.LEASE_MS = int(lease_s * 1000)
    runner.RENEW_EVERY_S = lease_s / 4
    runner.SWEEP_EVERY_S = lease_s / 3


async def change(args: argparse.Namespace) -> None:
    """Until the process ends."""
    log = Log(args.log)
    rng = random.Random(args.child)  # noqa: S311 - a seed, not a secret
    async with aiohttp.ClientSession() as session:
        llm = LoopbackLlm(session, args.url, args.child, log)
        async with Memory.open(args.database, llm=llm, settings=SETTINGS) as memory:
            first, step = (int(part) for part in args.share.split("/"))
            mine = range(CHATS)[first::step] if step else range(0)
            opened = await asyncio.gather(*(memory.chat(f"chat {n}") for n in mine))
            chats = list(zip(mine, opened, strict=True))
            hands = [
                Hand(args.child, dict(chats[h::HANDS]), log, rng, args.pause_s)
                for h in range(HANDS)
            ]
            await asyncio.gather(*(hand.work() for hand in hands if chats), asyncio.Event().wait())


if __name__ == "__main__":
    asyncio.run(main())
