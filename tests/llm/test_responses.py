"""The Responses interface before a real llama.cpp server, with names and with whole inputs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from previously import app
from previously.web.serve import create_app
from tests.llm.llama import LlamaServer
from tests.web.rig import running

pytestmark = pytest.mark.llm


@asynccontextmanager
async def talking(folder: Path, llama: LlamaServer) -> AsyncGenerator[tuple[Any, app.House]]:
    house = await app.build(folder / "previously.db")
    try:
        async with running(create_app(house.service, llama.url)) as port:
            url = f"http://127.0.0.1:{port}/c/demo/v1"
            async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
                yield client, house
    finally:
        await house.close()


@pytest.mark.slow
async def test_a_real_model_goes_on_from_a_response(
    tmp_path: Path, llama_server: LlamaServer
) -> None:
    asked: Any = {"model": llama_server.model, "max_output_tokens": 16}
    async with talking(tmp_path, llama_server) as (client, house):
        first = await client.responses.create(input="My boat is called Heron.", **asked)
        stream = await client.responses.create(
            input="What is my boat called?", previous_response_id=first.id, stream=True, **asked
        )
        told, names = "", set[str]()
        async for event in stream:
            if event.type == "response.output_text.delta":
                told += event.delta
            if event.type == "response.completed":
                names.add(event.response.id)
                assert event.response.usage.input_tokens > first.usage.input_tokens
        chat = await house.service.find_chat("demo")
        kept = [m async for m in house.service.messages(chat.ref)]
        assert [m.role for m in kept] == ["user", "assistant"] * 2
        assert kept[-1].body.strip() == told.strip() != ""
        last = await client.responses.create(
            input="Thanks.", previous_response_id=names.pop(), **asked
        )
        assert last.output_text
