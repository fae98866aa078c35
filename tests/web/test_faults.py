from __future__ import annotations

import asyncio
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from openai import (
    APIError,
    APIStatusError,
    AuthenticationError,
    InternalServerError,
    RateLimitError,
)

from previously.errors import StoreUnavailable
from previously.testing import Failure
from previously.web import proxy
from previously.web.serve import create_app
from tests.web.rig import Door, Talk, openai_client, opened, running, say, say_streaming

ERROR = b'{ "error" : {"message":"\xe4\xb8\x8d", "type":"t", "code":null} }\n'


@pytest.mark.parametrize(
    ("status", "raised"),
    [(500, InternalServerError), (401, AuthenticationError), (429, RateLimitError)],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_an_upstreams_refusal_passes_exactly_and_stores_nothing(
    door: Door, status: int, raised: type[APIStatusError], streaming: bool
) -> None:
    headers = {"content-type": "application/json", "retry-after": "7", "x-odd": "kept"}
    door.upstream.says(Failure(status, ERROR, headers))
    body = {"messages": [{"role": "user", "content": "one"}], "stream": streaming}
    async with door.http.post(door.url(), json=body) as answer:
        assert answer.status == status
        assert await answer.read() == ERROR
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["x-odd"] == "kept"
        assert answer.headers["content-type"] == "application/json"
    with pytest.raises(raised):
        await say(door.client(), [], "one", stream=streaming)
    assert door.rows("select * from message") == []


async def test_a_refusal_that_looks_like_an_answer_is_still_none(door: Door) -> None:
    door.upstream.says(Failure(503, b'{"choices":[{"message":{"content":"words"}}]}'))
    body = {"messages": [{"role": "user", "content": "one"}]}
    async with door.http.post(door.url(), json=body) as answer:
        assert answer.status == 503
    assert door.rows("select * from message") == []


async def test_a_redirect_is_an_answer_and_is_not_followed(door: Door) -> None:
    headers = {"location": "https://elsewhere.example/v1/chat/completions"}
    door.upstream.says(Failure(307, b"moved", headers))
    body = {"messages": [{"role": "user", "content": "one"}]}
    async with door.http.post(door.url(), json=body, allow_redirects=False) as answer:
        assert (answer.status, await answer.read()) == (307, b"moved")
        assert answer.headers["location"] == headers["location"]


async def fails(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("the disk is full")


async def breaks(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a mistake in the program")


async def hangs(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(60)


@pytest.mark.parametrize("fault", [fails, breaks])
@pytest.mark.parametrize("method", ["find_chat", "glance", "load", "save_fold", "ensure_chat"])
async def test_a_fault_in_memory_passes_the_request_as_it_came(
    door: Door, method: str, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if method == "glance":  # not looked at before there is a chat
        await door.house.service.open_chat("demo")
    door.break_store(**{method: fault})
    raw = b'{"messages":[{"role":"user","content":"private words"}] }'
    with caplog.at_level(logging.WARNING, "previously"):
        async with door.http.post(door.url(), data=raw) as answer:
            assert answer.status == 200
            assert "the memory failed" in answer.headers["x-previously-trace"]
    assert door.upstream.requests[-1].raw == raw
    assert "the memory failed" in caplog.text
    assert "private words" not in caplog.text


@pytest.mark.parametrize("speak", [say, say_streaming])
@pytest.mark.parametrize("fault", [fails, breaks])
async def test_a_turn_that_cannot_be_recorded_is_answered_all_the_same(
    door: Door, speak: Any, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    door.break_store(record_turn=fault)
    client, talk = door.client(), Talk()
    assert await speak(client, talk, "one") == "I have read 1 messages."
    assert "the memory failed" in caplog.text
    door.break_store()
    await speak(client, talk, "two")
    assert len(await door.messages()) == 4  # the client has sent the lost turn again


@pytest.mark.parametrize("speak", [say, say_streaming])
@pytest.mark.parametrize("method", ["find_chat", "glance"])
async def test_a_turn_that_was_asked_while_the_memory_failed_is_kept_once_it_is_answered(
    door: Door, speak: Any, method: str
) -> None:
    left = [fails]

    async def recovers(*args: Any, **named: Any) -> Any:
        work = left.pop() if left else getattr(door.house.store, method)
        return await work(*args, **named)

    client, talk = door.client(), Talk()
    if method == "glance":  # not looked at before there is a chat
        await speak(client, talk, "zero")
    door.break_store(**{method: recovers})
    await speak(client, talk, "one")
    assert not left
    assert await door.lines() == [(m["role"], m["content"]) for m in talk]


async def test_a_memory_that_hangs_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "MEMORY_DEADLINE_S", 0.1)
    door.break_store(load=hangs)
    assert await say(door.client(), [], "one") == "I have read 1 messages."


async def test_a_body_that_is_no_json_object_is_refused(door: Door) -> None:
    for raw in (b"", b"{", b"[1]", b'"x"', b"\xff\xfe\x00", b"[" * 100_000):
        async with door.http.post(door.url(), data=raw) as answer:
            assert answer.status == 400, raw[:10]
            error = json.loads(await answer.read())["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_json")
    assert door.upstream.requests == []


async def test_half_a_surrogate_pair_passes(door: Door) -> None:
    raw = b'{"messages":[{"role":"user","content":"\\ud83d broken"}],"previously":{}}'
    async with door.http.post(door.url(), data=raw) as answer:
        assert answer.status == 200
    assert door.upstream.requests[-1].messages[0]["content"] == "\ud83d broken"
    assert (await door.lines())[0] == ("user", "\ufffd broken")


WORDLESS = [
    b"",
    b"not json",
    b"[]",
    b'{"choices":[]}',
    b'{"choices":[{"message":{"content":"  "}}]}',
    b'{"choices":[{"message":{"content":null,"tool_calls":"x"}}]}',
]


async def test_an_answer_without_words_passes_and_is_no_turn(door: Door) -> None:
    door.upstream.says(*(Failure(200, reply) for reply in WORDLESS))
    body = {"messages": [{"role": "user", "content": "one"}]}
    for reply in WORDLESS:
        async with door.http.post(door.url(), json=body) as answer:
            assert (answer.status, await answer.read()) == (200, reply)
    assert door.rows("select * from message") == []


async def test_an_encoded_answer_passes_and_is_not_kept(door: Door) -> None:
    headers = {"content-type": "application/json", "content-encoding": "zstd"}
    door.upstream.says(Failure(200, b"\x28\xb5\x2f\xfd", headers))
    body = {"messages": [{"role": "user", "content": "one"}]}
    async with door.http.post(door.url(), json=body) as answer:
        assert await answer.read() == b"\x28\xb5\x2f\xfd"
        assert answer.headers["content-encoding"] == "zstd"
    assert door.upstream.requests[-1].headers["accept-encoding"] == "identity"


async def test_the_clients_key_goes_upstream(door: Door) -> None:
    await say(door.client(), [], "one", extra_headers={"X-Previously-Odd": "1", "Cookie": "a=b"})
    sent = door.upstream.requests[-1].headers
    assert sent["authorization"] == "Bearer client-key"
    assert "cookie" not in sent
    assert not any(name.startswith("x-previously") for name in sent)


async def test_a_configured_key_takes_the_place_of_the_clients(tmp_path: Path) -> None:
    async with opened(tmp_path, key="own-key") as door:
        await say(door.client(), [], "one")
        await door.client().models.list()
        assert {r.headers["authorization"] for r in door.upstream.requests} == {"Bearer own-key"}


async def test_an_upstream_that_is_not_there_is_named(door: Door) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/v1"
    async with running(create_app(door.house.service, url)) as port:
        body = {"messages": [{"role": "user", "content": "one"}]}
        target = f"http://127.0.0.1:{port}/c/demo/v1/chat/completions"
        async with door.http.post(target, json=body) as answer:
            error = json.loads(await answer.read())["error"]
            assert (answer.status, error["code"]) == (502, "upstream_unreachable")
    assert door.rows("select * from message") == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://nowhere.invalid/v1", "'nowhere.invalid' is not known"),
        ("https://{free}/v1", "cannot be reached"),
        ("https://{plain}/v1", "No safe connection"),
    ],
)
async def test_why_there_is_no_contact_is_said_with_what_to_do(
    door: Door, url: str, says: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        free = f"127.0.0.1:{gone.getsockname()[1]}"
    plain = door.upstream.url.removeprefix("http://").removesuffix("/v1")
    target = create_app(door.house.service, url.format(free=free, plain=plain))
    async with (
        running(target) as port,
        openai_client(f"http://127.0.0.1:{port}/c/demo/v1") as client,
    ):
        with pytest.raises(APIStatusError) as raised:
            await say(client, [], "one")
    error = raised.value
    assert (error.status_code, error.code) == (502, "upstream_unreachable")
    assert says in error.message
    assert "Nothing was stored. " in error.message
    assert "previously serve --upstream" in error.message


async def test_an_upstream_that_hangs_up_is_said_to_be_lost(door: Door) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        address = listening.sockets[0].getsockname()
        url = f"http://127.0.0.1:{address[1]}/v1"
        async with running(create_app(door.house.service, url)) as port:
            target = f"http://127.0.0.1:{port}/c/demo/v1/chat/completions"
            body = {"messages": [{"role": "user", "content": "one"}]}
            async with door.http.post(target, json=body) as answer:
                error = json.loads(await answer.read())["error"]
    assert (answer.status, error["code"]) == (502, "upstream_lost")
    assert "Send it again" in error["message"]


async def test_a_stream_that_breaks_says_so_to_its_reader(door: Door) -> None:
    door.upstream.says("The lamp turned over the dark water.")
    door.upstream.cut_after_pieces = 3
    with pytest.raises(APIError, match="lost before the reply was complete") as raised:
        await say_streaming(door.client(), [], "one")
    assert raised.value.code == "upstream_lost"
    assert len(await door.messages()) == 2  # the part that came is there


async def test_without_an_upstream_the_server_says_how_to_give_it_one(door: Door) -> None:
    async with running(create_app(door.house.service, None)) as port:
        base = f"http://127.0.0.1:{port}"
        async with door.http.post(f"{base}/c/demo/v1/chat/completions", json={}) as answer:
            error = json.loads(await answer.read())["error"]
            assert answer.status == 503
            assert "previously serve --upstream URL" in error["message"]
        async with door.http.get(f"{base}/c/demo/v1/models") as answer:
            assert answer.status == 503
        async with door.http.get(f"{base}/healthz") as answer:
            assert answer.status == 200


async def test_whoever_waits_behind_a_memory_that_hangs_is_served_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a few requests are read at a time; the deadline holds for those that wait as well."""
    monkeypatch.setattr(proxy, "PREPARED_MAX", 1)
    monkeypatch.setattr(proxy, "MEMORY_DEADLINE_S", 0.3)
    async with opened(tmp_path) as door:
        door.break_store(load=hangs)
        talks: list[Talk] = [[], [], []]
        said = await asyncio.gather(*(say(door.client(), talk, "one") for talk in talks))
        assert said == ["I have read 1 messages."] * 3
