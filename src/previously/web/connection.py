"""A client's connection, as far as nobody else looks after it: the head of a request.

Whoever opens connections and never says what is wanted must not keep them, nor fill the memory.
Bodies, and how many requests there are, are the guard's business.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 20.0  # that a head takes to arrive, from its first byte or that of the connection
HEAD_BYTES_MAX = 256 * 1024  # of a head that has no end; a whole one is measured by the guard


class Connection(HttpToolsProtocol):
    """Closes itself if the head of a request does not come to its end."""

    _waiting: asyncio.TimerHandle | None = None  # for the end of a head
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """One piece of whatever the client sends."""
        super().data_received(data)
        if self._waiting is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.close()

    def on_message_begin(self) -> None:
        """The first byte of a request; on a connection that is kept, of the next one."""
        super().on_message_begin()
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._wait_no_more()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._head_bytes = 0
        self._waiting = self.loop.call_later(HEAD_S, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
