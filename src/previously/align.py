"""A client's history laid over what is stored: what it echoes, what is new, what it asks again.

Sure or not at all: where two readings are possible, or none, nothing may be stored or replaced.
Older messages that the client no longer sends were cut off by the client, never deleted.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from previously.model import Message, NewMessage, State, TurnRecord, digest
from previously.text.wire import attachments

Kind = Literal["first", "append", "reroll", "unsure"]

OVERLAP_MIN = 2  # messages that a shortened history must share, word for word, with the stored end
EFFORT = 32  # comparisons per message before a text that only repeats itself is given up

ASKS_NOTHING = "the last message is neither the user's nor a tool's"
NOTHING_SAID = "the request holds no conversation"
NO_MATCH = "the history does not continue what is stored"
TWO_READINGS = "the history can be read as a new turn and as the last one again"


@dataclass(frozen=True, slots=True)
class Alignment:
    """What a request means for a chat, and why."""

    kind: Kind
    reason: str
    matched: tuple[int | None, ...]  # for each message of the history the stored one it echoes
    turn: TurnRecord | None = None  # what to record once the reply is there

    @property
    def sure(self) -> bool:
        """Whether the request may be changed and recorded."""
        return self.turn is not None


def align(stored: Sequence[Message], history: Sequence[NewMessage]) -> Alignment:
    """Read `history` against the chat's newest messages, oldest first.

    `stored` must reach at least two messages further back than `history` is long, or be all.
    """
    if not history or history[-1].role not in ("user", "tool"):
        return _unsure(history, ASKS_NOTHING if history else NOTHING_SAID)
    if not stored:
        return _append(stored, history, 0)
    if len(stored) <= len(history) and _echoed(stored, history, 0, len(stored)) is not None:
        return _append(stored, history, len(stored))
    return _partly(stored, history)


def _partly(stored: Sequence[Message], history: Sequence[NewMessage]) -> Alignment:
    """Something stored is missing: the last reply, the oldest messages, or both."""
    overlap = next(_overlaps(stored, history), None)
    start = len(stored) - len(history) - 1
    whole = start == 0 or len(history) >= OVERLAP_MIN
    again = start >= 0 and whole and _asks_again(stored, history, start)
    if overlap is not None and again:
        return _unsure(history, TWO_READINGS)
    if again:
        return _reroll(stored, start)
    if overlap is not None:
        return _append(stored, history, overlap)
    return _unsure(history, NO_MATCH)


def _overlaps(stored: Sequence[Message], history: Sequence[NewMessage]) -> Iterator[int]:
    """How many messages at the stored end are the history's beginning; the most first."""
    effort = EFFORT * (len(stored) + len(history))
    for size in range(min(len(stored) - 1, len(history)), OVERLAP_MIN - 1, -1):
        start = len(stored) - size
        effort -= 1
        if not _same(stored[start], history[0]):
            continue
        effort -= size
        if effort < 0:
            return
        equal = _echoed(stored, history, start, size)
        if equal is not None and equal >= OVERLAP_MIN and _plausible(history, size):
            yield size


def _plausible(history: Sequence[NewMessage], size: int) -> bool:
    """A short overlap before many unknown replies is more likely another conversation."""
    new = history[size:]
    return 2 * size >= len(history) or all(m.role != "assistant" for m in new)


def _echoed(
    stored: Sequence[Message], history: Sequence[NewMessage], start: int, size: int
) -> int | None:
    """How many of `size` messages are equal; None if one is not what the client would send back.

    A candidate reply may come back in other words, between neighbours that are equal.
    """
    equal = 0
    reworded = False
    for i in range(size):
        if _same(stored[start + i], history[i]):
            equal += 1
            reworded = False
        elif reworded or i == 0 or not _may_be_reworded(stored[start + i], history[i]):
            return None
        else:
            reworded = True
    return equal


