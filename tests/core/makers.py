"""Small makers of messages, summaries and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from previously.measure import count_tokens
from previously.model import (
    POS_GAP,
    Backlog,
    ChatRef,
    Fold,
    FoldKey,
    Message,
    NewMessage,
    Snapshot,
    Summary,
    Uncovered,
    digest,
    key,
)
from previously.settings import Settings
from previously.text.wire import tokens_of

CHAT = ChatRef(1, "local", "story")


def message(n: int, role: str = "", body: str | None = None, **fields: Any) -> Message:
    """The n-th message; even ones are the user's."""
    said = NewMessage(
        role or ("user" if n % 2 == 0 else "assistant"),
        f"message {n}" if body is None else body,
        tool_calls=fields.pop("tool_calls", None),
        tool_call_id=fields.pop("tool_call_id", None),
    )
    return Message(
        id=key(CHAT.id, n),
        pos=n * POS_GAP,
        role=said.role,
        body=said.body,
        hash=said.hash,
        tokens=fields.pop("tokens", None) or tokens_of(said),
        tool_calls=said.tool_calls,
        tool_call_id=said.tool_call_id,
        **fields,
    )


def talk(count: int, first: int = 2, **fields: Any) -> tuple[Message, ...]:
    """Messages `first` to `first + count - 1`."""
    return tuple(message(n, **fields) for n in range(first, first + count))


def mini(n: int, sources: Sequence[Message], text: str = "", **fields: Any) -> Summary:
    """The n-th summary, over these messages."""
    text = text or "note on " + ", ".join(m.body for m in sources)
    return Summary(
        id=key(CHAT.id, n),
        lane="volumes",
        kind="mini",
        level=0,
        ordinal=n,
        text=text,
        tokens=fields.pop("tokens", None) or count_tokens(text),
        hash=digest(text),
        first_pos=sources[0].pos,
        last_pos=sources[-1].pos,
        message_count=len(sources),
        covers=tuple(m.id for m in sources),
        **fields,
    )


def snapshot(
    tail: Sequence[Message],
    *,
    covers: Sequence[Summary] = (),
    uncovered: Sequence[Sequence[Message]] = (),
    standing: Sequence[Message] = (),
    covered_to: int | None = None,
    fold: Fold | None = None,
    shown: Sequence[Message | Summary] = (),
    **settings: Any,
) -> Snapshot:
    """A snapshot with its backlog."""
    if covered_to is None:
        covered_to = max((s.last_pos for s in covers), default=0)
    return Snapshot(
        ref=CHAT,
        lane="volumes",
        settings=Settings(**settings),
        rev=1,
        fold=fold or Fold(FoldKey("", 4000), version=1),
        covered_to=covered_to,
        tail=tuple(tail),
        shown=tuple(shown),
        backlog=Backlog(
            uncovered=Uncovered(tuple(tuple(run) for run in uncovered)),
            covers=tuple(covers),
            standing=tuple(standing),
        ),
    )
