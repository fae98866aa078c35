"""Old messages that a client shows shortened: by its user's hand, or by a rule of its own.

Some clients leave a part of a message out of their prompts once it is old. One message that is
shorter than it was has been cut by somebody. Where those that come to stand where it stood are
shorter as well it is a rule, and what is stored stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from previously.align import normal
from previously.align.match import Pair
from previously.align.pieces import Piece
from previously.model import Message, State

VIEW_FROM = 3  # messages said after it: what is newer may be cleaned, or cut by the user


def shortened(
    pieces: Sequence[Piece], stored: Sequence[Message], pairs: Sequence[Pair]
) -> list[Pair]:
    """Pieces that show a stored message shortened, between others that are shown as they are."""
    found: list[Pair] = []
    for (a, c), (b, d) in pairwise(pairs):
        theirs = [i for i in range(a + 1, b) if pieces[i].role != "system"]
        ours = [j for j in range(c + 1, d) if stored[j].shown] if theirs else []
        if len(theirs) == len(ours):
            steps = zip(theirs, ours, strict=True)
            found += [(i, j) for i, j in steps if _is_shorter(stored[j], pieces[i])]
    return found


def distances(pieces: Sequence[Piece], uncounted: int) -> list[int]:
    """How much is said after each piece, but for the last ones that do not count."""
    said = [int(piece.role != "system") for piece in pieces]
    after: list[int] = []
    count = -uncounted
    for one in reversed(said):
        after.append(count)
        count += one
    return after[::-1]


def _is_shorter(m: Message, piece: Piece) -> bool:
    said = piece.said
    plain = said.parts is None and said.tool_calls is None and m.tool_calls is None
    if m.state != State.CONFIRMED or m.role != said.role or not plain:
        return False
    return normal.is_cut(m.body, said.body)
