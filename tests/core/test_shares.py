"""Who gets how much of a prompt when not everything fits, and where its tail then starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from previously.assembler import NO_END, answer_room, assemble, before_tail, tail_from
from previously.model import (
    START,
    Fold,
    FoldKey,
    Message,
    Prompt,
    Recall,
    Recalled,
    Snapshot,
    Summary,
)
from tests.core.makers import message, mini, snapshot, talk

BUDGET = 1_010
ASKED = message(99, "user", "and now?", tokens=10)
NOTES = [mini(n, talk(2, first=2 * n), tokens=40) for n in range(1, 6)]
FOUND = Recall(
    tuple(Recalled(message(10 + n, tokens=40), 10 + n, 9.0 - n, "words: x") for n in range(9))
)


def folded(
    tail: Sequence[Message], shown: Sequence[Message | Summary] = (), *, related: bool = True
) -> Snapshot:
    fold = Fold(FoldKey("", BUDGET), 1, tail_pos=tail[0].pos - 7, from_pos=START)
    return snapshot([*tail, ASKED], fold=fold, shown=shown, related=related)


def sizes(prompt: Prompt, place: str) -> list[int]:
    return [block.tokens for block in prompt.trace.blocks if block.place == place]


def test_a_tail_that_fits_starts_where_the_fold_says():
    state = folded(talk(8, first=40, tokens=50))
    assert tail_from(state, before_tail(state), BUDGET) == state.fold.tail_pos
    assert tail_from(state, before_tail(state), 410) == state.fold.tail_pos  # to the last token
    assert tail_from(state, before_tail(state), BUDGET, head_tokens=600) == state.fold.tail_pos


def test_a_tail_that_is_cut_starts_with_what_is_kept():
    tail = talk(8, first=40, tokens=50)
    state = folded(tail)
    # Of 400 tokens 15 % are for what is called up: 340 hold six messages.
    assert tail_from(state, before_tail(state), 409) == tail[2].pos
    assert tail_from(state, before_tail(state), BUDGET, head_tokens=601) == tail[2].pos
    quiet = folded(tail, related=False)
    assert tail_from(quiet, before_tail(quiet), 409) == tail[1].pos
    cut = replace(state, tail_cut=True)
    assert tail_from(cut, before_tail(cut), BUDGET) == tail[0].pos


def test_without_a_tail_everything_may_be_called_up():
    state = replace(folded(talk(1, first=40, tokens=50)), tail=())
    state = replace(state, tail_cut=True)
    assert tail_from(state, (), BUDGET) == NO_END


def test_where_something_gives_way_what_is_called_up_has_its_share():
    tail = talk(30, first=40, tokens=50)
    state = folded(tail, NOTES)
    prompt = assemble(state, before_tail(state), BUDGET, recall=FOUND)
    assert len(prompt.trace.recalled) == 2  # of 150 tokens, 48 for the label
    assert sum(sizes(prompt, "tail")) + sum(sizes(prompt, "cover")) <= 850
    assert prompt.tokens <= BUDGET
    alone = assemble(state, before_tail(state), BUDGET)
    assert sum(sizes(alone, "tail")) > sum(sizes(prompt, "tail"))
    assert assemble(state, before_tail(state), BUDGET, recall=Recall()).messages == alone.messages


def test_where_everything_fits_nothing_gives_way_to_what_is_called_up():
    tail = talk(16, first=40, tokens=50)
    state = folded(tail)
    prompt = assemble(state, before_tail(state), BUDGET, recall=FOUND)
    assert sizes(prompt, "tail") == [50] * 16
    assert sum(sizes(prompt, "fragment")) <= 150
    full = folded(talk(20, first=40, tokens=50))
    prompt = assemble(full, before_tail(full), BUDGET, recall=FOUND)
    assert (sizes(prompt, "tail"), sizes(prompt, "fragment")) == ([50] * 20, [])


def test_what_the_caller_puts_in_front_takes_from_every_share():
    tail = talk(30, first=40, tokens=50)
    state = folded(tail)
    # A question about the past leaves a quarter to the tail: 250 tokens, then 150.
    assert answer_room(state, BUDGET) == tail[-5].pos
    assert answer_room(state, BUDGET, head_tokens=400) == tail[-3].pos
    prompt = assemble(state, before_tail(state), BUDGET, head_tokens=400, recall=FOUND)
    assert prompt.tokens <= BUDGET
    assert sum(sizes(prompt, "tail")) <= 600 - 90
