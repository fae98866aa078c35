"""What differs between the interfaces that a turn may come by: all else is the same for each.

A dialect reads a request as messages and writes messages into a request. The turn path knows only
messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from previously.model import NewMessage
from previously.web.outgoing import Raw, Turn


class Hearing(Protocol):
    """One answer, listened to on its way."""

    whole: bool  # all of a streamed reply was said

    def hear(self, data: bytes) -> None:
        """What one event of a stream says."""
        ...

    def retold(self, event: bytes) -> bytes:
        """A whole event as the client is to have it."""
        ...

    def replies(self) -> tuple[NewMessage, ...]:
        """What was said in a stream so far."""
        ...

    def signed(self, turn: Turn) -> Turn:
        """The turn as it is to be recorded."""
        ...

    def read(self, body: bytes) -> tuple[bytes, tuple[NewMessage, ...]]:
        """An answer in one piece, as the client is to have it, and what it says."""
        ...


class Dialect(Protocol):
    """One interface."""

    @property
    def path(self) -> str:
        """Where the upstream has it."""
        ...

    @property
    def takes_marks(self) -> bool:
        """Whether its messages can bear cache marks."""
        ...

    def messages(self, fields: Mapping[str, Any]) -> list[Any] | None:
        """What a request says, as messages; None if that cannot be read."""
        ...

    def sent(self, fields: Raw, messages: list[Raw] | None) -> Raw:
        """The request with these messages in the place of its own; None: with its own.

        The very same object if nothing in it has to change.
        """
        ...

    def starts(self, fields: Mapping[str, Any]) -> bool:
        """Whether a first message starts a chat, although the request names none."""
        ...

    def hearing(self, fields: Mapping[str, Any], turn: Turn | None) -> Hearing:
        """Who listens to the answer."""
        ...
