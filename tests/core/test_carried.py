"""What an earlier chat has handed on: in front, in its share, and in nobody's way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from previously import folding
from previously.assembler import assemble, assemble_answer, before_tail
from previously.lanes import carried
from previously.lanes.volumes import Volumes
from previously.measure import count_tokens
from previously.model import (
    Carried,
    Item,
    Message,
    Prompt,
    Recall,
    Recalled,
    Snapshot,
    Summary,
    key,
)
from tests.core.makers import CHAT, message, mini, snapshot, talk


def piece(n: int, text: str = "", **fields: Any) -> Carried:
    text = text or f"what was said in chapter {n}"
    return Carried(
        id=key(CHAT.id, n),
        text=text,
        tokens=fields.pop("tokens", None) or count_tokens(text),
        lane="volumes",
        kind=fields.pop("kind", "mini"),
        is_extract=fields.pop("is_extract", False),
        presence=fields.pop("presence", None),
        from_chat=9,
        from_title="before",
        from_record=None,
        **fields,
    )


def continuing(state: Snapshot, *pieces: Carried) -> Snapshot:
    assert state.backlog is not None
    return replace(state, backlog=replace(state.backlog, carried=pieces))


def moved(state: Snapshot, room: int = 4_000) -> Snapshot:
    return folding.move(state, room, folding.FIRST)


def prompt_of(state: Snapshot, budget: int) -> Prompt:
    return assemble(state, before_tail(state), budget)


def minis(said: tuple[Message, ...]) -> list[Summary]:
    return [mini(i // 2 + 1, said[i : i + 2]) for i in range(0, len(said) - 1, 2)]


def test_it_stands_in_front_of_everything_in_a_block_of_its_own():
    said = talk(40)
    pin = message(1, pinned=True, body="Never open the gate.")
    state = snapshot(said, covers=minis(said[:20]), standing=[pin])
    made = moved(continuing(state, piece(1), piece(2)))
    prompt = prompt_of(made, 4_000)
    assert [b.place for b in prompt.trace.blocks][:3] == ["carried", "standing", "cover"]
    first = prompt.trace.blocks[0]
    assert first.sources == (Item.of(piece(1)), Item.of(piece(2)))
    assert "chapter 1\n- what was said in chapter 2" in first.wire["content"]
    assert first.tokens >= count_tokens(first.wire["content"])
    assert prompt.trace.dropped == ()
    assert prompt.trace.notes == ()


def test_an_item_of_it_is_told_from_a_message_with_the_same_number():
    one = Item.of(piece(7))
    assert str(one) == "c7"
    assert Item.parse(CHAT.id, "c7") == one
    assert one != Item.of(message(7))
    assert not one.is_message
    assert not one.is_summary


def test_what_was_pinned_goes_before_the_newest_and_the_oldest_is_left_out():
    pieces = [piece(n, tokens=100) for n in range(2, 8)]
    pin = piece(1, "The seal holds.", kind="pinned", tokens=100)
    fitting = carried.within([pin, *pieces], carried.size([pin, *pieces]) - 150)
    assert fitting == (pin, *pieces[2:])
    assert carried.within([pin, *pieces], 10) == ()
    assert carried.size(()) == 0


def test_it_has_what_summaries_leave_and_half_at_least():
    said = talk(60)
    few = continuing(snapshot(said, covers=minis(said[:4])), *(piece(n) for n in range(1, 90)))
    many = continuing(snapshot(said, covers=minis(said[:40])), *(piece(n) for n in range(1, 90)))
    for state, room in ((few, 1_200), (many, 1_200)):
        made = moved(state, room)
        share = int(room * made.settings.covers_share)
        mine = [x for x in made.shown if isinstance(x, Carried)]
        own = [x for x in made.shown if isinstance(x, Summary)]
        assert own
        assert mine[-1] == piece(89)
        both = carried.size(mine) + sum(s.tokens + 2 for s in own)
        assert share * 0.8 < both <= share
        assert carried.size(mine) >= share * carried.SHARE_MIN * 0.9


def test_a_tight_prompt_gives_it_up_after_the_tail_and_says_so():
    said = talk(8, tokens=60)
    pin = piece(9, "The seal holds.", kind="pinned")
    old = [piece(n, tokens=120) for n in range(1, 4)]
    made = moved(continuing(snapshot(said), *old, pin), 4_000)
    prompt = prompt_of(made, 420)
    assert prompt.tokens <= 420
    assert prompt.trace.notes == ("1 carried over left out: over budget",)
    assert prompt.trace.blocks[0].sources == tuple(map(Item.of, [*old[1:], pin]))
    assert all(gone.reason != "over its share" for gone in prompt.trace.dropped)


def test_who_was_not_there_does_not_see_it():
    state = snapshot(talk(4))
    state = replace(state, presences={1: frozenset({"Mara"})})
    state = continuing(state, piece(1, presence=1), piece(2))
    made = moved(folding.seen_by(state, ["Tomas"]))
    assert [x for x in made.shown if isinstance(x, Carried)] == [piece(2)]
    narrow = folding.seen_by(replace(moved(state), backlog=None), ["Tomas"])
    assert [x for x in narrow.shown if isinstance(x, Carried)] == [piece(2)]


def test_a_question_about_the_past_keeps_it_in_one_block():
    said = talk(40)
    state = continuing(
        snapshot(said, covers=minis(said[:20]), standing=[message(1, pinned=True)]),
        piece(1, kind="pinned"),
        piece(2),
    )
    made = moved(state)
    same_number = Recalled(message(2), 2, 1.0, "asked")
    prompt = assemble_answer(made, Recall((same_number,)), 4_000)
    places = [b.place for b in prompt.trace.blocks]
    assert places.count("carried") == 1
    assert places[0] == "carried"
    assert prompt.trace.blocks[0].sources == (Item.of(piece(1)), Item.of(piece(2)))


def test_extracts_among_it_are_called_so():
    block = carried.show([piece(1, "她把钥匙藏在第一块石头下面。", is_extract=True)])
    assert "摘录" in block.wire["content"]
    assert "接续" in block.wire["content"]


def test_volumes_are_made_earlier_where_part_of_the_room_is_taken():
    said = talk(76)
    covers = minis(said[:36])
    state = snapshot(said, covers=covers, auto_mini_summary=False)
    laden = continuing(state, *(piece(n, tokens=60) for n in range(1, 60)))
    assert [task.kind for task in Volumes().due(laden)] == ["volume"]
    assert Volumes().due(state) == []
    assert Volumes().carry(state) == tuple(covers)
