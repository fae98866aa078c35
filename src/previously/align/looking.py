"""One look at a request: laid over what is stored, with all that is known of its client.

What a stored message says is paired with it first; what is left is freed of what is known to be
joined to it. What is concluded from that is the readers' work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from previously.align import normal
from previously.align.hints import AWAY, Habit, Hints
from previously.align.joined import cleared, learned, unjoined
from previously.align.match import Pair
from previously.align.phrases import starts_history
from previously.align.pieces import Laid, Piece, lay
from previously.align.places import START, is_made_of, twins, uncounted, unkept
from previously.align.scene import Scene
from previously.align.views import VIEW_FROM, distances, parted, shortened
from previously.model import CLIENT, Message, NewMessage, State

GAP_MAX = 8  # stored messages that may be missing before one that says what anybody says


def look(
    request: Sequence[NewMessage],
    stored: Sequence[Message],
    habit: Habit,
    hints: Hints,
    *,
    complete: bool,
) -> Scene:
    """Lay the request over what is stored and find where its history starts."""
    if habit.floating:
        known = {m.hash for m in stored}
        request = [one if one.hash in known else cleared(one, habit) for one in request]
    laid = _before_heard(_laid(request, stored, habit), request, stored, habit)
    laid = _without_leap(_without_stray(laid, stored), stored, habit)
    first = next((laid.pieces[i].source for i, _ in laid.pairs), len(request) - 1)
    lead = _lead(request, first)
    start = next((i for i, p in enumerate(laid.pieces) if p.source >= lead), len(laid.pieces))
    grows = hints.type == "continue"
    views = _views(laid, stored, habit, grows=grows)
    pairs = tuple(sorted([*laid.pairs, *views])) if views else laid.pairs
    habit = learned(laid.pieces, dict(pairs), stored, habit)
    if complete:
        pairs = (*_first_again(laid, stored, start), *pairs)
    said = dict(pairs)
    pieces = list(laid.pieces)
    later = -uncounted(pieces, grows=grows)
    for i in range(len(pieces) - 1, start - 1, -1):
        if i not in said:
            pieces[i] = unjoined(pieces[i], habit, later)
        later += pieces[i].role != "system"
    shorter = frozenset(i for i, _ in views)
    return Scene(
        *(stored, complete, len(request), tuple(pieces), pairs, start, habit),
        grows=grows,
        views=shorter,
        asks=_asks(laid, said),
    )


def _asks(laid: Laid, said: Collection[int]) -> tuple[bytes, ...]:
    """The paragraphs of the last question with all that is joined to it, if it is not stored."""
    asked = (i for i in range(len(laid.pieces) - 1, -1, -1) if laid.pieces[i].role == "user")
    last = next(asked, None)
    return () if last is None or last in said else normal.marks(laid.pieces[last].said.body)


def _laid(request: Sequence[NewMessage], stored: Sequence[Message], habit: Habit) -> Laid:
    laid = lay(request, stored)
    return _slid(parted(laid, stored, _held(laid, stored, habit)), stored)


def _held(laid: Laid, stored: Sequence[Message], habit: Habit) -> list[Pair]:
    """The pairs, and behind all that is stored the first reply that we gave since: old messages
    that are shown shortened stand before it."""
    heard, paired = frozenset(habit.heard), {i for i, _ in laid.pairs}
    last = max(paired, default=-1)
    later = range(last + 1, len(laid.pieces)) if heard else ()
    first = next((i for i in later if is_made_of(laid.pieces[i], heard)), None)
    return [*laid.pairs, *([(first, len(stored))] if first is not None else [])]


def _slid(laid: Laid, stored: Sequence[Message]) -> Laid:
    """With pairs of words that are stored twice at the earlier place, if something strange follows
    them: it stands rather for what was said there, than between two that were neighbours."""
    pairs = list(laid.pairs)
    for n in range(1, len(pairs) - 1):
        (before, first), (i, j), (after, last) = pairs[n - 1 : n + 2]
        if j - first < 3 or after - i < 2 or any(m.shown for m in stored[j + 1 : last]):
            continue
        strange = _roles(laid, i + 1, after)
        alone = strange and not _roles(laid, before + 1, i)
        same = [k for k in range(first + 1, j) if strange and _says(laid, i, stored[k])]
        edited = (k for k in same if [m.role for m in stored[k + 1 : last] if m.shown] == strange)
        pairs[n] = (i, next(edited, same[0] if alone and same else j))
    return replace(laid, pairs=tuple(pairs))


def _roles(laid: Laid, first: int, last: int) -> list[str]:
    return [piece.role for piece in laid.pieces[first:last] if piece.role != "system"]


def _says(laid: Laid, i: int, m: Message) -> bool:
    return m.shown and normal.key(laid.pieces[i].said) == normal.key(m)


def _before_heard(
    laid: Laid, request: Sequence[NewMessage], stored: Sequence[Message], habit: Habit
) -> Laid:
    """Without pairs behind the last reply that is stored, in the client's words, or behind one that
    we gave since: nothing that is stored can stand there, though somebody may have said the same
    again."""
    heard, last = frozenset(habit.heard), unkept(stored, {j for _, j in laid.pairs})
    last = last if last is not None and normal.is_telling(last) else None
    paired = {i for i, _ in laid.pairs} if heard or last else set[int]()
    unknown = ((i, p) for i, p in enumerate(laid.pieces) if paired and i not in paired)
    ours = (i for i, p in unknown if is_made_of(p, heard) or _is_reply(p, last))
    first = next(ours, len(laid.pieces))
    if first < max(paired, default=0):
        laid, first = _laid_before(laid, request, stored, habit, first)
    pairs = [(i, j) for i, j in laid.pairs if i < first]
    answers = first < len(laid.pieces) and is_made_of(laid.pieces[first], heard)
    asked = answers and pairs and "user" not in _roles(laid, pairs[-1][0] + 1, first)
    again = asked and _is_said_again(laid, pairs, stored, habit)
    strange = pairs and _was_strange(laid, pairs, stored, habit)
    if again or strange or _by_chance(laid, pairs, habit):
        del pairs[-1]
    return replace(laid, pairs=tuple(pairs))


def _laid_before(
    laid: Laid, request: Sequence[NewMessage], stored: Sequence[Message], habit: Habit, first: int
) -> tuple[Laid, int]:
    """The same, if only what stands before a piece is laid over what is stored, and where that
    piece is then."""
    source = laid.pieces[first].source
    parts = [piece.said for piece in laid.pieces[:first] if piece.source == source]
    front = _laid((*request[:source], *parts), stored, habit)
    pieces = (replace(piece, source=min(piece.source, source)) for piece in front.pieces)
    return Laid((*pieces, *laid.pieces[first:]), front.pairs), len(front.pieces)


def _is_reply(piece: Piece, last: Message | None) -> bool:
    return last is not None and piece.role == last.role and normal.reworded(last, piece.said)


def _by_chance(laid: Laid, pairs: Sequence[Pair], habit: Habit) -> bool:
    """Whether nothing is shared but one question, behind a reply that is not stored: what anybody
    says, or after a doubt somebody says again."""
    alone = len(pairs) == 1 and laid.pieces[pairs[0][0]].role == "user"
    may_be = alone and (habit.doubts > 0 or not normal.is_telling(laid.pieces[pairs[0][0]].said))
    return may_be and _follows_another(laid, pairs, habit)


def _is_said_again(
    laid: Laid, pairs: Sequence[Pair], stored: Sequence[Message], habit: Habit
) -> bool:
    """Whether what stands before a reply of ours is the question to it rather than a stored one:
    another reply came before it; or it is what anybody says, and more than a reply came after that
    one, or much is missing before."""
    i, j = pairs[-1]
    if laid.pieces[i].role != "user":
        return False
    far = len(pairs) > 1 and j - pairs[-2][1] > GAP_MAX
    after = [m for m in stored[j + 1 :] if m.shown]
    short = not normal.is_telling(laid.pieces[i].said)
    more = len(after) > 1 or any(m.role != "assistant" for m in after)
    return (short and (far or more)) or (bool(after) and _follows_another(laid, pairs, habit))


def _was_strange(
    laid: Laid, pairs: Sequence[Pair], stored: Sequence[Message], habit: Habit
) -> bool:
    """Whether an earlier request since the last turn had the last pair's words at this place, or
    behind what is stored after them, and they were no stored message's to it."""
    i, j = pairs[-1]
    before = stored[pairs[-2][1]].id if len(pairs) > 1 else START
    places = {before, *(m.id for m in stored[j + 1 :])}
    marks = twins(normal.mark(laid.pieces[i].said)) if habit.doubts else []
    seen = (habit.spots[one] for one in marks if one in habit.spots)
    known = (s for s in seen if s.stays != AWAY and s.newest >= stored[j].id)
    return any(s.after in places for s in known)


