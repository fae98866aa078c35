"""A client's request laid over what is stored: what it repeats, what is new, what has changed.

Sure or not at all: where two readings are possible, or none, nothing may be stored or replaced.
Older messages that the client no longer sends were cut off by the client, never deleted.
`normal` says when two messages are the same, `match` and `pieces` pair them, `looking` and
`scene` hold what is known of a request, `mend` reads its middle, `reading` its end. `plain` is a
short way for most.
"""

from __future__ import annotations

from collections.abc import Sequence

from previously.align.hints import Habit as Habit
from previously.align.hints import Hints as Hints
from previously.align.looking import look
from previously.align.plain import plainly
from previously.align.reading import Alignment as Alignment
from previously.align.reading import Place as Place
from previously.align.reading import doubtful, gone_on, read
from previously.align.rejoin import DOUBTS_MIN
from previously.align.trial import mended
from previously.model import Message, NewMessage

READ_MORE = 16  # stored messages beyond a request's length: hidden ones, several in one
MENDINGS_MAX = 3  # what was mended may bring to light what else has changed
NOTHING_KNOWN = Habit()
NOTHING_TOLD = Hints()


def align(
    stored: Sequence[Message],
    request: Sequence[NewMessage],
    hints: Hints = NOTHING_TOLD,
    habit: Habit = NOTHING_KNOWN,
    *,
    complete: bool | None = None,
) -> Alignment:
    """Read a whole request against the chat's newest messages, oldest first.

    `complete` says whether `stored` is all there is; unless told, that is concluded from there
    being fewer than `READ_MORE` beyond the request. What the `habit` holds only makes more certain.
    """
    if complete is None:
        complete = len(stored) < len(request) + READ_MORE
    plain = plainly(request, stored, habit, hints, complete=complete)
    if plain is not None:
        return plain
    return read(look(request, stored, habit, hints, complete=complete), hints)


def rejoin(
    found: Alignment,
    stored: Sequence[Message],
    request: Sequence[NewMessage],
    hints: Hints = NOTHING_TOLD,
    habit: Habit = NOTHING_KNOWN,
) -> Alignment:
    """A doubt that has lasted, ended by what the client has said since; or the doubt."""
    if not stored or habit.doubts < DOUBTS_MIN:
        return found
    likely = gone_on(look(request, stored, habit, hints, complete=found.complete), hints)
    lasts = (one for one in likely if lasting(one, stored, request, hints, habit).sure)
    return next(lasts, found)


def lasting(
    found: Alignment,
    stored: Sequence[Message],
    request: Sequence[NewMessage],
    hints: Hints = NOTHING_TOLD,
    habit: Habit = NOTHING_KNOWN,
) -> Alignment:
    """A reading, if what it would change leads to a turn that is certain; else none is."""
    turn, now = found.turn, stored
    for _ in range(MENDINGS_MAX):
        if turn is None or not turn.mends:
            break
        now = mended(now, turn)
        turn = align(now, request, hints, habit, complete=found.complete).turn
    if turn is not None and not turn.mends:
        return found
    return doubtful(look(request, stored, habit, hints, complete=found.complete))
