from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.text.sentences import sentences

STOPS = ["。", "！", "？", "；", "…", ".", "!", "?", "\n", "\r\n", " ", "\u2028", "\x1c"]
MARKS = ['"', "”", "」", "*", "_", "'", "“", ")"]
WORDS = ["Mr", "e.g", "3", "14", "J", "a", "林月", "走", "😀"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n", []),
        ("No stop", ["No stop"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("他来了。真的？是！好；走", ["他来了。", "真的？", "是！", "好；", "走"]),
        ("她点头……然后走了", ["她点头……", "然后走了"]),
        ("first line\n\nsecond line\r\nthird", ["first line", "second line", "third"]),
        ("What?! No!!", ["What?!", "No!!"]),
        ("OK!他说。Done. “Yes.” 好", ["OK!", "他说。", "Done.", "“Yes.”", "好"]),
        ("Go!“Now.”", ["Go!", "“Now.”"]),
    ],
)
def test_a_sentence_ends_at_its_stop_or_line(text: str, expected: list[str]):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“走吧。”她说。", ["“走吧。”", "她说。"]),
        ("「走吧。」『好！』", ["「走吧。」", "『好！』"]),
        ('"走吧。"他说。"不行。"', ['"走吧。"', "他说。", '"不行。"']),
        ('他说。"走吧。"', ["他说。", '"走吧。"']),
        ('"Go." He left. "Why?"', ['"Go."', "He left.", '"Why?"']),
        ('*"She left."* he said.', ['*"She left."*', "he said."]),
        ("(He left.) Then", ["(He left.)", "Then"]),
        ("**Bold.** Next", ["**Bold.**", "Next"]),
        ("他走了。**重要**", ["他走了。", "**重要**"]),
        ("他走了。*她叹气。*好", ["他走了。", "*她叹气。", "*好"]),
    ],
)
def test_what_closes_behind_the_stop_belongs_to_the_sentence(text: str, expected: list[str]):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Smith met Dr. Who at St. Paul.",
        "It costs 3.50 or 1.000.000.",
        "Use tea, e.g. green, i.e. no coffee, at 5 p.m. sharp.",
        "(e.g. this) and J. R. R. Tolkien.",
        "See example.org/page?id=1 now.",
        "1. First item",
        "…… 我不知道。",
        "...and then.",
        "版本 v1.2.3 发布了。",
    ],
)
def test_not_every_dot_ends_a_sentence(text: str):
    assert sentences(text) == [text]


def test_a_lone_pronoun_is_no_initial():
    assert sentences("So do I. Then we left.") == ["So do I.", "Then we left."]


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(STOPS + MARKS + WORDS), max_size=30).map("".join))
)
def test_nothing_is_lost_and_nothing_is_added(text: str):
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)
    assert not any(re.search(r"[\r\n]", sentence) for sentence in found)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("unit", ["... ", "e.g. ", '." ', ".*", "._", "。"])
def test_a_hostile_text_takes_no_quadratic_time(unit: str):
    assert len("".join(sentences(unit * 100_000))) > 99_999
