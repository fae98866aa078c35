"""The plain case: what is stored, letter by letter, and one thing more that is asked.

Most requests are like that. Read in one pass, to what the long way would come to (a test holds the
two against each other); whatever needs a second look is left to the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from previously.align import normal
from previously.align.ending import continued
from previously.align.hints import Habit, Hints
from previously.align.joined import LAST_TURN
from previously.align.pieces import comes_apart
from previously.align.reading import Alignment, Place
from previously.align.scene import SPOTS_MAX
from previously.model import Message, NewMessage, State, TurnRecord

_HEAD = Place("head")


def plainly(
    request: Sequence[NewMessage],
    stored: Sequence[Message],
    habit: Habit,
    hints: Hints,
    *,
    complete: bool,
) -> Alignment | None:
    """The reading, if it is plain."""
    if habit.spots or habit.floating or hints.type not in ("", "normal"):
        return None
    head = _instructions(request)
    count = len(request) - head - 1
    if not LAST_TURN <= count <= len(stored):
        return None
    shown = stored[len(stored) - count :]
    if not _same(request[head:-1], shown) or not _asks(request[-1], stored, count):
        return None
    if head and any(m.role == "system" for m in stored):
        return None  # an instruction may be a line of the narrator's
    whole = complete and not any(m.shown and not m.pinned for m in stored[:-count])
    return Alignment(
        "append",
        continued(1, whole=whole),
        1.0,
        _places(head, shown),
        replace(
            habit.understood(hints),
            requests=habit.requests + 1,
            told=frozenset([m.id for m in shown[-SPOTS_MAX:]]),
            views={},
        ),
        _turn(request[-1], stored),
        complete,
    )


def _instructions(request: Sequence[NewMessage]) -> int:
    """How many messages are the client's own, in front."""
    for i, said in enumerate(request):
        if said.role != "system":
            return i
    return len(request)


def _same(theirs: Sequence[NewMessage], ours: Sequence[Message]) -> bool:
    for said, m in zip(theirs, ours, strict=True):
        if said.body != m.body or said.role != m.role or m.role == "system" or not m.shown:
            return False
        if normal.raw_key(said) != normal.raw_key(m):
            return False
    return ours[-1].role == "assistant" and ours[-1].tool_calls is None


def _asks(said: NewMessage, stored: Sequence[Message], count: int) -> bool:
    """Whether it is the user's, and nobody has said it before."""
    if said.role != "user" or comes_apart(said, stored[:-count]):
        return False
    words = normal.bare(said.body)
    return not any(normal.bare(m.body) == words for m in stored)


def _places(head: int, shown: Sequence[Message]) -> tuple[Place, ...]:
    told = [Place("history", (m.id,)) for m in shown]
    return (*[_HEAD] * head, *told, Place("history", (), (0,)))


def _turn(asked: NewMessage, stored: Sequence[Message]) -> TurnRecord:
    """What stands before the last reply is kept by the client, also what it cut off."""
    candidate = State.CANDIDATE.value
    return TurnRecord(
        after_id=stored[-1].id,
        after_hash=stored[-1].hash,
        confirms=tuple([(m.id, None) for m in stored if m.state == candidate]),
        appends=(replace(asked, state=State.CANDIDATE),),
        reply=None,
        rerolls=None,
    )
