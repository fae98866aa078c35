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
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from previously import app
from previously.llm import Llm
from previously.model import Ask, Block, ChatRef, Item, NewMessage, Prompt, Reply, Summary
from previously.testing import plain_note
from previously.text.wire import parse

T = TypeVar("T")
Said = Mapping[str, Any]  # a message as the kit has it

SETTLE_TIMEOUT_S = 60.0
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
        """The kit's answer to the quoted exchange."""
        content = ask.messages[1]["content"]
        fence = content.splitlines()[-1]
        return Reply(self._llm.complete(content.split(fence)[-2], ask.tokens_max), self.name)


class Driver:
    """One memory in a temporary file, driven from plain functions."""

    def __init__(self, llm: Llm) -> None:
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="previously-eval-")
        self.house = self.run(app.build(Path(self._folder.name) / "eval.db", llm=llm))
        self._chats = 0
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
        if not settled.done or settled.waiting:
            raise RuntimeError(f"the background did not come to rest: {settled}")
        return [m.id for m in made]

    def prompt(self, ref: ChatRef, budget_tokens: int) -> Prompt:
        """What the model would be sent now."""
        return self.run(self.house.service.prompt(ref, budget_tokens))

    def close(self) -> None:
        """Stop the background and drop the file; the database's threads end with the process."""
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
        """What the next prompt shows, in order: each entry with the texts it was made from."""
        prompt = self._driver.prompt(self._ref, ROOMY_TOKENS)
        self._driver.run(self._read_summaries())
        return [self._node(block, item) for block in prompt.trace.blocks for item in block.sources]

    async def _read_summaries(self) -> None:
        """Summaries never change: only the new ones are read."""
        store = self._driver.house.store
        while page := await store.summaries(self._ref, max(self._summaries, default=0), 200):
            self._summaries.update({s.id: s for s in page})

    def _node(self, block: Block, item: Item) -> dict[str, Any]:
        if not item.is_summary:
            covers, hashes = [item.id], [_md5(block.wire["content"])]
        else:
            made = self._summaries[item.id]
            covers = list(made.covers)
            hashes = self._llm.shown[json.loads(made.provenance or "{}")["request"]]
        names = [self._names[key] for key in covers]
        kind = "summary" if item.is_summary else "verbatim"
        digest = dict(zip(names, hashes, strict=True))
        return {"id": str(item), "kind": kind, "covers": names, "digest": digest}


class Pipeline:
    """For the black box: messages in, the text of the next prompt out."""

    def __init__(self, llm: KitLlm, system: str = "", budget: int = 8_000) -> None:
        self._driver = Driver(Retelling(llm))
        self._ref = self._driver.chat()
        self._budget = budget
        if system:
            self._driver.append(self._ref, [NewMessage("system", system)])

    def append(self, msg: Said) -> None:
        """One more message."""
        said = NewMessage(msg["role"], msg["content"], name=msg["speaker"])
        self._driver.append(self._ref, [said])

    def text(self, q: str | None = None) -> str:
        """The next prompt's words. The default settings recall nothing by query."""
        prompt = self._driver.prompt(self._ref, self._budget)
        return "\n".join(str(m.get("content") or "") for m in prompt.messages)


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


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
