"""Two servers, one PostgreSQL: a conversation may come to either, turn by turn."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from previously import app
from previously.testing import FakeUpstream
from tests.web.rig import Talk, openai_client, say, say_streaming

PREVIOUSLY = Path(sys.executable).with_name("previously")
START_TIMEOUT_S = 60.0


@asynccontextmanager
async def server(url: str, upstream: str) -> AsyncGenerator[str]:
    """A process of its own; its address."""
    options = ["--port", "0", "--database", url, "--upstream", upstream, "--json"]
    process = await asyncio.create_subprocess_exec(PREVIOUSLY, "serve", *options, stdout=PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await process.stdout.readline()
        yield line.decode().split('"address": "', 1)[1].split('"', 1)[0]
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def two_servers(url: str) -> AsyncGenerator[tuple[FakeUpstream, list[str]]]:
    """Both on one database and one upstream; their addresses."""
    async with FakeUpstream() as up, server(url, up.url) as one, server(url, up.url) as other:
        yield up, [one, other]


@pytest.mark.slow
async def test_a_response_of_one_server_is_known_to_the_other(postgres_url: str) -> None:
    async with two_servers(postgres_url) as (upstream, addresses), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(openai_client(f"{a}/v1")) for a in addresses]
        ids = [(await clients[0].responses.create(model="m", input="words 0")).id]
        for turn in range(1, 6):
            client, words = clients[turn % 2], f"words {turn}"
            made = await client.responses.create(
                model="m", input=words, previous_response_id=ids[-1]
            )
            ids.append(made.id)
        asked = [item["content"] for item in upstream.requests[-1].items[::2]]
        assert asked == [f"words {turn}" for turn in range(6)]
        await clients[0].responses.create(model="m", input="or", previous_response_id=ids[2])
        asked = [item["content"] for item in upstream.requests[-1].items[::2]]
        assert asked == ["words 0", "words 1", "words 2", "or"]
        await clients[1].responses.create(model="m", input="on", previous_response_id=ids[5])
        asked = [item["content"] for item in upstream.requests[-1].items[::2]]
        assert asked == [*(f"words {turn}" for turn in range(6)), "on"]


@pytest.mark.slow
async def test_two_servers_lead_one_conversation(postgres_url: str) -> None:
    async with two_servers(postgres_url) as (_, addresses), AsyncExitStack() as stack:
        named = [f"{address}/c/demo/v1" for address in addresses]
        clients = [await stack.enter_async_context(openai_client(url)) for url in named]
        talk = Talk()
        for turn in range(12):
            speak = say if turn % 3 else say_streaming
            await speak(clients[turn % 2], talk, f"words {turn}")
        # Without a name the chat is found by its words, whichever server wrote them down.
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await asyncio.sleep(1.5)
        body = {"model": "m", "messages": [*talk, {"role": "user", "content": "and on"}]}
        async with session.post(f"{addresses[0]}/v1/chat/completions", json=body) as answer:
            assert answer.headers["x-previously-chat"] == "demo"
        house = await app.build(postgres_url, read_only=True)
        stack.push_async_callback(house.close)
        ref = (await house.service.find_chat("demo")).ref
        kept = [(m.role, m.body) async for m in house.service.messages(ref)]
        assert kept[: len(talk)] == [(m["role"], m["content"]) for m in talk]
        assert len(kept) == len(talk) + 2


@pytest.mark.slow
async def test_what_one_server_has_seen_in_doubt_is_no_question_to_the_other(
    postgres_url: str,
) -> None:
    """A note that a client puts behind each question; then the question is taken back."""
    note = {"role": "user", "content": "[Speak softly, and of the sea.]"}
    async with two_servers(postgres_url) as (_, addresses), AsyncExitStack() as stack:
        client = await stack.enter_async_context(openai_client(f"{addresses[0]}/c/demo/v1"))
        talk = Talk()
        for turn in range(3):
            await say(client, talk, f"words {turn}")
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def asked(address: str, *more: dict[str, str]) -> str:
            body = {"model": "m", "messages": [*talk, *more]}
            async with session.post(f"{address}/c/demo/v1/chat/completions", json=body) as answer:
                await answer.read()
                return answer.headers["x-previously-trace"]

        assert (await asked(addresses[1], {"role": "user", "content": "words 3"}, note))[
            :4
        ] == "pass"
        await asyncio.sleep(1.5)  # until that is written down
        assert (await asked(addresses[0], note))[:4] == "pass"
