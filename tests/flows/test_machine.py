"""The invariants under a random life: everything that can happen to a chat, in any order.

After every step each stored derivation equals its recomputation, for every lane and every chat;
every message stands in the prompt exactly once or is listed as dropped; nothing that was taken
out is seen again; and a chat that was left behind by a branch stays what it was.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from previously import app
from previously.engine import Engine
from previously.errors import ModelUnavailable
from previously.model import (
    START,
    Ask,
    ChatRef,
    Message,
    NewMessage,
    Prompt,
    Reply,
    Summary,
    birth,
    key,
)
from previously.runner import Runner
from previously.service import Place
from previously.settings import Settings
from previously.store import audit, work
from previously.store.schema import link, message, summary
from previously.testing import ScriptedLlm, plain_note
from tests.flows import pairs
from tests.flows.image import Image, image

pytestmark = pytest.mark.slow

T = TypeVar("T")
BUDGET = 1_500
AMPLE = 200_000
LANES = ("volumes", pairs.NAME)
PLACEHOLDER = "（总结生成中...）"
CUT_OFF = "⟪cut off⟫"
ROLES = st.sampled_from(["user", "assistant"])
CHANGES = st.sampled_from(["edit", "delete", *LANES])


def misplaced(conn: sa.Connection, ref: ChatRef) -> list[Any]:
    """Sources that a valid summary has no right to, said in SQL: no code of the product is asked.

    Changed, taken out or hidden ones, and those that two summaries of one lane claim.
    """
    source = sa.and_(link.c.target_id == message.c.id, link.c.target_is_summary.is_(False))
    claims = (
        sa.select(message.c.id, summary.c.lane)
        .select_from(summary)
        .join(link, link.c.summary_id == summary.c.id)
        .join(message, source)
        .where(summary.c.chat_id == ref.id, summary.c.status == "ready", summary.c.valid.is_(True))
    )
    gone = sa.or_(
        message.c.hash != link.c.target_hash,
        message.c.deleted_at.is_not(None),
        message.c.hidden_by == "user",
    )
    twice = claims.group_by(message.c.id, summary.c.lane).having(sa.func.count() > 1)
    return [*conn.execute(claims.where(gone)), *conn.execute(twice)]


class Watched(ScriptedLlm):
    """Knows how many calls it ever served at the same moment."""

    running = most = 0

    async def complete(self, ask: Ask) -> Reply:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.001 if self.delay_s else 0)
            return await super().complete(ask)
        finally:
            self.running -= 1


class Only:
    """The same engine for whatever is to be done."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def engine_for(
        self, ref: ChatRef, lane: str, settings: Settings, *, beyond_budget: bool
    ) -> Engine:
        return self._engine

    async def cost(self, ref: ChatRef, settings: Settings) -> bool:
        return True


