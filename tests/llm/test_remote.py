"""What all providers share: tries, deadline, limits, and errors that say what to do next."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from previously.errors import (
    BadInput,
    DraftRejected,
    ModelUnavailable,
    NotConfigured,
    PreviouslyError,
    TooLong,
)
from previously.llm import Llm
from previously.llm.openai import OpenAiLlm
from previously.llm.profile import Profile
from previously.llm.remote import ANSWER_BYTES_MAX, Remote
from previously.testing import Failure, FakeUpstream, Trouble, refusal
from tests.llm.makers import REMOTES, Sleeper, asked, made, profile_of

both = pytest.mark.parametrize("kind", REMOTES)
streamed_or_not = pytest.mark.parametrize("stream", [False, True])

SLOW_DOWN = refusal(429, "rate_limit_error", "slow down", retry_after="1")
BROKEN = refusal(500, "api_error", "oh no")


@both
@streamed_or_not
async def test_a_question_is_answered(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.says("The key lies under the stone. 钥匙在石头下。")
    llm: Llm = made(kind, upstream, session, stream=stream, temperature=0.2, params={"top_p": 0.5})
    reply = await llm.complete(asked())
    assert reply.text == "The key lies under the stone. 钥匙在石头下。"
    assert (reply.model, reply.finish, llm.name) == ("m", "stop", "cheap")
    assert reply.usage.input_tokens > 10
    assert reply.usage.output_tokens > 5
    body = upstream.requests[0].body
    assert (body["stream"], body["temperature"], body["top_p"]) == (stream, 0.2, 0.5)
    assert body["max_tokens"] == 1_024


@both
@streamed_or_not
@pytest.mark.parametrize("trouble", [SLOW_DOWN, BROKEN, Trouble.RESET, Trouble.GARBAGE])
async def test_a_short_fault_is_tried_again_at_once(
    kind: type[Remote],
    upstream: FakeUpstream,
    session: aiohttp.ClientSession,
    stream: bool,
    trouble: Failure | Trouble,
) -> None:
    upstream.says(trouble, "fine")
    sleep = Sleeper()
    reply = await made(kind, upstream, session, sleep, stream=stream).complete(asked())
    assert reply.text == "fine"
    assert sleep.slept == ([1.0] if trouble is SLOW_DOWN else [0.5])
    assert len(upstream.requests) == 2


@both
@streamed_or_not
async def test_half_an_answer_is_none(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.says(Trouble.HALF)
    with pytest.raises(ModelUnavailable):
        await made(kind, upstream, session, stream=stream).complete(asked())
    assert len(upstream.requests) == 3


@both
async def test_a_web_page_in_the_place_of_an_answer_points_to_the_address(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(Failure(200, b"\n<!doctype html><title>Welcome</title>"))
    with pytest.raises(ModelUnavailable, match="check base_url"):
        await made(kind, upstream, session).complete(asked())


@both
async def test_after_two_more_tries_it_is_left_for_later(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(BROKEN)
    sleep = Sleeper()
    with pytest.raises(ModelUnavailable, match="oh no"):
        await made(kind, upstream, session, sleep).complete(asked())
    assert sleep.slept == [0.5, 1.0]
    assert len(upstream.requests) == 3


@both
async def test_who_asks_for_a_long_wait_is_not_asked_again(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(refusal(429, "rate_limit_error", "slow down", retry_after="33"))
    with pytest.raises(ModelUnavailable) as caught:
        await made(kind, upstream, session).complete(asked())
    assert caught.value.retry_after_s == 33
    assert len(upstream.requests) == 1


@both
@streamed_or_not
@pytest.mark.proves("A-24")
async def test_one_deadline_holds_over_all_tries(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.says(BROKEN, Trouble.HANG)
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"no answer within 0\.6 s"):
        await made(kind, upstream, session, timeout_s=0.6, stream=stream).complete(asked())
    assert 0.55 < time.monotonic() - started < 5
    assert len(upstream.requests) == 2


async def test_a_wait_that_would_outlast_the_deadline_is_not_begun(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(refusal(503, "api_error", "busy", retry_after="2"))
    sleep = Sleeper()
    with pytest.raises(ModelUnavailable, match="busy"):
        await made(OpenAiLlm, upstream, session, sleep, timeout_s=1.0).complete(asked())
    assert sleep.slept == []


@both
async def test_a_cancelled_call_closes_its_request(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(Trouble.HANG)
    call = asyncio.create_task(made(kind, upstream, session).complete(asked()))
    for _ in range(400):
        if upstream.requests:
            break
        await asyncio.sleep(0.005)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for _ in range(400):
        if upstream.abandoned:
            break
        await asyncio.sleep(0.005)
    assert upstream.abandoned == 1
    assert session.connector is not None
    assert not session.connector._acquired


async def test_a_server_that_is_not_there_may_come_later(session: aiohttp.ClientSession) -> None:
    async with FakeUpstream() as gone:
        url = gone.url
    llm = OpenAiLlm(profile_of(OpenAiLlm, url), session, sleep=Sleeper())
    with pytest.raises(ModelUnavailable, match="is the server running"):
        await llm.complete(asked())


async def test_a_name_that_nobody_knows_is_said_so(session: aiohttp.ClientSession) -> None:
    profile = profile_of(OpenAiLlm, "https://no-such-host.invalid/v1", timeout_s=20.0)
    with pytest.raises(ModelUnavailable, match="no-such-host"):
        await OpenAiLlm(profile, session, sleep=Sleeper()).complete(asked())


Case = tuple[Failure, type[PreviouslyError], str]

CASES: dict[str, Case] = {
    "key": (refusal(401, "authentication_error", "bad"), NotConfigured, "env:K"),
    "key, as 400": (
        refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        NotConfigured,
        "key was refused",
    ),
    "permission": (refusal(403, "permission_error", "no"), NotConfigured, "permissions"),
    "model": (refusal(404, "not_found_error", "model: m"), NotConfigured, "model's name"),
    "model, as 400": (refusal(400, "x", "Model Not Exist"), NotConfigured, "model's name"),
    "path": (Failure(404, b"<html><title>404 Not Found</title>"), NotConfigured, "/v1"),
    "method": (Failure(405, b""), NotConfigured, "base_url"),
    "money": (refusal(402, "billing_error", "pay"), NotConfigured, "credit or quota"),
    "money, as 429": (
        refusal(429, "insufficient_quota", "You exceeded your current quota"),
        NotConfigured,
        "credit or quota",
    ),
    "money, as 400": (
        refusal(400, "invalid_request_error", "Your credit balance is too low to access the API"),
        NotConfigured,
        "credit or quota",
    ),
    "quota of a minute": (
        refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", retry_after="9"),
        ModelUnavailable,
        "fewer requests",
    ),
    "redirect": (
        Failure(302, b"", {"location": "https://evil.example.com/v1/chat/completions"}),
        NotConfigured,
        "redirects to evil.example.com",
    ),
    "filter": (
        refusal(400, "content_filter", "The response was filtered"),
        DraftRejected,
        "filter",
    ),
    "filter, in words": (
        refusal(400, "x", "The prompt triggered Azure's content management policy"),
        DraftRejected,
        "filter",
    ),
    "filter, DashScope": (
        refusal(400, "data_inspection_failed", "Input may contain inappropriate content"),
        DraftRejected,
        "filter",
    ),
    "rate": (refusal(429, "rate_limit_error", "slow"), ModelUnavailable, "slow"),
    "rate, Groq's 413": (
        refusal(413, "rate_limit_exceeded", "Request too large on tokens per minute (TPM)"),
        ModelUnavailable,
        "fewer requests",
    ),
    "timeout": (Failure(408, b""), ModelUnavailable, "408"),
    "conflict": (Failure(409, b""), ModelUnavailable, "409"),
    "early": (Failure(425, b""), ModelUnavailable, "425"),
    "bad gateway": (
        Failure(502, b"<html><head><title>502 Bad Gateway</title></head></html>"),
        ModelUnavailable,
        "502 Bad Gateway$",
    ),
    "overloaded": (refusal(529, "overloaded_error", "Overloaded"), ModelUnavailable, "529"),
    "another bad request": (refusal(400, "x", "Unknown thing"), BadInput, "Unknown thing"),
    "a body by its bytes": (Failure(413, b"<html>"), BadInput, "413"),
    "overflow": (
        refusal(400, "x", "prompt is too long: 900 tokens > 800 maximum"),
        TooLong,
        "does not fit",
    ),
}


@both
@pytest.mark.proves("E-13")
@pytest.mark.parametrize("what", CASES)
async def test_an_error_says_what_to_do_next(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, what: str
) -> None:
    answer, error, words = CASES[what]
    upstream.says(answer)
    with pytest.raises(error, match=words) as caught:
        await made(kind, upstream, session, secret="env:K").complete(asked())
    assert str(caught.value).startswith("profile cheap: ")
    assert type(caught.value) is error
    if error is not ModelUnavailable:
        assert len(upstream.requests) == 1


@both
async def test_a_window_that_the_refusal_names_is_passed_on(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.window_tokens = 200
    with pytest.raises(TooLong) as caught:
        await made(kind, upstream, session).complete(asked("word " * 300))
    assert caught.value.window_tokens == 200


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_of_nearly_a_window_counts_as_too_long_and_a_small_one_does_not(
    upstream: FakeUpstream, session: aiohttp.ClientSession, status: int
) -> None:
    upstream.says(Failure(status, b"no reason given"))
    llm = made(OpenAiLlm, upstream, session, window_tokens=1_000, output_tokens=100)
    with pytest.raises(TooLong, match="nearly fills the window"):
        await llm.complete(asked("word " * 800))
    with pytest.raises(BadInput, match="no reason given"):
        await llm.complete(asked("word " * 700))
    unknown = made(OpenAiLlm, upstream, session)
    with pytest.raises(BadInput):
        await unknown.complete(asked("word " * 800))


async def test_a_known_reason_stays_one_however_long_the_prompt_is(
    upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.says(refusal(400, "content_filter", "filtered"))
    llm = made(OpenAiLlm, upstream, session, window_tokens=1_000, output_tokens=100)
    with pytest.raises(DraftRejected):
        await llm.complete(asked("word " * 900))


@both
@streamed_or_not
async def test_a_prompt_that_was_cut_in_silence_was_too_long(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.truncates_to_tokens = 400
    llm = made(kind, upstream, session, stream=stream)
    with pytest.raises(TooLong, match="read 400 tokens of about 9"):
        await llm.complete(asked("word " * 900))
    assert (await llm.complete(asked("word " * 480))).text  # 400 of 490: another vocabulary
    assert (await llm.complete(asked("word " * 380))).text


@both
@pytest.mark.parametrize(
    "usage",
    [
        {},
        [],
        "many",
        {"prompt_tokens": None, "input_tokens": "900"},
        {"prompt_tokens": -5, "input_tokens": -5},
        {"prompt_tokens": 1, "input_tokens": 1},
        {"prompt_tokens": True, "input_tokens": 1e400},
    ],
)
async def test_wrong_figures_do_no_harm(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, usage: Any
) -> None:
    upstream.wrong_usage = usage
    reply = await made(kind, upstream, session).complete(asked("word " * 900))
    assert reply.usage.input_tokens in (0, 1)


@both
@streamed_or_not
async def test_a_server_that_reports_no_usage_is_answer_enough(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.sends_usage = False
    reply = await made(kind, upstream, session, stream=stream).complete(asked())
    assert reply.text
    assert reply.usage.input_tokens == reply.usage.output_tokens == 0


@both
async def test_the_answer_gets_the_room_that_the_window_has(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    llm = made(kind, upstream, session, window_tokens=1_500, output_tokens=1_000)
    for words in (10, 700, 1_300):
        await llm.complete(asked("word " * words, tokens_max=200))
    limits = [seen.body["max_tokens"] for seen in upstream.requests]
    assert limits[0] == 1_000  # the reserve
    assert 600 < limits[1] < 750  # what is left
    assert limits[2] == 200  # never less than what was asked for


@both
async def test_lone_halves_of_characters_are_sent_as_something_readable(
    kind: type[Remote], upstream: FakeUpstream, session: aiohttp.ClientSession
) -> None:
    await made(kind, upstream, session).complete(asked("a \ud83d b"))
    assert upstream.requests[0].messages[-1]["content"] == "a ? b"


async def _served(handler: Any) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/chat/completions", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


@pytest.mark.parametrize("status", [200, 400])
async def test_nobody_can_send_us_more_than_we_read(
    session: aiohttp.ClientSession, status: int
) -> None:
    async def flood(_: web.Request) -> web.Response:
        squeezed = gzip.compress(b'{"x": "' + b"a" * (ANSWER_BYTES_MAX + 1))
        return web.Response(status=status, body=squeezed, headers={"content-encoding": "gzip"})

    runner, url = await _served(flood)
    try:
        llm = OpenAiLlm(profile_of(OpenAiLlm, url), session, sleep=Sleeper())
        error = ModelUnavailable if status == 200 else BadInput
        with pytest.raises(error) as caught:
            await llm.complete(asked())
        assert len(str(caught.value)) < 500
    finally:
        await runner.cleanup()


@pytest.mark.proves("G-81")
async def test_a_key_follows_no_redirect(session: aiohttp.ClientSession) -> None:
    async with FakeUpstream() as other:

        async def elsewhere(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{other.url}/chat/completions")

        runner, url = await _served(elsewhere)
        try:
            llm = OpenAiLlm(profile_of(OpenAiLlm, url), session)
            with pytest.raises(NotConfigured, match="redirects to 127"):
                await llm.complete(asked())
        finally:
            await runner.cleanup()
        assert other.requests == []


def test_what_an_adapter_says_of_itself(session: aiohttp.ClientSession) -> None:
    profile = Profile("p", "openai", "https://x.example/v1", "m", window_tokens=4_096)
    llm: Llm = OpenAiLlm(profile, session)
    assert (llm.name, llm.costs, llm.window_tokens) == ("p", True, 4_096)
    assert OpenAiLlm(profile, session).identity == profile.identity
