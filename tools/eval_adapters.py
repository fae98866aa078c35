"""The product as the evaluation kit drives it: real library, real SQLite file, one call at a time.

Each class is what one script of the kit takes as `--adapter eval_adapters:Class`. The background
is the product's own; an adapter waits for it (`settle`) where a real chat would have had the time.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import tempfile
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from previously import app
from previously.lanes.volumes import ONE_WORD_TOKENS
from previously.llm import Llm
from previously.model import (
    BIRTH_MASK,
    Ask,
    Block,
    ChatRef,
    Item,
    Message,
    NewMessage,
    Prompt,
    Reply,
    Summary,
    key,
)
from previously.runner import INDEX_MESSAGES
from previously.testing import plain_note
from previously.text.wire import parse, tokens_of

T = TypeVar("T")
Said = Mapping[str, Any]  # a message as the kit has it

SETTLE_TIMEOUT_S = 60.0
END = 1 << 60  # a position after every message
TOLD_EVERY = 1_000  # messages between two lines on how far a stream is
ROOMY_TOKENS = 10_000_000  # a budget under which nothing is left out


class KitLlm(Protocol):
    """The kit's stand-in for a model."""

    def complete(self, prompt: str, max_tokens: int = ...) -> str: ...


class Noting:
    """Answers with the material cut to size, and keeps what each request was shown."""

    name = "noting"
    costs = True
    window_tokens: int | None = None

    def __init__(self) -> None:
        self.shown: dict[str, list[str]] = {}  # by request: the hash of every text, in order

    async def complete(self, ask: Ask) -> Reply:
        """A note within the limit."""
        self.shown[ask.hash] = [_md5(text) for _, text in ask.material]
        return Reply(plain_note(ask), self.name)


class Retelling:
    """The kit's model, handed what stands between the fences of the real request.

    The notes in front of the fences are for context; a model that retold them would be wrong.
    """

    name = "kit"
    costs = True
    window_tokens: int | None = None

    def __init__(self, llm: KitLlm) -> None:
        self._llm = llm

    async def complete(self, ask: Ask) -> Reply:
        """The kit's answer to what is quoted; whether a stretch is finished it cannot say."""
        if ask.tokens_max <= ONE_WORD_TOKENS:
            return Reply("NO", self.name)
        content = ask.messages[1]["content"]
        fence = content.splitlines()[-1]
        return Reply(self._llm.complete(content.split(fence)[-2], ask.tokens_max), self.name)


class Driver:
    """One memory in a temporary file, driven from plain functions."""

    def __init__(self, llm: Llm | None, settings: Mapping[str, Any] | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="previously-eval-")
        where = Path(self._folder.name) / "eval.db"
        self.house = self.run(app.build(where, llm=llm, settings=settings))
        self._chats = 0
        self._open = True
        atexit.register(self.close)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of an async call."""
        return self._loop.run_until_complete(work)

    def chat(self) -> ChatRef:
        """A new, empty chat with the default settings."""
        self._chats += 1
        return self.run(self.house.service.open_chat(f"eval {self._chats}")).ref

    def append(self, ref: ChatRef, new: Sequence[NewMessage]) -> list[int]:
        """Record messages and give the background its time; their keys."""
        made = self.run(self.house.service.append(ref, new))
        settled = self.run(self.house.service.settle(ref, SETTLE_TIMEOUT_S))
        if not settled.done or any(a.verdict == "failed" for a in settled.waiting):
            raise RuntimeError(f"the background did not come to rest: {settled}")
        return [m.id for m in made]

    def prompt(self, ref: ChatRef, budget_tokens: int, query: str | None = None) -> Prompt:
        """What the model would be sent now, or for a question about the past."""
        return self.run(self.house.service.prompt(ref, budget_tokens, query=query))

    def index(self) -> None:
        """Let the search index catch up, as it does in the background within seconds."""
        while self.run(self.house.store.index_some(INDEX_MESSAGES)):
            pass

    def close(self) -> None:
        """Stop the background and drop the file; the database's threads end with the process."""
        if not self._open:
            return
        self._open = False
        if self.house.runner is not None:
            self.run(self.house.runner.stop())
        self._loop.close()
        self._folder.cleanup()


