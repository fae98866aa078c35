"""A request that does not fit: compacted, retried, halved, and only then refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError

from previously.llm.overflow import Overflow
from previously.llm.profile import Profile
from previously.service import OWNER
from previously.testing import Failure, FakeUpstream, ScriptedLlm, refusal
from previously.web import opening, waiting
from previously.web.ceiling import Ceilings
from previously.web.overflow import halvings
from previously.web.routing import Target
from previously.web.upstream import Upstream
from tests.web.rig import Door, Talk, ask, opened, say, say_streaming, size
from tests.web.test_turns import CALLS, words

ROOMY = {"budget_tokens": 100_000, "visible_floors": 20, "fold_every": 20}
TOO_LONG = refusal(400, "context_length_exceeded", "This is too long for the model's window.")


async def grown(door: Door, turns: int = 30) -> Talk:
    """A chat that has grown, with all its summaries."""
    client, talk = door.client(), Talk()
    for turn in range(turns):
        await say(client, talk, words(turn))
    await door.settle()
    return talk


def longer_than(most: int, then: Any = "fits") -> Any:
    def answer(body: dict[str, Any]) -> Any:
        return TOO_LONG if len(body["messages"]) > most else then

    return answer


@pytest.mark.proves("E-12", "G-103")
def test_halving_ends_with_one() -> None:
    assert list(halvings(20)) == [10, 5, 2, 1]
    assert list(halvings(1)) == list(halvings(0)) == []


OPEN_TURN: Talk = [
    {"role": "user", "content": "When is high tide, and how strong is the wind?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c1", "content": "at noon"},
    {"role": "tool", "tool_call_id": "c2", "content": "force 7"},
]


@pytest.mark.proves("E-08", "E-09", "E-11", "E-12", "E-73", "G-58", "G-61", "G-62", "G-103", "S-15")
@pytest.mark.parametrize("speak", ["whole", "stream"])
async def test_the_chain_from_the_first_overflow_to_success(
    tmp_path: Path, speak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 15, over HTTP."""
    monkeypatch.setattr(waiting, "PATIENCE_S", 60.0)  # the trace is read from the headers
    llm = ScriptedLlm()
    async with opened(tmp_path, llm=llm, settings=ROOMY) as door:
        talk = await grown(door)
        before = len(door.upstream.requests)
        asked = len(llm.asks)
        talk += OPEN_TURN
        door.upstream.answer = longer_than(1 + 1 + len(OPEN_TURN), "High tide at noon.")
        body = {"model": "m", "messages": talk, "stream": speak == "stream"}
        async with door.http.post(door.url(), json=body) as answer:
            assert answer.status == 200
            assert "High" in (await answer.read()).decode()
            trace = answer.headers["x-previously-trace"]
        tries = [r.messages for r in door.upstream.requests[before:]]
        sizes = [size(t) for t in tries]
        assert sizes == sorted(set(sizes), reverse=True)
        assert all(t[-4:] == OPEN_TURN for t in tries)
        assert trace.count("overflow_retry: compacted to") == 2
        assert "halved to 1" in trace
        assert trace.rindex("compacted") < trace.index("halved")
        hurried = json.dumps([ask.messages for ask in llm.asks[asked:]])
        # What was still verbatim was summarised for it, and read whole.
        assert all(f"user: {words(n)}" in hurried for n in range(20, 29))
        assert len(tries[-1]) <= 6
        assert tries[-1][0]["role"] == "system"  # the summaries are still there
        kept = await door.messages()
        assert [m.role for m in kept[-5:]] == ["user", "assistant", "tool", "tool", "assistant"]
        assert len(kept) == len(talk) + 1


@pytest.mark.slow
@pytest.mark.proves("E-08")
async def test_the_size_that_was_taken_is_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path, settings={**ROOMY, "visible_floors": 4, "fold_every": 4}) as door:
        talk = await grown(door)
        window = 900
        door.upstream.window_tokens = window
        before = len(door.upstream.requests)
        client = door.client()
        await say(client, talk, "Does it fit?")
        assert len(door.upstream.requests) - before > 1
        for turn in range(6):
            before = len(door.upstream.requests)
            await say(client, talk, words(turn + 100))
            assert len(door.upstream.requests) - before == 1


