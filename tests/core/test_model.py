from __future__ import annotations

import json
from typing import Any

import pytest

from previously.errors import BadInput
from previously.model import Ask, Item, Message, NewMessage, Task, Uncovered, birth, digest, key
from tests.core.makers import CHAT, message, mini, talk


def task(sources: tuple[Message, ...], uncovered: tuple[Message, ...]) -> Task:
    return Task(
        chat=CHAT,
        lane="volumes",
        kind="mini",
        sources=sources,
        context=(),
        tokens_max=50,
        language="en",
        uncovered=Uncovered((uncovered,)),
    )


def test_a_task_with_a_gap_cannot_be_built():
    said = talk(6)
    assert task(said[1:4], said).sources == said[1:4]
    with pytest.raises(ValueError, match="every uncovered message"):
        task((said[1], said[3]), said)
    with pytest.raises(ValueError, match="every uncovered message"):
        task(said[3:0:-1], said)
    with pytest.raises(ValueError, match="every uncovered message"):
        task(said[1:4], said[2:])
    with pytest.raises(ValueError, match="reads messages, or summaries"):
        task((), said)


def test_a_task_is_known_by_its_sources_and_their_content():
    said = talk(4)
    edited = (said[0], message(3, body="another text"), *said[2:])
    assert task(said[:2], said).id == task(said[:2], said).id
    assert task(said[:2], said).id != task(said[:3], said).id
    assert task(said[:2], said).id != task(edited[:2], edited).id


def test_digest_parts_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest(None) != digest("")
    assert len(digest("x\ud800")) == 16


def test_a_key_holds_chat_and_birth_number():
    assert key(7, 9) >> 32 == 7
    assert birth(key(7, 9)) == 9


def test_an_item_is_written_down_and_read_back():
    for thing in (message(5), mini(3, talk(2))):
        item = Item.of(thing)
        assert Item.parse(CHAT.id, str(item)) == item
    assert str(Item.of(message(5))) == "m5"
    assert str(Item.of(mini(3, talk(2)))) == "s3"


@pytest.mark.parametrize(
    ("fields", "eligible"),
    [
        ({}, True),
        ({"body": " \u3000\n"}, False),
        ({"body": "", "tool_calls": "[]"}, True),
        ({"kind": "notice"}, False),
        ({"kind": "summary_placeholder"}, False),
        ({"state": "candidate"}, False),
        ({"hidden_by": "user"}, False),
        ({"hidden_by": "system"}, True),
        ({"excluded": True}, False),
        ({"pinned": True}, False),
        ({"deleted_at_ms": 1}, False),
    ],
)
@pytest.mark.proves("G-106")
def test_one_rule_says_what_a_summary_may_stand_for(fields: dict[str, Any], eligible: bool):
    assert message(3, **fields).eligible is eligible


def test_a_message_goes_back_on_the_wire_as_it_came():
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    silent = message(3, "assistant", "", tool_calls=json.dumps(calls))
    assert silent.wire() == {"role": "assistant", "tool_calls": calls}
    assert message(4, "tool", "ok", tool_call_id="a").wire() == {
        "role": "tool",
        "content": "ok",
        "tool_call_id": "a",
    }
    parts = [{"type": "text", "text": "look"}]
    shown = message(6, "user", "look", parts=json.dumps(parts), name="Mara", extra='{"x": 1}')
    assert shown.wire() == {"x": 1, "role": "user", "content": parts, "name": "Mara"}
    assert shown.speaker == "Mara"
    assert silent.speaker == "assistant"


def test_a_role_that_nobody_knows_is_refused():
    with pytest.raises(BadInput, match="wizard"):
        NewMessage("wizard", "x")


def test_a_request_is_known_by_everything_that_determines_its_answer():
    ask = Ask(({"role": "user", "content": "a"},), (), 50, "en")
    assert ask.hash == Ask(({"role": "user", "content": "a"},), (("x", "y"),), 50, "zh").hash
    assert ask.hash != Ask(({"role": "user", "content": "a"},), (), 51, "en").hash
    assert ask.hash != Ask(({"role": "user", "content": "b"},), (), 50, "en").hash
