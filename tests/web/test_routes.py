"""Everything of the interface has a way through, and a chat is known however it is named."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from previously.errors import StoreUnavailable
from previously.service import OWNER
from previously.testing import Failure, FakeUpstream
from previously.web import encoding, guard, sending
from previously.web.serve import create_app
from tests.web.rig import Door, Talk, opened, running, say

RAW = bytes(range(256)) * 40


def plain(door: Door, rest: str) -> str:
    return f"http://127.0.0.1:{door.port}/v1{rest}"


@pytest.mark.parametrize("base", ["/v1", "/c/demo/v1"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_other_routes_pass_byte_for_byte(door: Door, base: str, method: str) -> None:
    url = f"http://127.0.0.1:{door.port}{base}/files/a%2Fb?x=%20y&x=2"
    headers = {"content-type": "application/x-odd", "accept-encoding": "br", "x-own": "1"}
    door.upstream.headers["x-ratelimit-remaining"] = "7"
    async with door.http.request(method, url, data=RAW, headers=headers) as answer:
        assert (answer.status, await answer.read()) == (200, RAW)
        assert answer.headers["x-method"] == method
        assert answer.headers["x-ratelimit-remaining"] == "7"
        assert answer.headers["content-length"] == str(len(RAW))
    seen = door.upstream.requests[-1]
    assert seen.path == "/v1/files/a%2Fb?x=%20y&x=2"
    assert seen.raw == RAW
    assert (seen.headers["accept-encoding"], seen.headers["x-own"]) == ("br", "1")
    assert seen.headers["content-length"] == str(len(RAW))


async def test_a_body_of_unknown_length_passes_as_it_comes(door: Door) -> None:
    async def pieces() -> Any:
        for start in range(0, len(RAW), 1000):
            yield RAW[start : start + 1000]

    async with door.http.post(plain(door, "/audio"), data=pieces()) as answer:
        assert await answer.read() == RAW
    assert door.upstream.requests[-1].headers["transfer-encoding"] == "chunked"


async def test_a_passing_body_that_grows_too_large_is_refused(door: Door) -> None:
    async def pieces() -> Any:
        for _ in range(40):
            yield b" " * 1024 * 1024

    async with door.http.post(plain(door, "/audio"), data=pieces()) as answer:
        assert answer.status == 413
        assert json.loads(await answer.read())["error"]["code"] == "request_too_large"


async def test_a_path_that_leads_out_is_refused(door: Door) -> None:
    reader = aiohttp.ClientSession()
    url = f"http://127.0.0.1:{door.port}/v1/%2e%2e/admin"
    async with reader, reader.get(URL(url, encoded=True)) as answer:
        assert answer.status == 400
    assert door.upstream.requests == []


async def test_models_are_the_upstreams_own(door: Door) -> None:
    async with door.http.get(plain(door, "/models")) as answer:
        assert [m["id"] for m in json.loads(await answer.read())["data"]] == ["fake"]


IDENTITIES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"X-Previously-Chat": "one"}, {}),
    ({"X-Conversation-Id": "one"}, {}),
    ({"X-Chat-Id": "one"}, {}),
    ({"X-Session-Id": "one"}, {}),
    ({"x-opencode-session": "one"}, {}),
    ({"X-OpenWebUI-Chat-Id": "one"}, {}),
    ({}, {"previously": {"chat": "one"}}),
    ({}, {"metadata": {"chat_id": "one"}}),
    ({}, {"conversation_id": "one"}),
    ({}, {"session_id": "one"}),
    ({}, {"prompt_cache_key": "one"}),
]


@pytest.mark.parametrize(("headers", "fields"), IDENTITIES)
async def test_a_chat_is_named_by_a_header_or_a_field(
    door: Door, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}
    async with door.http.post(
        plain(door, "/chat/completions"), json=body, headers=headers
    ) as answer:
        assert answer.headers["x-previously-chat"] == "one"
    assert len(await door.messages("one")) == 2
    sent = door.upstream.requests[-1].body
    assert "previously" not in sent
    assert sent == {k: v for k, v in body.items() if k != "previously"}


async def test_the_first_name_counts(door: Door) -> None:
    body = {
        "messages": [{"role": "user", "content": "hello"}],
        "previously": {"chat": "of ours"},
        "session_id": "of the session",
        "metadata": {"chat_id": 17},
    }
    headers = {"X-Chat-Id": "of the header"}
    async with door.http.post(door.url(chat="path"), json=body, headers=headers) as answer:
        assert answer.headers["x-previously-chat"] == "path"
    async with door.http.post(
        plain(door, "/chat/completions"), json=body, headers=headers
    ) as answer:
        assert answer.headers["x-previously-chat"] == "of%20the%20header"
    del body["previously"]
    async with door.http.post(plain(door, "/chat/completions"), json=body) as answer:
        assert answer.headers["x-previously-chat"] == "17"


async def ask_plainly(door: Door, talk: Talk) -> tuple[str | None, str]:
    """One turn without any name; the chat that was found, and what was done."""
    body = {"model": "m", "messages": talk}
    async with door.http.post(plain(door, "/chat/completions"), json=body) as answer:
        reply = json.loads(await answer.read())["choices"][0]["message"]
        talk.append({"role": "assistant", "content": reply["content"]})
        return answer.headers.get("x-previously-chat"), answer.headers["x-previously-trace"]


async def test_a_chat_without_a_name_is_found_by_its_words(door: Door) -> None:
    talk: Talk = [{"role": "system", "content": "Be brief."}]
    names: list[str | None] = []
    for turn in range(5):
        talk.append({"role": "user", "content": f"words {turn}"})
        name, _ = await ask_plainly(door, talk)
        names.append(name)
    assert names[0] is None  # it might be a side question
    assert names[1] is not None
    assert set(names[1:]) == {names[1]}
    assert await door.lines(names[1]) == [(m["role"], m["content"]) for m in talk[1:]]
    window = [talk[0], *talk[-4:], {"role": "user", "content": "and on"}]
    assert (await ask_plainly(door, window))[0] == names[1]
    del window[-1]  # the last turn asked again
    assert (await ask_plainly(door, window))[0] == names[1]
    assert len(await door.messages(names[1])) == 12


async def test_the_words_of_two_chats_tell_none(door: Door) -> None:
    door.upstream.says("the same")
    for chat in ("one", "two"):
        client, talk = door.client(chat), Talk()
        await say(client, talk, "hello")
    talk.append({"role": "user", "content": "and?"})
    name, trace = await ask_plainly(door, talk)
    assert name is None
    assert "several" in trace
    assert len(door.rows("select * from message")) == 4


async def test_what_was_sent_is_written_down_at_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        talk: Talk = []
        name = None
        for turn in range(3):
            talk.append({"role": "user", "content": f"words {turn}"})
            name, _ = await ask_plainly(door, talk)
    async with opened(tmp_path) as door:  # nothing is known but what is stored
        talk.append({"role": "user", "content": "after a restart"})
        assert (await ask_plainly(door, talk))[0] == name
        assert name is not None
        ref = (await door.house.service.find_chat(name)).ref
        sent = await door.house.store.last_sent(ref)
        assert sent is not None
        facts = json.loads(sent.facts)
        assert [block[0] for block in facts["blocks"]] == [
            "tail",
            "tail",
            "tail",
            "tail",
            "pending",
        ]
        assert "words" not in sent.facts


async def test_what_cannot_be_written_down_is_kept_for_later(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_EVERY_S", 0.05)

    async def fails(*_: Any) -> None:
        door.break_store()
        raise StoreUnavailable("the disk is full")

    door.break_store(keep_sent=fails)
    client, talk = door.client(), Talk()
    await say(client, talk, "one")
    await say(client, talk, "two")


@pytest.mark.parametrize(("name", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_an_answer_that_comes_encoded_passes_so_and_is_kept(
    door: Door, name: str, packed: Any
) -> None:
    whole = json.dumps({"choices": [{"message": {"content": "packed"}}]}).encode()
    headers = {"content-type": "application/json", "content-encoding": name}
    door.upstream.says(Failure(200, packed(whole), headers))
    body = {"messages": [{"role": "user", "content": "one"}]}
    async with door.http.post(door.url(), json=body) as answer:
        assert await answer.read() == packed(whole)
        assert answer.headers["content-encoding"] == name
    assert await door.lines() == [("user", "one"), ("assistant", "packed")]


async def test_an_encoded_stream_passes_so_and_is_kept(door: Door) -> None:
    stream = (
        b'data: {"choices":[{"delta":{"content":"pac"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"ked"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    door.upstream.says(Failure(200, gzip.compress(stream), headers))
    body = {"messages": [{"role": "user", "content": "one"}], "stream": True}
    async with door.http.post(door.url(), json=body) as answer:
        assert gzip.decompress(await answer.read()) == stream
    assert await door.lines() == [("user", "one"), ("assistant", "packed")]


@pytest.mark.parametrize("streaming", [False, True])
async def test_what_only_says_that_it_is_encoded_passes(door: Door, streaming: bool) -> None:
    kind = "text/event-stream" if streaming else "application/json"
    door.upstream.says(Failure(200, b"no gzip", {"content-type": kind, "content-encoding": "gzip"}))
    body = {"messages": [{"role": "user", "content": "one"}], "stream": streaming}
    async with door.http.post(door.url(), json=body) as answer:
        assert await answer.read() == b"no gzip"
    assert door.rows("select * from message") == []


def test_a_few_bytes_that_unfold_to_too_much_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "DECODED_BYTES_MAX", 1000)
    decode = encoding.decoder("gzip")
    assert decode is not None
    with pytest.raises(encoding.Undecodable):
        decode(gzip.compress(b" " * 100_000))


async def test_of_several_choices_the_first_is_the_reply(door: Door) -> None:
    choices = [{"index": i, "message": {"content": f"choice {i}"}} for i in (1, 0, 2)]
    raw = json.dumps({"choices": choices}).encode()
    door.upstream.says(Failure(200, raw))
    body = {"messages": [{"role": "user", "content": "one"}], "n": 3}
    async with door.http.post(door.url(), json=body) as answer:
        assert await answer.read() == raw
    assert (await door.lines())[-1] == ("assistant", "choice 0")


async def test_a_token_is_asked_for_and_goes_nowhere(door: Door) -> None:
    application = create_app(door.house.service, door.upstream.url, token="s3cret")
    async with running(application) as port:
        base = f"http://127.0.0.1:{port}"
        body = {"messages": [{"role": "user", "content": "one"}]}
        for shown in ({}, {"Authorization": "Bearer other"}, {"Authorization": "s3cret"}):
            for path in ("/c/demo/v1/chat/completions", "/v1/models"):
                async with door.http.post(f"{base}{path}", json=body, headers=shown) as answer:
                    assert answer.status == 401
        async with door.http.get(f"{base}/healthz") as answer:
            assert answer.status == 200
        assert door.upstream.requests == []
        shown = {"Authorization": "Bearer s3cret"}
        url = f"{base}/c/demo/v1/chat/completions"
        async with door.http.post(url, json=body, headers=shown) as answer:
            assert answer.status == 200
        async with door.http.get(f"{base}/v1/models", headers=shown) as answer:
            assert answer.status == 200
    assert all("authorization" not in r.headers for r in door.upstream.requests)


async def profile(door: Door, name: str, **values: Any) -> None:
    given = {"name": name, "base_url": door.upstream.url, "model": "m", **values}
    await door.house.store.put_profile(OWNER, {"source": "openai", "output_tokens": 100, **given})


async def test_a_profile_is_an_upstream_by_its_name(door: Door) -> None:
    async with FakeUpstream() as other:
        await profile(door, "big", base_url=other.url, model="gpt-big", secret="env:BIG_KEY")
        await profile(door, "free", base_url=other.url, model="gpt-free")
        environment = {"BIG_KEY": "of-big"}
        application = create_app(door.house.service, door.upstream.url, environment=environment)
        async with running(application) as port:
            url = f"http://127.0.0.1:{port}/c/demo/v1/chat/completions"
            for model in ("big", "free", "m", "gpt-big"):
                body = {"model": model, "messages": [{"role": "user", "content": model}]}
                headers = {"Authorization": "Bearer client-key", "X-Previously-Record": "off"}
                async with door.http.post(url, json=body, headers=headers) as answer:
                    assert answer.status == 200
    big, free = other.requests
    assert (big.body["model"], big.headers["authorization"]) == ("gpt-big", "Bearer of-big")
    assert free.body["model"] == "gpt-free"
    assert "authorization" not in free.headers
    assert [r.body["model"] for r in door.upstream.requests] == ["m", "gpt-big"]
    assert {r.headers["authorization"] for r in door.upstream.requests} == {"Bearer client-key"}


async def test_a_profile_alone_is_enough_and_its_missing_key_is_named(door: Door) -> None:
    await profile(door, "one", model="gpt-one")
    await profile(door, "two", model="gpt-two", secret="env:NOT_SET")
    async with running(create_app(door.house.service, None)) as port:
        url = f"http://127.0.0.1:{port}/c/demo/v1/chat/completions"
        messages = [{"role": "user", "content": "hello"}]
        async with door.http.post(url, json={"model": "gpt-one", "messages": messages}) as answer:
            assert answer.status == 200
        async with door.http.post(url, json={"model": "two", "messages": messages}) as answer:
            assert answer.status == 503
            assert "NOT_SET" in json.loads(await answer.read())["error"]["message"]
        async with door.http.post(url, json={"model": "else", "messages": messages}) as answer:
            assert answer.status == 503


async def test_profiles_that_cannot_be_read_break_no_chat(door: Door) -> None:
    async def fails(*_: Any) -> Any:
        raise StoreUnavailable("the disk is full")

    door.break_store(profiles=fails)
    assert await say(door.client(), [], "one") == "I have read 1 messages."


async def test_headers_have_a_limit(door: Door) -> None:
    headers = {f"x-{i}": "y" * 7_000 for i in range(10)}
    async with door.http.get(plain(door, "/models"), headers=headers) as answer:
        assert answer.status == 431


async def test_requests_at_once_have_a_limit(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUESTS_MAX", 0)
    async with door.http.get(plain(door, "/models")) as answer:
        assert answer.status == 503
        assert json.loads(await answer.read())["error"]["code"] == "too_busy"


async def test_a_body_that_does_not_come_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_STALL_S", 0.1)

    async def pieces() -> Any:
        yield b"{"
        await asyncio.sleep(5)

    async with door.http.post(door.url(), data=pieces()) as answer:
        assert answer.status == 408
