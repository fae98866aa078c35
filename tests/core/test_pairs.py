from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.model import Block
from previously.text.pairs import NO_RESULT, paired


def block(role: str, **fields: Any) -> Block:
    return Block("tail", {"role": role, "content": "x", **fields}, 5)


def call(*ids: str) -> Block:
    return block("assistant", tool_calls=[{"id": i} for i in ids])


def result(of: str) -> Block:
    return block("tool", tool_call_id=of)


def violations(blocks: tuple[Block, ...]) -> list[str]:
    """What a provider would refuse."""
    bad: list[str] = []
    waiting: set[str] = set()
    for b in blocks:
        if b.wire["role"] == "tool":
            if b.wire["tool_call_id"] not in waiting:
                bad.append("orphan result")
            waiting.discard(b.wire["tool_call_id"])
            continue
        if waiting:
            bad.append("orphan call")
        waiting = {c["id"] for c in b.wire.get("tool_calls", ())}
    return bad


@pytest.mark.proves("G-102", "E-54")
def test_a_result_without_its_call_is_left_out_and_said_so():
    blocks, notes = paired([block("user"), result("a"), block("assistant")])
    assert [b.wire["role"] for b in blocks] == ["user", "assistant"]
    assert notes == ("left out a tool result whose call is not there",)


@pytest.mark.proves("G-102", "E-54")
def test_a_call_without_its_result_is_answered_and_said_so():
    blocks, notes = paired([call("a", "b"), result("b"), block("user")])
    assert [b.wire["role"] for b in blocks] == ["assistant", "tool", "tool", "user"]
    assert blocks[2].wire == {"role": "tool", "tool_call_id": "a", "content": NO_RESULT}
    assert blocks[2].tokens > 5
    assert len(notes) == 1


def test_calls_at_the_end_still_wait():
    blocks = (block("user"), call("a"))
    assert paired(blocks) == (blocks, ())


def test_talk_without_tools_is_not_looked_at_twice():
    blocks = (block("user"), block("assistant"))
    assert paired(blocks) == (blocks, ())


def calling(ids: list[str]) -> Block:
    return call(*ids)


pieces = st.one_of(
    st.builds(block, st.sampled_from(["user", "assistant", "system"])),
    st.builds(calling, st.lists(st.sampled_from("abc"), unique=True, min_size=1)),
    st.builds(result, st.sampled_from("abc")),
)


@pytest.mark.proves("G-102")
@given(st.lists(pieces, max_size=20))
def test_nothing_that_a_provider_refuses_is_left(blocks: list[Block]):
    mended, notes = paired(blocks)
    assert violations(mended) == []
    assert paired(mended) == (mended, ())
    assert bool(notes) == (list(mended) != blocks)
    words = [b for b in blocks if b.wire["role"] != "tool"]
    assert [b for b in mended if b.wire["role"] != "tool"] == words
    assert json.dumps([dict(b.wire) for b in mended])
