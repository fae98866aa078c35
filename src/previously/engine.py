"""Turns one task into one draft: asks, keeps what was paid for, asks once more if it must."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from previously.errors import DraftRejected
from previously.lanes.registry import LANES
from previously.llm import Llm
from previously.model import Ask, ChatRef, Draft, Reply, Task
from previously.prompts import texts
from previously.text.template import render

FENCE_HEX = 12


class PaidCalls(Protocol):
    """Answers that had arrived and are not used yet."""

    async def paid(self, ref: ChatRef, request_hash: str) -> Reply | None: ...

    async def keep_paid(
        self, ref: ChatRef, request_hash: str, reply: Reply, sources: Sequence[int]
    ) -> None: ...

    async def forget_paid(self, ref: ChatRef, request_hash: str) -> None: ...


class Engine:
    """One summarising model, used as the lanes ask."""

    def __init__(self, llm: Llm, paid: PaidCalls, secret: bytes) -> None:
        self._llm = llm
        self._paid = paid
        self._secret = secret

    async def run(self, task: Task) -> Draft:
        """A draft for the task; `DraftRejected` if the second answer is no better."""
        lane = LANES[task.lane]
        ask = lane.ask(task, self._fence(task))
        try:
            draft = lane.accept(task, await self._answer(task, ask))
        except DraftRejected as rejected:
            first, ask = ask, _again(ask, task, str(rejected))
            draft = await self._second_try(task, first, ask)
        return replace(
            draft,
            provenance={
                **draft.provenance,
                "profile": self._llm.name,
                "request": ask.hash,
                "paid": self._llm.costs,
            },
        )

    async def _second_try(self, task: Task, first: Ask, again: Ask) -> Draft:
        try:
            return LANES[task.lane].accept(task, await self._answer(task, again))
        except DraftRejected:
            # Answers that are no use must not be what the next try is given.
            for ask in (first, again):
                await self._paid.forget_paid(task.chat, ask.hash)
            raise

    async def _answer(self, task: Task, ask: Ask) -> Reply:
        if not self._llm.costs:
            return await self._llm.complete(ask)
        known = await self._paid.paid(task.chat, ask.hash)
        if known is not None:
            return known
        reply = await self._llm.complete(ask)
        await self._paid.keep_paid(task.chat, ask.hash, reply, [m.id for m in task.sources])
        return reply

    def _fence(self, task: Task) -> str:
        """A line that the quoted text cannot contain by guessing, the same at every retry."""
        mark = hmac.digest(self._secret, task.id.encode(), "sha256").hex()[:FENCE_HEX]
        return f"=== {mark} ==="


def _again(ask: Ask, task: Task, reason: str) -> Ask:
    note = render(texts(task.language).ask_again, {"REASON": reason})
    return replace(ask, messages=(*ask.messages, {"role": "user", "content": note}))
