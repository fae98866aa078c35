from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from previously.model import Block
from previously.service import OWNER
from previously.web.marks import has_marks, marked, places
from tests.web.rig import Talk, opened, say
from tests.web.test_turns import SMALL, words

CONTROL = {"cache_control": {"type": "ephemeral"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def blocks(*kinds: str) -> list[Block]:
    return [Block(kind, {"role": "user", "content": kind}, 1) for kind in kinds]


@pytest.mark.parametrize(
    ("head", "kinds", "at"),
    [
        (0, ["pending"], [0]),
        (1, ["pending"], [0, 1]),
        (2, ["cover", "tail", "tail", "pending"], [1, 2, 5]),
        (2, ["cover", "tail", "tail", "fragment", "pending"], [1, 2, 4]),
        (1, ["standing", "cover", "raw", "cover", "tail", "pending"], [1, 4, 6]),
        (0, ["cover", "fragment", "pending"], [0]),
        (0, [], []),
    ],
)
def test_marks_stand_where_the_next_prompt_may_differ(
    head: int, kinds: list[str], at: list[int]
) -> None:
    assert places(head, blocks(*kinds)) == at


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "head"},
    {"role": "system", "content": "notes", "x": 1},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": [{}]},
    {"role": "assistant", "content": "said"},
]


def test_anthropics_marks_are_set_on_parts() -> None:
    made = marked(MESSAGES, [0, 1, 4], "anthropic")
    assert made[0]["content"] == [{"type": "text", "text": "head", **CONTROL}]
    assert made[1] == {
        "role": "system",
        "content": [{"type": "text", "text": "notes", **CONTROL}],
        "x": 1,
    }
    assert made[4]["content"][0] == {"type": "text", "text": "said", **CONTROL}
    assert made[2:4] == MESSAGES[2:4]
    assert MESSAGES[0]["content"] == "head"


def test_a_message_that_can_bear_none_leaves_it_to_the_one_before() -> None:
    made = marked(MESSAGES, [3], "anthropic")
    assert made[2]["content"][-1] == {"type": "image_url", **CONTROL}
    made = marked(MESSAGES, [2, 4], "openai")
    assert [m for m in range(5) if made[m] != MESSAGES[m]] == [2]
    assert made[2]["content"][-1] == {"type": "image_url", **BREAKPOINT}


def test_there_are_never_more_than_a_provider_takes() -> None:
    many = [{"role": "user", "content": str(i)} for i in range(9)]
    for style, most in (("anthropic", 4), ("openai", 3)):
        made = marked(many, list(range(9)), style)
        assert sum(isinstance(m["content"], list) for m in made) == most


def test_a_client_that_marks_itself_is_left_alone() -> None:
    assert has_marks(b'{"messages":[{"cache_control":{}}]}')
    assert has_marks(b'{"prompt_cache_options":{}}')
    assert not has_marks(b'{"messages":[]}')


async def test_a_profile_that_asks_for_marks_gets_them(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=SMALL) as door:
        about = {"name": "about m", "base_url": door.upstream.url, "model": "m"}
        values = {**about, "source": "openai", "output_tokens": 100, "cache_marks": "anthropic"}
        await door.house.store.put_profile(OWNER, values)
        client, talk = door.client(), Talk([{"role": "system", "content": "head"}])
        for turn in range(20):
            await say(client, talk, words(turn))
        sent = door.upstream.requests[-1]
        assert sent.messages[0]["content"] == [{"type": "text", "text": "head", **CONTROL}]
        assert 2 <= json.dumps(sent.messages).count("cache_control") <= 4
        own = {"role": "user", "content": [{"type": "text", "text": "mine", **CONTROL}]}
        await client.chat.completions.create(model="m", messages=cast(Any, [*talk, own]))
        assert json.dumps(door.upstream.requests[-1].messages).count("cache_control") == 1
