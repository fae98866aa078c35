"""Whatever the material and the window: a run ends, and reads everything exactly once."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from previously.engine import Engine, Limits, text_request
from previously.errors import DraftRejected, TooLong
from previously.model import Accepted, Ask, Line, Message, Part, Reply
from previously.text.lines import lines_of
from tests.core.makers import message
from tests.engine.makers import SECRET, Shelf, Windowed

WORDS = st.sampled_from(
    ["银币", "灯塔。", "promise ", "Vell. ", "\n\n", "\n", "👩\u200d👧", "e\u0301", "```\n", "17 "]
)
BODIES = st.one_of(
    st.lists(WORDS, min_size=1, max_size=30).map("".join),
    st.tuples(st.lists(WORDS, min_size=5, max_size=20), st.integers(20, 60)).map(
        # No two places alike, so that a piece of it can be told where it stood.
        lambda x: "".join(f"{k};{''.join(x[0])}" for k in range(1_000, 1_000 + x[1]))
    ),
)


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Messages with gaps in their positions, tool groups among them."""
    messages: list[Message] = []
    n = 0
    for _ in range(draw(st.integers(1, 24))):
        n += draw(st.integers(1, 5))
        calls = draw(st.sampled_from([0, 0, 0, 1, 2]))
        made = [
            {"id": f"{n}-{k}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for k in range(calls)
        ]
        body = f"{n}: " + draw(BODIES)
        if not calls:
            messages.append(message(n, "", body))
            continue
        messages.append(message(n, "assistant", body, tool_calls=json.dumps(made)))
        for k in range(calls):
            n += 1
            result = f"{n}: " + draw(BODIES)
            messages.append(message(n, "tool", result, tool_call_id=made[k]["id"]))
    return messages


class Noting:
    """A request that writes down every part it is asked about."""

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self._inner = text_request(lines, preset="volumes", tokens_max=120, language="en")
        self.lines = lines
        self.tokens_max = 120
        self.language = "en"
        self.chat = None
        self.read: list[Part] = []

    def ask(self, part: Part, fence: str) -> Ask:
        return self._inner.ask(part, fence)

    def accept(self, part: Part, reply: Reply, *, last: bool) -> Accepted:
        if part.lines:
            self.read.append(part)
        return Accepted(reply.text, 8)


def in_order(parts: Sequence[Part], lines: Sequence[Line]) -> list[Line]:
    """Every piece that was read, where it stands in the material."""
    order = {line.source: n for n, line in enumerate(lines)}
    pieces = [line for part in parts for line in part.lines]
    found: list[Line] = []
    for line in lines:
        left = [p for p in pieces if p.source == line.source]
        text = line.text
        while left and text:
            piece = max((p for p in left if text.startswith(p.text)), key=lambda p: len(p.text))
            left.remove(piece)
            found.append(piece)
            text = text[len(piece.text) :]
        assert not left, "read twice"
    return sorted(found, key=lambda p: order[p.source])


@tries(max_examples=80)
@given(
    talks(),
    st.integers(700, 6_000),
    st.booleans(),
    st.integers(1, 120),
    st.integers(0, 12),
    st.integers(2, 8),
)
async def test_a_run_ends_and_reads_everything_once(
    messages: list[Message], window: int, says: bool, calls_max: int, depth: int, fan_in: int
):
    request = Noting(lines_of(messages))
    llm = Windowed(window, lambda _: "A note on it.", says=says)
    limits = Limits(calls_max=calls_max, depth_max=depth, fan_in=fan_in)
    try:
        made = await Engine(llm, Shelf(), SECRET, limits=limits).summarise(request)
    except (TooLong, DraftRejected):
        assert len(llm.asks) <= calls_max
        return
    stats = made.stats
    assert len(llm.asks) == stats["calls"] <= calls_max
    assert stats["chunk_count"] == len(request.read)
    assert stats["max_depth"] <= depth
    assert stats["truncated"] == bool(stats["truncated_messages"])
    if stats["truncated"]:
        return
    pieces = in_order(request.read, request.lines)
    assert "".join(p.text for p in pieces) == "".join(x.text for x in request.lines)
    cut = {p.source for p in pieces if p.continued}
    whole_groups(request, cut)


def whole_groups(request: Noting, cut: set[int]) -> None:
    """A group is in one part, unless it had to be cut inside one of its own messages."""
    group: list[int] = []
    for line in (*request.lines, None):
        if line is not None and (not group or line.joined):
            group.append(line.source)
            continue
        if not cut.intersection(group):
            parts = [p for p in request.read if {x.source for x in p.lines} & set(group)]
            assert len(parts) == 1 or _oversized(request, group), group
        group = [] if line is None else [line.source]


def _oversized(request: Noting, group: list[int]) -> bool:
    """Parted between its messages, as the text's own best place, because it fits nowhere whole."""
    return len(group) > 1 and all(
        {x.source for x in p.lines} <= set(group)
        for p in request.read
        if {x.source for x in p.lines} & set(group)
    )
