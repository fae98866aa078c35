"""A whole house behind a real port: SQLite in a temporary folder, a fake upstream, real clients."""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from previously import app
from previously.llm import Llm
from previously.model import Message
from previously.store import Store
from previously.testing import FakeUpstream
from previously.text.wire import parse, tokens_of
from previously.web.serve import create_app, serve
from tests.sqlite import fresh

Talk = list[Any]  # messages as a client keeps them

WAIT_S = 10.0
TRUST = ssl.create_default_context()  # read once: every client would read it anew, and uses none


def openai_client(base_url: str, key: str = "client-key") -> AsyncOpenAI:
    """OpenAI's own client, which tries everything once."""
    http = DefaultAsyncHttpxClient(verify=TRUST)
    return AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http)


@dataclass
class Door:
    """What a test may touch."""

    house: app.House
    upstream: FakeUpstream
    port: int
    path: Path
    stack: AsyncExitStack
    _http: list[aiohttp.ClientSession] = field(default_factory=list[aiohttp.ClientSession])

    def url(self, rest: str = "/chat/completions", chat: str = "demo") -> str:
        return f"http://127.0.0.1:{self.port}/c/{chat}/v1{rest}"

    def client(self, chat: str = "demo") -> AsyncOpenAI:
        made = openai_client(self.url("", chat))
        self.stack.push_async_callback(made.close)
        return made

    @property
    def http(self) -> aiohttp.ClientSession:
        if not self._http:
            self._http.append(aiohttp.ClientSession(auto_decompress=False))
            self.stack.push_async_callback(self._http[0].close)
        return self._http[0]

    async def messages(self, chat: str = "demo") -> list[Message]:
        ref = (await self.house.service.find_chat(chat)).ref
        return [m async for m in self.house.service.messages(ref)]

    async def lines(self, chat: str = "demo") -> list[tuple[str, str]]:
        return [(m.role, m.body) for m in await self.messages(chat)]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What is on disk at this moment, read by another program."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as raw:
            return raw.execute(query).fetchall()

    async def settle(self, chat: str = "demo") -> None:
        ref = (await self.house.service.find_chat(chat)).ref
        assert (await self.house.service.settle(ref, WAIT_S)).done

    def break_store(self, **faults: Callable[..., Any]) -> None:
        """Put faults in the place of some of the store's methods."""
        self.house.service.store = cast(Store, Broken(self.house.store, faults))


class Broken:
    """A store some of whose methods are something else."""

    def __init__(self, store: object, faults: Mapping[str, Callable[..., Any]]) -> None:
        self._store = store
        self._faults = faults

    def __getattr__(self, name: str) -> object:
        return self._faults.get(name) or getattr(self._store, name)


@asynccontextmanager
async def running(application: Any) -> AsyncGenerator[int]:
    """The port of a server that runs until the block ends."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(application, "127.0.0.1", 0, ready=lambda _, number: port.set_result(number))
    )
    try:
        yield await port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    llm: Llm | None = None,
    key: str | None = None,
    default_budget: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Door]:
    """A door with everything behind it."""
    path = fresh(folder / "previously.db")
    async with AsyncExitStack() as stack:
        house = await app.build(path, llm=llm, settings=settings)
        stack.push_async_callback(house.close)
        upstream = await stack.enter_async_context(FakeUpstream())
        application = create_app(house.service, upstream.url, key, default_budget=default_budget)
        port = await stack.enter_async_context(running(application))
        yield Door(house, upstream, port, path, stack)


def size(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of messages as they were sent."""
    return sum(tokens_of(parse(m)) for m in messages)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is about to happen."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - it happens elsewhere, and tells nobody
            await asyncio.sleep(0.01)


async def say(client: AsyncOpenAI, talk: Talk, words: str, **more: Any) -> str:
    """One turn without a stream; the client keeps what it was told."""
    talk.append({"role": "user", "content": words})
    return await ask(client, talk, **more)


async def ask(client: AsyncOpenAI, talk: Talk, **more: Any) -> str:
    """An answer to what was said last."""
    create: Any = client.chat.completions.create  # its overloads cannot see through `more`
    answer = await create(model="m", messages=talk, **more)
    told: str = answer.choices[0].message.content or ""
    talk.append({"role": "assistant", "content": told})
    return told


async def say_streaming(client: AsyncOpenAI, talk: Talk, words: str) -> str:
    """One turn as a stream."""
    talk.append({"role": "user", "content": words})
    stream = await client.chat.completions.create(
        model="m", messages=talk, stream=True, stream_options={"include_usage": True}
    )
    told = ""
    async for chunk in stream:
        if chunk.choices:
            told += chunk.choices[0].delta.content or ""
    talk.append({"role": "assistant", "content": told})
    return told
