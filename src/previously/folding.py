"""When the tail is folded, and what the fold then shows. Pure: a decision, for others to store.

Between two folds a prompt only grows at its end, so that the provider's cache keeps hitting. All
that would change an earlier part waits for the next fold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from previously.lanes import carried
from previously.lanes.levels import LABEL_TOKENS, LINE_TOKENS
from previously.lanes.registry import LANES
from previously.model import (
    Carried,
    Fold,
    Item,
    Message,
    Shown,
    Snapshot,
    State,
    Summary,
    Uncovered,
    total_tokens,
)
from previously.settings import TAIL_SHARE, TAIL_SHARE_MAX
from previously.text.turns import tail_start

COLD_AFTER_MS = 600_000  # by then hosted prompt caches have forgotten a prefix

STALE = "something it showed has changed"
HIGH_MARK = "the tail reached its high mark"
TOO_LARGE = "the tail outgrew its share of the budget"
FIRST = "the first prompt at this budget"
COLD = "the provider's cache had gone cold"


def seen_by(snapshot: Snapshot, audience: Collection[str]) -> Snapshot:
    """The snapshot with only what all of the audience were there for."""
    people = frozenset(audience)

    def was_there(thing: Shown) -> bool:
        return thing.presence is None or people <= snapshot.presences.get(thing.presence, people)

    backlog = snapshot.backlog
    if backlog is not None:
        runs = (tuple(filter(was_there, run)) for run in backlog.uncovered.runs)
        backlog = replace(
            backlog,
            uncovered=Uncovered(tuple(run for run in runs if run)),
            covers=tuple(filter(was_there, backlog.covers)),
            standing=tuple(filter(was_there, backlog.standing)),
            carried=tuple(filter(was_there, backlog.carried)),
        )
    return replace(
        snapshot,
        tail=tuple(filter(was_there, snapshot.tail)),
        shown=tuple(filter(was_there, snapshot.shown)),
        backlog=backlog,
    )


def wanted(snapshot: Snapshot, room_tokens: int, now_ms: int) -> str | None:
    """Why the fold should move now, if it should and something is there to gain.

    `room_tokens` is the budget less what is fixed. Reads nothing but fold, tail and `covered_to`.
    """
    if snapshot.fold.version == 0:
        return FIRST
    if snapshot.fold.stale:
        return STALE
    return TOO_LARGE if _was_cut_too_short(snapshot) else _growth(snapshot, room_tokens, now_ms)


def only_onward(reason: str) -> bool:
    """Whether a fold that moves for this can only leave more behind: the tail has grown."""
    return reason in (HIGH_MARK, TOO_LARGE, COLD)


def _was_cut_too_short(snapshot: Snapshot) -> bool:
    """Whether there is a summary by now of something before the part that is loaded."""
    return snapshot.tail_cut and snapshot.fold.tail_pos <= snapshot.covered_to


def _growth(snapshot: Snapshot, room_tokens: int, now_ms: int) -> str | None:
    tail, settings = snapshot.tail, snapshot.settings
    too_large = total_tokens(tail) > room_tokens * TAIL_SHARE_MAX
    high = len(tail) >= settings.high_mark
    cold = len(tail) > 1 and now_ms - tail[-2].created_at_ms > COLD_AFTER_MS
    if not (too_large or high or cold):
        return None  # nearly every turn: where the tail could start need not be known
    start = tail_start(tail, settings.visible_floors, int(room_tokens * TAIL_SHARE))
    gain = sum(1 for m in tail[:start] if m.pos <= snapshot.covered_to)
    if gain == 0:
        return None
    if too_large:
        return TOO_LARGE
    if gain < max(1, settings.fold_every // 2):
        return None
    return HIGH_MARK if high else COLD


def move(snapshot: Snapshot, room_tokens: int, reason: str) -> Snapshot:
    """The snapshot under its next fold: the tail at its low mark, covers and raw holes before it.

    Needs the backlog. A message leaves the tail only behind a valid cover, or stays as it is.
    """
    assert snapshot.backlog is not None
    settings = snapshot.settings
    index = tail_start(snapshot.tail, settings.visible_floors, int(room_tokens * TAIL_SHARE))
    tail_pos = snapshot.tail[index].pos if snapshot.tail else snapshot.fold.tail_pos
    tail_pos = min(tail_pos, _first_waiting(snapshot, tail_pos))
    covers = _opened(LANES[snapshot.lane].covers(snapshot), snapshot.backlog.children, tail_pos)
    tail_pos = _whole_covers(covers, tail_pos)
    before = _before(snapshot, covers, tail_pos)
    handed_on, kept = _sharing(snapshot, before, int(room_tokens * settings.covers_share))
    shown: tuple[Shown, ...] = (
        *handed_on,
        *(m for m in snapshot.backlog.standing if m.pos < tail_pos),
        *kept,
    )
    fold = Fold(
        key=snapshot.fold.key,
        version=snapshot.fold.version + 1,
        tail_pos=tail_pos,
        from_pos=snapshot.backlog.from_pos if kept == before else _start(kept, tail_pos),
        items=tuple(map(Item.of, shown)),
        room_tokens=room_tokens,
        reason=reason,
    )
    tail = tuple(m for m in snapshot.tail if m.pos >= tail_pos)
    cut = snapshot.tail_cut and tail_pos < snapshot.tail[0].pos
    return replace(snapshot, fold=fold, shown=shown, tail=tail, tail_cut=cut)


def _sharing(
    snapshot: Snapshot, before: Sequence[Message | Summary], tokens_max: int
) -> tuple[tuple[Carried, ...], list[Message | Summary]]:
    """What an earlier chat has handed on and what stands for this one's past, in one share."""
    assert snapshot.backlog is not None
    kept = _newest_within(before, tokens_max)
    if not snapshot.backlog.carried:
        return (), kept
    free = tokens_max - _size(kept)
    fitting = max(free, int(tokens_max * carried.SHARE_MIN))
    handed_on = carried.within(snapshot.backlog.carried, fitting)
    return handed_on, _newest_within(before, tokens_max - carried.size(handed_on))


