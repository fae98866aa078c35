from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from previously.model import BACKLOG_MAX, Attempt, Intent, Rebuild, Snapshot, SummaryStatus
from previously.planner import (
    NEVER_MS,
    REST_MS,
    Plan,
    advance,
    due,
    forgotten,
    fulfilled,
    plan,
)
from tests.core.makers import mini, snapshot, talk

NOW = 1_000_000
SAID = talk(30)


def state(**backlog: Any) -> Snapshot:
    """Thirty messages, none covered: five turns are due."""
    made = snapshot(SAID, uncovered=[SAID])
    assert made.backlog is not None
    return replace(made, backlog=replace(made.backlog, **backlog))


def attempt(task_id: str, not_before_ms: int) -> Attempt:
    return Attempt(task_id, "volumes", "failed", "ModelUnavailable", "503", 1, not_before_ms)


def test_a_task_that_failed_waits_while_the_others_go_on():
    first, second, *_ = due(state())
    tried = {first.id: attempt(first.id, NOW + 500), second.id: attempt(second.id, NOW)}
    decided = plan(state(attempts=tried), NOW)
    assert first not in decided.ready
    assert second in decided.ready
    assert len(decided.ready) == 4
    assert decided.next_ms == NOW + 500
    assert plan(state(attempts=tried), NOW + 500).ready[0] == first


def test_the_next_look_is_when_the_first_of_those_that_wait_may_run():
    first, second, *_ = due(state())
    tried = {first.id: attempt(first.id, NOW + 900), second.id: attempt(second.id, NOW + 500)}
    assert plan(state(attempts=tried), NOW).next_ms == NOW + 500


def test_a_cancelled_task_is_never_waited_for():
    first = due(state())[0]
    decided = plan(state(attempts={first.id: attempt(first.id, NEVER_MS)}), NOW)
    assert first not in decided.ready
    assert decided.next_ms is None


@pytest.mark.proves("G-24")
def test_an_edit_comes_to_rest_before_it_is_written_about():
    since = {SAID[0].id: NOW, SAID[1].id: NOW - 700}
    decided = plan(state(open_since=since), NOW)
    assert [t.sources[0] for t in decided.ready] == [SAID[2], SAID[4], SAID[6], SAID[8]]
    assert decided.next_ms == NOW + 2_000 == NOW + REST_MS
    assert len(plan(state(open_since=since), NOW + REST_MS).ready) == 5
    assert len(plan(state(open_since=since), NOW, rest_ms=0).ready) == 5


@pytest.mark.parametrize("fields", [{"recalculating": True}, {"off": True}])
def test_nothing_is_due_while_the_chat_is_not_to_be_written_about(fields: dict[str, bool]):
    made = state()
    if fields.get("off"):
        made = replace(made, settings=replace(made.settings, enabled=False))
    else:
        made = replace(made, recalculating=True)
    assert plan(made, NOW).ready == ()
    assert plan(made, NOW).next_ms is None


def test_attempts_at_what_is_no_longer_due_are_forgotten():
    first = due(state())[0]
    tried = {first.id: attempt(first.id, NOW), "gone": attempt("gone", NOW)}
    assert forgotten(state(attempts=tried)) == ("gone",)
    assert forgotten(state(attempts={first.id: attempt(first.id, NOW)})) == ()
    assert forgotten(state()) == ()
    assert forgotten(state(attempts=tried, uncovered_cut=True)) == ()


def test_attempts_of_another_lane_are_kept_for_when_it_is_back():
    other = replace(attempt("there", NOW), lane="pairs")
    assert forgotten(state(attempts={"there": other, "here": attempt("here", NOW)})) == ("here",)


def test_a_wish_is_fulfilled_when_nothing_is_left_to_do_for_it():
    wished = state(intents=(Intent(1, "volumes", "run"), Intent(2, "volumes", "rebuild")))
    assert fulfilled(wished, Plan()) == (1, 2)
    assert fulfilled(wished, Plan(next_ms=0)) == ()
    assert fulfilled(state(), Plan()) == ()


def test_a_wish_outlasts_a_rest():
    wished = state(intents=(Intent(1, "volumes", "run"),))
    off = replace(wished, settings=replace(wished.settings, enabled=False))
    for resting in (replace(wished, recalculating=True), off):
        assert fulfilled(resting, plan(resting, NOW)) == ()


def test_a_wish_to_run_now_reaches_up_to_the_last_turn():
    assert len(due(state())) == 5
    hurried = state(intents=(Intent(1, "volumes", "run"),))
    assert [t.sources[0] for t in due(hurried)][-1] == SAID[26]


