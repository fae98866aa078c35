"""Who may talk to this server: programs on this machine, not the web pages they have open.

A page in a browser can send requests here. It cannot forge its `Origin`, and a name of its own that
it has pointed at this machine shows in `Host`. Everything has a limit: bodies, counted while they
arrive, heads, the time a request takes to arrive, and how many are under way at once.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 32 * 1024 * 1024
BODY_STALL_S = 60.0  # between two pieces of a body
HEAD_BYTES_MAX = 64 * 1024
REQUESTS_MAX = 1_000  # under way at once, streams among them

PROXY_PATHS = ("/c/", "/v1/")


class Guard:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, body_bytes_max: int = BODY_BYTES_MAX, token: str | None = None
    ) -> None:
        self._app = app
        self._body_bytes_max = body_bytes_max
        self._token = None if token is None else f"Bearer {token}".encode()
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = (
            _refused(headers, anywhere=self._token is not None)
            or self._stranger(scope, headers)
            or self._too_much(headers)
        )
        if refused is not None:
            await refused(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, self._counted(receive), send)
        except BodyRefused as error:
            # The body is read before anything is answered, so the answer is still ours to give.
            await error.answer(scope, receive, send)
        finally:
            self._under_way -= 1

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """The REST interface asks for itself; the page is for everybody, and shows a login."""
        if self._token is None or not scope["path"].startswith(PROXY_PATHS):
            return None
        shown = headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(shown, self._token):
            return None
        return refusal(401, "this server asks for its own token as the API key", "invalid_api_key")

    def _too_much(self, headers: Headers) -> Response | None:
        if sum(len(name) + len(value) for name, value in headers.raw) > HEAD_BYTES_MAX:
            limit_kib = HEAD_BYTES_MAX // 1024
            return refusal(431, f"the headers have at most {limit_kib} KiB", "headers_too_large")
        if self._under_way >= REQUESTS_MAX:
            return refusal(503, f"{REQUESTS_MAX} requests are under way; try again", "too_busy")
        return self._announced(headers)

    def _announced(self, headers: Headers) -> Response | None:
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._body_bytes_max:
            return self._too_large()
        return None

    def _counted(self, receive: Receive) -> Receive:
        """A chunked body announces no length, and a slow one no end."""
        seen, whole = 0, False

        async def counted() -> Message:
            nonlocal seen, whole
            if whole:  # what comes now is that the client has left
                return await receive()
            try:
                async with asyncio.timeout(BODY_STALL_S):
                    message = await receive()
            except TimeoutError:
                late = refusal(408, "the request did not arrive in time", "timeout")
                raise BodyRefused(late) from None
            whole = not message.get("more_body")
            seen += len(message.get("body", b""))
            if seen > self._body_bytes_max:
                raise BodyRefused(self._too_large())
            return message

        return counted

    def _too_large(self) -> Response:
        limit_mib = self._body_bytes_max // (1024 * 1024)
        return refusal(413, f"a request has at most {limit_mib} MiB", "request_too_large")


class BodyRefused(Exception):
    """More has arrived than a request may have, or nothing for longer than a client may take."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


def _refused(headers: Headers, *, anywhere: bool) -> Response | None:
    """With a token of its own a server may have any name: a foreign page does not know the token,
    and no browser shows it the cookie that was given to another name."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not (anywhere or _is_here(hosts[0])):
        return refusal(
            421,
            "this server answers to localhost only; check the address in the client",
            "wrong_host",
        )
    origins = headers.getlist("origin")
    if any(not (_is_local_origin(o) or (anywhere and _is_of(o, hosts[0]))) for o in origins):
        return refusal(403, "web pages of other sites may not use this server", "wrong_origin")
    return None


def _is_of(origin: str, host: str) -> bool:
    scheme, mark, name = origin.partition("://")
    return bool(mark) and scheme in ("http", "https") and name == host


def _is_local_origin(origin: str) -> bool:
    scheme, mark, host = origin.partition("://")
    return bool(mark) and scheme in ("http", "https") and _is_here(host)


@lru_cache(maxsize=64)
def _is_here(host: str) -> bool:
    """Whether a `name` or `name:port` means this machine whatever a name server says."""
    try:
        parsed = urlsplit(f"//{host}")
        _ = parsed.port  # raises for anything but a number
    except ValueError:
        return False
    if parsed.netloc != host or parsed.username is not None or parsed.hostname is None:
        return False
    return is_loopback(parsed.hostname)


def is_loopback(host: str) -> bool:
    """Whether only this machine can be reached under that name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(status: int, message: str, code: str) -> Response:
    """An error as clients of OpenAI's interface expect it."""
    return Response(error_body(status, message, code), status, media_type="application/json")


def error_body(status: int, message: str, code: str) -> bytes:
    """The same, where there is an answer already that it has to be said in."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    told = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json.dumps(told).encode()
