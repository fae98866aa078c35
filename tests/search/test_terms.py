"""Terms of texts: what belongs together meets, and every way to count agrees with the index."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from previously.text import terms as module
from previously.text.terms import counter, normal, places, root_of, spans, terms

FAMILIES = (
    "promise promised promises promising",
    "run runs running",
    "candle candles",
    "city cities",
    "box boxes",
    "watch watches watched watching",
    "stop stops stopped stopping",
    "study studies studied studying",
    "travel travels travelled traveling",
    "fall falls falling",
    "press pressed presses",
    "agree agrees agreeing",
    "Mara MARA mara Ｍａｒａ",
    "café cafe\u0301 CAFÉ",
    "1234.5 1,234.5 １２３４．５",
)
APART = ("king kin", "string str", "bed b", "12 120", "3.14 3", "bus bu")

written = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("白鸦灯塔的了ばカー한국🎉abcdeings yied'-.,0123456789\u0301ＡＢ１２İß"),
    ),
    max_size=60,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_forms_of_a_word_share_a_term(family: str):
    assert len({frozenset(terms(word)) for word in family.split()}) == 1


@pytest.mark.parametrize("pair", APART)
def test_other_words_do_not(pair: str):
    first, second = pair.split()
    assert terms(first).isdisjoint(terms(second))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("白鸦", {"白", "鸦", "白鸦"}),
        ("白，鸦", {"白", "鸦"}),
        ("用Python写3个", {"用", "python", "写", "3", "个"}),
        ("東京タワー", {"東", "京", "タ", "ワ", "ー", "東京", "京タ", "タワ", "ワー"}),
        ("약속", {"약", "속", "약속"}),
        ("v2 B-17", {"v2", "b", "17"}),
        ("🎉👍🏽", {"🎉", "👍"}),
        ('"*()-: \x00', set[str]()),
        ("", set[str]()),
    ],
)
def test_the_terms_of_a_text(text: str, found: set[str]):
    assert terms(text) == found


@given(written)
def test_terms_hold_nothing_that_either_database_would_cut(text: str):
    for term in terms(text):
        ascii_part = [c for c in term if c.isascii()]
        assert all(c.isdigit() or (c.isalpha() and c.islower()) for c in ascii_part)
        assert 0 < len(term) <= module.WORD_CHARS_MAX


@given(written)
def test_every_term_is_found_again_where_it_stands(text: str):
    plain = normal(text)
    for term in terms(text):
        found = list(spans(plain, term))
        assert found
        assert counter(term)(plain) == len(found)
        for start, end in found:
            assert term in terms(plain[start:end])
            assert plain[start:end].startswith(root_of(term)) or "\u00b7" in term or "," in text


@given(written, written)
def test_no_term_is_counted_in_a_text_that_does_not_have_it(text: str, other: str):
    plain, have = normal(text), terms(text)
    for term in terms(other) - have:
        assert counter(term)(plain) == 0


@given(written)
def test_every_character_of_the_normal_form_has_a_place_in_the_text(text: str):
    at = places(text)
    assert len(at) == len(normal(text)) + 1
    assert at == sorted(at)
    assert at[-1] == len(text)


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12))
def test_a_stem_is_no_longer_than_its_word(word: str):
    (term,) = terms(word)
    assert len(term) <= len(word)
    assert word.startswith(root_of(term))


@given(written)
@example("\U0002f800")  # an ideograph beyond the first plane that NFKC makes into another
def test_compatible_forms_are_one(text: str):
    folded = unicodedata.normalize("NFKC", text)
    assert {t for t in terms(text) if len(t) == 1} <= {t for t in terms(folded) if len(t) == 1} | {
        t for t in terms(text) if t.isdigit()
    }


@pytest.mark.parametrize(
    ("term", "text", "count"),
    [
        ("12345", "12,345 men, 12345 ships, 2,345 and 112345 others", 2),
        ("1234·5", "1,234.5 and 1234.5 and 1,234", 2),
        ("123", "123 of 1,123 and 123,456", 1),
        ("345", "12,345", 0),
        ("7", "7 of 17, 7.5 and 7", 2),
        ("4471", "no number at all, nor this: 44,71", 0),
    ],
)
def test_numbers_are_counted_however_they_are_grouped(term: str, text: str, count: int):
    assert counter(term)(text) == count == len(list(spans(text, term)))