def _follows_another(laid: Laid, pairs: Sequence[Pair], habit: Habit) -> bool:
    """Whether a reply stands before the last pair that is not stored."""
    said = ((k, laid.pieces[k]) for k in range(pairs[-1][0] - 1, -1, -1))
    spoken = ((k, p) for k, p in said if p.role != "system")
    told = ((k, p) for k, p in spoken if normal.mark(p.said) not in habit.floating)
    before, piece = next(told, (-1, laid.pieces[0]))
    return before >= 0 and before not in dict(pairs) and piece.role == "assistant"


def _without_stray(laid: Laid, stored: Sequence[Message]) -> Laid:
    """Without the first pair of a window, if it is rather the end of a message further down, of
    which the beginning is cut off: several were joined into that when they were new."""
    if len(laid.pairs) < 2:
        return laid
    (i, j), (_, then) = laid.pairs[:2]
    between = [m for m in stored[j + 1 : then] if m.shown]
    said = laid.pieces[i].said
    parts = normal.marks(between[-1].body) if between and between[-1].role == said.role else ()
    if len(parts) > 1 and parts[-1] == normal.mark(said):
        return replace(laid, pairs=laid.pairs[1:])
    return laid


def _without_leap(laid: Laid, stored: Sequence[Message], habit: Habit) -> Laid:
    """Without the last pair, if most of what stands before it in the store is not shown, and was by
    the last request: that is taken back rather, and somebody says again what he said last."""
    if len(laid.pairs) < 2:
        return laid
    (_, first), (_, last) = laid.pairs[-2:]
    between = [m for m in stored[first + 1 : last] if m.shown]
    if len(between) <= GAP_MAX or 2 * sum(m.id in habit.told for m in between) < len(between):
        return laid
    return replace(laid, pairs=laid.pairs[:-1])


