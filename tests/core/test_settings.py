from __future__ import annotations

import pytest

from previously.errors import BadInput
from previously.settings import Settings, checked, from_environment, layered


@pytest.mark.proves("B-44")
@pytest.mark.parametrize(
    ("given", "used"), [(0, 1), (-5, 1), (101, 100), ("30", 30), (7.9, 7), (55, 55)]
)
def test_visible_floors_are_coerced_and_clamped(given: object, used: int):
    assert layered({"visible_floors": given})[0].visible_floors == used


@pytest.mark.proves("B-44", "B-47", "B-61")
def test_no_settings_at_all_are_the_defaults():
    assert layered()[0] == layered({})[0] == Settings()
    assert Settings().visible_floors == 20
    assert Settings().auto_mini_summary is True


@pytest.mark.proves("B-61")
@pytest.mark.parametrize("bad", ["abc", None, [], float("nan"), float("inf")])
def test_a_value_that_cannot_be_used_keeps_the_one_below_and_is_reported(bad: object):
    settings, refused = layered(
        {"visible_floors": 30, "fold_every": 5}, {"visible_floors": bad, "budget_tokens": 900}
    )
    assert (settings.visible_floors, settings.fold_every, settings.budget_tokens) == (30, 5, 900)
    assert refused == ("visible_floors",)


def test_a_later_layer_wins_and_unknown_names_are_reported():
    settings, refused = layered({"fold_every": 3}, {"fold_every": 4, "colour": "red"})
    assert settings.fold_every == 4
    assert refused == ("colour",)


@pytest.mark.parametrize(
    ("given", "used"),
    [("false", False), ("0", False), ("YES", True), (False, False), (1, True), ("", False)],
)
def test_flags_are_read_as_people_write_them(given: object, used: bool):
    assert layered({"auto_mini_summary": given})[0].auto_mini_summary is used


def test_a_change_is_clamped_or_refused_by_name():
    assert checked({"visible_floors": "200"}) == {"visible_floors": 100}
    for changes in ({"colour": "red"}, {"language": "xx"}, {"auto_mini_summary": "maybe"}):
        with pytest.raises(BadInput) as refused:
            checked(changes)
        assert refused.value.field in changes
        assert str(refused.value)


def test_the_environment_names_settings_in_capitals():
    found = from_environment({"PREVIOUSLY_FOLD_EVERY": "7", "PREVIOUSLY_PORT": "1", "HOME": "x"})
    assert found == {"FOLD_EVERY".lower(): "7"}


def test_the_high_mark_is_the_low_one_plus_what_may_gather():
    assert Settings(visible_floors=5, fold_every=3).high_mark == 8
