from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from previously.errors import BadInput
from previously.web.rest import described
from previously.web.serve import listen
from tests.web.rest.rig import Rest, opened

TOKEN = "a-long-random-text"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncGenerator[Rest]:
    async with opened(tmp_path / "p.db", tmp_path, token=TOKEN) as found:
        yield found


@pytest.mark.proves("G-91")
async def test_without_the_token_nothing_is_told_but_what_to_do(guarded: Rest):
    for path in ("chats", "openapi.json", "nowhere", "/metrics"):
        answer = await guarded.call("GET", path)
        assert answer.status == 401
        assert "Bearer" in answer.headers["WWW-Authenticate"]
        assert "PREVIOUSLY_TOKEN" in answer.body["next"]
    wrong = {"Authorization": "Bearer something-else"}
    assert (await guarded.call("GET", "chats", headers=wrong)).status == 401
    assert (await guarded.call("GET", "chats", headers=SHOWN)).status == 200
    assert (await guarded.call("GET", "/healthz")).status == 200
    assert (await guarded.call("GET", "/readyz")).status == 200


async def test_a_login_gives_a_cookie_that_scripts_cannot_read(guarded: Rest):
    bad = await guarded.call("POST", "login", json={"token": "nonsense"})
    assert (bad.status, bad.body["field"]) == (422, "token")
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        url = f"{guarded.address}/api"
        async with browser.post(f"{url}/login", json={"token": TOKEN}) as answer:
            assert answer.status == 200
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        async with browser.get(f"{url}/chats") as answer:
            assert answer.status == 200
        async with browser.post(f"{url}/logout") as answer:
            assert answer.status == 204
        async with browser.get(f"{url}/chats") as answer:
            assert answer.status == 401
    forged = {"Cookie": "previously_session=" + "00" * 32 + ".9999999999." + "0" * 64}
    assert (await guarded.call("GET", "chats", headers=forged)).status == 401


async def test_tokens_are_good_for_what_they_were_made_for(guarded: Rest):
    made: dict[str, dict[str, str]] = {}
    for scope in ("read", "write", "admin"):
        body = {"name": scope, "scopes": [scope]}
        answer = await guarded.call("POST", "tokens", json=body, headers=SHOWN)
        made[scope] = answer.body
    allowed = {
        ("GET", "chats"): {"read", "write", "admin"},
        ("POST", "chats"): {"write", "admin"},
        ("PATCH", "settings"): {"admin"},
        ("POST", "profiles"): {"admin"},
        ("GET", "tokens"): {"admin"},
    }
    for (method, path), scopes in allowed.items():
        for scope, token in made.items():
            headers = {"Authorization": f"Bearer {token['token']}"}
            answer = await guarded.call(method, path, headers=headers)
            assert (answer.status != 403) == (scope in scopes), (method, path, scope)
    listed = (await guarded.call("GET", "tokens", headers=SHOWN)).raw
    assert all(token["token"].encode() not in listed for token in made.values())
    gone = made["read"]
    await guarded.call("DELETE", f"tokens/{gone['id']}", headers=SHOWN)
    old = {"Authorization": f"Bearer {gone['token']}"}
    assert (await guarded.call("GET", "chats", headers=old)).status == 401


async def test_the_proxy_asks_for_the_token_and_sends_it_nowhere(guarded: Rest):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    url = "/c/talk/v1/chat/completions"
    assert (await guarded.call("POST", url, json=body)).status == 401
    assert guarded.upstream.requests == []
    assert (await guarded.call("POST", url, json=body, headers=SHOWN)).status == 200
    assert TOKEN not in str(guarded.upstream.requests[0].headers)


@pytest.mark.proves("G-91")
async def test_only_the_servers_own_page_may_write(rest: Rest):
    own = rest.address
    for headers, status in (
        ({"Origin": own}, 201),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": own}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": own}, 201),
    ):
        name = f"chat {len((await rest.get('chats'))['items'])}"
        answer = await rest.call("POST", "chats", json={"name": name}, headers=headers)
        assert answer.status == status, headers
    assert (await rest.call("GET", "chats", headers={"Host": "evil.example"})).status == 421


async def test_only_a_server_with_a_token_leaves_loopback(guarded: Rest):
    with pytest.raises(BadInput, match="PREVIOUSLY_TOKEN"):
        listen("0.0.0.0", 0)
    listen("0.0.0.0", 0, guarded=True).close()
    named = {"Host": "memory.example", "Origin": "http://memory.example", **SHOWN}
    answer = await guarded.call("POST", "chats", json={"name": "a"}, headers=named)
    assert answer.status == 201
    foreign = {**named, "Origin": "http://evil.example"}
    assert (await guarded.call("GET", "chats", headers=foreign)).status == 403


async def test_the_interface_is_described_when_asked(rest: Rest):
    told = await rest.get("openapi.json")
    assert told == described()
    assert "HTTPValidationError" not in told["components"]["schemas"]
    assert {"4XX", "5XX"} <= set(told["paths"]["/chats"]["get"]["responses"])
    assert "/openapi.json" not in told["paths"]