def _first_again(laid: Laid, stored: Sequence[Message], start: int) -> list[Pair]:
    """The very first message, if nobody has kept it yet and it comes back as a version of itself,
    or without what was joined to it: it has no other before it to be known by."""
    if not laid.pairs:
        return []
    last, j = laid.pairs[0]
    theirs = [i for i in range(start, last) if laid.pieces[i].role != "system"]
    ours = [k for k in range(j) if stored[k].shown and not stored[k].pinned]
    if len(theirs) != 1 or len(ours) != 1:
        return []
    said, m = laid.pieces[theirs[0]].said, stored[ours[0]]
    if m.role != said.role:
        return []
    if m.state == State.CONFIRMED:
        return [(theirs[0], ours[0])] if normal.was_joined_to(said, m) else []
    again = normal.reworded(m, said) or normal.marks(m.body)[:1] == normal.marks(said.body)[:1]
    return [(theirs[0], ours[0])] if again else []


def _views(laid: Laid, stored: Sequence[Message], habit: Habit, *, grows: bool) -> list[Pair]:
    """Old messages of which a part is missing. They are kept for certain: what is not may have been
    cleaned, unless the last request had it whole."""
    if len(laid.pairs) == len(laid.pieces):
        return []
    said = [piece.said for piece in laid.pieces]
    far = distances(said, uncounted(laid.pieces, grows=grows))
    theirs = [None if one.role == "system" else one for one in said]
    ours = [m if m.shown or m.hidden_by == CLIENT else None for m in stored]
    found = shortened(theirs, ours, _held(laid, stored, habit))
    known = max((i for i, _ in laid.pairs), default=-1)  # behind it nothing says whose words it is
    found = ((i, j) for i, j in found if i < known or said[i].role == "assistant")
    kept = {j for j, m in enumerate(stored) if m.state == State.CONFIRMED or m.id in habit.told}
    return [(i, j) for i, j in found if far[i] >= VIEW_FROM and j in kept]


def _lead(request: Sequence[NewMessage], first: int) -> int:
    """How many messages are the client's own before the history: up to a sentence that says so,
    else as long as they are instructions."""
    lead = 0
    while lead < len(request) and (
        request[lead].role == "system" or starts_history(request[lead].body)
    ):
        lead += 1
    marked = [i + 1 for i in range(lead, first) if starts_history(request[i].body)]
    return max([lead, *marked])
