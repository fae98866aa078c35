from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splintr import Tokenizer

from previously.measure import (
    MESSAGE_OVERHEAD_TOKENS,
    REFERENCE_VOCABULARY,
    count_chars,
    count_tokens,
    count_words,
    counter,
    counts_are_exact,
    cut_to_tokens,
    estimate_tokens,
    message_tokens,
)

VOCABULARY = Tokenizer.from_pretrained(REFERENCE_VOCABULARY)

GOLDEN: list[tuple[str, list[int]]] = [
    ("", []),
    ("Hello, world!", [13225, 11, 2375, 0]),
    (
        "The tide turns at 04:35, remember?",
        [976, 69214, 18304, 540, 220, 3000, 25, 2467, 11, 8203, 30],
    ),
    ("前情提要", [7660, 7278, 6670, 7724]),
    (
        "林月答应守夜人，在满月之前归还铜钥匙。",
        [
            *(22594, 3181, 32956, 18831, 55952, 10267, 1995, 27440, 29012),
            *(3181, 108473, 60474, 16669, 171242, 181704, 182568, 788),
        ],
    ),
    (
        "我说：“OK，见面在 Port Vell。”",
        [7522, 9631, 13490, 5175, 979, 27041, 9961, 2178, 6504, 631, 596, 12902],
    ),
    ("日本語とかな", [9048, 40909, 5330, 165732]),
    (
        "👩\u200d👩\u200d👧\u200d👦 🇨🇳",
        [
            *(28823, 102, 2524, 28823, 102, 2524, 28823, 100, 2524, 28823, 99),
            *(173468, 101, 55506, 111),
        ],
    ),
    (
        "def f(x: int) -> int:\n    return x * 2\n",
        [1314, 285, 4061, 25, 677, 8, 2747, 677, 734, 271, 622, 1215, 425, 220, 17, 198],
    ),
    (
        '{"id": "call_1", "n": 3.14}',
        [10848, 315, 1243, 392, 9925, 62, 16, 672, 392, 77, 1243, 220, 18, 13, 1265, 92],
    ),
    ("  \n\n\tindent", [11691, 197, 74638]),
    ("<|endoftext|>", [27, 91, 419, 1440, 919, 91, 29]),
]

SENTENCE = "The lighthouse keeper promised nevertheless to stay."

any_text = st.text(st.characters(), max_size=80)  # lone surrogates included
sound_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
mixed_text = st.text(
    st.sampled_from("abc XYZ.,\n129中文林月灯塔é\u0301\u200d😀🏽🇨🇳각\u1100\u1161<|"), max_size=60
)


@pytest.mark.parametrize(("text", "ids"), GOLDEN)
def test_tokens_are_those_of_the_reference_vocabulary(text: str, ids: list[int]):
    assert VOCABULARY.encode_ordinary(text) == ids
    assert count_tokens(text) == len(ids)
    assert counts_are_exact()


@given(sound_text)
def test_the_fast_way_counts_what_the_plain_way_counts(text: str):
    assert count_tokens(text) == len(VOCABULARY.encode_ordinary(text))


def test_every_special_token_opens_with_the_mark_that_turns_the_fast_way_off():
    specials = VOCABULARY.special_tokens()
    assert specials
    for special in specials:
        assert special.startswith("<|")
        assert count_tokens(f"a{special}b") == len(VOCABULARY.encode_ordinary(f"a{special}b")) > 3


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "中\udbff", "<|\ud800|>"])
def test_half_a_character_counts_as_the_replacement_mark(text: str):
    repaired = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert count_tokens(text) == count_tokens(repaired) > 0


def test_two_halves_of_one_character_count_as_that_character():
    assert count_tokens("\ud83d\ude00") == count_tokens("😀")


@given(any_text)
def test_any_text_can_be_measured(text: str):
    assert (count_tokens(text) > 0) == bool(text)
    assert (estimate_tokens(text) > 0) == bool(text)
    assert 0 <= count_words(text) <= count_chars(text) == len(text)


@pytest.mark.proves("G-56")
@given(st.text("林月走进旧港的灯塔ひらカタ각힣々𠮷", max_size=40), st.text("ab c1.,", max_size=40))
def test_the_estimate_never_falls_below_one_per_cjk_character_and_four_others(cjk: str, rest: str):
    assert estimate_tokens(cjk + rest) >= len(cjk) + -(-len(rest) // 4)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("a" * 20, 7), ("中" * 20, 21)])
def test_the_estimate_is_a_quarter_of_the_bytes_and_two_fifths_more(text: str, tokens: int):
    assert estimate_tokens(text) == tokens


def test_an_unknown_vocabulary_is_estimated():
    assert counter("no-such-vocabulary") is estimate_tokens


def test_without_the_library_tokens_are_estimated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "splintr", None)
    assert counter.__wrapped__(REFERENCE_VOCABULARY) is estimate_tokens


