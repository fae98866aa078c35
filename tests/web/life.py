"""Random lives of a role-play client: what its user, its settings and its server do to a chat.

What is stored in the end must be what the client has: nothing lost, nothing twice, nothing that
was injected. Each life follows from its seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from previously import app
from previously.testing import FakeUpstream
from previously.web.serve import create_app
from tests.sqlite import fresh
from tests.web.rig import Door, running
from tests.web.tavern import Row, Tavern

WORDS = [
    *("amber", "brook", "candle", "dune", "ember", "fjord", "garnet", "hollow", "iris", "juniper"),
    *("kettle", "lantern", "marsh", "north", "oak", "pebble", "quarry", "river", "stone", "tide"),
    *("umber", "vale", "willow", "yarrow"),
]
HANZI = [
    *("灯塔", "海鸥", "码头", "雨夜", "老船长", "铜钥匙", "酒馆", "沙丘", "旧信", "潮水", "琥珀")
]
SHORT = ["嗯。", "Yes.", "继续", "好的，走吧。", "Go on."]
PRESET: dict[str, Any] = {
    "around": ("<chat_history>", "</chat_history>"),
    "jailbreak": "以上为聊天记录。",
    "behind": (("user", "<format>先思考。</format>"), ("assistant", "<thinking>\n好的。")),
}
GROUP: dict[str, Any] = {"members": ("Alice", "Bob")}
INJECTED = ("[", "(lore", "<format>", "<thinking>", "chat_history", "以上为", "Write ", "as cards")
FIRST_TURNS = 4  # after which a life is left to itself
LAST_TURNS = 5  # of a user who does nothing else: every doubt has to end by then…
MORE_TURNS = 3  # …but for one about what such a turn is the first to show


def line(n: int, count: int = 12) -> str:
    rng = random.Random(n)
    return f"{' '.join(rng.choice(WORDS) for _ in range(count)).capitalize()} {n}."


def hanzi(n: int, count: int = 8) -> str:
    rng = random.Random(n)
    return f"{'，'.join(rng.choice(HANZI) for _ in range(count))}{n}。"


def without_status(text: str, depth: int) -> str:
    """A rule for prompts only, from a depth on."""
    return re.sub(r"\n<status>.*?</status>", "", text) if depth >= 3 else text


@dataclass(frozen=True)
class Kind:
    """What lives are to be looked at."""

    named: bool = True
    switching: bool = False  # presets come and go
    wild: bool = False  # also what decision 0017 says that nobody can tell
    steps: int = 20
    terse: bool = False  # a user who says the same few words at nearly every turn


def settings_of(rng: random.Random, kind: Kind) -> dict[str, Any]:
    """A client as its user has set it up."""
    options: dict[str, Any] = {"chat": "demo" if kind.named else ""}
    for share, more in (
        (0.3, GROUP),
        (0.3, PRESET),
        (0.4, {"note": "[note]", "note_depth": rng.choice([0, 1, 2, 4])}),
        (0.15, {"greeting": ""}),
        (0.3, {"shows": without_status}),
        (0.25, {"merges": True, "as_user": rng.random() < 0.5}),
        (0.2, {"names": rng.choice(["content", "completion"])}),
        (0.2, {"stream": False}),
    ):
        options |= more if rng.random() < share else {}
    if rng.random() < 0.4:
        roles = ["system", "system", "system"]
        if not options.get("merges"):  # two new texts that are joined cannot be parted
            roles += ["user"]
            roles += ["assistant"] if options.get("note_depth") else []  # it would begin a reply
        options["lore"] = {
            word: (f"(lore: {word} wanders)", rng.choice(roles))
            for word in rng.sample([*WORDS, "灯塔", "码头", "旧信"], 3)
        }
    options["window"] = rng.choice([None, None, None, 8, 10, 14])
    return options


@dataclass
class Life:
    """One client, and everything that happens to it."""

    door: Door
    rng: random.Random
    kind: Kind
    client: Tavern
    restart: Callable[[], Awaitable[None]]
    versions: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    swiped: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    told: list[str] = field(default_factory=list[str])  # what was done
    _count: int = 0
    _rows: list[Row] = field(default_factory=list[Row])  # that no other takes their place

    @property
    def status(self) -> bool:
        return self.client.shows is without_status

    def text(self, *, short: bool = False) -> str:
        self._count += 1
        if short and self.rng.random() < (0.8 if self.kind.terse else 0.12):
            return self.rng.choice(SHORT[:3] if self.kind.terse else SHORT)
        return (hanzi if self.rng.random() < 0.5 else line)(self._count)

    def answer(self) -> str:
        made = self.text()
        if self.rng.random() < 0.3:
            made += f"\n\n{self.text()}"
        return f"{made}\n<status>{self.text()}</status>" if self.status else made

    async def lived(self) -> None:
        for _ in range(self.rng.randint(1, FIRST_TURNS)):
            await self.say()
        for _ in range(self.kind.steps):
            await self.step()
        for _ in range(LAST_TURNS):
            await self.say()
        for _ in range(MORE_TURNS):
            if self.client.traces[-1].startswith("pass"):
                await self.say()

    async def step(self) -> None:
        doings = [
            *[self.say] * 8,
            *[self.swipe, self.swipe_back, self.edit, self.edit, self.ask_otherwise],
            *[self.hide, self.unhide, self.take_back, self.grow, self.quiet, self.impersonate],
            *[self.nothing, self.speak_twice, self.note, self.window, self.restart_server],
            *([self.switch] if self.kind.switching else []),
        ]
        doing = self.rng.choice(doings)
        self.told.append(doing.__name__)
        await doing()

    async def say(self) -> None:
        await self.client.say(self.text(short=True), *(self.answer() for _ in self.client.members))

    async def swipe(self) -> None:
        if self.client.rows[-1].role == "assistant" and len(self.client.visible()) > 1:
            last = self.client.rows[-1]
            await self.client.swipe(self.answer())
            others = self.swiped.pop(id(last), [])
            self.swiped[id(self.client.rows[-1])] = [*others, last.text]
            self._rows.append(last)

    async def swipe_back(self) -> None:
        others = self.swiped.get(id(self.client.rows[-1]))
        if others:
            now = self.client.rows[-1].text
            self.client.rows[-1].text = others.pop(0)
            others.append(now)

    async def edit(self) -> None:
        shown = self.client.visible()[1:]  # before the first one nothing stands that it is known by
        if not shown or (self.client.merges and not self.kind.wild):
            return
        row = self.rng.choice(shown)
        self.versions.setdefault(id(row), []).append(row.text)
        self.swiped.pop(id(row), None)
        row.text = self.text()  # of what a rule for prompts leaves out nothing would ever be seen

    async def ask_otherwise(self) -> None:
        if [row.role for row in self.client.rows[-2:]] == ["user", "assistant"]:
            self._rows += self.client.rows[-2:]
            del self.client.rows[-2:]
            self.client.rows.append(Row(self.client.user, self.text(), "user"))
            await self.client.reply(self.answer())

    async def hide(self) -> None:
        shown = self.client.visible()
        if len(shown) > 6:
            self.rng.choice(shown[:-3]).hidden = True

    async def unhide(self) -> None:
        hidden = [row for row in self.client.rows if row.hidden]
        if hidden:
            self.rng.choice(hidden).hidden = False

    async def take_back(self) -> None:
        if len(self.client.visible()) > 6:
            count = self.rng.choice([1, 2, 3])
            self._rows += self.client.rows[-count:]
            del self.client.rows[-count:]

    async def grow(self) -> None:
        if self.client.rows[-1].role == "assistant" and len(self.client.visible()) > 1:
            row = self.client.rows[-1]
            self.versions.setdefault(id(row), []).append(row.text)
            await self.client.grow(f" {self.text()}")

    async def quiet(self) -> None:
        if not self.client.stream:
            return  # a question like any other
        await self.client.quiet("Describe the weather in one line.")

    async def impersonate(self) -> None:
        """The user's next words are the model's, perhaps with a few changed."""
        written = self.text()
        await self.client.impersonate(written)
        more = f" {self.text()}" if self.rng.random() < 0.5 else ""
        replies = (self.answer() for _ in self.client.members)
        await self.client.say(written + more, *replies)

    async def nothing(self) -> None:
        """Sends without saying anything: the last speaker, or another, speaks on."""
        await self.client.reply(self.answer(), self.rng.choice(self.client.members))

    async def speak_twice(self) -> None:
        if self.client.as_user and not self.kind.wild:
            return  # new texts that are joined cannot be parted
        self.client.rows.append(Row(self.client.user, self.text(), "user"))
        if self.rng.random() < 0.5:
            await self.say()

    async def note(self) -> None:
        self.client.note = "" if self.client.note else "[note]"

    async def window(self) -> None:
        self.client.window = self.rng.choice([None, 8, 12, 16])

    async def restart_server(self) -> None:
        if not self.client.traces[-1].startswith("pass"):  # what is in doubt is only in memory
            await self.restart()

    async def switch(self) -> None:
        on = self.client.behind
        for name, value in PRESET.items():
            setattr(self.client, name, type(value)() if on else value)
        self.client.around = None if on else PRESET["around"]

    async def faults(self) -> list[str]:
        """What is wrong with what is stored; an empty list, if it is what the client has."""
        chat = self.client.chat or self.client.found
        if not chat:
            return ["nothing is stored"]
        kept = [(m.role, m.body) for m in await self.door.messages(chat) if m.shown]
        if self.client.as_user:  # what is joined to the last question shows only later
            while kept and kept.pop()[0] != "user":
                pass
        found = [f"injected: {text[:60]!r}" for _, text in kept if self._is_injected(text)]
        have = self._flat(kept)
        rows = self.client.visible()
        while self.client.as_user and rows.pop().role != "user":
            pass
        shown = self._flat((row.role, row.text) for row in rows)
        if self.client.merges and self.client.window:
            del shown[0]  # it may begin in the midst of several that are joined
        if have[-len(shown) :] != shown:
            steps = enumerate(zip(have[::-1], shown[::-1], strict=False))
            off = next((n for n, (a, b) in steps if a != b), len(have))
            found.append(f"differs {off} messages from the end")
        found += self._lost(" ".join(text for _, text in have)) + self._doubled(have)
        if not self.client.chat and len(self.door.rows("select id from chat")) != 1:
            found.append("several chats")
        return found

    def _is_injected(self, text: str) -> bool:
        return any(part.startswith(INJECTED) for part in text.split("\n\n"))

    def _lost(self, have: str) -> list[str]:
        rows = [row for row in self.client.rows if id(row) in self.client.shown]
        while self.client.as_user and rows.pop().role != "user":
            pass
        return [
            f"lost: {row.text[:60]!r}"
            for row in rows
            if not any(bare(one) in have for one in (row.text, *self.versions.get(id(row), [])))
        ]

    def _doubled(self, have: Iterable[tuple[str, str]]) -> list[str]:
        numbers = Counter(n for _, text in have for n in re.findall(r"\d+(?=[.。])", text))
        return [f"twice: {n}" for n, count in numbers.items() if count > 1]

    def _flat(self, rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Without names in front; joined, where the client joins: what came so cannot be parted."""
        made: list[tuple[str, str]] = []
        for role, text in rows:
            words = bare(text)
            if self.client.merges and made and made[-1][0] == role:
                words = f"{made.pop()[1]} {words}"
            made.append((role, words))
        return made