@pytest.mark.slow
async def test_a_declared_window_is_never_overrun(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        await declare(door, window_tokens=1_200, output_tokens=200)
        client, talk = door.client(), Talk()
        for turn in range(40):
            await say(client, talk, words(turn))
            assert size(door.upstream.requests[-1].messages) <= 1_000
        assert len(door.upstream.requests) == 40
        await ask(client, [*talk, {"role": "user", "content": "more"}], max_tokens=600)
        assert size(door.upstream.requests[-1].messages) <= 600


async def declare(door: Door, **values: Any) -> None:
    profile = {"name": "about m", "base_url": door.upstream.url, "model": "m", "source": "openai"}
    await door.house.store.put_profile(OWNER, {**profile, **values})


async def test_a_prompt_that_would_not_fit_waits_for_its_summaries(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        await declare(door, window_tokens=1_400, output_tokens=200)
        history: Talk = []
        for turn in range(60):
            history += [
                {"role": "user", "content": words(turn)},
                {"role": "assistant", "content": f"Noted for day {turn}."},
            ]
        await say(door.client(), history, "Where were we?")  # all of it at once
        sent = door.upstream.requests[-1].messages
        assert size(sent) <= 1_200
        assert sent[-1]["content"] == "Where were we?"


@pytest.mark.proves("G-61")
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_turn_that_can_never_fit_is_refused_with_advice(
    tmp_path: Path, streaming: bool
) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 4)
        door.upstream.window_tokens = 300
        before = len(door.upstream.requests)
        huge = "a very long message " * 200
        with pytest.raises(BadRequestError, match="Shorten the message") as caught:
            await say(door.client(), talk, huge, stream=streaming)
        assert caught.value.code == "context_length_exceeded"
        tries = [r.messages for r in door.upstream.requests[before:]]
        assert all(t[-1]["content"] == huge for t in tries)
        assert len(await door.messages()) == 8


async def test_what_a_window_can_never_hold_is_not_sent(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        await declare(door, window_tokens=700, output_tokens=100)
        with pytest.raises(BadRequestError, match="larger window"):
            await say(door.client(), [], "a very long message " * 400)
        assert door.upstream.requests == []


async def test_retries_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMARY_RETRY_ON_CONTEXT_OVERFLOW", "false")
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 6)
        door.upstream.answer = longer_than(2)
        before = len(door.upstream.requests)
        body = {"messages": [*talk, {"role": "user", "content": "x"}]}
        async with door.http.post(door.url(), json=body) as answer:
            assert (answer.status, await answer.read()) == (400, TOO_LONG.body)
        assert len(door.upstream.requests) - before == 1


@pytest.mark.proves("G-65")
@pytest.mark.parametrize(
    "failure",
    [
        refusal(429, "rate_limit_exceeded", "Limit 30000 tokens per minute reached."),
        refusal(401, "invalid_api_key", "Incorrect API key."),
        refusal(400, "invalid_request_error", "Unknown field."),
        refusal(503, "overloaded_error", "Overloaded."),
    ],
)
async def test_other_refusals_start_no_chain(door: Door, failure: Any) -> None:
    talk = await grown(door, 3)
    door.upstream.says(failure)
    before = len(door.upstream.requests)
    body = {"messages": [*talk, {"role": "user", "content": "x"}]}
    async with door.http.post(door.url(), json=body) as answer:
        assert (answer.status, await answer.read()) == (failure.status, failure.body)
    assert len(door.upstream.requests) - before == 1


async def test_a_request_that_was_not_understood_is_refused_as_it_came(door: Door) -> None:
    await grown(door, 3)
    door.upstream.says(TOO_LONG)
    body = {"messages": [{"role": "user", "content": "a side question"}]}
    async with door.http.post(door.url(), json=body) as answer:
        assert (answer.status, await answer.read()) == (400, TOO_LONG.body)


async def test_an_overflow_inside_an_answer_is_one_too(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 12)
        inside = type(TOO_LONG)(200, TOO_LONG.body)
        door.upstream.says(inside, "fits")
        assert await say(door.client(), talk, "and now?") == "fits"


async def test_a_streaming_client_that_waits_hears_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.05)
    monkeypatch.setattr(waiting, "COMMENT_EVERY_S", 0.05)
    llm = ScriptedLlm()
    async with opened(tmp_path, llm=llm, settings=ROOMY) as door:
        talk = await grown(door, 12)
        door.upstream.says(TOO_LONG, "It fits.")
        llm.hang()
        asyncio.get_running_loop().call_later(0.5, llm.release)
        body = {"messages": [*talk, {"role": "user", "content": "x"}], "stream": True}
        async with door.http.post(door.url(), json=body) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            told = (await answer.read()).decode()
        assert told.startswith(": keep-alive\n\n: keep-alive\n\n")
        assert told.endswith("data: [DONE]\n\n")
        assert (await door.lines())[-1] == ("assistant", "It fits.")


