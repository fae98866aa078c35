from __future__ import annotations

import asyncio
import json
from importlib.metadata import version

import pytest

from previously.errors import BadInput
from previously.web import connection
from previously.web.guard import BODY_BYTES_MAX
from previously.web.serve import create_app, listen, serve
from tests.web.rig import Door, say

OWN_NAMES = ["localhost", "localhost:8377", "LOCALHOST:1", "127.0.0.1:80", "127.0.0.9", "[::1]:9"]
OTHER_NAMES = [
    "evil.example",
    "evil.example:8377",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "user@localhost",
    "localhost:x",
    "192.168.0.9",
    "[::",
    "",
]
OWN_ORIGINS = ["http://localhost:8000", "https://127.0.0.1", "http://[::1]:5"]
OTHER_ORIGINS = [
    "https://evil.example",
    "http://localhost.evil.example",
    "null",
    "localhost",
    "file://x",
    "",
]


async def test_names_of_this_machine_are_answered(door: Door) -> None:
    url = f"http://127.0.0.1:{door.port}/healthz"
    for host in OWN_NAMES:
        async with door.http.get(url, headers={"Host": host}) as answer:
            assert answer.status == 200, host
            body = json.loads(await answer.read())
            assert body == {"status": "ok", "version": version("previously")}
            assert "server" not in answer.headers


async def test_a_name_that_was_pointed_at_this_machine_is_refused(door: Door) -> None:
    for host in OTHER_NAMES:
        async with door.http.post(door.url(), json={}, headers={"Host": host}) as answer:
            assert answer.status == 421, host
            assert json.loads(await answer.read())["error"]["code"] == "wrong_host"
    assert door.upstream.requests == []


async def test_pages_of_other_sites_are_refused(door: Door) -> None:
    for origin in OTHER_ORIGINS:
        async with door.http.post(door.url(), json={}, headers={"Origin": origin}) as answer:
            assert answer.status == 403, origin
            assert json.loads(await answer.read())["error"]["code"] == "wrong_origin"
            assert "access-control-allow-origin" not in answer.headers
    assert door.upstream.requests == []


async def test_pages_of_this_machine_may_ask(door: Door) -> None:
    for origin in OWN_ORIGINS:
        async with door.http.get(door.url("/models"), headers={"Origin": origin}) as answer:
            assert answer.status == 200, origin


async def spoken(door: Door, *pieces: bytes) -> bytes:
    """What the server answers to raw bytes, until it closes or has said enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    answer = asyncio.create_task(reader.readuntil(b"request_too_large"))
    try:
        for piece in pieces:
            if answer.done():
                break
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(10):
            return await answer
    finally:
        answer.cancel()
        writer.close()


HEAD = b"POST /c/demo/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"


async def test_a_body_that_announces_too_much_is_refused_unread(door: Door) -> None:
    length = f"Content-Length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode()
    answer = await spoken(door, HEAD + length)
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_body_that_grows_too_large_is_refused(door: Door) -> None:
    mebibyte = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    pieces = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[mebibyte] * 33]
    answer = await spoken(door, *pieces)
    assert answer.startswith(b"HTTP/1.1 413")
    assert door.upstream.requests == []


async def closed_after(door: Door, *pieces: bytes) -> bytes:
    """What the server says to these until it closes the connection by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /heal", HEAD + b"X-Slow: ", HEALTH + HEAD],
    ids=["mute", "line", "head", "next"],
)
async def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(
    door: Door, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.2)
    said = await closed_after(door, begun)
    assert said.startswith(b"HTTP/1.1 200") if HEALTH in begun else said == b""
    assert door.upstream.requests == []


async def test_a_head_without_end_is_cut_off(door: Door) -> None:
    line = b"X-More: " + b"x" * 32_000 + b"\r\n"
    assert await closed_after(door, HEAD, *[line] * 64) == b""


async def test_a_turn_may_take_longer_than_its_head(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.1)
    door.upstream.delay_s = 0.4
    assert await say(door.client(), [], "Take your time.") == "I have read 1 messages."


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.9", "example.org", ""])
def test_the_server_listens_on_no_other_address(host: str) -> None:
    with pytest.raises(BadInput, match="PREVIOUSLY_TOKEN"):
        listen(host, 0)


async def test_a_port_that_is_taken_is_named(door: Door) -> None:
    with pytest.raises(BadInput, match=str(door.port)):
        await serve(create_app(door.house.service, None), "127.0.0.1", door.port)


async def test_an_upstream_is_an_http_address(door: Door) -> None:
    for url in ("api.openai.com/v1", "ftp://x/v1", "file:///etc/passwd", "http://"):
        with pytest.raises(BadInput, match="http"):
            create_app(door.house.service, url)
