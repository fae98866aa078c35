"""Where material is parted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from previously.measure import is_whole
from previously.model import POS_GAP, START, Line
from previously.text.cuts import between_messages, inside_text, roundness, squeezed
from previously.text.lines import line_tokens


def line(n: int, text: str = "", *, joined: bool = False, continued: bool = False) -> Line:
    said = text or f"message {n}"
    size = line_tokens("user", said)
    return Line(n, n * POS_GAP, "user", said, size, joined=joined, continued=continued)


def test_a_cut_stands_where_the_position_is_roundest():
    lines = [line(n) for n in range(1, 101)]
    halves = between_messages(lines)
    assert halves is not None
    assert halves[1][0].source == 64
    halves = between_messages(lines[:60])
    assert halves is not None
    assert halves[1][0].source == 32


def test_the_cut_stays_when_the_message_at_it_is_gone():
    lines = [line(n) for n in range(1, 101) if n != 64]
    halves = between_messages(lines)
    assert halves is not None
    assert [x.source for x in (halves[0][-1], halves[1][0])] == [63, 65]


def test_a_cut_near_an_end_is_passed_over_for_one_that_parts_more():
    heavy = [line(63, "word " * 500), line(64, "x"), line(65, "word " * 500)]
    halves = between_messages([line(62), *heavy])
    assert halves is not None
    assert halves[1][0].source == 64
    halves = between_messages([line(64 * 8 - 1, "x"), line(64 * 8, "word " * 500)])
    assert halves is not None
    assert len(halves[0]) == 1


def test_results_are_never_parted_from_their_call_nor_a_message_from_itself():
    group = [line(1), line(2, joined=True), line(3, joined=True)]
    assert between_messages(group) is None
    assert between_messages([line(1, "a"), line(1, "b", continued=True)]) is None
    halves = between_messages([*group, line(4)])
    assert halves is not None
    assert [x.source for x in halves[1]] == [4]


def test_roundness_is_that_of_the_roundest_number_between():
    assert roundness(7, 8) > roundness(3, 4) > roundness(1, 2) > roundness(8, 9)
    assert roundness(7, 9) == roundness(7, 8)
    assert roundness(-1, 0) > roundness(-2, -1)
    assert roundness(START, START + 1) < roundness(START, 0)


def test_text_is_cut_at_the_best_place_near_the_middle():
    def cut(text: str) -> tuple[str, str]:
        halves = inside_text([line(1, text)])
        assert halves is not None
        (left,), (right,) = halves
        assert right.continued
        assert not left.continued
        return left.text, right.text

    words = "word " * 20
    assert cut(f"{words}\n\n{words}. {words}")[0] == f"{words}\n\n"
    assert cut(f"{words}. {words}")[0] == f"{words}. "
    assert cut("银币藏好了。" + "谁也别告诉他们啊" * 1 + "真的。")[0] == "银币藏好了。"
    assert cut("word word")[0] == "word "
    assert cut("abcdefgh") == ("abcd", "efgh")
    code = "```\n" + "x = 1\n" * 10 + "```\n"
    assert cut(f"{words}\n{code}{words}")[0] in (f"{words}\n", f"{words}\n{code}")


def test_whole_messages_and_calls_with_results_are_kept_together_if_text_can_be_cut():
    lines = [line(1, "a b c d " * 10), line(2, "e f g h " * 10)]
    halves = inside_text(lines)
    assert halves == ((lines[0],), (lines[1],))
    halves = inside_text([line(1, "call"), line(2, "one two. " * 30, joined=True)])
    assert halves is not None
    assert [x.source for x in halves[0]] == [1, 2]
    assert [(x.source, x.continued) for x in halves[1]] == [(2, True)]


def test_a_single_character_cannot_be_cut():
    assert inside_text([line(1, "a")]) is None
    assert inside_text([line(1, "\U0001f469\u200d\U0001f467")]) is None


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4))
def test_halves_put_together_are_the_text(texts: list[str]):
    lines = [line(n, text) for n, text in enumerate(texts)]
    halves = inside_text(lines)
    if halves is None:
        return
    assert "".join(x.text for half in halves for x in half) == "".join(texts)
    assert all(x.text for half in halves for x in half)
    assert all(half for half in halves)
    left, right = halves[0][-1], halves[1][0]
    if left.source == right.source:
        assert is_whole(left.text + right.text, len(left.text))


@given(st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=6), st.integers(8, 200))
def test_what_is_squeezed_keeps_both_ends_and_says_who_lost_words(texts: list[str], room: int):
    lines = [line(n, text) for n, text in enumerate(texts)]
    kept, hurt = squeezed(lines, room)
    if not hurt:
        assert list(kept) == lines
        return
    assert sum(x.tokens for x in kept) <= room + 32  # a heading and the mark may weigh more
    by_source = {x.source: x for x in kept}
    for one in lines:
        if one.source not in hurt:
            assert by_source[one.source] == one


def test_a_giant_line_keeps_its_head_and_its_tail():
    text = "".join(f"{n} " for n in range(5_000))
    (kept,), hurt = squeezed([line(1, text)], 400)
    assert hurt == (1,)
    assert kept.tokens <= 400
    head, tail = kept.text.split("[…]")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) > 200
    assert len(tail) > 200
