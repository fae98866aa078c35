"""Which summaries are to be made into one: pure arithmetic over what stands in a chat now.

Minis become volumes, volumes become larger ones, and so on, always neighbours of one level, oldest
first. They are merged as late as the room allows, because every hand that a fact passes through may
lose it; but never so late that what stands outgrows its share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from previously.model import Summary, Uncovered

LABEL_TOKENS = 64  # what a block of covers says of itself
LINE_TOKENS = 2  # what joining one more line to a block may add
FAN_MAX = 8  # summaries above the minis that are made into one at a time
LEVEL_MAX = 12 * FAN_MAX  # of one level that may stand at once, however short they are
FULL_SHARE = 0.98  # of the room for covers: then something is merged
MINIS_SHARE = 0.35  # of it that minis may take up
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
    gaps = sorted(m.pos for run in uncovered.runs for m in run)
    stretch: list[Summary] = []
    for cover in covers:
        if stretch and (cover.id in waiting or not _joins(stretch[-1], cover, gaps)):
            yield tuple(stretch)
            stretch = []
        if cover.id not in waiting:
            stretch.append(cover)
    if stretch:
        yield tuple(stretch)


def _joins(before: Summary, after: Summary, gaps: Sequence[int]) -> bool:
    alike = before.level == after.level and before.presence == after.presence
    return alike and not any(before.last_pos < pos < after.first_pos for pos in gaps)


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
    volume = _volume(minis, limits, now=now)
    if volume:
        return Groups((volume,))
    higher = _higher(found, covers, limits)
    if higher:
        return Groups((higher,))
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
    crowded = size(minis) > limits.room_tokens * MINIS_SHARE or len(minis) >= limits.minis_max
    return _first_of(minis, limits) if crowded or now else ()


def _higher(
    found: Sequence[tuple[Summary, ...]], covers: Sequence[Summary], limits: Limits
) -> tuple[Summary, ...]:
    """Neighbours above the minis, if there are too many, or all outgrow their room.

    Of several levels the lowest: what has passed through the most hands is left alone the longest.
    All but its newest at once: the fewer merges, the fewer hands, and the longer the start of a
    prompt stands still.
    """
    above = [s for s in found if s[0].level > 0 and len(s) >= PAIR]
    many = next((s for s in above if len(s) >= LEVEL_MAX), None)
    if many is not None:
        return many[:FAN_MAX]
    if not above or size(covers) <= limits.room_tokens * FULL_SHARE:
        return ()
    lowest = min(above, key=lambda stretch: stretch[0].level)
    return lowest[: max(PAIR, min(FAN_MAX, len(lowest) - 1))]
