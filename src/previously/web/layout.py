"""Where a client's own messages go in the prompt that is sent in their place.

Its instructions in front and at the end stay there. What it injects into the history stays beside
the message that it stood beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from previously.align import Alignment
from previously.model import Block, Wire

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Loose:
    """An instruction inside the history, between two messages."""

    raw: Raw
    after: int | None
    before: int | None
    stays: bool  # also where neither of them is shown


@dataclass(frozen=True, slots=True)
class Layout:
    """A client's messages by what they are."""

    head: Sequence[Raw] = ()
    own: Mapping[int, Raw] = field(default_factory=dict[int, Raw])  # by the message they show
    joined: Mapping[int, Sequence[int]] = field(default_factory=dict[int, "tuple[int, ...]"])
    loose: Sequence[Loose] = ()
    tail: Sequence[Raw] = ()

    def rendered(self, blocks: Iterable[Block]) -> list[Raw]:
        """These blocks in the client's frame, with its own object where it sent one itself."""
        return [raw for _, raw in self.laid(list(blocks))]

    def moved(self, places: Sequence[int], blocks: Sequence[Block]) -> list[int]:
        """Places behind the head and among the blocks, as places among the rendered messages."""
        at: dict[int, int] = {}
        for place, (number, _) in enumerate(self.laid(blocks)):
            if number is not None:
                at[number] = place
        for number in range(len(blocks)):
            at.setdefault(number, at.get(number - 1, len(self.head) - 1))  # joined to that one
        head = len(self.head)
        return sorted({place if place < head else at[place - head] for place in places})

    def laid(self, blocks: Sequence[Block]) -> Iterator[tuple[int | None, Raw]]:
        """Every message in order, with the number of the block that it shows."""
        ids = [_id_of(block) for block in blocks]
        if not self.loose and not self.joined:
            yield from self._laid_simply(blocks, ids)
            return
        shown = {i for i in ids if i is not None}
        before, after = self._beside(shown, next((i for i in ids if i is not None), None))
        for raw in self.head:
            yield None, raw
        for number, (block, message_id) in enumerate(zip(blocks, ids, strict=True)):
            if message_id is None:
                yield number, _as_it_is(block)
                continue
            yield from ((None, raw) for raw in before.get(message_id, ()))
            whole = self.joined.get(message_id, (message_id,))
            if not shown.issuperset(whole):
                yield number, _as_it_is(block)  # the rest of that message stands in a summary
            elif message_id == whole[0]:
                yield number, self.own.get(message_id) or _as_it_is(block)
            yield from ((None, raw) for raw in after.get(message_id, ()))
        for raw in self.tail:
            yield None, raw

    def _laid_simply(
        self, blocks: Sequence[Block], ids: Sequence[int | None]
    ) -> Iterator[tuple[int | None, Raw]]:
        """The same where nothing stands between messages: nearly every request."""
        yield from [(None, raw) for raw in self.head]
        for number, (block, message_id) in enumerate(zip(blocks, ids, strict=True)):
            own = None if message_id is None else self.own.get(message_id)
            yield number, own or _as_it_is(block)
        yield from [(None, raw) for raw in self.tail]

    def _beside(
        self, shown: set[int], first: int | None
    ) -> tuple[dict[int, list[Raw]], dict[int, list[Raw]]]:
        """What stands before and behind each message."""
        before: dict[int, list[Raw]] = {}
        after: dict[int, list[Raw]] = {}
        for one in self.loose:
            if one.before in shown:
                before.setdefault(one.before, []).append(one.raw)
            elif one.after in shown:
                after.setdefault(one.after, []).append(one.raw)
            elif one.stays and first is not None:
                before.setdefault(first, []).append(one.raw)
        return before, after


NO_LAYOUT = Layout()


def laid_out(raw: Sequence[Raw], found: Alignment, new_ids: Sequence[int]) -> Layout:
    """The frame that a request leaves around its history."""
    parts = [place.part for place in found.places]
    own: dict[int, Raw] = {}
    joined: dict[int, tuple[int, ...]] = {}
    for one, place in zip(raw, found.places, strict=True):
        ids = (*place.ids, *[new_ids[k] for k in place.new])
        for i in ids:
            own[i] = one
        if len(ids) > 1:
            joined |= dict.fromkeys(ids, ids)
    return Layout(
        head=[one for one, part in zip(raw, parts, strict=True) if part == "head"],
        own=own,
        joined=joined,
        loose=list(_loose(raw, found, new_ids)) if "loose" in parts else [],
        tail=[one for one, part in zip(raw, parts, strict=True) if part == "tail"],
    )


def _loose(raw: Sequence[Raw], found: Alignment, new_ids: Sequence[int]) -> Iterator[Loose]:
    ids = [(*place.ids, *(new_ids[k] for k in place.new)) for place in found.places]
    following: list[int | None] = []
    after: int | None = None
    for mine in reversed(ids):
        following.append(after)
        after = mine[0] if mine else after
    following.reverse()
    previous: int | None = None
    for one, place, mine, before in zip(raw, found.places, ids, following, strict=True):
        if place.part == "loose":
            yield Loose(one, previous, before, place.stays)
        previous = mine[-1] if mine else previous


def _as_it_is(block: Block) -> Raw:
    """Its message, with the items that it was where it was some."""
    return block.wire if isinstance(block.wire, Wire) else dict(block.wire)


def _id_of(block: Block) -> int | None:
    """The message that a block shows as it was said."""
    if len(block.sources) != 1 or block.place == "fragment":
        return None
    shown = block.sources[0]
    return shown.id if shown.is_message else None
