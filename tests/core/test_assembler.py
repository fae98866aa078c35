"""What a prompt gives up, in which order, and what its trace says of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from previously.assembler import NO_SUMMARY_YET, OVER_BUDGET, assemble, before_tail
from previously.model import START, Dropped, Fold, FoldKey, Item, Message, Prompt, Snapshot, Summary
from tests.core.makers import message, mini, snapshot, talk

ASKED = message(99, "user", "and now?", tokens=10)


def folded(
    shown: Sequence[Message | Summary], tail: Sequence[Message], from_pos: int = START
) -> Snapshot:
    """These stand before the tail; the tail ends with a question."""
    fold = Fold(FoldKey("", 4_000), 1, tail_pos=tail[0].pos if tail else 0, from_pos=from_pos)
    return replace(snapshot([*tail, ASKED], fold=fold), shown=tuple(shown))


def built(state: Snapshot, budget: int, head: int = 0) -> Prompt:
    return assemble(state, before_tail(state), budget, head)


def shown(prompt: Prompt) -> list[Item]:
    return [item for block in prompt.trace.blocks for item in block.sources]


def items(*things: Message | Summary) -> list[Item]:
    return [Item.of(thing) for thing in things]


def holes(count: int, first: int = 2) -> tuple[Message, ...]:
    """Old messages that stand as they were said: each is exactly a hundred tokens."""
    return talk(count, first=first, tokens=100)


def test_the_tail_gives_way_first_but_a_quarter_of_the_room_is_left_to_it():
    old, tail = holes(6), talk(10, first=20, tokens=100)
    state = folded(old, tail)
    whole = built(state, 1_610)
    assert shown(whole) == items(*old, *tail, ASKED)
    assert whole.trace.dropped == ()
    assert shown(built(state, 1_609)) == items(*old, *tail[1:], ASKED)
    assert shown(built(state, 1_010)) == items(*old, *tail[6:], ASKED)
    # Of 800 a quarter is 200: two messages must stay, so the third may go; then it is the others.
    assert shown(built(state, 810)) == items(*old, *tail[8:], ASKED)
    assert shown(built(state, 710)) == items(*old[1:], *tail[8:], ASKED)
    assert shown(built(state, 310)) == items(*old[4:], tail[9], ASKED)


def test_at_last_nothing_is_left_but_what_stands_and_what_was_asked():
    rules = message(1, "system", "rules", pinned=True, tokens=20)
    state = folded((rules, *holes(2)), talk(2, first=20, tokens=100))
    assert shown(built(state, 130)) == items(rules, message(21), ASKED)
    assert shown(built(state, 129)) == items(rules, ASKED)
    prompt = built(state, 5)
    assert shown(prompt) == items(rules, ASKED)
    assert prompt.trace.notes == ("over budget by 25 tokens: the pending turn is never cut",)
    assert built(state, 30).trace.notes == ()


def test_the_trace_names_what_was_given_up_before_the_tail_up_to_what_is_kept():
    rules = message(1, "system", "rules", pinned=True, tokens=20)
    old, tail = holes(4), talk(2, first=20, tokens=100)
    prompt = built(folded((rules, *old), tail), 430)
    assert shown(prompt) == items(rules, *old[2:], *tail, ASKED)
    assert prompt.trace.dropped == (Dropped(START, old[2].pos, OVER_BUDGET),)
    alone = built(folded((rules, *old), tail), 130)
    assert shown(alone) == items(rules, tail[1], ASKED)
    assert alone.trace.dropped == (
        Dropped(START, tail[0].pos, OVER_BUDGET),
        Dropped(tail[0].pos, tail[1].pos, NO_SUMMARY_YET),
    )


def test_a_summary_is_where_its_first_message_was():
    notes = [mini(n, talk(2, first=2 * n), tokens=100) for n in range(1, 4)]
    tail = talk(2, first=20, tokens=100)
    state = folded(notes, tail)
    size = before_tail(state)[0].tokens
    prompt = built(state, size + 209)
    assert shown(prompt) == items(*notes[1:], *tail, ASKED)
    assert prompt.trace.dropped == (Dropped(START, notes[1].first_pos, OVER_BUDGET),)


def test_what_a_fold_had_no_room_for_is_named_once():
    old, tail = holes(4), talk(2, first=20, tokens=100)
    from_pos = old[0].pos
    assert built(folded(old, tail, from_pos), 4_000).trace.dropped == (
        Dropped(START, from_pos, OVER_BUDGET),
    )
    assert built(folded(old, tail, from_pos), 510).trace.dropped == (
        Dropped(START, old[1].pos, OVER_BUDGET),
    )


def test_a_tail_that_is_gone_to_its_end_is_named_to_the_end_of_time():
    tail = talk(4, first=20, tokens=100)  # it ends with a reply: nobody waits for an answer
    state = snapshot(tail, fold=Fold(FoldKey(), 1, tail_pos=tail[0].pos))
    (dropped,) = built(state, 50).trace.dropped
    assert (dropped.from_pos, dropped.reason) == (tail[0].pos, NO_SUMMARY_YET)
    assert dropped.before_pos > message(1 << 24).pos


def test_a_call_goes_with_its_results():
    calls = json.dumps([{"id": "a", "type": "function", "function": {"name": "look"}}])
    call = message(21, "assistant", "", tool_calls=calls, tokens=100)
    result = message(22, "tool", "a key", tool_call_id="a", tokens=100)
    last = message(23, "assistant", "There.", tokens=100)
    state = folded((), (message(20, tokens=100), call, result, last))
    assert shown(built(state, 310)) == items(call, result, last, ASKED)
    assert shown(built(state, 309)) == items(last, ASKED)


def test_what_the_caller_puts_in_front_is_part_of_the_size():
    state = folded((), talk(2, first=20, tokens=100))
    prompt = built(state, 260, head=50)
    assert (prompt.tokens, prompt.trace.tokens, prompt.trace.budget_tokens) == (260, 260, 260)
    assert len(prompt.messages) == 3
    assert len(built(state, 259, head=50).messages) == 2


def test_neighbouring_summaries_are_one_block_and_others_keep_their_place():
    rules = message(1, "system", "rules", pinned=True)
    first, second, third = (mini(n, talk(2, first=4 * n)) for n in (1, 2, 3))
    old = message(11)
    blocks = before_tail(folded((rules, first, second, old, third), talk(2, first=20)))
    assert [(b.place, list(b.sources)) for b in blocks] == [
        ("standing", items(rules)),
        ("cover", items(first, second)),
        ("raw", items(old)),
        ("cover", items(third)),
    ]
