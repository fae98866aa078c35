"""The model behind the proxy: one place that talks to it, and only to the address it was given."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from previously.errors import BadInput

CONNECT_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 300.0  # a model may think for minutes before its first word
CONNECTIONS_MAX = 512
HEADER_BYTES_MAX = 64 * 1024

Header = tuple[bytes, bytes]

OWN_PREFIX = b"x-previously-"
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Ours to say: where it goes, how long it is, and that the answer comes as we can read it. Cookies
# belong to whatever else runs on this machine.
_NOT_SENT = _HOP_BY_HOP | {b"host", b"content-length", b"accept-encoding", b"cookie", b"expect"}
_NOT_RETURNED = _HOP_BY_HOP | {b"content-length"}
_AUTO_HEADERS = ("User-Agent", "Accept", "Content-Type")


class Upstream:
    """An OpenAI-compatible server. Opened and closed with the application."""

    def __init__(
        self, base_url: str, key: str | None = None, *, takes_clients_key: bool = True
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(
                f"an upstream is an http or https URL, not {base_url!r}", field="upstream"
            )
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._takes_clients_key = takes_clients_key  # not where that is our own token
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the connection pool; it belongs to the running loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=CONNECT_TIMEOUT_S, sock_read=IDLE_TIMEOUT_S
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTO_HEADERS,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self, method: str, path: str, headers: Iterable[Header], body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Pass one request on. Redirects are answers like any other: a key follows none."""
        assert self._session is not None, "the application was not started"
        return await self._session.request(
            method,
            URL(self._base_url + path, encoded=True),
            headers=self._sent(list(headers)),
            data=body,
            allow_redirects=False,
        )

    def _sent(self, headers: list[Header]) -> list[tuple[str, str]]:
        dropped = _NOT_SENT | _named_by_connection(headers)
        if self._key is not None or not self._takes_clients_key:
            dropped |= {b"authorization"}
        sent = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in headers
            if name not in dropped and not name.startswith(OWN_PREFIX)
        ]
        sent.append(("accept-encoding", "identity"))
        if self._key is not None:
            sent.append(("authorization", f"Bearer {self._key}"))
        return sent


def returned(response: aiohttp.ClientResponse) -> list[Header]:
    """The answer's headers as they came, less those that belong to the connection."""
    headers = [(name.lower(), value) for name, value in response.raw_headers]
    dropped = _NOT_RETURNED | _named_by_connection(headers)
    return [h for h in headers if h[0] not in dropped and not h[0].startswith(OWN_PREFIX)]


def _named_by_connection(headers: Iterable[Header]) -> set[bytes]:
    return {
        name.strip().lower()
        for header, value in headers
        if header == b"connection"
        for name in value.split(b",")
    }
