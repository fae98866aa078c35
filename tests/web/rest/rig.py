"""A whole house behind a real port, asked as a page or another program would ask."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from previously import app
from previously.llm import Llm
from previously.model import ChatRef, NewMessage
from previously.testing import FakeUpstream
from previously.web.serve import create_app
from tests.sqlite import fresh
from tests.web.rig import running

WAIT_S = 20.0


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def etag(self) -> str:
        return self.headers["ETag"]


@dataclass
class Rest:
    """The interface, and what stands behind it."""

    house: app.House
    port: int
    session: aiohttp.ClientSession
    upstream: FakeUpstream
    keys: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def call(self, method: str, path: str, **more: Any) -> Answer:
        url = self.address + (path if path.startswith("/") else f"/api/{path}")
        async with self.session.request(method, url, **more) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **more: Any) -> Any:
        """The body of an answer that is expected to be one."""
        return await self._good("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return await self._good("POST", path, json=body, **more)

    async def post_raw(self, path: str, body: bytes) -> Any:
        """A file, as it is."""
        return await self._good("POST", path, data=body)

    async def patch(self, path: str, body: Any, **more: Any) -> Any:
        return await self._good("PATCH", path, json=body, **more)

    async def delete(self, path: str, **more: Any) -> Any:
        return await self._good("DELETE", path, **more)

    async def _good(self, method: str, path: str, **more: Any) -> Any:
        answer = await self.call(method, path, **more)
        assert answer.status < 300, answer.raw
        return answer.body if answer.raw else None

    async def chat(self, floors: int = 0, name: str = "harbour") -> str:
        """A chat with so many floors, summarised; its id."""
        made = await self.post("chats", {"name": name})
        if floors:
            await self.house.service.append(await self.ref(made["id"]), spoken(floors))
            await self.settle(made["id"])
        return made["id"]

    async def ref(self, chat: str) -> ChatRef:
        return await self.house.service.chat_by_id(int(chat[1:]))

    async def settle(self, chat: str) -> None:
        assert (await self.house.service.settle(await self.ref(chat), WAIT_S)).done


def spoken(floors: int) -> list[NewMessage]:
    """Turns of a story whose floors can be told apart."""
    return [
        NewMessage(
            "user" if floor % 2 == 0 else "assistant",
            f"On day {floor} the captain carried lantern {floor} along the pier of Saltmouth.",
        )
        for floor in range(floors)
    ]


@asynccontextmanager
async def opened(
    location: app.Location,
    folder: Path,
    *,
    llm: Llm | None = None,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncGenerator[Rest]:
    """The interface with everything behind it."""
    async with AsyncExitStack() as stack:
        if isinstance(location, Path):
            fresh(location)
        house = await app.build(location, llm=llm)
        stack.push_async_callback(house.close)
        upstream = await stack.enter_async_context(FakeUpstream())
        keys = folder / "keys"
        application = create_app(
            house.service,
            upstream.url,
            token=token,
            environment=environment or {},
            keys=keys,
        )
        port = await stack.enter_async_context(running(application))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Rest(house, port, session, upstream, keys)
