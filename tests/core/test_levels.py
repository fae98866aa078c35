"""When summaries are merged: as late as the room allows, never with a gap, always the oldest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.lanes import levels
from previously.lanes.levels import Groups, Limits, groups, size, stretches
from previously.model import Message, Summary, Uncovered

ROOMY = Limits(room_tokens=10_000, threshold_tokens=1_000, interval=5, minis_max=60)
NOTHING = Uncovered()


def cover(n: int, *, level: int = 0, tokens: int = 50, presence: int | None = None) -> Summary:
    return Summary(
        id=n,
        lane="volumes",
        kind="mini",
        level=level,
        ordinal=n,
        text=f"note {n}",
        tokens=tokens,
        hash=bytes([n % 256]),
        first_pos=n * 10,
        last_pos=n * 10 + 5,
        message_count=2,
        presence=presence,
    )


def minis(count: int, start: int = 1, tokens: int = 50) -> list[Summary]:
    return [cover(n, tokens=tokens) for n in range(start, start + count)]


def hole_at(pos: int) -> Uncovered:
    return Uncovered(((Message(1, pos, "user", "x", b"h", 1),),))


def numbers(found: Groups) -> list[list[int]]:
    return [[s.id for s in group] for group in found.due]


def test_nothing_is_due_without_summaries():
    assert groups([], NOTHING, ROOMY) == Groups()


@pytest.mark.proves("G-43", "G-115")
def test_every_interval_a_model_is_asked_about_all_that_there_is():
    assert groups(minis(4), NOTHING, ROOMY) == Groups()
    assert [s.id for s in groups(minis(5), NOTHING, ROOMY).ask] == [1, 2, 3, 4, 5]
    assert len(groups(minis(9), NOTHING, ROOMY).ask) == 5
    assert len(groups(minis(13), NOTHING, ROOMY).ask) == 10  # also where the count jumped


def test_more_tokens_than_the_threshold_make_a_volume_without_asking():
    heavy = minis(5, tokens=199)  # 1,005 with their lines
    assert numbers(groups(heavy, NOTHING, ROOMY)) == [[1, 2, 3, 4, 5]]
    assert numbers(groups(minis(5, tokens=198), NOTHING, ROOMY)) == []
    assert numbers(groups(minis(4, tokens=400), NOTHING, ROOMY)) == []  # not looked at yet


@pytest.mark.proves("G-44")
def test_too_many_minis_make_a_volume_whatever_anybody_says():
    limits = replace(ROOMY, minis_max=12)
    assert numbers(groups(minis(11, tokens=1), NOTHING, limits)) == []
    assert numbers(groups(minis(12, tokens=1), NOTHING, limits)) == [list(range(1, 13))]


def test_minis_that_crowd_out_everything_else_do_not_wait_for_the_next_look():
    limits = replace(ROOMY, room_tokens=400)
    assert numbers(groups(minis(3, tokens=70), NOTHING, limits)) == [[1, 2, 3]]


def test_many_minis_leave_their_room_sooner_than_few():
    limits = replace(ROOMY, room_tokens=1_000)
    assert numbers(groups(minis(levels.MANY - 1, tokens=30), NOTHING, limits)) == []
    (group,) = groups(minis(levels.MANY, tokens=30), NOTHING, limits).due
    assert len(group) == levels.MANY


def test_a_volume_by_hand_takes_what_there_is():
    assert numbers(groups(minis(3), NOTHING, ROOMY, now=True)) == [[1, 2, 3]]
    assert numbers(groups(minis(1), NOTHING, ROOMY, now=True)) == []


@pytest.mark.proves("G-39")
def test_a_message_without_a_summary_ends_a_stretch():
    found = list(stretches(minis(6), hole_at(37)))
    assert [[s.id for s in stretch] for stretch in found] == [[1, 2, 3], [4, 5, 6]]


def test_people_who_were_not_there_end_a_stretch():
    covers = [cover(1), cover(2), cover(3, presence=7), cover(4, presence=7)]
    assert [len(s) for s in stretches(covers, NOTHING)] == [2, 2]


def test_volumes_stay_apart_while_there_is_room():
    volumes = [cover(n, level=1, tokens=200) for n in range(1, 9)]
    assert groups(volumes, NOTHING, ROOMY).due == ()
    tight = replace(ROOMY, room_tokens=1_500)
    assert numbers(groups(volumes, NOTHING, tight)) == [[1, 2]]
    assert numbers(groups(volumes[:2], NOTHING, replace(ROOMY, room_tokens=300))) == [[1, 2]]


def test_of_several_levels_the_lowest_is_merged():
    eras = [cover(n, level=2, tokens=300) for n in (1, 2)]
    volumes = [cover(n, level=1, tokens=100) for n in (3, 4, 5)]
    tight = replace(ROOMY, room_tokens=800)
    assert numbers(groups([*eras, *volumes], NOTHING, tight)) == [[3, 4]]
    assert numbers(groups([*eras, volumes[0]], NOTHING, tight)) == []
    assert numbers(groups([*eras, volumes[0]], NOTHING, replace(tight, room_tokens=600))) == [
        [1, 2]
    ]


def test_however_short_they_are_only_so_many_of_a_level_stand():
    volumes = [cover(n, level=1, tokens=1) for n in range(1, levels.LEVEL_MAX + 1)]
    assert numbers(groups(volumes, NOTHING, ROOMY)) == [list(range(1, levels.FAN_MAX + 1))]
    assert groups(volumes[1:], NOTHING, ROOMY).due == ()


def test_what_lost_its_volume_gets_another_one_first():
    covers = [*minis(3), cover(4, level=1), *minis(5, start=5, tokens=400)]
    assert numbers(groups(covers, NOTHING, ROOMY)) == [[1, 2, 3]]
    alone = [cover(1), cover(2, level=1), *minis(2, start=3)]
    assert groups(alone, NOTHING, ROOMY).due == ()


def test_a_long_backlog_is_taken_in_pieces_that_one_request_can_hold():
    many = minis(2_000, tokens=100)
    (group,) = groups(many, NOTHING, ROOMY).due
    assert group[0].id == 1
    assert len(group) <= ROOMY.minis_max
    assert size(group) <= 2 * ROOMY.threshold_tokens


@given(
    tokens=st.lists(st.integers(1, 600), min_size=1, max_size=80),
    room=st.integers(300, 6_000),
    interval=st.integers(5, 20),
)
def test_merging_ends_and_leaves_no_more_than_the_room_holds(
    tokens: list[int], room: int, interval: int
):
    limits = Limits(room, 1_000, interval, 60)
    covers = [cover(n, tokens=t) for n, t in enumerate(tokens, 1)]
    steps = 0
    while due := groups(covers, NOTHING, limits).due:
        (group,) = due
        assert len(group) >= levels.PAIR
        assert group[0].level == max(s.level for s in group)
        at = covers.index(group[0])
        assert covers[at : at + len(group)] == list(group)
        merged = replace(
            group[0],
            level=group[0].level + 1,
            tokens=max(1, size(group) // 3),
            last_pos=group[-1].last_pos,
        )
        covers[at : at + len(group)] = [merged]
        steps += 1
        assert steps < 200
    movable = [s for s in stretches(covers, NOTHING) if len(s) >= levels.PAIR and s[0].level]
    assert size(covers) <= room or not movable


def test_unlike_neighbours_are_merged_only_where_there_is_nothing_else_to_merge():
    eras = [cover(n, level=4 - n, tokens=300) for n in (1, 2, 3)]
    tight = replace(ROOMY, room_tokens=1_000)
    few = minis(2, start=4, tokens=40)
    assert numbers(groups([*eras, *few], NOTHING, tight)) == [[2, 3]]
    assert numbers(groups([*eras, *few], NOTHING, tight, {2})) == [[4, 5]]
    assert numbers(groups([*eras, *minis(2, start=4, tokens=60)], NOTHING, tight)) == [[4, 5]]
    assert numbers(groups(eras, hole_at(28), replace(tight, room_tokens=800))) == [[1, 2]]


@pytest.mark.proves("I9")
@pytest.mark.parametrize("tokens", [34, 46, 120])
@pytest.mark.parametrize("room", [2_900, 4_000])
def test_what_stands_neither_grows_nor_swings_once_the_room_is_full(tokens: int, room: int):
    limits = Limits(room, int(room * levels.MINIS_SHARE_MAX), 20, 60)
    covers: list[Summary] = []
    sizes: list[int] = []
    for n in range(1, 2_001):
        covers.append(cover(n, tokens=tokens))
        while due := groups(covers, NOTHING, limits).due:
            covers = merged(covers, due[0])
        sizes.append(size(covers))
    late = sizes[400:]
    assert max(late) <= room
    assert min(late) >= room * 0.6
    halves = (late[: len(late) // 2], late[len(late) // 2 :])
    first, second = (sum(half) / len(half) for half in halves)
    assert abs(first - second) <= room * 0.02


def merged(covers: list[Summary], group: tuple[Summary, ...]) -> list[Summary]:
    """With one in place of a group, as long as it may be."""
    at = covers.index(group[0])
    level = group[0].level + 1
    one = replace(
        group[0],
        level=level,
        tokens=min(300 if level == 1 else 600, size(group) // 2),
        last_pos=group[-1].last_pos,
    )
    return [*covers[:at], one, *covers[at + len(group) :]]