def _first_waiting(snapshot: Snapshot, tail_pos: int) -> int:
    """The first message whose summary is still to come: it stays in the tail.

    It may stand before the part of a long tail that is loaded; then the prompt lists it as
    dropped. Single holes further back are carried along as they are.
    """
    assert snapshot.backlog is not None
    waiting = [m.pos for m in snapshot.tail if _waits(m, snapshot.covered_to)]
    if snapshot.tail_cut:
        runs = snapshot.backlog.uncovered.runs
        waiting += [m.pos for run in runs for m in run if m.pos > snapshot.covered_to]
    return min(waiting, default=tail_pos)


def _waits(message: Message, covered_to: int) -> bool:
    """Whether a summary will stand for it once it is confirmed and written about."""
    expected = message.eligible or message.state == State.CANDIDATE
    return message.pos > covered_to and expected


def _opened(
    covers: Sequence[Summary], children: Mapping[int, tuple[Summary, ...]], tail_pos: int
) -> list[Summary]:
    """The covers, with what it was made of in place of one that would reach into the tail."""
    found: list[Summary] = []
    for cover in covers:
        if cover.first_pos < tail_pos <= cover.last_pos:
            found += _opened(children.get(cover.id, ()), children, tail_pos) or [cover]
        else:
            found.append(cover)
    return found


def _whole_covers(covers: Sequence[Summary], tail_pos: int) -> int:
    """Pull the tail back to the start of a cover that would reach into it."""
    for cover in reversed(covers):
        if cover.first_pos < tail_pos <= cover.last_pos:
            tail_pos = cover.first_pos
    return tail_pos


def _before(
    snapshot: Snapshot, covers: Sequence[Summary], tail_pos: int
) -> list[Message | Summary]:
    """Covers, and messages that none stands for, in their order before the tail."""
    assert snapshot.backlog is not None
    from_pos = snapshot.backlog.from_pos
    chosen: list[Message | Summary] = [
        s for s in covers if s.last_pos < tail_pos and s.first_pos >= from_pos
    ]
    for run in snapshot.backlog.uncovered.runs:
        chosen += [m for m in run if from_pos <= m.pos < tail_pos]
    return sorted(chosen, key=_first_pos)


def _start(kept: Sequence[Message | Summary], tail_pos: int) -> int:
    return _first_pos(kept[0]) if kept else tail_pos


def _first_pos(thing: Message | Summary) -> int:
    return thing.first_pos if isinstance(thing, Summary) else thing.pos


def _size(things: Sequence[Message | Summary]) -> int:
    return LABEL_TOKENS + sum(thing.tokens + LINE_TOKENS for thing in things) if things else 0


def _newest_within(things: Sequence[Message | Summary], tokens_max: int) -> list[Message | Summary]:
    kept: list[Message | Summary] = []
    size = LABEL_TOKENS
    for thing in reversed(things):
        size += thing.tokens + LINE_TOKENS
        if size > tokens_max:
            break
        kept.append(thing)
    return kept[::-1]