class Life(RuleBasedStateMachine):
    """One chat and the chats it left behind, and one model of what each should hold."""

    messages = Bundle("messages")  # birth numbers: a branch has the same

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.place()
        self.mode = "good"
        self.enabled = True
        self.seen_by_model: list[str] = []
        self.truth: dict[int, str] = {}  # what the chat should hold, in order
        self.hidden: set[int] = set()
        self.stored: set[int] = set()  # births in this chat, taken out or not
        self.left: dict[ChatRef, Image] = {}
        self.count = 0
        self.open("life", {"visible_floors": 3, "fold_every": 3})

    def place(self) -> app.Location:
        """Where it is lived."""
        return Path(self.folder.name) / "life.db"

    def open(self, name: str, own: dict[str, int] | None = None) -> None:
        self.llm = Watched(self.answer)
        self.house = self.run(app.build(self.path, llm=self.llm, worker=False))
        self.ref: ChatRef = self.run(self.house.service.open_chat(name, settings=own)).ref
        self.runner = self.worker("w")

    def worker(self, name: str) -> Runner:
        """The background runs only inside `work`, so that every interleaving is a step."""

        async def build() -> Runner:
            engine = Engine(self.llm, self.house.store, await self.house.store.secret())
            return Runner(self.house.store, Only(engine), name, lambda: 0.5)

        return self.run(build())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def read(self, function: Any, *args: Any) -> Any:
        return self.run(self.house.store._db.read(function, *args))

    def answer(self, ask: Ask) -> str | Reply | Exception:
        self.seen_by_model.append(json.dumps(ask.messages, ensure_ascii=False))
        if self.mode == "fails":
            return ModelUnavailable("503", retry_after_s=0.0)
        if self.mode == "empty":
            return ""
        if self.mode == "cut off":
            return Reply(CUT_OFF + plain_note(ask), "scripted", "length")
        return "note: " + plain_note(ask)

    def text(self) -> str:
        self.count += 1
        return f"⟦{self.count}⟧ and some words that make it longer"

    # --- what happens

    @initialize(target=messages, turns=st.integers(0, 9), worked=st.booleans())
    def begin(self, turns: int, worked: bool) -> MultipleResults[int]:
        said = ["user", *["assistant", "user"] * turns]
        births = [self.append_one(role) for role in said]
        if worked:
            self.work()
            self.prompt()
        return multiple(*births)

    def append_one(self, role: str) -> int:
        body = self.text()
        (made,) = self.run(self.house.service.append(self.ref, [NewMessage(role, body)]))
        self.truth[made.id] = body
        self.stored.add(birth(made.id))
        return birth(made.id)

    def key(self, born: int) -> int | None:
        """This chat's message of that number; None if it was born after the branch."""
        return key(self.ref.id, born) if born in self.stored else None

    @rule(target=messages, role=ROLES)
    def append(self, role: str) -> int:
        return self.append_one(role)

    @rule(role=ROLES, count=st.integers(2, 8))
    def append_many(self, role: str, count: int) -> None:
        for n in range(count):
            self.append_one(role if n % 2 else "user")

    @rule(target=messages, before=messages, role=ROLES)
    def insert(self, before: int, role: str) -> MultipleResults[int]:
        place = self.key(before)
        if place is None:
            return multiple()
        body = self.text()
        said = [NewMessage(role, body)]
        (made,) = self.run(self.house.service.insert(self.ref, said, place))
        self.stored.add(birth(made.id))
        items = list(self.truth.items())
        # A deleted neighbour is not in the model: ask the chat where it went.
        self.truth = {}
        for m in self.page():
            self.truth[m.id] = body if m.id == made.id else dict(items)[m.id]
        return multiple(birth(made.id))

    @rule(born=messages)
    def edit(self, born: int) -> None:
        if message_id := self.key(born):
            body = self.text()
            self.run(self.house.service.edit(self.ref, message_id, body))
            if message_id in self.truth:
                self.truth[message_id] = body

    @rule(born=consumes(messages))
    def delete(self, born: int) -> None:
        if message_id := self.key(born):
            self.run(self.house.service.delete(self.ref, [message_id]))
            self.truth.pop(message_id, None)

    @rule(born=messages)
    def swipe(self, born: int) -> None:
        if message_id := self.key(born):
            body = self.text()
            self.run(self.house.service.swipe(self.ref, message_id, body))
            if message_id in self.truth:
                self.truth[message_id] = body

    @rule(born=messages)
    def swipe_back(self, born: int) -> None:
        if message_id := self.key(born):
            self.run(self.house.service.swipe(self.ref, message_id, 0))
            self.reread()

    @rule(born=messages, hidden=st.booleans())
    def hide(self, born: int, hidden: bool) -> None:
        if message_id := self.key(born):
            by = "user" if hidden else None
            self.run(self.house.service.mark(self.ref, "hide", [message_id], hidden_by=by))
            (self.hidden.add if hidden else self.hidden.discard)(message_id)

    @rule(born=messages, other=messages)
    def move(self, born: int, other: int) -> None:
        message_id, before_id = self.key(born), self.key(other)
        if message_id and before_id:
            self.run(self.house.service.move(self.ref, message_id, before_id))
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

    @rule(mode=st.sampled_from(["good", "good", "fails", "empty", "cut off"]))
    def model(self, mode: str) -> None:
        self.mode = mode

    @rule()
    def work(self) -> None:
        """All that is due, as if somebody waited for it. No message changes by it."""
        before = self.page()
        self.runner._hurried.add(self.ref.id)
        self.run(self.runner.reconcile(self.ref))
        assert self.page() == before

    @rule()
    def two_workers(self) -> None:
        """They want the same chat at the same moment; one of them gets it."""
        other = self.worker("v")
        self.llm.delay_s, self.llm.most = 0.001, 0
        both = [runner.reconcile(self.ref) for runner in (self.runner, other)]

        async def together() -> None:
            await asyncio.gather(*both)

        self.run(together())
        self.llm.delay_s = 0.0
        assert self.llm.most <= 1

    @rule()
    def break_in_mid_commit(self) -> None:
        """A commit fails when all but its end is written: then nothing of it is."""

        def broken(right: Callable[..., Any]) -> Callable[..., Any]:
            def written(*args: Any) -> None:
                right(*args)
                raise RuntimeError("no space left on device")

            return written

        before = self.read(image, self.ref)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("commit_leaf", "commit_parent"):
                patch.setattr(work, name, broken(getattr(work, name)))
            self.work()
        assert self.read(image, self.ref) == before

    @rule()
    def try_again(self) -> None:
        for task in self.run(self.house.service.tasks(self.ref)):
            if task.attempt is not None:
                self.run(self.house.service.retry(self.ref, task.id))

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

    @rule(born=messages)
    def rebuild(self, born: int) -> None:
        pos = next((m.pos for m in self.page() if m.id == self.key(born)), START)
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

    async def change(self, message_id: int, how: str) -> None:
        if how == "edit":
            await self.house.service.edit(self.ref, message_id, self.text())
        elif how == "delete":
            await self.house.service.delete(self.ref, [message_id])
        else:
            await self.house.service.switch(self.ref, how)

    @rule(born=messages, how=CHANGES)
    def change_before_a_commit(self, born: int, how: str) -> None:
        """The model answers, but before its answer is written a source changes, or the lane."""
        if message_id := self.key(born):
            self.runner._hurried.add(self.ref.id)
            self.interrupted("commit", message_id, how, self.runner.reconcile(self.ref))

    @rule(born=messages, how=CHANGES, again=st.booleans())
    def change_before_a_fold(self, born: int, how: str, again: bool) -> None:
        """A prompt is made, but before its fold is written something it shows changes."""
        budget = BUDGET if again else BUDGET + self.count  # a budget it knows, or a new one
        if message_id := self.key(born):
            prompt = self.house.service.prompt(self.ref, budget)
            self.interrupted("save_fold", message_id, how, prompt)
            self.check(self.preview(budget), budget)

    def interrupted(
        self, where: str, message_id: int, how: str, work: Coroutine[Any, Any, Any]
    ) -> None:
        store = self.house.store
        right = getattr(store, where)

        async def late(*args: Any) -> Any:
            setattr(store, where, right)
            await self.change(message_id, how)
            return await right(*args)

        setattr(store, where, late)
        self.run(work)
        setattr(store, where, right)
        self.reread()

    @rule(floors=st.integers(1, 8), every=st.integers(1, 6))
    def settings(self, floors: int, every: int) -> None:
        changes = {"visible_floors": floors, "fold_every": every}
        self.run(self.house.store.change_settings(self.ref, changes))

    @rule(on=st.booleans())
    def turn(self, on: bool) -> None:
        self.run(self.house.store.change_settings(self.ref, {"enabled": on}))
        self.enabled = on

    @rule(preset=st.sampled_from(LANES))
    def switch(self, preset: str) -> None:
        """Another lane takes over; what each of them has written stays what it was."""
        before = self.derived()
        self.run(self.house.service.switch(self.ref, preset))
        assert self.derived() == before

    def derived(self) -> list[audit.Derived]:
        return [self.read(audit.stored, self.ref, lane) for lane in LANES]

    @rule(born=messages, whole=st.booleans(), stay=st.booleans())
    def branch(self, born: int, whole: bool, stay: bool) -> None:
        """Life goes on in one of the two; the other one is left as it is."""
        page = self.page()
        at = next((m for m in page if m.id == self.key(born) and not whole), None)
        past = [m for m in page if at is None or m.pos <= at.pos]
        old, before, notes = self.ref, self.read(image, self.ref), self.notes()
        name = f"life {len(self.left) + 1}"
        new = self.run(self.house.service.branch(old, name, at.id if at else None)).ref
        assert self.read(image, old) == before
        if stay:
            self.left[new] = self.read(image, new)
            return
        self.left[old], self.ref = before, new
        known = {birth(m.id) for m in past}
        self.stored = known
        self.truth = {key(new.id, birth(m.id)): m.body for m in past}
        self.hidden = {key(new.id, birth(i)) for i in self.hidden if birth(i) in known}
        leaves_of_it = (s for s in notes if s.valid and s.level == 0)
        wanted = {birth(s.id) for s in leaves_of_it if known >= set(map(birth, s.covers))}
        assert {birth(s.id) for s in self.notes() if s.level == 0} == wanted

    @rule()
    def crash(self) -> None:
        """Everything in memory is gone; what a lease held is taken over."""
        self.run(self.house.store.claim(self.ref, "dead", 10**9))
        shown = self.preview(BUDGET)
        self.run(self.house.close())
        self.open(self.ref.name)
        self.run(self.house.store.recover())
        assert self.preview(BUDGET) == shown

    @precondition(lambda self: self.count > 4)
    @rule()
    def prompt(self) -> None:
        self.run(self.house.service.prompt(self.ref, BUDGET))

    # --- what must be true

    def page(self) -> list[Message]:
        async def read() -> list[Message]:
            return [m async for m in self.house.service.messages(self.ref)]

        return self.run(read())

    def preview(self, budget: int) -> Prompt:
        return self.run(self.house.service.prompt(self.ref, budget, preview=True))

    @invariant()
    def derivations_equal_their_recomputation(self) -> None:
        for lane in LANES:
            written = self.read(audit.stored, self.ref, lane)
            assert written == self.read(audit.recompute, self.ref, lane), lane
        assert self.read(misplaced, self.ref) == []

    @invariant()
    def what_was_left_behind_stays_what_it_was(self) -> None:
        for ref, before in self.left.items():
            assert self.read(image, ref) == before
            for lane in LANES:
                assert self.run(self.house.store.is_sound(ref, lane)), lane

    @invariant()
    def the_chat_holds_what_was_said(self) -> None:
        assert {m.id: m.body for m in self.page()} == self.truth

    @invariant()
    def every_message_stands_once_or_is_listed_as_dropped(self) -> None:
        prompt = self.preview(BUDGET)
        assert prompt == self.preview(BUDGET)
        self.check(prompt, BUDGET)

    def check(self, prompt: Prompt, budget: int) -> None:
        pending = sum(b.tokens for b in prompt.trace.blocks if b.place == "pending")
        assert prompt.tokens <= max(budget, pending)
        for place in self.places(prompt):
            if place.message.id in self.hidden:
                assert place.how == "dropped"
            elif place.how == "dropped":
                assert place.reason not in ("", "unknown", "not for summaries"), place
        self.no_text_twice_and_no_ghosts(prompt)

    @invariant()
    def turned_off_it_shows_everything_as_it_was_said(self) -> None:
        if not self.enabled:
            shown = [m["content"] for m in self.preview(AMPLE).messages]
            assert shown == [m.body for m in self.page() if m.id not in self.hidden]

    def places(self, prompt: Prompt) -> list[Place]:
        async def read() -> list[Place]:
            return [p async for p in self.house.service.places(self.ref, prompt)]

        return self.run(read())

    def no_text_twice_and_no_ghosts(self, prompt: Prompt) -> None:
        shown = json.dumps(prompt.messages, ensure_ascii=False)
        for text in (shown, *self.seen_by_model):
            assert PLACEHOLDER not in text
            assert CUT_OFF not in text
        self.seen_by_model.clear()
        alive = {b.split("⟧")[0] + "⟧" for i, b in self.truth.items() if i not in self.hidden}
        # What is called up may quote what a summary tells; it stands apart and quotes once.
        quoted = [b.wire["content"] for b in prompt.trace.blocks if b.place == "fragment"]
        others = [m for m in prompt.messages if m["content"] not in quoted]
        told = json.dumps(others, ensure_ascii=False)
        for n in range(1, self.count + 1):
            for text in (told, *quoted):
                times = text.count(f"⟦{n}⟧")
                assert times <= 1, (n, times)
                assert times == 0 or f"⟦{n}⟧" in alive, n

    def teardown(self) -> None:
        self.run(self.house.close())
        self.loop.close()
        self.folder.cleanup()


@pytest.mark.proves(
    "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I9", "I10", "I12",
    "G-04", "G-11", "G-14", "G-24", "G-25", "G-30",
)  # fmt: skip
@pytest.mark.timeout(300)
def test_a_chat_keeps_its_promises_through_any_life():
    some = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    with pairs.registered():
        run_state_machine_as_test(Life, settings=some)
