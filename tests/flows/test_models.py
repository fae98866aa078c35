"""Profiles at work: which model is asked, what it costs, and what is never told."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from previously import app
from previously.errors import AskFirst
from previously.memory import Chat, Memory
from previously.service import OWNER
from previously.store.schema import metadata
from previously.testing import FakeUpstream, refusal
from tests.flows.conftest import Opener
from tests.sqlite import fresh

KEY = "sk-do-not-tell-9182"
SETTINGS = {
    "visible_floors": 2,
    "fold_every": 2,
    "auto_volume_summary": False,
    "minis_per_call": 1,
}
DOLLAR = 1_000_000
DAY_MS = 86_400_000


class Clock:
    """November 2026, until it is told to go on."""

    def __init__(self) -> None:
        self.now_ms = 1_794_700_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> app.Location:
    shared = request.param == "postgres"
    return request.getfixturevalue("postgres_url") if shared else fresh(tmp_path / "models.db")


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture
async def second() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMARY_KEY", KEY)


def profile(upstream: FakeUpstream, name: str = "main", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "source": "openai",
        "base_url": upstream.url,
        "model": "small",
        "secret": "env:SUMMARY_KEY",
        "timeout_s": 5.0,
        "output_tokens": 200,
        **more,
    }


PRICED: dict[str, Any] = {"price": {"input_micro": 10 * DOLLAR, "output_micro": 10 * DOLLAR}}


@asynccontextmanager
async def house(
    where: app.Location, *profiles: dict[str, Any], clock: Clock | None = None, **settings: Any
) -> AsyncGenerator[app.House]:
    async with _built(where, clock, worker=False) as made:
        for one in profiles:
            await made.store.put_profile(OWNER, one)
    async with _built(where, clock, settings={**SETTINGS, **settings}) as made:
        yield made


@asynccontextmanager
async def _built(
    where: app.Location, clock: Clock | None, **options: Any
) -> AsyncGenerator[app.House]:
    made = await app.build(where, clock=clock or app.clock_ms, **options)
    try:
        yield made
    finally:
        await made.close()


async def played(made: app.House, turns: int = 4, name: str = "demo") -> Chat:
    memory = Memory(made)
    chat = await memory.chat(name)
    for n in range(turns):
        await chat.append("user", f"In turn {n} I gave Mara the copper key of room {n}, at noon.")
        await chat.append("assistant", f"Mara takes the key of room {n} and hides it in the wall.")
    return chat


def note(n: int) -> str:
    return f"Mara got key {n} and hid it."


async def minis(chat: Chat) -> list[str]:
    return [s.text async for s in chat.summaries()]


async def test_without_a_profile_extracts_are_written(where: app.Location):
    async with house(where) as made:
        chat = await played(made)
        await chat.settle()
        assert all(s.is_extract for s in [s async for s in chat.summaries()])
        assert await made.store.usage(OWNER, "month") == []


async def test_the_main_profile_writes_the_summaries_and_is_entered_in_the_ledger(
    where: app.Location, upstream: FakeUpstream
):
    upstream.says(*(note(n) for n in range(9)))
    async with house(where, profile(upstream, **PRICED), clock=Clock()) as made:
        chat = await played(made)
        await chat.settle()
        assert await minis(chat) == [note(0), note(1), note(2)]
        assert [r.headers["authorization"] for r in upstream.requests] == [f"Bearer {KEY}"] * 3
        (month,) = await made.store.usage(OWNER, "month")
        (by_profile,) = await made.store.usage(OWNER, "profile")
        assert (month.heading, month.calls) == ("2026-11", 3)
        assert by_profile.heading == "main"
        assert month.cost_micros == 10 * (month.input_tokens + month.output_tokens)
        assert month.unpriced_calls == 0


async def test_an_unknown_price_is_counted_in_tokens_and_never_as_nothing(
    where: app.Location, upstream: FakeUpstream
):
    upstream.says(*(note(n) for n in range(9)))
    async with house(where, profile(upstream), monthly_budget_usd=0.01) as made:
        chat = await played(made)
        await chat.settle()
        (month,) = await made.store.usage(OWNER, "month")
        assert month.input_tokens > 0
        assert (month.cost_micros, month.unpriced_calls) == (0, 3)


@pytest.mark.proves("D-54", "G-79")
async def test_over_budget_work_waits_says_why_and_goes_on_next_month(
    where: app.Location, upstream: FakeUpstream
):
    clock = Clock()
    upstream.says(*(note(n) for n in range(20)))
    # A call may cost half a cent and mostly costs less; the budget has room for one.
    async with house(
        where, profile(upstream, **PRICED), clock=clock, monthly_budget_usd=0.008
    ) as made:
        chat = await played(made)
        settled = await chat.settle()
        assert len(upstream.requests) == 1
        assert "budget of $0.01" in settled.waiting[0].error_text
        prompt = await chat.prompt()
        told = json.dumps(prompt.messages)
        assert all(f"room {n}" in told for n in range(1, 4)), "what has no summary stays as said"
        assert await made.store.spent(OWNER, "2026-11") <= 0.008 * DOLLAR
        clock.now_ms += 31 * DAY_MS
    async with house(where, clock=clock, monthly_budget_usd=0.008) as made:
        chat = await Memory(made).chat("demo")
        if not made.store.exclusive:  # a shared database has its own clock: no minute has passed
            for task in await chat.tasks():
                if task.attempt:
                    await chat.retry(task.id)
        await chat.settle()
        assert len(upstream.requests) == 2
        assert [s.heading for s in await made.store.usage(OWNER, "month")] == ["2026-11", "2026-12"]


@pytest.mark.proves("G-79")
async def test_what_is_asked_for_by_hand_asks_before_it_goes_beyond_the_budget(
    where: app.Location, upstream: FakeUpstream
):
    upstream.says(*(note(n) for n in range(20)))
    async with house(
        where, profile(upstream, **PRICED), clock=Clock(), monthly_budget_usd=0.008
    ) as made:
        chat = await played(made)
        await chat.settle()
        asked = len(upstream.requests)
        assert asked == 1
        for wish in (chat.run, chat.backfill, chat.rebuild):
            with pytest.raises(AskFirst, match="beyond_budget"):
                await wish()
        await chat.settle()
        assert len(upstream.requests) == asked, "nothing is begun before the answer"
        plan = await chat.backfill(dry_run=True)
        assert plan.budget_left_usd is not None
        assert plan.cost_usd is not None
        assert plan.budget_left_usd < plan.cost_usd

        await chat.run(beyond_budget=True)
        await chat.settle()
        assert await minis(chat) == [note(0), note(1), note(2)]
        assert await made.store.spent(OWNER, "2026-11") > 0.008 * DOLLAR

        await chat.append("user", "And the room after those?")
        await chat.append("assistant", "Room 99.")
        before = len(upstream.requests)
        for n in range(5):
            await chat.append("user", f"Further on, {n}?")
            await chat.append("assistant", f"Further on, room {n + 100}. " * 8)
        settled = await chat.settle()
        assert len(upstream.requests) == before, "leave was given for that run, not for ever"
        assert any(a.error_class == "OverBudget" for a in settled.waiting)


@pytest.mark.proves("G-75", "B-90")
async def test_a_profile_that_fails_is_stood_in_for_by_main_and_every_use_is_told(
    where: app.Location,
    upstream: FakeUpstream,
    second: FakeUpstream,
    caplog: pytest.LogCaptureFixture,
):
    refused = refusal(401, "authentication_error", f"wrong key {KEY}")
    upstream.says(*[refused] * 9)
    second.says(*(note(n) for n in range(9)))
    profiles = (profile(upstream, "cheap"), profile(second, "main"))
    async with house(where, *profiles, summary_profile="cheap") as made:
        chat = await played(made)
        await chat.settle()
        assert await minis(chat) == [note(0), note(1), note(2)]
        told = [r.getMessage() for r in caplog.records if "fallback_to_main" in r.getMessage()]
        assert len(told) == 3
        assert KEY not in caplog.text
        trouble = (await made.store.troubles(OWNER))["cheap"]
        assert "key was refused" in trouble
        assert KEY not in trouble
    async with house(where) as made:
        assert await made.store.troubles(OWNER) == {"cheap": trouble}, "until somebody mends it"
        await made.store.put_profile(OWNER, profile(upstream, "cheap"))
        assert await made.store.troubles(OWNER) == {}


async def test_a_warning_ends_when_the_profile_answers_again(
    where: app.Location, upstream: FakeUpstream, second: FakeUpstream
):
    upstream.says(refusal(401, "authentication_error", "wrong key"), *(note(n) for n in range(9)))
    second.says(*(note(n) for n in range(9)))
    profiles = (profile(upstream, "cheap"), profile(second, "main"))
    async with house(where, *profiles, summary_profile="cheap") as made:
        chat = await played(made)
        await chat.settle()
        assert len(second.requests) == 1
        assert len(upstream.requests) == 3
        assert await made.store.troubles(OWNER) == {}


async def test_a_model_that_is_only_away_leaves_no_lasting_warning(
    where: app.Location, upstream: FakeUpstream, second: FakeUpstream
):
    upstream.says(*[refusal(503, "overloaded", "later")] * 50)
    second.says(*(note(n) for n in range(9)))
    profiles = (profile(upstream, "cheap", timeout_s=0.5), profile(second, "main"))
    async with house(where, *profiles, summary_profile="cheap") as made:
        chat = await played(made, 2)
        await chat.settle()
        assert len(second.requests) == 1
        assert await made.store.troubles(OWNER) == {}


@pytest.mark.proves("G-76")
async def test_without_the_stand_in_no_text_goes_to_main(
    where: app.Location, upstream: FakeUpstream, second: FakeUpstream
):
    upstream.says(*[refusal(401, "authentication_error", "wrong key")] * 9)
    profiles = (profile(upstream, "cheap"), profile(second, "main"))
    async with house(where, *profiles, summary_profile="cheap", fallback_to_main=False) as made:
        chat = await played(made)
        settled = await chat.settle()
        assert second.requests == []
        assert {a.error_class for a in settled.waiting} == {"NotConfigured"}
        assert await minis(chat) == []


async def test_a_profile_that_does_not_exist_makes_no_call_and_says_what_to_do(
    where: app.Location, second: FakeUpstream
):
    async with house(where, profile(second, "main"), summary_profile="nowhere") as made:
        settled = await (await played(made)).settle()
        assert "previously profile add nowhere" in settled.waiting[0].error_text
        assert second.requests == []


@pytest.mark.proves("D-53", "G-78")
async def test_an_answer_that_takes_too_long_is_given_up_and_tried_again_later(
    where: app.Location, upstream: FakeUpstream
):
    upstream.delay_s = 1.0
    async with house(where, profile(upstream), max_latency_ms=50) as made:
        settled = await (await played(made, 2)).settle()
        assert "raise max_latency_ms" in settled.waiting[0].error_text


async def test_the_limits_of_a_profile_hold(where: app.Location, upstream: FakeUpstream):
    upstream.says(*(note(n) for n in range(40)))
    upstream.delay_s = 0.02
    limited = profile(upstream, limits={"at_once": 1, "per_minute": None})
    async with house(where, limited) as made:
        chats = [await played(made, 4, name=f"chat {n}") for n in range(4)]
        for chat in chats:
            await chat.settle()
        assert len(upstream.requests) == 12
        assert upstream.at_once_max == 1


@pytest.mark.proves("I11", "G-80")
async def test_a_key_is_in_no_table_log_or_error(
    where: app.Location, upstream: FakeUpstream, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    upstream.says(
        note(0),
        refusal(400, "invalid_request_error", f"what is {KEY}?"),
        refusal(429, "rate_limit_error", f"slow down, {KEY}", retry_after="60"),
        refusal(500, "server_error", KEY),
        refusal(401, "authentication_error", f"Incorrect API key provided: {KEY}"),
    )
    async with house(where, profile(upstream, **PRICED)) as made:
        chat = await played(made, 8)
        settled = await chat.settle()
        assert settled.waiting
        told = json.dumps([a.error_text for a in settled.waiting])

        def dump(conn: sa.Connection) -> str:
            return "\n".join(
                repr(tuple(row))
                for table in metadata.sorted_tables
                for row in conn.execute(sa.select(table))
            )

        stored = await made.store._db.read(dump)
    assert "env:SUMMARY_KEY" in stored
    for text in (stored, told, caplog.text):
        assert KEY not in text


async def test_settings_of_one_chat_choose_its_model(open_memory: Opener, upstream: FakeUpstream):
    async with open_memory(settings=SETTINGS) as memory:
        await memory._house.store.put_profile(OWNER, profile(upstream, "good"))
        upstream.says(*(note(n) for n in range(9)))
        plain = await played(memory._house, name="plain")
        chosen = await memory.chat("chosen", settings={"summary_profile": "good"})
        for n in range(4):
            await chosen.append("user", f"In turn {n} I gave Mara the copper key of room {n}.")
            await chosen.append("assistant", f"Mara hides the key of room {n} in the wall.")
        await plain.settle()
        await chosen.settle()
        assert (await minis(chosen))[0] == note(0)
        assert all(s.is_extract for s in [s async for s in plain.summaries()])