def bare(text: str) -> str:
    """Without what clients put in front, and what a rule leaves out: joined at first sight, or
    answered several times in a row, a reply may be known only as that leaves it."""
    text = re.sub(r"<status>.*?</status>", "", text)
    return " ".join(re.sub(r"(?m)^(Alice|Bob|Alex): ", "", text).split())


@asynccontextmanager
async def begun(folder: Path, seed: int, kind: Kind | None = None) -> AsyncGenerator[Life]:
    """A life on a server of its own that can be restarted."""
    kind = kind or Kind()
    rng = random.Random(seed)
    path = fresh(folder / "previously.db")
    folds = rng.choice([{"visible_floors": 100}, {"visible_floors": 4, "fold_every": 2}])
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(FakeUpstream())
        process = await stack.enter_async_context(AsyncExitStack())

        async def start() -> tuple[app.House, int]:
            house = await app.build(path, settings=folds)
            process.push_async_callback(house.close)
            made = create_app(house.service, upstream.url)
            return house, await process.enter_async_context(running(made))

        async def restart() -> None:
            await process.aclose()
            door.house, door.port = await start()

        house, port = await start()
        door = Door(house, upstream, port, path, stack)
        client = Tavern(door, **settings_of(rng, kind))
        yield Life(door, rng, kind, client, restart)
