"""A snapshot becomes a prompt: messages within the budget, and a trace of how they came there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from previously.lanes.registry import LANES
from previously.model import (
    START,
    Block,
    Dropped,
    Item,
    Message,
    Prompt,
    Snapshot,
    Summary,
    Trace,
    total_tokens,
    wire_all,
)
from previously.text.pairs import paired
from previously.text.turns import groups, pending_start

OVER_BUDGET = "over its share"
NO_END = 1 << 62
TAIL_SHARE_MIN = 0.25
NO_SUMMARY_YET = "over budget, and no summary stands for it yet"


def before_tail(snapshot: Snapshot) -> tuple[Block, ...]:
    """What the fold shows in front of the tail. The same until the fold moves."""
    return tuple(_render(snapshot.lane, snapshot.shown))


def assemble(
    snapshot: Snapshot,
    before: Sequence[Block],
    budget_tokens: int,
    head_tokens: int = 0,
) -> Prompt:
    """The prompt that the fold shows, cut only where it would not fit.

    `before` is `before_tail` of this snapshot, which the caller may have kept. `head_tokens` is
    what the caller will put in front. The pending turn is never cut.
    """
    split = pending_start(snapshot.tail)
    pending = [_raw(m, "pending") for m in snapshot.tail[split:]]
    tail = [[_raw(m, "tail") for m in group] for group in groups(snapshot.tail[:split])]
    room = budget_tokens - head_tokens - total_tokens(pending)
    shown = list(snapshot.shown)
    while total_tokens(before) + _size(tail) > room and _drop_oldest(tail, shown, room):
        before = tuple(_render(snapshot.lane, shown))
    blocks, mended = paired((*before, *(b for group in tail for b in group), *pending))
    tokens = head_tokens + total_tokens(blocks)
    trace = Trace(
        budget_tokens=budget_tokens,
        tokens=tokens,
        fold=snapshot.fold,
        blocks=blocks,
        dropped=tuple(_dropped(snapshot, shown, tail, split)),
        notes=(*mended, *_notes(tokens, budget_tokens)),
    )
    return Prompt(wire_all(blocks), tokens, trace)


def _render(lane: str, shown: Sequence[Message | Summary]) -> Iterator[Block]:
    for is_cover, things in groupby(shown, lambda x: isinstance(x, Summary)):
        if is_cover:
            yield LANES[lane].show([x for x in things if isinstance(x, Summary)])
        else:
            for message in things:
                assert isinstance(message, Message)
                yield _raw(message, "standing" if message.pinned else "raw")


def _raw(message: Message, place: str) -> Block:
    return Block(place, message.wire(), message.tokens, (Item.of(message),))


def _size(tail: Sequence[Sequence[Block]]) -> int:
    return sum(total_tokens(group) for group in tail)


def _drop_oldest(tail: list[list[Block]], shown: list[Message | Summary], room: int) -> bool:
    """Give up one thing: the tail down to a quarter of the room, then covers, then the rest."""
    oldest = next((i for i, x in enumerate(shown) if not _stands(x)), None)
    if tail and (oldest is None or _size(tail[1:]) >= room * TAIL_SHARE_MIN):
        del tail[0]
        return True
    if oldest is not None:
        del shown[oldest]
        return True
    return False


def _stands(thing: Message | Summary) -> bool:
    return isinstance(thing, Message) and thing.pinned


def _dropped(
    snapshot: Snapshot,
    shown: Sequence[Message | Summary],
    tail: Sequence[Sequence[Block]],
    split: int,
) -> Iterator[Dropped]:
    fold = snapshot.fold
    left = len(snapshot.shown) - len(shown)
    if left:
        first = next((_first_pos(x) for x in shown if not _stands(x)), fold.tail_pos)
        yield Dropped(START, first, OVER_BUDGET)
    elif fold.from_pos != START:
        yield Dropped(START, fold.from_pos, OVER_BUDGET)
    gone = split - sum(len(group) for group in tail)
    if gone or snapshot.tail_cut:
        end = snapshot.tail[gone].pos if gone < len(snapshot.tail) else NO_END
        yield Dropped(fold.tail_pos, end, NO_SUMMARY_YET)


def _first_pos(thing: Message | Summary) -> int:
    return thing.first_pos if isinstance(thing, Summary) else thing.pos


def _notes(tokens: int, budget_tokens: int) -> tuple[str, ...]:
    if tokens <= budget_tokens:
        return ()
    return (f"over budget by {tokens - budget_tokens} tokens: the pending turn is never cut",)
