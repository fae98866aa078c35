from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.llm.extractive import extract
from previously.measure import count_tokens

MARA = (
    "I walked up to the lighthouse, and the wind was strong. It was cold. Do you have tea? "
    "My brother Tomas left on 14 March with 7 crates. I could use some rest, honestly."
)
KEEPER = (
    'He nods and looks out at the sea. "I promised your father never to give away the brass key." '
    "He pours some more. What will you do now? The waves are loud."
)
LIN_YUE = "海风从破窗里灌进来。这里还有别人吗？天气真不错啊。我们先坐一会儿吧，没有什么事。"
WATCHMAN = (
    "他沉默了很久。“我答应过你父亲，不把铜钥匙交给任何人。”茶有点凉了。"
    "七月十五日之前，沈家会来抢《海图》。好吗？"
)

MOST_WORDS = ["Mara", "promised", "14", "March", "key", ".", "!", "?", ",", "and", "never", " "]
OTHER_WORDS = ["林月", "答应", "《海图》", "。", "？", "，", "“", "”", "\n", "e\u0301", "😀", "…"]
words = st.sampled_from(MOST_WORDS + OTHER_WORDS)
texts = st.lists(words, max_size=25).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda blank: blank.join(parts))
)
materials = st.lists(
    st.tuples(st.sampled_from(["Mara", "守夜人", "", "A\nB"]), texts), min_size=1, max_size=6
)


def test_an_english_extract_keeps_names_numbers_and_promises():
    assert extract([("Mara", MARA), ("Keeper", KEEPER)], 36) == (
        "Mara: My brother Tomas left on 14 March with 7 crates.\n"
        'Keeper: "I promised your father never to give away the brass key."'
    )


def test_a_chinese_extract_keeps_promises_dates_and_titles():
    assert extract([("林月", LIN_YUE), ("守夜人", WATCHMAN)], 42) == (
        "守夜人: “我答应过你父亲，不把铜钥匙交给任何人。”七月十五日之前，沈家会来抢《海图》。"
    )


def test_material_that_fits_is_kept_whole():
    lines = [("A", "One.  Two!"), ("A", "Three"), ("B", "你好。走吧\n好")]
    assert extract(lines, 100) == "A: One. Two! Three\nB: 你好。走吧 好"


def test_what_was_said_before_is_not_repeated():
    lines = [("A", "The key is brass. Yes."), ("B", "the key is BRASS! Really.")]
    assert extract(lines, 100) == "A: The key is brass. Yes.\nB: Really."


def test_a_question_gives_way_to_a_statement():
    assert extract([("", "Was the harbour closed? The harbour was closed.")], 6) == (
        "The harbour was closed."
    )


def test_the_first_sentence_of_a_speaker_has_a_bonus():
    assert extract([("", "The boats came in. The boats went out.")], 9) == ("The boats came in.")


def test_a_rare_word_beats_common_ones():
    text = "Then boats came. Boats came again. Boats came again slowly. Cinnamon burned."
    assert "Cinnamon" in extract([("", text)], 14)


def test_an_empty_question_does_not_fill_room_that_is_left():
    lines = [("", "The harbour was closed today. Well? And? So? The boats stayed out in the fog.")]
    made = extract(lines, 16)
    assert "closed" in made
    assert "?" not in made


@pytest.mark.parametrize("tool", ["tool", "工具"])
def test_what_a_tool_was_asked_for_is_kept_beside_its_answer(tool: str):
    rows = " ".join(f"Berth {n} holds the Heron since {n} May." for n in range(1, 9))
    lines = [
        ("user", "Good evening. Which berth is free on Friday?"),
        ("assistant", "called berths with day = Friday"),
        (tool, rows),
        ("assistant", "Berth 4 is free until 7 May."),
    ]
    kept = extract(lines, 40)
    assert kept.startswith("user: Which berth is free on Friday?")
    assert "Berth" in kept.splitlines()[-1]
    assert "Which berth" not in extract([*lines[:2], lines[3]], 25)


def test_what_was_asked_for_leaves_half_of_the_room_to_the_answer():
    wordy = "Which of the many berths that we have looked at since Monday is free on Friday?"
    kept = extract([("user", wordy), ("tool", "Berth 4 is free until 7 May. Ask Mara.")], 20)
    assert "Which" not in kept
    assert "Berth 4" in kept


def test_a_question_is_better_than_nothing():
    assert extract([("A", "Well? And then? And why? Who came?")], 8) == "A: Well?"


def test_an_endless_sentence_is_taken_clause_by_clause():
    filler = "，".join("浪声很大" for _ in range(40))
    kept = extract([("林月", f"{filler}，沈家欠我们七艘船，{filler}。")], 30)
    assert "沈家欠我们七艘船" in kept


def test_a_sentence_that_cannot_fit_is_cut():
    assert extract([("A", "字" * 3_000)], 20).startswith("A: 字字字")


