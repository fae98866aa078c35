"""The model behind the proxy: one place that talks to it, and only to the address it was given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from previously.errors import BadInput

CONNECT_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 300.0  # a model may think for minutes before its first word
CONNECTIONS_MAX = 1_024
KEPT_S = 3.0  # of an idle connection: local servers hang up after five, and a POST is not repeated
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
# Ours to say: where it goes. Cookies belong to whatever else runs on this machine.
_NOT_SENT = _HOP_BY_HOP | {b"host", b"cookie", b"expect"}
_NOT_RETURNED = _HOP_BY_HOP | {b"content-length"}
_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Pool:
    """Connections to every upstream. Opened and closed with the application."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the application was not started"
        return self._session

    async def open(self) -> None:
        """Make the connection pool; it belongs to the running loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, keepalive_timeout=KEPT_S),
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


@dataclass(frozen=True, slots=True)
class Upstream:
    """An OpenAI-compatible server, and whose key it is shown."""

    base_url: str
    key: str | None = field(default=None, repr=False)
    takes_clients_key: bool = True  # only the one that the server was started with

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(
                f"an upstream is an http or https URL, not {self.base_url!r}", field="upstream"
            )
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))

    async def request(
        self,
        pool: Pool,
        method: str,
        path: str,
        headers: Iterable[Header],
        body: bytes | AsyncIterator[bytes] | None = None,
        *,
        exact: bool = False,
    ) -> aiohttp.ClientResponse:
        """Pass one request on. Redirects are answers like any other: a key follows none.

        An exact one goes as the client sent it; any other asks for an answer that can be read.
        """
        return await pool.session.request(
            method,
            URL(self.base_url + path, encoded=True),
            headers=self._sent(list(headers), exact=exact),
            data=body,
            allow_redirects=False,
        )

    def _sent(self, headers: list[Header], *, exact: bool) -> list[tuple[str, str]]:
        dropped = _NOT_SENT | _named_by_connection(headers)
        if self.key is not None or not self.takes_clients_key:
            dropped |= {b"authorization"}
        if not exact:
            dropped |= {b"accept-encoding", b"content-length"}
        sent = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in headers
            if name not in dropped and not name.startswith(OWN_PREFIX)
        ]
        if not exact:
            sent.append(("accept-encoding", "identity"))
        if self.key is not None:
            sent.append(("authorization", f"Bearer {self.key}"))
        return sent


def returned(response: aiohttp.ClientResponse, *, length: bool = False) -> list[Header]:
    """The answer's headers as they came, less those that belong to the connection.

    Its length is kept only where the body is passed on unread.
    """
    headers = [(name.lower(), value) for name, value in response.raw_headers]
    dropped = (_HOP_BY_HOP if length else _NOT_RETURNED) | _named_by_connection(headers)
    return [h for h in headers if h[0] not in dropped and not h[0].startswith(OWN_PREFIX)]


def _named_by_connection(headers: Iterable[Header]) -> set[bytes]:
    return {
        name.strip().lower()
        for header, value in headers
        if header == b"connection"
        for name in value.split(b",")
    }
