"""Several notes in one answer: taken apart strictly, or not at all."""

from __future__ import annotations

import pytest

from previously.text.parts import joined, parted

GOOD = {
    "as asked": ("[1] Mara left.\n[2] Tom stayed.", ("Mara left.", "Tom stayed.")),
    "of several lines": ("[1] Mara\nleft.\n\n[2] Tom stayed.", ("Mara\nleft.", "Tom stayed.")),
    "number on a line of its own": ("[1]\nMara left.\n[2]\nTom.", ("Mara left.", "Tom.")),
    "in bold": ("**[1]** Mara left.\n**[2]** Tom.", ("Mara left.", "Tom.")),
    "Chinese brackets": ("【1】玛拉走了。\n【2】汤姆留下。", ("玛拉走了。", "汤姆留下。")),
    "after thinking": ("<think>[1] hm</think>[1] Mara left.\n[2] Tom.", ("Mara left.", "Tom.")),
    "in a code block": ("```\n[1] Mara left.\n[2] Tom.\n```", ("Mara left.", "Tom.")),
    "behind an opening": ("Here are the notes:\n[1] Mara left.\n[2] Tom.", ("Mara left.", "Tom.")),
    "a number inside a line": ("[1] See [2] there.\n[2] Tom.", ("See [2] there.", "Tom.")),
    "one is empty": ("[1]\n[2] Tom.", ("", "Tom.")),
}
BAD = {
    "nothing": "",
    "no numbers": "Mara left. Tom stayed.",
    "one for both": "[1] Mara left and Tom stayed.",
    "one too many": "[1] a\n[2] b\n[3] c",
    "twice the same": "[1] a\n[1] b",
    "in the wrong order": "[2] b\n[1] a",
    "a quoted mark at the start of a line": "[1] a\n[2] as it said:\n[2] b",
    "from nought": "[0] a\n[1] b",
    "words before the first": "Mara and Tom went their ways.\n[1] a\n[2] b",
    "another list": "1. a\n2. b",
}


@pytest.mark.parametrize(("text", "notes"), GOOD.values(), ids=GOOD)
def test_notes_are_told_apart_by_their_numbers(text: str, notes: tuple[str, ...]):
    assert parted(text, 2) == notes


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_anything_else_is_no_answer(text: str):
    assert parted(text, 2) == ()


def test_an_answer_that_broke_off_loses_its_last_note():
    assert parted("[1] a.\n[2] b.\n[3] c and", 4, cut=True) == ("a.", "b.")
    assert parted("[1] a.\n[2] b.\n[3] c.\n[4] d", 4, cut=True) == ("a.", "b.", "c.")
    assert parted("[1] a and", 4, cut=True) == ()


def test_what_was_joined_comes_apart():
    notes = ("Mara left.", "多谢。", "Tom\nstayed.")
    assert parted(joined(notes), 3) == notes