def _asks_again(stored: Sequence[Message], history: Sequence[NewMessage], start: int) -> bool:
    last = stored[-1]
    if last.role != "assistant" or last.state != State.CANDIDATE:
        return False
    return all(_same(stored[start + i], said) for i, said in enumerate(history))


def _append(stored: Sequence[Message], history: Sequence[NewMessage], overlap: int) -> Alignment:
    start = len(stored) - overlap
    matched = (*(m.id for m in stored[start:]), *(None for _ in history[overlap:]))
    # What stands before an echo is kept by the client too, also where it no longer sends it.
    confirms = [(m.id, None) for m in stored[:start] if m.state == State.CANDIDATE]
    confirms += [
        (m.id, _clients_text(m, said))
        for m, said in zip(stored[start:], history, strict=False)
        if m.state == State.CANDIDATE
    ]
    turn = TurnRecord(
        after_id=stored[-1].id if stored else None,
        after_hash=stored[-1].hash if stored else None,
        confirms=tuple(confirms),
        appends=_with_states(history, overlap),
        reply=None,
        rerolls=None,
    )
    if not stored:
        return Alignment("first", "nothing is stored yet", matched, turn)
    return Alignment("append", _continued(start, len(history) - overlap), matched, turn)


def _continued(cut: int, new: int) -> str:
    shortened = "shortened " if cut else ""
    return f"the {shortened}history continues what is stored, {new} new"


def _with_states(history: Sequence[NewMessage], overlap: int) -> tuple[NewMessage, ...]:
    """Before a reply that the client sends back everything is kept; the rest is yet to be seen."""
    pending = len(history)
    while pending and not _is_reply(history[pending - 1]):
        pending -= 1
    return tuple(
        replace(said, state=State.CONFIRMED if i < pending else State.CANDIDATE)
        for i, said in enumerate(history[overlap:], overlap)
    )


def _is_reply(said: NewMessage) -> bool:
    return said.role == "assistant" and said.tool_calls is None


def _reroll(stored: Sequence[Message], start: int) -> Alignment:
    last = stored[-1]
    turn = TurnRecord(
        after_id=last.id,
        after_hash=last.hash,
        confirms=(),
        appends=(),
        reply=None,
        rerolls=last.id,
    )
    matched = tuple(m.id for m in stored[start:-1])
    return Alignment("reroll", "the last turn is asked again", matched, turn)


def _unsure(history: Sequence[NewMessage], reason: str) -> Alignment:
    return Alignment("unsure", reason, (None,) * len(history))


def _clients_text(m: Message, said: NewMessage) -> NewMessage | None:
    """The client's words where they differ, under the identity that the message has."""
    if (m.body, m.tool_calls, m.parts) == (said.body, said.tool_calls, said.parts):
        return None
    return replace(said, name=m.name, tool_call_id=m.tool_call_id)


def _same(m: Message, said: NewMessage) -> bool:
    """Equal by all that the hash covers, else by what a reader would call the same words."""
    if m.role != said.role:
        return False
    if (
        m.body == said.body
        and m.tool_calls == said.tool_calls
        and m.tool_call_id == said.tool_call_id
        and m.parts == said.parts
    ):
        return True
    return _gist(m) == _gist(said)


def _may_be_reworded(m: Message, said: NewMessage) -> bool:
    return (
        m.role == said.role == "assistant"
        and m.state == State.CANDIDATE
        and _call_ids(m.tool_calls) == _call_ids(said.tool_calls)
    )


def _gist(said: Message | NewMessage) -> tuple[object, ...]:
    words = " ".join(unicodedata.normalize("NFC", said.body).split())
    return words, _call_ids(said.tool_calls), said.tool_call_id, _attached(said.parts)


def _call_ids(tool_calls: str | None) -> tuple[str, ...]:
    return tuple(str(call.get("id", "")) for call in json.loads(tool_calls)) if tool_calls else ()


def _attached(parts: str | None) -> bytes | None:
    """Two images have the same marker; only their data tells them apart."""
    held = attachments(parts) if parts else []
    return digest(json.dumps(held, sort_keys=True)) if held else None
