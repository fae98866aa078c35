from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.text.template import ALIASES, missing, render

FORMATS = [
    "{",
    "}",
    "{}",
    "{0}",
    "{x!r}",
    "%s",
    "%(x)s",
    "${x}",
    "$x",
    "\\",
    "\\1",
    "\\g<0>",
    "\x00",
]
MACROS = ["{{", "}}", "{{NEW_HISTORY}}", "{{PREVIOUS_SUMMARY}}", "{{char_sheet}}", "{{{{x}}}}"]

hostile_text = st.lists(
    st.sampled_from([*FORMATS, *MACROS, "a", "中", " ", "\n"]), max_size=12
).map("".join)


def test_every_placeholder_takes_its_value():
    template = "Old:\n{{PREVIOUS_SUMMARY}}\nNew:\n{{NEW_HISTORY}}\nAgain: {{NEW_HISTORY}}"
    values = {"PREVIOUS_SUMMARY": "none yet", "NEW_HISTORY": "林月: 走吧"}
    assert render(template, values) == "Old:\nnone yet\nNew:\n林月: 走吧\nAgain: 林月: 走吧"


@pytest.mark.parametrize("written", ["{{words}}", "{{ words }}", "{{WORDS}}", "{{\tWords}}"])
def test_case_and_inner_blanks_do_not_matter(written: str):
    assert render(f"<{written}>", {"Words": "300"}) == "<300>"
    assert missing(written, ["wOrds"]) == ()


@pytest.mark.parametrize(
    "written",
    ["{{unknown}}", "{words}", "{{wor ds}}", "{{1words}}", "{{}}", "{{words}", "{{words::a}}"],
)
def test_what_is_no_known_placeholder_stays_as_written(written: str):
    assert render(written, {"words": "300"}) == written


@pytest.mark.proves("A-20", "G-86")
@given(hostile_text, hostile_text)
def test_a_value_is_inserted_verbatim_and_never_read_as_a_template(old: str, new: str):
    rendered = render(
        "<{{PREVIOUS_SUMMARY}}|{{NEW_HISTORY}}>", {"NEW_HISTORY": new, "PREVIOUS_SUMMARY": old}
    )
    assert rendered == f"<{old}|{new}>"


@pytest.mark.proves("G-86")
@given(hostile_text)
def test_a_template_without_known_names_is_left_alone(template: str):
    assert render(template, {"words": "300"}) == template


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_a_name_and_its_alias_are_one(alias: str, name: str):
    assert render(f"{{{{{alias}}}}}", {name: "x"}) == "x"
    assert render(f"{{{{{name}}}}}", {alias.upper(): "x"}) == "x"
    assert missing(f"{{{{{alias}}}}}", [name]) == missing(f"{{{{{name}}}}}", [alias]) == ()


def test_the_names_of_all_specifications_are_one_vocabulary():
    values = {"PREVIOUS_SUMMARY": "old", "NEW_HISTORY": "new", "summary": "now"}
    assert render("{{previous_sheet}} {{new_dialogue}} {{sheet}}", values) == "old new now"


def test_the_very_name_wins_over_its_alias():
    values = {"sheet": "S", "summary": "P"}
    assert render("{{sheet}} {{summary}}", values) == "S P"
    assert render("{{SHEET}} {{Summary}}", dict(reversed(values.items()))) == "S P"


def test_an_empty_value_leaves_no_placeholder_behind():
    assert render("[{{sheet}}]", {"sheet": ""}) == "[]"


def test_missing_names_come_back_as_asked_and_in_order():
    required = ["NEW_HISTORY", "words", "PREVIOUS_SUMMARY"]
    assert missing("", required) == ("NEW_HISTORY", "words", "PREVIOUS_SUMMARY")
    assert missing("{{words}}", required) == ("NEW_HISTORY", "PREVIOUS_SUMMARY")
    assert missing("{{ new_dialogue }} {{words}} {{previous_summary}}", required) == ()
