"""Which summaries are to be made into one: pure arithmetic over what stands in a chat now.

Minis become volumes, volumes become larger ones, and so on, always neighbours, oldest first. They
are merged as late as the room allows, because every hand that a fact passes through may lose it;
but never so late that what stands outgrows its share, and never much at once: prompts would swell
and shrink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from previously.model import Summary, Uncovered

LABEL_TOKENS = 64  # what a block of covers says of itself
LINE_TOKENS = 2  # what joining one more line to a block may add
FAN_MAX = 8  # summaries above the minis that are made into one at a time
LEVEL_MAX = 12 * FAN_MAX  # of one level that may stand at once, however short they are
FULL_SHARE = 0.98  # of the room for covers: then something is merged
MINIS_SHARE = 0.1  # of it that many minis may take up
# By default a prompt is folded every ten turns. A volume in nearly the same rhythm would beat with
# it: prompts would swell and shrink over hundreds of turns.
MANY = 14
MINIS_SHARE_MAX = 0.45  # of it that few may
PAIR = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings and the budget allow."""

    room_tokens: int  # for all covers together
    threshold_tokens: int  # of minis that make a volume when they are looked at
    interval: int  # minis between two looks
    minis_max: int  # that may stand without a volume, whatever anybody says


@dataclass(frozen=True, slots=True)
class Groups:
    """Stretches that are due to be merged, and one that a model may be asked about."""

    due: tuple[tuple[Summary, ...], ...] = ()
    ask: tuple[Summary, ...] = ()  # is this a finished stretch of the story?


def size(covers: Sequence[Summary]) -> int:
    """Tokens that these take up in a prompt."""
    return sum(s.tokens + LINE_TOKENS for s in covers)


def stretches(
    covers: Sequence[Summary], uncovered: Uncovered, waiting: Collection[int] = ()
) -> Iterator[tuple[Summary, ...]]:
    """Neighbours of one level that the same people were there for, with no gap between them.

    What waits for a user's word belongs to none.
    """
    gaps = _gaps(uncovered)
    stretch: list[Summary] = []
    for cover in covers:
        alike = bool(stretch) and stretch[-1].level == cover.level
        if stretch and (cover.id in waiting or not alike or not _joins(stretch[-1], cover, gaps)):
            yield tuple(stretch)
            stretch = []
        if cover.id not in waiting:
            stretch.append(cover)
    if stretch:
        yield tuple(stretch)


def _gaps(uncovered: Uncovered) -> list[int]:
    return [m.pos for run in uncovered.runs for m in run]


def _joins(before: Summary, after: Summary, gaps: Sequence[int]) -> bool:
    same_people = before.presence == after.presence
    return same_people and not any(before.last_pos < pos < after.first_pos for pos in gaps)


def groups(
    covers: Sequence[Summary],
    uncovered: Uncovered,
    limits: Limits,
    waiting: Collection[int] = (),
    *,
    now: bool = False,
) -> Groups:
    """What is due among these covers, all of which stand before the tail.

    `now`: somebody asked for a volume of what there is.
    """
    found = list(stretches(covers, uncovered, waiting))
    minis = found[-1] if found and found[-1][0].level == 0 else ()
    left_over = [s for s in found if _is_left_over(s, found)]
    if left_over:
        return Groups((_first_of(left_over[0], limits),))
    due = _volume(minis, limits, now=now) or _crowd(found)
    if not due and size(covers) > limits.room_tokens * FULL_SHARE:
        kept = [c.first_pos for c in covers if c.id in waiting]
        due = _thinned(found, minis, [*_gaps(uncovered), *kept], limits)
    if due:
        return Groups((due,))
    looked_at = len(minis) - len(minis) % limits.interval
    return Groups(ask=minis[:looked_at])


def _is_left_over(stretch: tuple[Summary, ...], found: Sequence[tuple[Summary, ...]]) -> bool:
    """Whether it lost what stood for it: something of a higher level comes after it."""
    later = found[found.index(stretch) + 1 :]
    above = any(other[0].level > stretch[0].level for other in later)
    return above and len(stretch) >= PAIR


def _first_of(stretch: tuple[Summary, ...], limits: Limits) -> tuple[Summary, ...]:
    """As many of the oldest as one request should hold."""
    if stretch[0].level > 0:
        return stretch[:FAN_MAX]
    most = max(2 * limits.threshold_tokens, size(stretch[:PAIR]))
    taken = stretch[: limits.minis_max]
    while size(taken) > most:
        taken = taken[:-1]
    return taken


def _volume(minis: tuple[Summary, ...], limits: Limits, *, now: bool) -> tuple[Summary, ...]:
    """The oldest minis, if it is time for them."""
    if len(minis) < PAIR:
        return ()
    looked_at = minis[: len(minis) - len(minis) % limits.interval]
    if size(looked_at) > limits.threshold_tokens and len(looked_at) >= PAIR:
        return _first_of(looked_at, limits)
    share = MINIS_SHARE if len(minis) >= MANY else MINIS_SHARE_MAX
    crowded = size(minis) > limits.room_tokens * share or len(minis) >= limits.minis_max
    return _first_of(minis, limits) if crowded or now else ()


def _crowd(found: Sequence[tuple[Summary, ...]]) -> tuple[Summary, ...]:
    """The oldest of a level of which too many stand, however short they are."""
    many = (s for s in found if s[0].level > 0 and len(s) >= LEVEL_MAX)
    return next(many, ())[:FAN_MAX]


def _thinned(
    found: Sequence[tuple[Summary, ...]],
    minis: tuple[Summary, ...],
    gaps: Sequence[int],
    limits: Limits,
) -> tuple[Summary, ...]:
    """What is merged because all outgrow their room.

    Two of one level, the lowest: what has passed through the most hands is left alone the longest.
    Where no two are alike, minis, so that two will be; and if there are too few of them, a summary
    with the one of a lower level behind it.
    """
    above = [s for s in found if s[0].level > 0]
    alike = [s[:PAIR] for s in above if len(s) >= PAIR]
    if alike:
        return min(alike, key=lambda pair: pair[0].level)
    if len(minis) >= PAIR and size(minis) >= limits.room_tokens * MINIS_SHARE:
        return _first_of(minis, limits)
    steps = [
        (one[-1], other[0])
        for one, other in pairwise(found)
        if one[-1].level > other[0].level > 0 and _joins(one[-1], other[0], gaps)
    ]
    few = minis if len(minis) >= PAIR else ()
    return min(steps, key=lambda pair: pair[0].level, default=few)
