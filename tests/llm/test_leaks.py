"""A key stays where it belongs, whatever goes wrong: in no error, no traceback, no log."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from previously.errors import PreviouslyError
from previously.llm.check import check
from previously.llm.openai import OpenAiLlm
from previously.llm.remote import Remote
from previously.llm.secrets import Secret
from previously.testing import Answer, Failure, FakeUpstream, Trouble, refusal
from tests.llm.makers import KEY, REMOTES, Sleeper, asked, made, profile_of

ECHO = f"Incorrect API key provided: {KEY}. " * 3

FAULTS: dict[str, Answer] = {
    "key": refusal(401, "invalid_api_key", ECHO),
    "permission": refusal(403, "permission_error", ECHO),
    "model": refusal(404, "model_not_found", ECHO),
    "money": refusal(402, "billing_error", ECHO),
    "rate": refusal(429, "rate_limit_error", ECHO, retry_after="60"),
    "rate, quick": refusal(429, "rate_limit_error", ECHO),
    "server": refusal(500, "api_error", ECHO),
    "bad request": refusal(400, "x", "x " * 140 + ECHO),  # the cut falls into the key
    "filter": refusal(400, "content_filter", ECHO),
    "overflow": refusal(400, "x", f"prompt is too long {ECHO}"),
    "plain": Failure(418, ECHO.encode()),
    "page": Failure(503, f"<title>{ECHO}</title>".encode()),
    "redirect": Failure(302, b"", {"location": f"https://{KEY}.example.com/?key={KEY}"}),
    "header": Failure(429, b"", {"x-echo": KEY, "retry-after": KEY}),
    "error inside": Failure(200, json.dumps({"error": {"message": ECHO}}).encode()),
    "stream's error": Failure(
        200, f"data: {json.dumps({'error': {'message': ECHO}})}\n\n".encode()
    ),
    "refusal": Failure(
        200,
        json.dumps(
            {
                "choices": [{"message": {"refusal": ECHO}, "finish_reason": "stop"}],
                "content": [{"type": "text", "text": ECHO}],
                "stop_reason": "refusal",
            }
        ).encode(),
    ),
    "garbage": Trouble.GARBAGE,
    "reset": Trouble.RESET,
    "half": Trouble.HALF,
    "hang": Trouble.HANG,
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def shown(error: BaseException) -> str:
    """All that a crash reporter could get hold of, but for the frames of this test itself."""
    parts: list[str] = []
    for one in chain(error):
        parts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        stack = traceback.TracebackException.from_exception(one, capture_locals=True).stack
        parts += [f"{f.name} {f.locals}" for f in stack if "test_leaks" not in f.filename]
    return "\n".join(parts)


@pytest.mark.parametrize("kind", REMOTES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_failure_shows_the_key(
    kind: type[Remote],
    upstream: FakeUpstream,
    session: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    stream: bool,
    fault: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    upstream.says(FAULTS[fault])
    llm = made(kind, upstream, session, stream=stream, timeout_s=0.2 if fault == "hang" else 9.0)
    with pytest.raises(PreviouslyError) as caught:
        await llm.complete(asked())
    assert KEY in str(upstream.requests[0].headers)  # it was sent…
    assert list(chain(caught.value)) == [caught.value]  # it drags no request along
    text = shown(caught.value)
    assert "_once" in text or "_complete" in text
    assert KEY not in text  # …and nobody saw it
    assert KEY[:-4] not in text
    assert KEY not in caplog.text
    assert KEY not in f"{llm!r} {vars(llm)} {llm.profile!r} {llm.profile.as_mapping()}"


async def test_a_network_that_fails_shows_no_key(session: aiohttp.ClientSession) -> None:
    async with FakeUpstream() as gone:
        url = gone.url
    for address in (url, "https://no-such-host.invalid/v1", url.replace("http://", "https://")):
        profile = profile_of(OpenAiLlm, address, timeout_s=20.0)
        llm = OpenAiLlm(profile, session, Secret(KEY), sleep=Sleeper())
        with pytest.raises(PreviouslyError) as caught:
            await llm.complete(asked())
        assert list(chain(caught.value)) == [caught.value]  # it drags no request along
        assert KEY not in shown(caught.value)


async def test_a_cancelled_call_shows_no_key(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(Trouble.HANG)
    call = asyncio.create_task(made(OpenAiLlm, upstream, session).complete(asked()))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await call
    assert KEY not in shown(caught.value)


@pytest.mark.parametrize("answer", [FAULTS["key"], FAULTS["rate"], FAULTS["server"], ECHO])
async def test_a_check_shows_no_key(
    upstream: FakeUpstream, session: aiohttp.ClientSession, answer: Any
) -> None:
    upstream.says(answer)
    profile = profile_of(OpenAiLlm, upstream.url)
    assert KEY not in repr(await check(profile, session, Secret(KEY)))
