"""What a turn calls up: which of it is quoted, beside what, and where it stands in a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.assembler import answer_room, assemble, assemble_answer, before_tail
from previously.lanes import related
from previously.model import START, Fold, FoldKey, Message, Prompt, Recall, Recalled, Snapshot
from previously.recall import telling
from previously.search import WORDS, Ranked
from previously.store import Candidate, TermStats
from tests.core.makers import message, mini, snapshot, talk

ASKED = message(99, "user", "and now?", tokens=10)


def hit(n: int, score: float = 1.0, body: str | None = None, tokens: int = 10) -> Recalled:
    return Recalled(message(n, body=body, tokens=tokens), n, score, "words: x")


def around(*messages: Message) -> list[tuple[Message, int]]:
    return [(m, m.id & 0xFFFFFFFF) for m in messages]


def floors(found: Sequence[Recalled]) -> list[int]:
    return [r.floor for r in found]


# --- neighbours


def scores(*hits: Recalled, count: int = 9) -> dict[int, float]:
    by_floor = {h.floor: h.message for h in hits}
    beside = [by_floor.get(n, message(n, tokens=10)) for n in range(count)]
    return {r.floor: r.score for r in related.with_neighbours(hits, around(*beside))}


def test_a_hit_lends_less_the_further_away():
    assert scores(hit(4)) == pytest.approx({4: 1.0, 3: 0.5, 5: 0.5, 2: 0.3, 6: 0.3})


@pytest.mark.parametrize("body", ["Where is it?", "在哪里？", "“Where?”", "*Where is it?* "])
def test_what_follows_a_question_is_worth_nearly_as_much(body: str):
    assert scores(hit(4, body=body)) == pytest.approx({4: 1.0, 5: 0.9, 3: 0.5, 2: 0.3, 6: 0.3})


def test_of_several_hits_nearby_the_best_lends():
    found = scores(hit(2, 1.0), hit(4, 2.0))
    assert found[3] == pytest.approx(1.0)  # half of two, not of one
    assert found[4] == pytest.approx(2.0 + 0.3)
    assert found[2] == pytest.approx(1.0 + 0.6)


def test_a_long_neighbour_is_not_quoted_for_standing_there():
    long = replace(message(5), tokens=related.NEIGHBOUR_TOKENS_MAX + 1)
    found = related.with_neighbours([hit(4)], around(message(3), hit(4).message, long))
    assert floors(found) == [4, 3]


def test_a_message_without_words_is_not_quoted():
    found = related.with_neighbours([hit(4)], around(hit(4).message, message(5, body=" ")))
    assert floors(found) == [4]


def test_what_is_taken_out_between_two_messages_makes_them_no_neighbours():
    far = [(hit(4).message, 4), (message(9), 9)]  # what stood between them may not be shown
    assert floors(related.with_neighbours([hit(4)], far)) == [4]


def test_a_neighbour_says_whose():
    found = related.with_neighbours([hit(4)], around(hit(4).message, message(5)))
    assert found[1].reason == "beside #4"


# --- what fits


def test_the_best_that_fit_are_quoted_in_the_order_of_the_chat():
    found = [hit(7, 3.0, tokens=100), hit(2, 2.0, tokens=400), hit(4, 1.0, tokens=100)]
    room = related.LABEL_TOKENS + 2 * (100 + related.LINE_TOKENS)
    assert floors(related.choose(found, room)) == [4, 7]
    assert floors(related.choose(found, room - 1)) == [7]
    assert related.choose(found, 0) == ()


def test_what_the_prompt_holds_anyway_is_not_quoted_again():
    found = [hit(7, 3.0), hit(4, 1.0)]
    assert floors(related.choose(found, 1_000, {found[0].message.id})) == [4]


EXTRACT = '{"model": "extractive"}'


def test_what_an_extract_quotes_as_a_whole_is_not_quoted_again():
    said = hit(4, 3.0, "The brass key hangs\n behind the stove.", 12)
    longer = hit(5, 2.0, "Mara counts the crates. There are seven of them.", 12)
    short = hit(6, 1.0, "Yes.", 4)
    found = [said, longer, short]
    text = "user: The brass key hangs behind the stove. Yes.\nassistant: There are seven of them."
    sources = [r.message for r in found]
    extract = mini(1, sources, text, provenance=EXTRACT)
    assert related.quoted(found, [extract]) == {said.message.id}
    assert related.quoted(found, [mini(1, sources, text)]) == set()  # in a model's own words
    elsewhere = mini(1, talk(2, first=20), text, provenance=EXTRACT)
    assert related.quoted(found, [elsewhere]) == set()
    state = folded([extract], TAIL)
    prompt = assemble(state, before_tail(state), 4_000, recall=Recall(tuple(found)))
    assert floors(prompt.trace.recalled) == [5, 6]


def test_a_size_that_was_estimated_too_low_does_not_burst_the_room():
    found = [hit(n, 9.0 - n, body="word " * 50, tokens=1) for n in range(1, 6)]
    for room in (60, 120, 200, 290):
        chosen = related.choose(found, room)
        assert not chosen or related.show(chosen).tokens <= room
    assert len(related.choose(found, 290)) == 4


def test_a_fragment_quotes_what_was_said_and_not_what_was_thought():
    body = "<think>他不能知道。</think>钥匙在灶台后面。"
    block = related.show([Recalled(message(5, "assistant", body), 17, 1.0, "words: x")])
    assert block.wire["content"].endswith("#17 助手: 钥匙在灶台后面。")
    call = '[{"id": "a", "function": {"name": "tides", "arguments": "{\\"day\\": 3}"}}]'
    called = message(5, "assistant", "One moment.", tool_calls=call)
    content = related.show([Recalled(called, 17, 1.0, "words: x")]).wire["content"]
    assert content.endswith("#17 assistant: One moment.\ncalled tides with day = 3")


@pytest.mark.parametrize(
    ("body", "label"), [("the key", "[Recalled]"), ("钥匙在灶台上", "【想起】")]
)
def test_a_fragment_names_floor_and_speaker(body: str, label: str):
    one = Recalled(replace(message(4, body=body), name="Mara"), 17, 1.0, "words: x")
    block = related.show([one])
    assert block.wire["role"] == "system"
    assert block.wire["content"].startswith(label)
    assert block.wire["content"].splitlines()[1:] == [f"#17 Mara: {body}"]


# --- what an ordinary turn calls up


def ranked(n: int, score: float, *terms: str) -> Ranked:
    return Ranked(Candidate(n, n, 10, 0, None, ""), score, terms, WORDS)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], []),
        ([ranked(1, 9.0, "key", "well")], [1]),
        ([ranked(1, 9.0, "key", "well"), ranked(2, 2.0, "key", "well")], [1]),  # far behind
        ([ranked(1, 9.0, "key", "well"), ranked(2, 2.8, "key", "well")], [1, 2]),
        ([ranked(1, 9.0, "door")], []),  # one word that is said everywhere
        ([ranked(1, 9.0, "amulet")], [1]),  # one that is not
    ],
)
def test_a_word_by_chance_calls_up_nothing(found: list[Ranked], expected: list[int]):
    stats = TermStats(500, 5_000, {"door": 40, "amulet": 5, "key": 40, "well": 40}, (1, 1))
    assert [r.message.id for r in telling(found, stats)] == expected


# --- where it stands


def folded(
    shown: Sequence[Message | object] = (), tail: Sequence[Message] = (), tokens: int = 4_000
) -> Snapshot:
    fold = Fold(FoldKey("", tokens), 1, tail_pos=tail[0].pos if tail else START, from_pos=START)
    return replace(snapshot([*tail, ASKED], fold=fold), shown=tuple(shown))


def places(prompt: Prompt) -> list[str]:
    return [block.place for block in prompt.trace.blocks]


RULES = message(1, "system", "rules", pinned=True, tokens=20)
NOTES = [mini(n, talk(2, first=2 * n), tokens=40) for n in range(1, 6)]
TAIL = talk(8, first=40, tokens=50)
LONG_TAIL = talk(8, first=40, tokens=400)
FOUND = Recall((hit(20, 2.0, tokens=50), hit(22, 1.0, tokens=50)))


def test_fragments_stand_between_the_tail_and_what_is_asked():
    state = folded([RULES, *NOTES], LONG_TAIL)
    prompt = assemble(state, before_tail(state), 4_000, recall=FOUND)
    assert places(prompt) == ["standing", "cover", *["tail"] * 8, "fragment", "pending"]
    answer = assemble_answer(state, FOUND, 4_000)
    assert places(answer) == ["standing", "cover", *["tail"] * 8, "fragment", "pending"]


def test_an_ordinary_turn_quotes_little_beside_what_stands_still():
    state = folded([RULES, *NOTES], talk(8, first=40, tokens=500))
    plenty = Recall(tuple(hit(10 + n, 9.0 - n / 10, "word " * 15, 20) for n in range(25)))
    prompt = assemble(state, before_tail(state), 100_000, recall=plenty)
    steady = sum(b.tokens for b in prompt.trace.blocks if b.place in ("standing", "cover", "tail"))
    quoted = sum(b.tokens for b in prompt.trace.blocks if b.place == "fragment")
    assert 240 < quoted <= steady * 0.08
    short = folded([], talk(2, first=40, tokens=50))
    prompt = assemble(short, before_tail(short), 100_000, recall=plenty)
    assert 120 < sum(b.tokens for b in prompt.trace.blocks if b.place == "fragment") <= 240
    tight = assemble(short, before_tail(short), 400, recall=plenty)
    assert tight.tokens <= 400


def test_nothing_called_up_leaves_the_prompt_as_it_was():
    state = folded([RULES, *NOTES], TAIL)
    without = assemble(state, before_tail(state), 4_000)
    assert assemble(state, before_tail(state), 4_000, recall=Recall()).messages == without.messages


def test_what_stands_or_is_raw_is_not_quoted_again():
    raw = message(20, tokens=50)
    state = folded([RULES, raw, *NOTES], TAIL)
    found = Recall((replace(hit(1), message=RULES), *FOUND.found))
    assert FOUND.found[0].message.id == raw.id
    for prompt in (
        assemble(state, before_tail(state), 4_000, recall=found),
        assemble_answer(state, found, 4_000),
    ):
        ids = [item.id for b in prompt.trace.blocks for item in b.sources if item.is_message]
        assert len(ids) == len(set(ids))
        assert {RULES.id, raw.id} <= set(ids)


def test_a_question_keeps_a_quarter_for_the_tail_and_a_tenth_for_summaries():
    state = folded([RULES, *NOTES], TAIL)
    plenty = Recall(tuple(hit(10 + n, 9.0 - n / 10, body="word " * 16, tokens=20)
                          for n in range(25)))  # fmt: skip
    prompt = assemble_answer(state, plenty, 830)  # 800 without rules and question
    assert places(prompt).count("tail") == 4
    assert prompt.tokens <= 830
    assert any(b.place == "cover" for b in prompt.trace.blocks)
    assert answer_room(state, 830) == TAIL[4].pos


def test_room_that_nothing_needs_goes_to_the_tail_and_nothing_is_said_twice():
    state = folded([RULES], TAIL)
    early = Recall((replace(hit(41, 2.0), message=TAIL[1]),))  # before the short tail
    prompt = assemble_answer(state, early, 1_000)
    assert places(prompt) == ["standing", *["tail"] * 8, "pending"]
    tight = assemble_answer(state, early, 200)
    assert places(tight).count("fragment") == 1
    assert places(tight).count("tail") < 7


@given(
    tail=st.lists(st.integers(1, 300), max_size=12),
    notes=st.lists(st.integers(1, 200), max_size=12),
    quoted=st.lists(st.tuples(st.integers(1, 200), st.floats(0.1, 9)), max_size=20),
    budget=st.integers(256, 4_000),
    raw=st.booleans(),
)
def test_no_prompt_is_over_its_budget_or_says_anything_twice(
    tail: list[int],
    notes: list[int],
    quoted: list[tuple[int, float]],
    budget: int,
    raw: bool,
):
    said = [message(60 + i, "assistant", "word " * n) for i, n in enumerate(tail)]
    covers = [mini(n, talk(2, first=2 * n), "word " * size) for n, size in enumerate(notes, 1)]
    found = [
        Recalled(m, i, score, "words: x")
        for i, (size, score) in enumerate(quoted)
        for m in [message(30 + i, body="word " * size)]
    ]
    holes = [r.message for r in found[:1]] if raw else []
    state = folded([RULES, *covers, *holes], said)
    recall = Recall(tuple(sorted(found, key=lambda r: -r.score)))
    for prompt in (
        assemble(state, before_tail(state), budget, recall=recall),
        assemble_answer(state, recall, budget),
    ):
        assert prompt.tokens <= budget
        ids = [item for block in prompt.trace.blocks for item in block.sources]
        assert len(ids) == len(set(ids))
        assert places(prompt)[-1] == "pending"
