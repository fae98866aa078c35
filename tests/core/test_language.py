from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.text.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        (" 12:30 … 😀\n", "en"),
        ("The tide turns.", "en"),
        ("潮水转了。", "zh"),
        ("林月对 Tom 说：ok，走吧。", "zh"),
        ("She said 你好 and left the room.", "en"),
        ("Die Flut kommt über Nacht.", "en"),
        ("東京へ行きましょう。", "en"),
        ("안녕하세요, 세상", "en"),
        ("𠮷𠮷𠮷", "zh"),
    ],
)
def test_a_text_is_chinese_if_enough_of_its_letters_are_han(text: str, language: str):
    assert language_of(text) == language


@given(st.text("林月走进旧港的灯塔", min_size=1), st.text("0123456789 。，！_\n😀"))
def test_digits_and_signs_do_not_count(han: str, signs: str):
    assert language_of(signs + han + signs) == "zh"


@given(st.text())
def test_every_text_has_one_of_the_two(text: str):
    assert language_of(text) in ("zh", "en")