class Store:
    """For the coverage script: a chat's life, and a ledger of what its next prompt shows.

    The background is waited for after an append only, so that the ledger right after an edit,
    deletion or rollback shows the chat before anything could be repaired.
    """

    def __init__(self) -> None:
        self._llm = Noting()
        self._driver = Driver(self._llm)
        self._ref = self._driver.chat()
        self._keys: list[int] = []  # of the messages that are there, in order
        self._names: dict[int, str] = {}  # the kit's ids, by key
        self._summaries: dict[int, Summary] = {}

    def append(self, msg: Said) -> None:
        """One more message."""
        said = NewMessage(msg["role"], msg["content"], name=msg["speaker"])
        (key,) = self._driver.append(self._ref, [said])
        self._keys.append(key)
        self._names[key] = msg["id"]

    def edit(self, i: int, text: str) -> None:
        """Another text for the i-th message."""
        self._driver.run(self._driver.house.service.edit(self._ref, self._keys[i], text))

    def delete(self, i: int) -> None:
        """Take the i-th message out."""
        self._take_out(self._keys[i : i + 1])

    def rollback(self, k: int) -> None:
        """Take the newest k messages out."""
        self._take_out(self._keys[-k:])

    def _take_out(self, keys: Sequence[int]) -> None:
        self._driver.run(self._driver.house.service.delete(self._ref, keys))
        self._keys = [key for key in self._keys if key not in keys]

    def ledger(self) -> list[dict[str, Any]]:
        """What the next prompt shows, in order: each entry with the texts it was made from.

        What is recalled stands for nothing: it says again what something else stands for.
        """
        prompt = self._driver.prompt(self._ref, ROOMY_TOKENS)
        self._driver.run(self._read_summaries())
        standing = [block for block in prompt.trace.blocks if block.place != "fragment"]
        return [self._node(block, item) for block in standing for item in block.sources]

    async def _read_summaries(self) -> None:
        """Summaries never change: only the new ones are read."""
        store = self._driver.house.store
        while page := await store.summaries(self._ref, max(self._summaries, default=0), 200):
            self._summaries.update({s.id: s for s in page})

    def _node(self, block: Block, item: Item) -> dict[str, Any]:
        if not item.is_summary:
            covers, hashes = [item.id], [_md5(block.wire["content"])]
        else:
            leaves = list(self._leaves(self._summaries[item.id]))
            covers = [key for leaf in leaves for key in leaf.covers]
            hashes = [text for leaf in leaves for text in self._read_by(leaf)]
        names = [self._names[key] for key in covers]
        kind = "summary" if item.is_summary else "verbatim"
        digest = dict(zip(names, hashes, strict=True))
        return {"id": str(item), "kind": kind, "covers": names, "digest": digest}

    def _leaves(self, made: Summary) -> Iterator[Summary]:
        """The minis that a summary of any level was made of, oldest first."""
        if not made.level:
            yield made
            return
        for child in made.covers:
            yield from self._leaves(self._summaries[child])

    def _read_by(self, leaf: Summary) -> list[str]:
        """The hash of each text that the model was shown for a mini."""
        return self._llm.shown[json.loads(leaf.provenance or "{}")["request"]]


class Product:
    """For recall: a conversation in, the prompt for a question out. Summaries are extracts.

    One memory holds all conversations of a run, each in a chat of its own.
    """

    name = "product"
    _driver: Driver | None = None

    def start(self, conv: Said) -> None:
        """A new, empty chat."""
        cls = type(self)
        cls._driver = cls._driver or Driver(None)
        self._memory, self._said = cls._driver, list[NewMessage]()
        self._ref = self._memory.chat()

    def append(self, msg: Said) -> None:
        """One more message."""
        self._said.append(NewMessage(msg["role"], msg["content"], name=msg["speaker"]))

    def finish(self) -> None:
        """Record what was said and give the background its time."""
        self._memory.append(self._ref, self._said)
        self._memory.index()
        print(f"{self.name}: conversation of {len(self._said)} messages is remembered", flush=True)

    def assemble(self, query: str, budget: int) -> str:
        """The prompt for a question, as the kit writes messages down."""
        return rendered(self._memory.prompt(self._ref, budget, query))


