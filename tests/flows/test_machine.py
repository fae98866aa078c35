"""The invariants under a random life: everything that can happen to a chat, in any order.

After every step each stored derivation equals its recomputation, every message stands in the
prompt exactly once or is listed as dropped, and nothing that was taken out is seen again.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from previously import app
from previously.engine import Engine
from previously.errors import ModelUnavailable
from previously.model import START, Ask, ChatRef, Message, NewMessage, Prompt, Summary
from previously.runner import Runner
from previously.service import Place
from previously.store import audit
from previously.testing import ScriptedLlm, plain_note

T = TypeVar("T")
BUDGET = 1_500
LANE = "volumes"
PLACEHOLDER = "（总结生成中...）"


class Life(RuleBasedStateMachine):
    """One chat, one model of what it should hold."""

    messages = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "life.db"
        self.mode = "good"
        self.seen_by_model: list[str] = []
        self.truth: dict[int, str] = {}  # what the chat should hold, in order
        self.hidden: set[int] = set()
        self.count = 0
        self.open()

    def open(self) -> None:
        self.llm = ScriptedLlm(self.answer)
        self.house = self.run(app.build(self.path, llm=self.llm, worker=False))
        chat = self.run(
            self.house.service.open_chat("life", settings={"visible_floors": 3, "fold_every": 3})
        )
        self.ref: ChatRef = chat.ref
        self.start_worker()

    def start_worker(self) -> None:
        """The background runs only inside `work`, so that every interleaving is a step."""

        async def build() -> Any:
            engine = Engine(self.llm, self.house.store, await self.house.store.secret())
            return Runner(self.house.store, engine, "w", lambda: 0.5)

        self.runner = self.run(build())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def answer(self, ask: Ask) -> str | Exception:
        self.seen_by_model.append(json.dumps(ask.messages, ensure_ascii=False))
        if self.mode == "fails":
            return ModelUnavailable("503", retry_after_s=0.0)
        if self.mode == "empty":
            return ""
        return "note: " + plain_note(ask)

    def text(self) -> str:
        self.count += 1
        return f"⟦{self.count}⟧ and some words that make it longer"

    # --- what happens

    @initialize(target=messages)
    def first(self) -> int:
        return self.append_one("user")

    def append_one(self, role: str) -> int:
        body = self.text()
        (made,) = self.run(self.house.service.append(self.ref, [NewMessage(role, body)]))
        self.truth[made.id] = body
        return made.id

    @rule(target=messages, role=st.sampled_from(["user", "assistant"]))
    def append(self, role: str) -> int:
        return self.append_one(role)

    @rule(role=st.sampled_from(["user", "assistant"]), count=st.integers(2, 8))
    def append_many(self, role: str, count: int) -> None:
        for n in range(count):
            self.append_one(role if n % 2 else "user")

    @rule(target=messages, before=messages, role=st.sampled_from(["user", "assistant"]))
    def insert(self, before: int, role: str) -> int:
        body = self.text()
        said = [NewMessage(role, body)]
        (made,) = self.run(self.house.service.insert(self.ref, said, before))
        items = list(self.truth.items())
        # A deleted neighbour is not in the model: ask the chat where it went.
        self.truth = {}
        for m in self.page():
            self.truth[m.id] = body if m.id == made.id else dict(items)[m.id]
        return made.id

    @rule(message=messages)
    def edit(self, message: int) -> None:
        body = self.text()
        self.run(self.house.service.edit(self.ref, message, body))
        if message in self.truth:
            self.truth[message] = body

    @rule(message=consumes(messages))
    def delete(self, message: int) -> None:
        self.run(self.house.service.delete(self.ref, [message]))
        self.truth.pop(message, None)

    @rule(message=messages)
    def swipe(self, message: int) -> None:
        body = self.text()
        self.run(self.house.service.swipe(self.ref, message, body))
        if message in self.truth:
            self.truth[message] = body

    @rule(message=messages)
    def swipe_back(self, message: int) -> None:
        self.run(self.house.service.swipe(self.ref, message, 0))
        self.reread()

    @rule(message=messages, hidden=st.booleans())
    def hide(self, message: int, hidden: bool) -> None:
        by = "user" if hidden else None
        self.run(self.house.service.mark(self.ref, "hide", [message], hidden_by=by))
        (self.hidden.add if hidden else self.hidden.discard)(message)

    @rule(message=messages, other=messages)
    def move(self, message: int, other: int) -> None:
        self.run(self.house.service.move(self.ref, message, other))
        self.reread()

    @rule()
    def undo(self) -> None:
        self.run(self.house.service.undo(self.ref))
        self.reread()

    def reread(self) -> None:
        """Order and texts as stored: other tests check those; here it is coverage that counts."""
        page = self.page()
        self.truth = {m.id: m.body for m in page}
        self.hidden = {m.id for m in page if m.hidden_by == "user"}

    @rule(mode=st.sampled_from(["good", "good", "fails", "empty"]))
    def model(self, mode: str) -> None:
        self.mode = mode

    @rule()
    def work(self) -> None:
        """All that is due, as if somebody waited for it."""
        self.runner._hurried.add(self.ref.id)
        self.run(self.runner.reconcile(self.ref))

    @rule(which=st.integers(0, 20))
    def edit_note(self, which: int) -> None:
        ready = [s for s in self.notes() if s.status == "ready"]
        if ready:
            note = ready[which % len(ready)]
            self.run(self.house.service.edit_summary(self.ref, note.id, "words of my own"))

    @rule(which=st.integers(0, 20))
    def restore_note(self, which: int) -> None:
        others = [s for s in self.notes() if s.status in ("superseded", "proposed")]
        if others:
            note = others[which % len(others)]
            self.run(self.house.service.restore_summary(self.ref, note.id))

    @rule(message=messages)
    def rebuild(self, message: int) -> None:
        pos = next((m.pos for m in self.page() if m.id == message), START)
        self.run(self.house.service.rebuild(self.ref, pos))

    @rule()
    def run_now(self) -> None:
        self.run(self.house.service.run_now(self.ref))

    def notes(self) -> list[Summary]:
        async def read() -> list[Summary]:
            return [s async for s in self.house.service.summaries(self.ref)]

        return self.run(read())

    @rule(on=st.booleans())
    def recalculate(self, on: bool) -> None:
        self.run(self.house.service.set_recalculating(self.ref, on=on))

    @rule(message=messages, text=st.booleans())
    def change_in_mid_flight(self, message: int, text: bool) -> None:
        """The model answers, but before its answer is written a source changes."""
        store = self.house.store
        commit = store.commit

        async def late(*args: Any) -> Any:
            store.commit = commit
            if text:
                await self.house.service.edit(self.ref, message, self.text())
            else:
                await self.house.service.delete(self.ref, [message])
            return await commit(*args)

        store.commit = late  # pyright: ignore[reportAttributeAccessIssue]
        self.work()
        store.commit = commit
        self.reread()

    @rule(floors=st.integers(1, 8), every=st.integers(1, 6))
    def settings(self, floors: int, every: int) -> None:
        changes = {"visible_floors": floors, "fold_every": every}
        self.run(self.house.store.change_settings(self.ref, changes))

    @rule(on=st.booleans())
    def switch(self, on: bool) -> None:
        self.run(self.house.store.change_settings(self.ref, {"enabled": on}))

    @rule()
    def crash(self) -> None:
        """Everything in memory is gone; what a lease held is taken over."""
        self.run(self.house.store.claim(self.ref, "dead", 10**9))
        self.run(self.house.close())
        self.open()
        self.run(self.house.store.recover())

    @precondition(lambda self: self.count > 4)
    @rule()
    def prompt(self) -> None:
        self.run(self.house.service.prompt(self.ref, BUDGET))

    # --- what must be true

    def page(self) -> list[Message]:
        async def read() -> list[Message]:
            return [m async for m in self.house.service.messages(self.ref)]

        return self.run(read())

    @invariant()
    def derivations_equal_their_recomputation(self) -> None:
        database = self.house.store._db
        written = self.run(database.read(audit.stored, self.ref, LANE))
        assert written == self.run(database.read(audit.recompute, self.ref, LANE))

    @invariant()
    def the_chat_holds_what_was_said(self) -> None:
        assert {m.id: m.body for m in self.page()} == self.truth

    @invariant()
    def every_message_stands_once_or_is_listed_as_dropped(self) -> None:
        prompt = self.run(self.house.service.prompt(self.ref, BUDGET, preview=True))
        assert prompt == self.run(self.house.service.prompt(self.ref, BUDGET, preview=True))
        pending = sum(b.tokens for b in prompt.trace.blocks if b.place == "pending")
        assert prompt.tokens <= max(BUDGET, pending)
        for place in self.places(prompt):
            if place.message.id in self.hidden:
                assert place.how == "dropped"
            elif place.how == "dropped":
                assert place.reason not in ("", "unknown", "not for summaries"), place
        self.no_text_twice_and_no_ghosts(prompt)

    def places(self, prompt: Prompt) -> list[Place]:
        async def read() -> list[Place]:
            return [p async for p in self.house.service.places(self.ref, prompt)]

        return self.run(read())

    def no_text_twice_and_no_ghosts(self, prompt: Prompt) -> None:
        shown = json.dumps(prompt.messages, ensure_ascii=False)
        assert PLACEHOLDER not in shown
        alive = {b.split("⟧")[0] + "⟧" for i, b in self.truth.items() if i not in self.hidden}
        for n in range(1, self.count + 1):
            times = shown.count(f"⟦{n}⟧")
            assert times <= 1, (n, times)
            assert times == 0 or f"⟦{n}⟧" in alive, n

    def teardown(self) -> None:
        self.run(self.house.close())
        self.loop.close()
        self.folder.cleanup()


@pytest.mark.proves(
    "I1", "I2", "I3", "I4", "I6", "I7", "I9", "I10", "G-04", "G-11", "G-14", "G-24", "G-30"
)
@pytest.mark.timeout(300)
def test_a_chat_keeps_its_promises_through_any_life():
    some = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(Life, settings=some)
