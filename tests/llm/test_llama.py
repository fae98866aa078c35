"""The adapters against a real server with a real model, its real errors and its real figures."""

from __future__ import annotations

import aiohttp
import pytest

from previously.errors import TooLong
from previously.llm.check import check
from previously.llm.remote import Remote
from tests.llm.llama import LlamaServer
from tests.llm.makers import REMOTES, asked, profile_of

pytestmark = pytest.mark.llm

both = pytest.mark.parametrize("kind", REMOTES)


def real(
    kind: type[Remote], server: LlamaServer, session: aiohttp.ClientSession, output_tokens: int
) -> Remote:
    profile = profile_of(
        kind, server.url, model=server.model, temperature=0.0, output_tokens=output_tokens
    )
    return kind(profile, session)


@both
async def test_a_real_answer_has_its_usage_and_its_reason_to_finish(
    kind: type[Remote], llama_server: LlamaServer, session: aiohttp.ClientSession
) -> None:
    reply = await real(kind, llama_server, session, 8).complete(asked("Count to fifty.", 8))
    assert reply.text
    assert (reply.model, reply.finish) == (llama_server.model, "length")
    assert reply.usage.output_tokens == 8
    assert 10 < reply.usage.input_tokens < 40
    whole = await real(kind, llama_server, session, 200).complete(asked("Say yes.", 8))
    assert whole.finish == "stop"
    assert whole.usage.output_tokens < 200


@both
async def test_a_real_stream_says_the_same(
    kind: type[Remote], llama_server: LlamaServer, session: aiohttp.ClientSession
) -> None:
    llm = real(kind, llama_server, session, 24)
    whole = await llm.complete(asked("Name three colours."))
    streamed = await llm.stream(asked("Name three colours."))
    assert streamed.text == whole.text
    assert (streamed.finish, streamed.model) == (whole.finish, whole.model)
    assert streamed.usage.input_tokens == whole.usage.input_tokens
    assert streamed.usage.output_tokens == whole.usage.output_tokens


@both
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.proves("G-65")
async def test_a_real_overflow_is_too_long_and_names_the_window(
    kind: type[Remote], llama_server: LlamaServer, session: aiohttp.ClientSession, stream: bool
) -> None:
    llm = real(kind, llama_server, session, 32)
    ask = asked("The key lies there. " * 800)  # five tokens each
    with pytest.raises(TooLong, match=r"exceeds the available context size") as caught:
        await (llm.stream if stream else llm.complete)(ask)
    assert caught.value.window_tokens == llama_server.window_tokens


@both
async def test_a_real_server_passes_its_check(
    kind: type[Remote], llama_server: LlamaServer, session: aiohttp.ClientSession
) -> None:
    found = await check(real(kind, llama_server, session, 64).profile, session)
    assert found.ok, found.lines
    assert found.usage is not None
