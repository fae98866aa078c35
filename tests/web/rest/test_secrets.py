"""Keys under a random life: an upstream that repeats them in whatever it says, and nobody else.

After every step no key stands in any table, log line, export or answer of the interface, and no
export or save holds anything like an embedding.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from previously.store.schema import metadata
from previously.testing import Answer, Failure, refusal
from tests.web.rest.rig import opened, spoken

T = TypeVar("T")
KEYS = ("sk-first-77aa88bb", "sk-second-11cc22dd")
SETTLE_S = 4.0
LOOKS = ("tasks", "profiles", "settings", "usage", "chats", "about", "/metrics", "openapi.json")
OF_A_CHAT = ("", "/summaries", "/messages", "/prompt", "/export", "/settings")
VECTOR_MIN = 8  # numbers in a row that are no whole ones: nothing else of ours looks like that

Mood = Callable[[str], Answer]
MOODS: dict[str, Mood] = {
    "writes": lambda _: "The captain carried a lantern along the pier.",
    "tells": lambda key: f"The captain's key is {key}, said the pier.",
    "refuses": lambda key: refusal(401, "authentication_error", f"wrong key {key}"),
    "objects": lambda key: refusal(400, "invalid_request", f"Bearer {key} may not do that"),
    "rambles": lambda key: Failure(200, f'{{"oops": "{key}'.encode(), {"x-debug": key}),
    "limits": lambda key: refusal(429, "rate_limit", f"{key} asks too often", retry_after="1"),
}


class Lines(logging.Handler):
    """Every log line, with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter())
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(self.format(record))


class Life(RuleBasedStateMachine):
    """One house, one profile whose key changes, one chat."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.stack = AsyncExitStack()
        self.heard: list[bytes] = []  # all that the interface has answered
        self.lines = Lines()
        logging.getLogger().addHandler(self.lines)
        self.key = KEYS[0]
        self.run(self.begin())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def begin(self) -> None:
        where = Path(self.folder.name)
        self.rest = await self.stack.enter_async_context(opened(where / "life.db", where))
        self.mood("writes")
        url = {"base_url": self.rest.upstream.url, "model": "small", "timeout_s": 2}
        made = await self.ask("POST", "profiles", {"name": "main", "api_key": self.key, **url})
        self.profile = json.loads(made)["id"]
        await self.ask("PATCH", "settings", {"visible_floors": 2, "fold_every": 2})
        made = await self.ask("POST", "chats", {"name": "life"})
        self.chat = json.loads(made)["id"]

    def mood(self, name: str) -> None:
        """The upstream repeats the key that it was sent."""
        upstream = self.rest.upstream

        def answer(_: Any) -> Answer:
            bearer = upstream.requests[-1].headers.get("authorization", "Bearer nobody")
            return MOODS[name](bearer.removeprefix("Bearer "))

        upstream.answer = answer

    async def ask(self, method: str, path: str, body: Any = None) -> bytes:
        answer = await self.rest.call(method, path, json=body)
        assert answer.status in (200, 201, 202, 204), (method, path, answer.raw)
        self.heard += [answer.raw, repr(answer.headers).encode()]
        return answer.raw

    # --- what happens

    @rule(mood=st.sampled_from(sorted(MOODS)))
    def upstream(self, mood: str) -> None:
        self.mood(mood)

    @rule(key=st.sampled_from([*KEYS, None]))
    def change_key(self, key: str | None) -> None:
        self.key = key or self.key
        self.run(self.ask("PATCH", f"profiles/{self.profile}", {"api_key": key}))

    @rule()
    def test_profile(self) -> None:
        self.run(self.ask("POST", f"profiles/{self.profile}/test"))

    @rule(floors=st.integers(2, 8))
    def say(self, floors: int) -> None:
        async def said() -> None:
            await self.rest.house.service.append(await self.rest.ref(self.chat), spoken(floors))

        self.run(said())

    @rule(what=st.sampled_from(["run", "archive", "rebuild", "backfill"]))
    def work(self, what: str) -> None:
        async def done() -> None:
            await self.ask("POST", f"chats/{self.chat}/{what}", {})
            await self.rest.house.service.settle(await self.rest.ref(self.chat), SETTLE_S)

        self.run(done())

    @rule()
    def proxied_with_a_key_of_its_own(self) -> None:
        """What the upstream refuses reaches its client as it came, and nobody else."""
        self.mood("refuses")
        body = {"model": "m", "messages": [{"role": "user", "content": "Where is the captain?"}]}
        bearer = {"Authorization": f"Bearer {self.key}"}

        async def sent() -> bytes:
            path = "/c/talk/v1/chat/completions"
            return (await self.rest.call("POST", path, json=body, headers=bearer)).raw

        assert self.key.encode() in self.run(sent())

    @rule(path=st.sampled_from(LOOKS))
    def look(self, path: str) -> None:
        self.run(self.ask("GET", path))

    @rule(path=st.sampled_from(OF_A_CHAT))
    def look_at_the_chat(self, path: str) -> None:
        self.run(self.ask("GET", f"chats/{self.chat}{path}"))

    # --- what must be true

    @invariant()
    def no_key_is_told_or_kept(self) -> None:
        told = "\n".join(self.lines.told)
        kept = repr(self.run(self.rest.house.store._db.read(dump)))
        for key in KEYS:
            assert key not in told
            assert key not in kept
            assert all(key.encode() not in answer for answer in self.heard)
        self.heard.clear()
        self.lines.told.clear()

    @invariant()
    def no_archive_holds_an_embedding(self) -> None:
        async def archives() -> list[Any]:
            exported = (await self.rest.call("GET", f"chats/{self.chat}/export")).raw
            saved = await self.rest.house.service.save(await self.rest.ref(self.chat))
            return [saved, *map(json.loads, exported.splitlines())]

        for archive in self.run(archives()):
            assert not any(map(is_vector, walked(archive)))

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        logging.getLogger().removeHandler(self.lines)
        self.loop.close()
        self.folder.cleanup()


def dump(conn: sa.Connection) -> list[Any]:
    """Every row of every table."""
    return [tuple(row) for t in metadata.sorted_tables for row in conn.execute(sa.select(t))]


def walked(value: Any) -> Iterator[Any]:
    """It and all that is in it."""
    yield value
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    for one in inner:
        yield from walked(one)


def is_vector(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    numbers = cast("list[Any]", value)
    return len(numbers) >= VECTOR_MIN and all(isinstance(number, float) for number in numbers)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.proves("I8", "I11", "G-80")
def test_keys_stay_where_they_were_put_through_any_life():
    some = settings(
        max_examples=12,
        stateful_step_count=14,
        deadline=None,
        phases=(Phase.generate,),  # a life over HTTP is short as it is, and slow to shorten
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(Life, settings=some)
