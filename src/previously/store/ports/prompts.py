"""What a prompt is made of, and what went upstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from previously.model import (
    ChatRef,
    Doubted,
    Fold,
    FoldKey,
    Message,
    Passed,
    Sent,
    SentTurn,
    Shown,
    Snapshot,
)
from previously.settings import COVERS_LOADED_MAX, TAIL_LOADED_MAX


class Prompts(Protocol):
    """States of a chat, folds, prompts that were sent."""

    async def load(
        self,
        ref: ChatRef,
        fold_key: FoldKey,
        *,
        wide: bool,
        onward: bool = False,
        tail_max: int = TAIL_LOADED_MAX,
        covers_max: int = COVERS_LOADED_MAX,
    ) -> Snapshot: ...

    async def glance(
        self, ref: ChatRef, fold_key: FoldKey, newest_max: int
    ) -> tuple[Snapshot, tuple[Message, ...]]: ...

    async def save_fold(
        self,
        ref: ChatRef,
        moved: Fold,
        seen_rev: int,
        shown: tuple[Shown, ...] | None = None,
    ) -> bool:
        """Whether it stands, or a newer one: False if the chat has changed since `seen_rev`.

        `shown` is what it shows, if that is known: then the next look need not read it.
        """
        ...

    async def keep_sent(
        self, sent: Sequence[Sent], doubts: Mapping[int, Doubted] | None = None
    ) -> None: ...

    async def passed_on(self, ref: ChatRef) -> Passed | None:
        """Requests that went on as they came since the newest turn; None: none."""
        ...

    async def last_sent(self, ref: ChatRef) -> Sent | None: ...

    async def sent_turns(self, ref: ChatRef, before: int, limit: int) -> tuple[SentTurn, ...]: ...

    async def chats_by_tail(self, owner: str, keys: Sequence[str]) -> list[ChatRef]: ...