def test_a_rebuild_reads_the_same_messages_and_names_what_it_replaces():
    old = mini(1, SAID[:2])
    wanted = state(rebuilds=(Rebuild(1, old, SAID[:2]),), covers=(old,))
    first = due(wanted)[0]
    assert (first.sources, first.replaces) == (SAID[:2], old.id)
    plain = due(state())[0]
    assert first.id != plain.id
    made = mini(2, SAID[:2])
    after = advance(wanted, made)
    assert after.backlog is not None
    assert after.backlog.rebuilds == ()
    assert after.backlog.covers == (made,)


def test_messages_with_a_proposal_wait_for_the_user():
    made = state()
    first = due(made)[0]
    proposal = mini(1, first.sources, status=SummaryStatus.PROPOSED)
    after = advance(made, proposal)
    assert first.id not in [t.id for t in due(after)]
    assert len(due(after)) == 4
    assert after.backlog is not None
    assert after.backlog.covers == ()
    assert after.covered_to == made.covered_to


def test_a_note_over_a_hole_does_not_move_what_is_covered_back():
    late = mini(1, SAID[8:10])
    made = snapshot(SAID, covers=[late], uncovered=[SAID[:8], SAID[10:]])
    early = mini(2, SAID[:2])
    after = advance(made, early)
    assert after.covered_to == late.last_pos
    assert after.backlog is not None
    assert after.backlog.covers == (early, late)
    assert after.backlog.uncovered.runs == (SAID[2:8], SAID[10:])


def test_what_is_covered_to_its_end_leaves_no_empty_run():
    """The last run is where a turn may still be open: it must be the one that has messages."""
    made = snapshot(SAID, uncovered=[SAID[:3], SAID[8:10]], covered_to=SAID[9].pos)
    after = advance(made, mini(1, SAID[8:10]))
    assert after.backlog is not None
    assert after.backlog.uncovered.runs == (SAID[:3],)


def test_what_nothing_holds_up_is_ready_whatever_the_clock_says():
    assert len(plan(state(), 0).ready) == 5
    edited = state(open_since={SAID[0].id: 1})
    assert plan(edited, 0).next_ms == 1 + REST_MS


def test_a_summary_written_anew_leaves_the_other_wishes_open():
    first, second = mini(1, SAID[:1]), mini(2, SAID[1:4])
    wishes = (Rebuild(1, first, SAID[:1]), Rebuild(1, second, SAID[1:4]))
    after = advance(state(rebuilds=wishes, covers=(first, second)), mini(3, SAID[:1]))
    assert after.backlog is not None
    assert after.backlog.rebuilds == wishes[1:]
    assert [s.id for s in after.backlog.covers] == [mini(3, SAID[:1]).id, second.id]


def test_what_has_piled_up_waits_until_somebody_asks_if_it_costs():
    much = state(uncovered_count=BACKLOG_MAX + 1)
    assert plan(much, NOW, frugal=True) == Plan()
    assert len(plan(much, NOW).ready) == 5
    assert len(plan(state(uncovered_count=BACKLOG_MAX), NOW, frugal=True).ready) == 5
    for kind in ("run", "backfill"):
        asked = state(uncovered_count=BACKLOG_MAX + 1, intents=(Intent(1, "volumes", kind),))
        assert plan(asked, NOW, frugal=True).ready
    other = state(uncovered_count=BACKLOG_MAX + 1, intents=(Intent(1, "volumes", "rebuild"),))
    assert plan(other, NOW, frugal=True).ready == ()


def test_what_is_to_be_written_anew_does_not_wait_with_what_has_piled_up():
    old = mini(1, SAID[:2])
    wish = (Rebuild(1, old, SAID[:2]),)
    much = state(uncovered_count=BACKLOG_MAX + 1, rebuilds=wish, covers=(old,))
    assert [t.replaces for t in plan(much, NOW, frugal=True).ready] == [old.id]


def test_a_volume_takes_the_place_of_its_minis():
    one, two, three = (mini(n, SAID[2 * n : 2 * n + 2]) for n in (0, 1, 2))
    volume = replace(mini(9, SAID[:4]), level=1, covers=(one.id, two.id))
    made = state(covers=(one, two, three))
    after = advance(made, volume)
    assert after.backlog is not None
    assert after.backlog.covers == (volume, three)
    assert after.backlog.waiting == frozenset()
    late = advance(made, replace(volume, covers=(two.id, three.id), first_pos=two.first_pos))
    assert late.backlog is not None
    assert [s.id for s in late.backlog.covers] == [one.id, volume.id]
    proposed = advance(made, replace(volume, status=SummaryStatus.PROPOSED)).backlog
    assert proposed is not None
    assert proposed.covers == (one, two, three)
    assert proposed.waiting == {one.id, two.id}