class Ordinary(Product):
    """For recall in story mode: the question is the user's next message, and the shares hold."""

    name = "product_story"

    def assemble(self, query: str, budget: int) -> str:
        """The prompt for the next turn, which is not recorded."""
        service = self._memory.house.service
        said = NewMessage("user", query)
        asked = Message(
            key(self._ref.id, BIRTH_MASK), END, "user", query, said.hash, tokens_of(said)
        )
        made = self._memory.run(service.prompt(self._ref, budget, pending=[asked]))
        return rendered(made)


class Pipeline:
    """For survival, stability and the black box: messages in, the text of the next prompt out.

    Every message is represented once, by what the fold shows; fragments, which say things again,
    are off.
    """

    settings: Mapping[str, Any] = {"related": False}

    def __init__(self, llm: KitLlm, system: str = "", budget: int = 8_000) -> None:
        self._driver = Driver(Retelling(llm), self.settings)
        self._ref = self._driver.chat()
        self._budget = budget
        self._names: dict[int, str] = {}  # the kit's ids, by key
        if system:
            self._driver.append(self._ref, [NewMessage("system", system)])

    def append(self, msg: Said) -> None:
        """One more message."""
        self.say([msg])

    def say(self, messages: Sequence[Said]) -> None:
        """Several messages before the background is waited for."""
        said = [NewMessage(m["role"], m["content"], name=m["speaker"]) for m in messages]
        keys = self._driver.append(self._ref, said)
        self._names |= {key: m["id"] for key, m in zip(keys, messages, strict=True)}
        if len(self._names) % TOLD_EVERY == 0:
            print(f"{len(self._names)} messages", flush=True)

    def text(self, q: str | None = None) -> str:
        """The next prompt's words. What it recalls it finds by the newest message, as always."""
        self._driver.index()
        return rendered(self._driver.prompt(self._ref, self._budget))

    def generations(self, ids: Sequence[str]) -> list[int]:
        """For each message how many summaries stand between it and what is shown."""
        keys = {name: key for key, name in self._names.items()}
        store = self._driver.house.store
        line = self._driver.run(store.covering(self._ref, "volumes", list(self._names)))
        return [len(line.get(keys[name], ())) for name in ids]

    def close(self) -> None:
        """No more of this memory."""
        self._driver.close()

    def ledger(self) -> list[dict[str, Any]]:
        """How each message stands in the next prompt, in order."""
        return self._driver.run(self._ledger())

    async def _ledger(self) -> list[dict[str, Any]]:
        service = self._driver.house.service
        prompt = await service.prompt(self._ref, self._budget)
        nodes: list[dict[str, Any]] = []
        async for place in service.places(self._ref, prompt):
            name = self._names.get(place.message.id)
            if name is None or place.how == "dropped":
                continue
            node = str(place.summary_id or "v")
            if not nodes or nodes[-1]["id"] != node:
                kind = "summary" if place.summary_id else "verbatim"
                nodes.append({"id": node, "kind": kind, "covers": []})
            nodes[-1]["covers"].append(name)
        return nodes


class Recalling(Pipeline):
    """The same with the default settings: the newest turn calls up fragments."""

    settings: Mapping[str, Any] = {}


class Selector:
    """For tool pairs: which messages a prompt of this budget holds.

    The kit replays a transcript message by message and makes a selector each time; the chat is
    kept between calls as long as each transcript continues the one before, as a real one does.
    """

    name = "product"
    _driver: Driver | None = None
    _said: tuple[Said, ...] = ()
    _budget = 0
    _ref: ChatRef | None = None

    def select(self, messages: Sequence[Said], budget: int) -> list[dict[str, Any]]:
        """The messages of the prompt; the kit's own fields come back with them."""
        cls = type(self)
        cls._driver = cls._driver or Driver(Noting())
        known = len(cls._said)
        continues = tuple(messages[:known]) == cls._said and budget == cls._budget
        if cls._ref is None or not continues:
            cls._ref, cls._budget, known = cls._driver.chat(), budget, 0
        cls._said = tuple(messages)
        if messages[known:]:
            cls._driver.append(cls._ref, [parse(m) for m in messages[known:]])
        return cls._driver.prompt(cls._ref, budget).messages


def rendered(prompt: Prompt) -> str:
    """A prompt as the kit writes messages down: the speaker's name, and what was said."""
    lines = (
        f"{m['name']}: {m.get('content') or ''}" if "name" in m else str(m.get("content") or "")
        for m in prompt.messages
    )
    return "\n".join(lines)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