@pytest.mark.parametrize("lines", [[], [("A", "")], [("A", " \n "), ("B", "\t")]])
def test_blank_material_has_no_extract(lines: list[tuple[str, str]]):
    assert extract(lines, 100) == ""


@given(materials, st.integers(0, 120))
def test_an_extract_keeps_to_every_limit(lines: list[tuple[str, str]], tokens_max: int):
    made = extract(lines, tokens_max)
    assert count_tokens(made) <= tokens_max
    assert made == extract(lines, tokens_max)
    if tokens_max >= 8 and any(text.strip() for _, text in lines):
        assert made.strip()


@given(materials, st.integers(20, 400))
def test_an_extract_never_costs_more_than_its_material(
    lines: list[tuple[str, str]], tokens_max: int
):
    body = extract(lines, tokens_max)
    heads = [" ".join(speaker.split()) for speaker, _ in lines]
    material = "\n".join(
        f"{head}: {text}" if head else text for head, (_, text) in zip(heads, lines, strict=True)
    )
    assert count_tokens(body) <= count_tokens(material)


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("abcdefgh")), min_size=1))
def test_an_extract_keeps_the_order_of_the_material(said: list[tuple[str, str]]):
    numbered = [(speaker, f"Fact {word}{place}.") for place, (speaker, word) in enumerate(said)]
    made = extract(numbered, 60)
    places = [made.find(text) for _, text in numbered if text in made]
    assert places
    assert places == sorted(places)


@given(materials)
def test_speakers_of_neighbouring_lines_differ(lines: list[tuple[str, str]]):
    made = extract([("A" if speaker else "B", text) for speaker, text in lines], 200)
    heads = [line[0] for line in made.splitlines()]
    assert all(head != following for head, following in pairwise(heads))


def test_an_extract_of_extracts_still_says_who_spoke():
    first = (
        "Ida: I look for Dorcas Wimble. The tide turns.\nDorcas: I promised Mr. Crabbe 9 crowns."
    )
    second = "Dorcas: You owe Marta 5 crowns.\nIda: Some of us went home again over the wet sand."
    made = extract([("", first), ("", second)], 40)
    assert made == (
        "Ida: I look for Dorcas Wimble.\n"
        "Dorcas: I promised Mr. Crabbe 9 crowns. You owe Marta 5 crowns."
    )


PARTED = [
    (
        '"It rained. I promised Tom the key. It went on for hours and hours."',
        '"I promised Tom the key."',
    ),
    ("“雨下了一整夜，雨一直下着。我答应给你钥匙。没有人来，谁也没有来过。”", "“我答应给你钥匙。”"),
    ("It went on and on for hours. I swore an *oath to Tom. Well?*", "I swore an oath to Tom."),
    (
        'He said, "I promised Tom the key. It went on for hours."',
        'He said, "I promised Tom the key."',
    ),
]


@pytest.mark.parametrize(("text", "kept"), PARTED)
def test_half_of_a_pair_is_not_left_standing(text: str, kept: str):
    assert extract([("", text)], 14) == kept


def test_speech_that_opens_anew_in_every_paragraph_is_closed_in_each():
    text = (
        '"I swore an oath to Tom.\n\n"I promised the key." It went on and on for hours and hours.'
    )
    assert extract([("", text)], 20) == '"I swore an oath to Tom." "I promised the key."'


@given(materials, st.integers(20, 200))
def test_quotations_are_closed(lines: list[tuple[str, str]], tokens_max: int):
    made = extract(lines, tokens_max)
    if count_tokens(made) < tokens_max - 8:  # not cut
        for row in made.splitlines():
            assert row.count('"') % 2 == 0


def test_short_speech_and_shouting_are_no_names():
    text = "海风从破窗里灌进来。“不知道。”“是辣。”七月十五日沈家来了。“快！”"
    assert extract([("", text)], 11) == "七月十五日沈家来了。"
    shouted = "The sea is grey. IT WOULD. NOT THAT I WOULD. Then Mr. Pym gave Ida Tranter a bell."
    assert extract([("", shouted)], 13) == "Then Mr. Pym gave Ida Tranter a bell."


def test_a_clause_that_stands_alone_says_that_something_follows():
    filler = "，".join("浪声很大" for _ in range(40))
    kept = extract([("林月", f"{filler}，沈家欠我们七艘船，{filler}。")], 16)
    assert kept == "林月: 沈家欠我们七艘船…"


@given(
    st.lists(
        st.sampled_from(["*", "**", "“", "*smiles*", "She left.", "她走了。", "\n", "\n\n", " "]),
        min_size=1,
        max_size=12,
    ).map("".join),
    st.sampled_from([8, 24, 60]),
)
def test_asterisks_and_quotes_without_a_partner_are_no_obstacle(body: str, tokens_max: int):
    told = extract([("user", body), ("assistant", body)], tokens_max)
    assert bool(told) == bool(body.strip())
    assert count_tokens(told) <= tokens_max
