"""A snapshot becomes a prompt: messages within the budget, and a trace of how they came there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from previously.lanes import carried, related
from previously.lanes.registry import LANES
from previously.model import (
    START,
    Block,
    Carried,
    Dropped,
    Item,
    ItemKind,
    Message,
    Prompt,
    Recall,
    Recalled,
    Shown,
    Snapshot,
    Summary,
    Trace,
    total_tokens,
    wire_all,
)
from previously.settings import FRAGMENTS_SHARE
from previously.text.pairs import paired
from previously.text.turns import groups, pending_start

OVER_BUDGET = "over its share"
NO_END = 1 << 62
TAIL_SHARE_MIN = 0.25
COVERS_SHARE_MIN = 0.1  # that a question about the past leaves to summaries
FRAGMENTS_BESIDE = 0.08  # of what stands still, that may change with every turn
FRAGMENTS_TOKENS_MIN = 240  # so few are paid for gladly, however short the prompt is
NO_SUMMARY_YET = "over budget, and no summary stands for it yet"


def before_tail(snapshot: Snapshot) -> tuple[Block, ...]:
    """What the fold shows in front of the tail. The same until the fold moves."""
    return tuple(_render(snapshot.lane, snapshot.shown))


def assemble(
    snapshot: Snapshot,
    before: Sequence[Block],
    budget_tokens: int,
    head_tokens: int = 0,
    recall: Recall | None = None,
) -> Prompt:
    """The prompt that the fold shows, cut only where it would not fit.

    `before` is `before_tail` of this snapshot, which the caller may have kept. `head_tokens` is
    what the caller will put in front. The pending turn is never cut.
    """
    split = pending_start(snapshot.tail)
    room = budget_tokens - head_tokens - total_tokens(snapshot.tail[split:])
    tail, shown = _kept(snapshot, before, room, recalls=bool(recall and recall.found))
    if len(shown) < len(snapshot.shown):
        before = tuple(_render(snapshot.lane, shown))
    chosen: tuple[Recalled, ...] = ()
    if recall and recall.found:
        steady = total_tokens(before) + _size(tail)
        chosen = _called_up(recall, _fragments_room(room, steady), shown)
    return _prompt(snapshot, budget_tokens, head_tokens, before, (tail, shown, split, chosen))


def fits(
    snapshot: Snapshot, before: Sequence[Block], budget_tokens: int, head_tokens: int = 0
) -> bool:
    """Whether nothing has to give way, so that recalled lines change nothing else."""
    return total_tokens(before) + total_tokens(snapshot.tail) <= budget_tokens - head_tokens


def tail_from(
    snapshot: Snapshot, before: Sequence[Block], budget_tokens: int, head_tokens: int = 0
) -> int:
    """Where the tail of an ordinary prompt starts: what stands before may be called up.

    That is where the fold says, unless so much waits for its summary that it does not fit.
    """
    split = pending_start(snapshot.tail)
    room = budget_tokens - head_tokens - total_tokens(snapshot.tail[split:])
    fits = total_tokens(before) + total_tokens(snapshot.tail[:split]) <= room
    if fits and not snapshot.tail_cut:
        return snapshot.fold.tail_pos  # nearly every turn: nothing has to be taken apart for it
    tail, _ = _kept(snapshot, before, room, recalls=snapshot.settings.related)
    kept = sum(map(len, tail))
    if kept == split and not snapshot.tail_cut:
        return snapshot.fold.tail_pos
    return snapshot.tail[split - kept].pos if snapshot.tail[split - kept :] else NO_END


def _kept(
    snapshot: Snapshot, before: Sequence[Block], room: int, *, recalls: bool
) -> tuple[list[list[Block]], list[Shown]]:
    """Of the tail in groups and of what is shown before it, what fits.

    Where something has to give way, what is recalled gets its share: that may be what gives way.
    """
    told = snapshot.tail[: pending_start(snapshot.tail)]
    tail, shown = groups(told), list(snapshot.shown)
    if total_tokens(before) + total_tokens(told) > room:
        room -= int(room * FRAGMENTS_SHARE) if recalls else 0
        tail = tail[_drop_oldest(snapshot.lane, total_tokens(before), tail, shown, room) :]
    return [[_raw(m, "tail") for m in group] for group in tail], shown


def answer_room(snapshot: Snapshot, budget_tokens: int, head_tokens: int = 0) -> int:
    """Where the tail of a prompt about the past starts: what stands before may be called up."""
    room = _room(snapshot, budget_tokens, head_tokens)
    split = pending_start(snapshot.tail)
    kept = sum(map(len, _newest(groups(snapshot.tail[:split]), int(room * TAIL_SHARE_MIN))))
    return snapshot.tail[split - kept].pos if snapshot.tail[split - kept :] else NO_END


def assemble_answer(
    snapshot: Snapshot, recall: Recall, budget_tokens: int, head_tokens: int = 0
) -> Prompt:
    """A prompt for a question about the past: a short tail, what the question calls up, and
    summaries in the room that is left. What nothing needs goes to the tail."""
    split = pending_start(snapshot.tail)
    standing = [x for x in snapshot.shown if _stands(x)]
    others = [x for x in snapshot.shown if not _stands(x)]
    room = _room(snapshot, budget_tokens, head_tokens)
    every = groups(snapshot.tail[:split])
    short = sum(map(total_tokens, _newest(every, int(room * TAIL_SHARE_MIN))))
    noted = min(_shown_size(snapshot.lane, others), int(room * COVERS_SHARE_MIN))
    fragments = room - short - noted
    chosen = _called_up(recall, fragments, standing)
    quoted = {r.message.id for r in chosen}
    others = [x for x in others if not (isinstance(x, Message) and x.id in quoted)]
    left = room - short - (related.show(chosen).tokens if chosen else 0)
    others = _newest_shown(snapshot.lane, others, left)
    left -= _shown_size(snapshot.lane, others)
    kept = _newest(every, short + left)
    said = {m.id for group in kept for m in group}
    chosen = tuple(r for r in chosen if r.message.id not in said)
    tail = [[_raw(m, "tail") for m in group] for group in kept]
    shown = sorted([*standing, *others], key=lambda x: not isinstance(x, Carried))
    before = tuple(_render(snapshot.lane, shown))
    return _prompt(snapshot, budget_tokens, head_tokens, before, (tail, shown, split, chosen))


def _room(snapshot: Snapshot, budget_tokens: int, head_tokens: int) -> int:
    """What is left of the budget beside what is always there."""
    pending = snapshot.tail[pending_start(snapshot.tail) :]
    standing = [x for x in snapshot.shown if _stands(x)]
    return budget_tokens - head_tokens - total_tokens(pending) - total_tokens(standing)


def _newest(tail: Sequence[Sequence[Message]], tokens_max: int) -> list[Sequence[Message]]:
    kept: list[Sequence[Message]] = []
    for group in reversed(tail):
        tokens_max -= total_tokens(group)
        if tokens_max < 0:
            break
        kept.append(group)
    return kept[::-1]


def _newest_shown(lane: str, shown: Sequence[Shown], tokens_max: int) -> Sequence[Shown]:
    """Without the oldest, until the rest fits."""
    while shown and (excess := _shown_size(lane, shown) - tokens_max) > 0:
        sizes = accumulate(x.tokens for x in shown)
        dropped = next((i for i, size in enumerate(sizes, 1) if size >= excess), len(shown))
        shown = shown[dropped:]
    return shown


def _shown_size(lane: str, shown: Sequence[Shown]) -> int:
    return total_tokens(tuple(_render(lane, shown)))


def _fragments_room(room: int, steady: int) -> int:
    """Little beside what stands still: every turn calls up something else and pays for it."""
    little = max(FRAGMENTS_TOKENS_MIN, int(steady * FRAGMENTS_BESIDE))
    return min(room - steady, int(room * FRAGMENTS_SHARE), little)


def _called_up(recall: Recall, room: int, shown: Sequence[Shown]) -> tuple[Recalled, ...]:
    """The best of it that fits and that nothing shown says word for word."""
    if not recall.found:
        return ()
    raw = {x.id for x in shown if isinstance(x, Message)}
    said = related.quoted(recall.found, [x for x in shown if isinstance(x, Summary)])
    return related.choose(recall.found, room, raw | said)


Parts = tuple[
    list[list[Block]], list[Shown], int, tuple[Recalled, ...]
]  # tail, what is shown before it, where the pending turn starts, what is called up


def _prompt(
    snapshot: Snapshot, budget_tokens: int, head_tokens: int, before: Sequence[Block], parts: Parts
) -> Prompt:
    tail, shown, split, chosen = parts
    pending = [_raw(m, "pending") for m in snapshot.tail[split:]]
    fragments = (related.show(chosen),) if chosen else ()
    blocks, mended = paired((*before, *(b for group in tail for b in group), *fragments, *pending))
    tokens = head_tokens + total_tokens(blocks)
    trace = Trace(
        budget_tokens=budget_tokens,
        tokens=tokens,
        fold=snapshot.fold,
        blocks=blocks,
        dropped=tuple(_dropped(snapshot, shown, tail, split)),
        notes=(*mended, *_left_out(snapshot, shown), *_notes(tokens, budget_tokens)),
        recalled=chosen,
    )
    return Prompt(wire_all(blocks), tokens, trace)


def _render(lane: str, shown: Sequence[Shown]) -> Iterator[Block]:
    for kind, things in groupby(shown, type):
        if kind is Carried:
            yield carried.show([x for x in things if isinstance(x, Carried)])
        elif kind is Summary:
            yield LANES[lane].show([x for x in things if isinstance(x, Summary)])
        else:
            for message in things:
                assert isinstance(message, Message)
                yield _raw(message, "standing" if message.pinned else "raw")


def _raw(message: Message, place: str) -> Block:
    return Block(place, message.wire(), message.tokens, (Item(ItemKind.MESSAGE, message.id),))


def _size(tail: Sequence[Sequence[Block]]) -> int:
    return sum(total_tokens(group) for group in tail)


def _drop_oldest(
    lane: str, before: int, tail: Sequence[Sequence[Message]], shown: list[Shown], room: int
) -> int:
    """Give up one thing after the other until the rest fits: the tail down to a quarter of the
    room, then what is shown before it, then the rest. How much of the tail that takes.

    While a model is slow to write summaries every turn comes here, so sizes are carried along.
    """
    sizes = [total_tokens(group) for group in tail]
    dropped, said = 0, sum(sizes)
    while before + said > room:
        oldest = next((i for i, x in enumerate(shown) if not _stands(x)), None)
        spare = sizes[dropped] if dropped < len(sizes) else None
        if spare is not None and (oldest is None or said - spare >= room * TAIL_SHARE_MIN):
            dropped, said = dropped + 1, said - spare
        elif oldest is not None:
            del shown[oldest]
            before = _shown_size(lane, shown)
        else:
            break
    return dropped


def _stands(thing: Shown) -> bool:
    if isinstance(thing, Carried):
        return thing.stands
    return isinstance(thing, Message) and thing.pinned


def _dropped(
    snapshot: Snapshot,
    shown: Sequence[Shown],
    tail: Sequence[Sequence[Block]],
    split: int,
) -> Iterator[Dropped]:
    fold = snapshot.fold
    own = [x for x in shown if not isinstance(x, Carried)]
    if len(own) < sum(not isinstance(x, Carried) for x in snapshot.shown):
        first = next((_first_pos(x) for x in own if not _stands(x)), fold.tail_pos)
        yield Dropped(START, first, OVER_BUDGET)
    elif fold.from_pos != START:
        yield Dropped(START, fold.from_pos, OVER_BUDGET)
    gone = split - sum(len(group) for group in tail)
    if gone or snapshot.tail_cut:
        end = snapshot.tail[gone].pos if gone < len(snapshot.tail) else NO_END
        yield Dropped(fold.tail_pos, end, NO_SUMMARY_YET)


def _first_pos(thing: Message | Summary) -> int:
    return thing.first_pos if isinstance(thing, Summary) else thing.pos


def _left_out(snapshot: Snapshot, shown: Sequence[Shown]) -> tuple[str, ...]:
    """What an earlier chat has handed on has no place in the order: it is named here."""
    gone = [x for x in snapshot.shown if isinstance(x, Carried) and x not in shown]
    return (f"{len(gone)} carried over left out: over budget",) if gone else ()


def _notes(tokens: int, budget_tokens: int) -> tuple[str, ...]:
    if tokens <= budget_tokens:
        return ()
    return (f"over budget by {tokens - budget_tokens} tokens: the pending turn is never cut",)