async def test_an_error_after_comments_is_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 4)
        door.upstream.says(TOO_LONG)
        body = {"messages": [*talk, {"role": "user", "content": "x"}], "stream": True}
        async with door.http.post(door.url(), json=body) as answer:
            told = await answer.read()
        events = [line for line in told.splitlines() if line.startswith(b"data: ")]
        assert json.loads(events[0][6:])["error"]["code"] == "context_length_exceeded"
        assert events[-1] == b"data: [DONE]"


async def test_a_client_that_leaves_while_it_waits_ends_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    llm = ScriptedLlm()
    async with opened(tmp_path, llm=llm, settings=ROOMY) as door:
        talk = await grown(door, 12)
        door.upstream.says(TOO_LONG)
        llm.hang()
        before = len(door.upstream.requests)
        body = {"messages": [*talk, {"role": "user", "content": "x"}], "stream": True}
        answer = await door.http.post(door.url(), json=body)
        await answer.content.readline()
        answer.close()
        await asyncio.sleep(0.2)
        llm.release()
        await door.settle()
        assert len(door.upstream.requests) - before == 1


def target(**values: Any) -> Target:
    upstream = Upstream("http://127.0.0.1:1/v1")
    profile = Profile("p", base_url=upstream.base_url, model="m", **values) if values else None
    return Target(upstream, "m", profile)


def test_a_ceiling_is_the_window_less_the_answer_and_all_that_is_read_beside() -> None:
    now_s = 0.0
    ceilings = Ceilings(lambda: now_s)
    assert ceilings.of(target(), {}) is None
    declared = target(window_tokens=4_096, output_tokens=1_024)
    assert ceilings.of(declared, {}) == 3_072
    assert ceilings.of(declared, {"max_tokens": 2_048}) == 2_048
    assert ceilings.of(declared, {"max_completion_tokens": 96}) == 3_968
    tools = [{"type": "function", "function": {"name": "f", "description": "words " * 300}}]
    assert 2_600 < (ceilings.of(declared, {"tools": tools}) or 0) < 2_800


def test_refusals_teach_the_window_and_how_the_model_counts() -> None:
    now_s = 0.0
    ceilings = Ceilings(lambda: now_s)
    ceilings.refused(target(), Overflow(2_048, 3_000), 2_000)
    assert ceilings.of(target(), {"max_tokens": 128}) == 1_280 // 64 * 64
    ceilings.refused(target(), Overflow(None, None), 1_000)
    assert ceilings.of(target(), {"max_tokens": 128}) == 1_280 // 64 * 64
    now_s = 4_000.0
    assert ceilings.of(target(), {}) is None
    ceilings.accepted(target(), 700)
    assert ceilings.of(target(), {}) == 700


async def test_a_reroll_that_does_not_fit_is_made_shorter_too(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 12)
        door.upstream.answer = longer_than(8)
        del talk[-1]
        assert await ask(door.client(), talk) == "fits"
        assert (await door.lines())[-1] == ("assistant", "fits")
        assert len(await door.messages()) == 24


