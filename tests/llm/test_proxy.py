"""The plain `openai` client, a real model behind the proxy, and a window that is soon too small."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from openai import AsyncOpenAI, OpenAI

from previously import app, cli
from previously.text.wire import parse, tokens_of
from previously.web.serve import create_app
from tests.llm.llama import LlamaServer
from tests.web.rig import running

pytestmark = pytest.mark.llm

FACT = "The tide-watch of Dorcas Vane hangs on nail 47 at Kettle Light."
QUESTION = "Where does the tide-watch of Dorcas Vane hang?"
TOLD_EVERY = 25  # turns
log = logging.getLogger(__name__)


def words(turn: int, times: int) -> str:
    if turn == 2:
        return f"Remember this for later. {FACT}"
    return f"Day {turn}. {turn * 7} gulls came, the Heron passed, and I promised candles. " * times


class Wire:
    """Stands before the model's server and remembers what it was sent last."""

    def __init__(self, llama: LlamaServer) -> None:
        self._llama = llama
        self.last: dict[str, Any] = {}
        self.read = 0  # tokens of prompts that the model had to read
        self.known = 0  # and those that it still knew from the prompt before

    def _count(self, timings: dict[str, Any]) -> None:
        self.read += timings.get("prompt_n", 0)
        self.known += timings.get("cache_n", 0)

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        url = self._llama.url.removesuffix("/v1") + request.path_qs
        headers = {"content-type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=body, headers=headers) as answer,
        ):
            if answer.status == 200 and body:
                self.last = json.loads(body)
            said = await answer.read()
            if answer.status == 200 and body:
                self._count(json.loads(said).get("timings", {}))
            return web.Response(status=answer.status, body=said, content_type=answer.content_type)

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        application = web.Application()
        application.router.add_route("*", "/v1/{rest:.*}", self.pass_on)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()


@asynccontextmanager
async def served(folder: Path, url: str) -> AsyncGenerator[tuple[int, app.House]]:
    house = await app.build(folder / "previously.db")
    try:
        async with running(create_app(house.service, url)) as port:
            yield port, house
    finally:
        await house.close()


async def converse(folder: Path, llama: LlamaServer, turns: int, times: int) -> list[Any]:
    """Every turn is answered; the prompt that the model has really read for the last of them."""
    wire = Wire(llama)
    async with wire.listening() as url, served(folder, url) as (port, house):
        client = AsyncOpenAI(
            base_url=f"http://127.0.0.1:{port}/c/demo/v1", api_key="x", max_retries=0, timeout=300
        )
        talk: list[Any] = [{"role": "system", "content": "Answer in a few words."}]
        started_s = time.monotonic()
        async with client:
            for turn in range(1, turns + 1):
                said = QUESTION if turn == turns else words(turn, times)
                talk.append({"role": "user", "content": said})
                answer = await client.chat.completions.with_raw_response.create(
                    model=llama.model, messages=talk, max_tokens=8, temperature=0
                )
                # A model of this size may say nothing at all; a client keeps something.
                told = answer.parse().choices[0].message.content or "…"
                talk.append({"role": "assistant", "content": told})
                if turn % TOLD_EVERY == 0:
                    passed_s = time.monotonic() - started_s
                    log.info(
                        "turn %d: %.0f s, %d tokens read anew, %d known, last prompt %s",
                        *(turn, passed_s, wire.read, wire.known),
                        answer.headers["x-previously-prompt-tokens"],
                    )
                if told == "…":
                    continue
                assert int(answer.headers["x-previously-prompt-tokens"]) <= llama.window_tokens
        ref = (await house.service.find_chat("demo")).ref
        assert len([m async for m in house.service.messages(ref)]) >= turns * 2 - 2
        assert sum(tokens_of(parse(m)) for m in talk) > llama.window_tokens
    sent: list[Any] = wire.last["messages"]
    assert sent[-1] == {"role": "user", "content": QUESTION}
    assert len(sent) < len(talk) - 1
    return sent


def kept_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the program tells of the prompt that it sent last, with its texts."""
    asked = ["prompt", "demo", "--data", str(folder), "--last", "--text", "--json"]
    assert cli.main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    return "\n".join(block["text"] for block in told["blocks"])


@pytest.mark.proves("E-08")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_turns_outgrow_a_real_window_and_none_fails(
    tmp_path: Path, llama_server: LlamaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = asyncio.run(converse(tmp_path, llama_server, 20, times=5))
    assert "nail 47" in json.dumps(sent)
    assert "nail 47" in kept_of(tmp_path, capsys)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_after_three_hundred_turns_a_fact_of_the_second_is_still_there(
    tmp_path: Path, llama_server: LlamaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = asyncio.run(converse(tmp_path, llama_server, 300, times=1))
    assert "nail 47" in json.dumps(sent)
    assert "nail 47" in kept_of(tmp_path, capsys)


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "When the tide is high.",
        "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
    },
}
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "count",
        "schema": {
            "type": "object",
            "properties": {"gulls": {"type": "integer"}},
            "required": ["gulls"],
            "additionalProperties": False,
        },
    },
}


async def test_streams_tools_and_schemas_reach_a_real_model(
    tmp_path: Path, llama_server: LlamaServer
) -> None:
    async with served(tmp_path, llama_server.url) as (port, _):

        def plainly() -> str:
            base = f"http://127.0.0.1:{port}/c/sync/v1"
            with OpenAI(base_url=base, api_key="x", max_retries=0, timeout=300) as client:
                messages: Any = [{"role": "user", "content": "How many gulls are seven?"}]
                answer = client.chat.completions.create(
                    model="smollm2",
                    messages=messages,
                    max_tokens=64,  # it may part its words by many blanks
                    temperature=0,
                    response_format=SCHEMA,
                )
                return answer.choices[0].message.content or ""

        assert isinstance(json.loads(await asyncio.to_thread(plainly))["gulls"], int)
        base = f"http://127.0.0.1:{port}/c/async/v1"
        async with AsyncOpenAI(base_url=base, api_key="x", max_retries=0, timeout=300) as client:
            said: Any = [{"role": "user", "content": "Say hello."}]
            stream = await client.chat.completions.create(
                model="smollm2",
                messages=said,
                max_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.completion_tokens > 0
            told = [c.choices[0].delta.content or "" for c in chunks if c.choices]
            said += [{"role": "assistant", "content": "".join(told)}]
            said += [{"role": "user", "content": "When is high tide on Monday?"}]
            answer = await client.chat.completions.create(
                model="smollm2", messages=said, max_tokens=48, tools=[TOOL], tool_choice="auto"
            )
            assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