@pytest.mark.proves("G-56")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("  …!? _ 。", 0),
        ("The tide turns at 04:35", 6),
        ("你好世界", 4),
        ("我有2个apple，OK？", 6),
        ("カタカナ・テスト", 7),
        ("안녕 세상", 4),
        ("𠮷野家", 3),
        ("snake_case", 2),
        ("cafe\u0301s", 1),
        ("\u1112\u1161\u11ab", 1),  # one syllable, written as three letters
    ],
)
def test_a_word_is_a_cjk_character_or_a_run_of_letters_and_digits(text: str, words: int):
    assert count_words(text) == words


@pytest.mark.proves("G-56")
@pytest.mark.parametrize(("text", "chars"), [("", 0), ("前情a", 3), ("😀", 1), ("e\u0301", 2)])
def test_characters_are_code_points(text: str, chars: int):
    assert count_chars(text) == chars


@pytest.mark.proves("G-56")
@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "developer"])
def test_a_message_costs_its_text_and_a_fixed_overhead(role: str):
    assert message_tokens(role, "") == MESSAGE_OVERHEAD_TOKENS
    assert message_tokens(role, "前情提要") == MESSAGE_OVERHEAD_TOKENS + 4


def test_a_message_costs_all_that_is_sent_with_it():
    bare = message_tokens("assistant", "Hello, world!")
    calls = '{"id": "call_1", "n": 3.14}'
    assert message_tokens("assistant", "Hello, world!", name="前情提要") == bare + 1 + 4
    assert message_tokens("assistant", "Hello, world!", tool_calls=calls) == bare + 16
    assert message_tokens("assistant", "Hello, world!", name="", tool_calls="") == bare
    assert message_tokens("Hello, world!", "Hello, world!") == bare + 3


@given(mixed_text, st.integers(-1, 30))
def test_a_cut_is_a_beginning_that_fits(text: str, tokens_max: int):
    cut = cut_to_tokens(text, tokens_max)
    assert text.startswith(cut)
    assert count_tokens(cut) <= max(0, tokens_max)
    assert cut_to_tokens(text, tokens_max) == cut


@given(mixed_text)
def test_a_text_that_fits_is_not_cut(text: str):
    assert cut_to_tokens(text, max(1, count_tokens(text))) == text


@given(mixed_text, st.integers(1, 20))
def test_no_longer_cut_of_whole_characters_would_fit(text: str, tokens_max: int):
    cut = cut_to_tokens(text, tokens_max)
    longer = [text[:end] for end in range(len(cut) + 1, len(text) + 1) if not splits(text, end)]
    assert all(count_tokens(begin) > tokens_max for begin in longer)


def splits(text: str, end: int) -> bool:
    """A plain, quadratic reading of what belongs together, for the signs used here."""
    if end >= len(text):
        return False
    last, following = text[end - 1], text[end]
    if following in "\u0301\u200d🏽\u1161" or last == "\u200d":
        return True
    flags = "🇨🇳"
    run = len(text[:end]) - len(text[:end].rstrip(flags))
    return following in flags and run % 2 == 1


@given(st.integers(1, 40))
def test_a_cut_never_splits_what_the_reader_sees_as_one_character(tokens_max: int):
    seen = ["e\u0301", "👩\u200d👧", "👍🏽", "🇨🇳", "🇫🇷", "❤\ufe0f", "字"]
    seen += [unicodedata.normalize("NFD", "각"), "🏴\U000e0067\U000e0062\U000e007f", "\ud83d\ude00"]
    ends = {len("".join(seen[:index])) for index in range(len(seen) + 1)}
    assert len(cut_to_tokens("".join(seen), tokens_max)) in ends


@pytest.mark.parametrize(
    ("tokens_max", "cut"),
    [(1, "The"), (2, "The lighthouse"), (3, "The lighthouse keeper"), (4, SENTENCE[:30])],
)
def test_a_cut_looks_past_half_a_word_that_costs_more_than_the_whole(tokens_max: int, cut: str):
    assert cut_to_tokens(SENTENCE, tokens_max) == cut


def test_a_first_character_that_does_not_fit_leaves_nothing():
    assert cut_to_tokens("e" + "\u0301\u0316\u0330" * 50, 3) == ""


def test_a_long_text_is_cut_to_the_full_limit():
    assert count_tokens(cut_to_tokens("林月走进旧港的灯塔。" * 2_000, 1_000)) == 1_000