async def test_a_stream_that_fits_at_once_has_its_own_headers(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, 12)
        door.upstream.answer = longer_than(8)
        assert await say_streaming(door.client(), talk, "short?") == "fits"


async def test_two_upstreams_have_windows_of_their_own() -> None:
    async with FakeUpstream() as other:
        ceilings = Ceilings(lambda: 0.0)
        ceilings.refused(target(), Overflow(2_048, None), 10)
        assert ceilings.of(Target(Upstream(other.url), "m"), {}) is None


def as_event(failure: Failure) -> bytes:
    return b"data: " + failure.body + b"\n\n"


SILENT = (
    b': thinking\n\ndata: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
)


def streamed(*events: bytes) -> Failure:
    """A stream that says what it says under a good status."""
    return Failure(200, b"".join(events), {"content-type": "text/event-stream"})


@pytest.mark.parametrize("before", [b"", SILENT], ids=["at once", "after a role"])
async def test_an_overflow_that_a_stream_begins_with_goes_through_the_chain(
    tmp_path: Path, before: bytes
) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door)
        tries = len(door.upstream.requests)

        def answer(body: dict[str, Any]) -> Any:
            long = len(body["messages"]) > 12
            return streamed(before, as_event(TOO_LONG)) if long else "It fits."

        door.upstream.answer = answer
        assert await say_streaming(door.client(), talk, "Does it fit?") == "It fits."
        assert len(door.upstream.requests) - tries > 1
        assert await door.lines() == [(m["role"], m["content"]) for m in talk]


async def test_an_overflow_that_no_try_can_mend_reaches_a_stream_as_a_clear_error(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door)
        door.upstream.answer = lambda _: streamed(as_event(TOO_LONG))
        with pytest.raises(BadRequestError, match="does not fit"):
            await say_streaming(door.client(), talk, "Does it fit?")


async def test_an_error_after_the_first_words_passes_and_the_words_are_kept(
    tmp_path: Path,
) -> None:
    said = b'data: {"choices":[{"index":0,"delta":{"content":"It is"}}]}\n\n'
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, turns=2)
        whole = streamed(SILENT, said, as_event(TOO_LONG))
        door.upstream.answer = lambda _: whole
        tries = len(door.upstream.requests)
        body = {"model": "m", "messages": [*talk, {"role": "user", "content": "So?"}]}
        async with door.http.post(door.url(), json={**body, "stream": True}) as answer:
            assert (answer.status, await answer.read()) == (200, whole.body)
        assert len(door.upstream.requests) - tries == 1
        assert (await door.lines())[-2:] == [("user", "So?"), ("assistant", "It is")]


async def test_another_error_in_a_stream_is_passed_on_and_nothing_is_kept(tmp_path: Path) -> None:
    busy = refusal(429, "rate_limit_exceeded", "Rate limit reached: 10000 tokens per min.")
    async with opened(tmp_path, settings=ROOMY) as door:
        talk = await grown(door, turns=2)
        door.upstream.answer = lambda _: streamed(as_event(busy))
        tries = len(door.upstream.requests)
        body = {"model": "m", "messages": [*talk, {"role": "user", "content": "So?"}]}
        async with door.http.post(door.url(), json={**body, "stream": True}) as answer:
            assert await answer.read() == as_event(busy)
        assert len(door.upstream.requests) - tries == 1
        assert len(await door.lines()) == len(talk)


async def test_a_stream_that_takes_its_time_is_passed_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "OPENING_S", 0.05)
    async with opened(tmp_path) as door:
        door.upstream.piece_delay_s = 0.1
        body = {"model": "m", "messages": [{"role": "user", "content": "So?"}], "stream": True}
        async with door.http.post(door.url(), json=body) as answer:
            first = await answer.content.readany()
            assert b'"role"' in first
            assert b'"content": "I' not in first
            whole = first + await answer.read()
        assert whole.endswith(b"data: [DONE]\n\n")
        assert (await door.lines())[-1][1] == "I have read 1 messages."
