"""What a request shows to have changed, tried out: only what leads to a certain turn is written.

A reading may be certain of a change and, once that is made, of nothing else. Then it was wrong, or
half of the truth; so it is carried through on a copy first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from previously.model import CLIENT, POS_GAP, Message, NewMessage, TurnRecord
from previously.text.wire import as_stored


def mended(stored: Sequence[Message], turn: TurnRecord) -> tuple[Message, ...]:
    """The stored messages as they are once the turn's changes are written."""
    edits, hides, shows, drops = dict(turn.edits), {*turn.hides}, {*turn.shows}, {*turn.drops}
    inserts = dict(turn.inserts)
    born = max((m.id for m in stored), default=0)
    made: list[Message] = []
    for m in stored:
        for new in inserts.get(m.id, ()):
            born += 1
            made.append(as_stored(new, born, m.pos - POS_GAP // 2))
        if m.id not in drops:
            now = _worded(m, edits[m.id]) if m.id in edits else m
            hidden_by = CLIENT if m.id in hides else None if m.id in shows else m.hidden_by
            made.append(replace(now, hidden_by=hidden_by))
    return tuple(made)


def _worded(m: Message, text: NewMessage) -> Message:
    said = replace(text, name=m.name)
    return replace(m, body=text.body, tool_calls=text.tool_calls, parts=text.parts, hash=said.hash)
