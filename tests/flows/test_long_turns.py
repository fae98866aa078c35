"""Turns that no window holds, through the runner and the store: what is linked, kept, said."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import sqlalchemy as sa

from previously import Chat, Memory
from previously.measure import count_tokens
from previously.model import Ask, Message, Summary
from previously.store.schema import summary
from previously.text.lines import lines_of
from tests.engine.makers import Windowed, is_merge
from tests.flows.conftest import Opener

TAIL = (("user", "#tail And now?"), ("assistant", "#tail Now we rest."))
ONE_TURN = {"visible_floors": 2, "fold_every": 1, "auto_volume_summary": False}


def numbered(ask: Ask) -> str:
    """A note that says which numbered words it was made from, and nothing else."""
    told = [w for _, text in ask.material for w in text.split() if w.startswith("#")]
    return f"Between {told[0]} and {told[-1]} nothing was lost."


def with_tools(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """A long log that one reply ends, with groups of one to three calls and their results."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "#0 Look everything up, please."}]
    while len(said) < count - 1:
        n = len(said)
        calls = rng.randint(1, 3)
        body = f"#{n} " + " ".join(f"m{n}k{k}" for k in range(rng.randint(12, 60)))
        if rng.random() < 0.4 and n + 1 + calls < count:
            ids = [f"c{n}-{k}" for k in range(calls)]
            made = [{"id": i, "type": "function", "function": CALLED} for i in ids]
            said.append({"role": "assistant", "content": body, "tool_calls": made})
            said += [
                {"role": "tool", "content": f"#{n + 1 + k} result {n} {k}", "tool_call_id": i}
                for k, i in enumerate(ids)
            ]
        else:
            said.append({"role": "user", "content": body})
    return [*said, {"role": "assistant", "content": f"#{len(said)} That is all."}]


CALLED = {"name": "look_up", "arguments": "{}"}


async def played(memory: Memory, said: list[dict[str, Any]]) -> tuple[Chat, list[Message]]:
    chat = await memory.chat("long", settings=ONE_TURN)
    made = [
        await chat.append(
            one["role"],
            one["content"],
            tool_calls=one.get("tool_calls"),
            tool_call_id=one.get("tool_call_id"),
        )
        for one in said
    ]
    for role, words in TAIL:
        await chat.append(role, words)
    await chat.settle()
    return chat, made


async def stored_stats(memory: Memory) -> dict[int, dict[str, Any]]:
    def read(conn: sa.Connection) -> dict[int, dict[str, Any]]:
        rows = conn.execute(sa.select(summary.c.id, summary.c.stats)).all()
        return {row.id: json.loads(row.stats) for row in rows}

    return await memory._house.store._db.read(read)


@pytest.mark.proves("S-12", "E-15", "E-20", "E-37", "E-38", "E-39", "E-40", "E-41", "E-42")
@pytest.mark.parametrize("seed", range(3))
async def test_turns_of_many_calls_are_linked_whole_and_their_figures_are_exact(
    open_memory: Opener, seed: int
):
    llm = Windowed(1_700, numbered)
    async with open_memory(llm=llm) as memory:
        chat, made = await played(memory, with_tools(random.Random(seed), 64))
        notes = [s async for s in chat.summaries()]
        stats = await stored_stats(memory)
    assert [i for s in notes for i in s.covers] == [m.id for m in made]  # and nothing of the tail
    assert "#tail" not in json.dumps([a.messages for a in llm.asks])
    lines = lines_of(made)
    leaves = [a for a in llm.answered if not is_merge(a)]
    read = sorted((int(text.split()[0][1:]), text) for leaf in leaves for _, text in leaf.material)
    assert [text for _, text in read] == [line.text for line in lines]  # each once, in order
    joined = {line.text for line in lines if line.joined}
    assert not [leaf for leaf in leaves if leaf.material[0][1] in joined]  # no call is left alone
    assert sum(one["chunk_count"] for one in stats.values()) == len(leaves) > len(notes)
    for note in notes:
        check_figures(note, stats[note.id], [m for m in made if m.id in note.covers])


def check_figures(note: Summary, stats: dict[str, Any], sources: list[Message]) -> None:
    lines = lines_of(sources)
    assert stats["truncated"] is False
    assert stats["input_tokens"] == sum(line.tokens for line in lines)
    assert stats["output_tokens"] == note.tokens == count_tokens(note.text)
    assert stats["compression_ratio"] == round(note.tokens / stats["input_tokens"], 4)
    assert (stats["max_depth"] > 0) == (stats["chunk_count"] > 1)
    first, last = (line.text.split()[0] for line in (lines[0], lines[-1]))
    assert note.text == f"Between {first} and {last} nothing was lost."  # left before right


@pytest.mark.proves("S-13", "E-24", "G-59", "G-60")
async def test_one_giant_message_is_noted_whole(open_memory: Opener):
    family = "\U0001f469\u200d\U0001f467\u200d\U0001f466"
    giant = "".join(f"白娅在第{n}级台阶下藏了银币{family}林川答应保密e\u0301" for n in range(8_000))
    llm = Windowed(8_000, lambda ask: f"这一段有{len(ask.material)}处。")
    async with open_memory(llm=llm) as memory:
        chat, made = await played(memory, [{"role": "user", "content": giant[:200_000]}])
        notes = [s async for s in chat.summaries()]
        stats = await stored_stats(memory)
    assert [s.covers for s in notes] == [(made[0].id,)]
    assert stats[notes[0].id]["truncated"] is False
    assert stats[notes[0].id]["chunk_count"] > 10
    leaves = [a for a in llm.answered if not is_merge(a)]
    pieces = {a.material[0][1] for a in leaves}
    assert sum(map(len, pieces)) >= 150_000  # equal pieces are asked about once
    assert not [p for p in pieces if p[0] in "\u200d\u0301" or p.endswith("\u200d")]
