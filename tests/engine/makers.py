"""A model with a window, a shelf of paid answers, and tasks to run on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from previously.engine import Engine, Limits
from previously.errors import TooLong
from previously.llm import Llm
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import Ask, ChatRef, Draft, Message, Reply, Task, Uncovered
from previously.testing import Line, ScriptedLlm, plain_note
from tests.core.makers import CHAT, message

SECRET = b"a secret of this installation"


class Shelf:
    """Paid answers, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Reply, tuple[int, ...]]] = {}

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None:
        found = self.kept.get(request_hash)
        return None if found is None else found[0]

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None:
        self.kept[request_hash] = (reply, tuple(sources))

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None:
        self.kept.pop(request_hash, None)


def request_tokens(ask: Ask) -> int:
    return sum(count_tokens(m["content"]) + MESSAGE_OVERHEAD_TOKENS for m in ask.messages)


class Windowed(ScriptedLlm):
    """Raises `TooLong` when request and answer together count more than its window."""

    def __init__(
        self,
        holds: int,
        script: Callable[[Ask], Line] = plain_note,
        *,
        says: bool = True,
        names: bool = False,
    ) -> None:
        super().__init__(self._answer, window_tokens=holds if says else None)
        self.holds = holds
        self.names = names
        self.refused: list[Ask] = []
        self._inner = script

    def _answer(self, ask: Ask) -> Line:
        if request_tokens(ask) + ask.tokens_max > self.holds:
            self.refused.append(ask)
            window = self.holds if self.names else None
            return TooLong("maximum context length exceeded", window_tokens=window)
        return self._inner(ask)

    @property
    def answered(self) -> list[Ask]:
        """What was asked and not refused."""
        return [ask for ask in self.asks if not any(ask is r for r in self.refused)]


def task(messages: Sequence[Message], tokens_max: int = 120) -> Task:
    sources = tuple(messages)
    return Task(CHAT, "volumes", "mini", sources, (), tokens_max, "en", Uncovered((sources,)))


def engine(llm: Llm, shelf: Shelf | None = None, **limits: Any) -> Engine:
    return Engine(llm, Shelf() if shelf is None else shelf, SECRET, limits=Limits(**limits))


async def drafted(made: Engine, messages: Sequence[Message]) -> Draft:
    draft = await made.run(task(messages))
    assert isinstance(draft, Draft)
    return draft


async def run(llm: ScriptedLlm, messages: Sequence[Message], **limits: Any) -> Draft:
    return await drafted(engine(llm, **limits), messages)


def is_merge(ask: Ask) -> bool:
    return all(not speaker for speaker, _ in ask.material)


def said(n: int, words: int = 60) -> Message:
    """The n-th message, which no other one is like."""
    return message(n, body=" ".join(f"w{n}x{k}" for k in range(words)) + ".")
