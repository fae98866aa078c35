from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously import folding
from previously.assembler import assemble, before_tail
from previously.model import (
    START,
    Attempt,
    Fold,
    FoldKey,
    Item,
    Message,
    Prompt,
    Snapshot,
    Summary,
)
from previously.planner import advance, plan, together
from tests.core.makers import message, mini, snapshot, talk

NOW = 10_000_000


def minis(said: tuple[Message, ...], first: int = 1) -> list[Summary]:
    """One for every two messages."""
    pairs = [said[i : i + 2] for i in range(0, len(said) - 1, 2)]
    return [mini(first + i, pair) for i, pair in enumerate(pairs)]


def built(state: Snapshot, budget: int = 4_000, head: int = 0) -> Prompt:
    return assemble(state, before_tail(state), budget, head)


def test_a_chat_is_folded_first_when_it_is_first_shown():
    state = snapshot(talk(4), fold=Fold(FoldKey("", 4_000)))
    assert folding.wanted(state, 4_000, NOW) == folding.FIRST


def test_a_fold_that_shows_something_changed_moves_at_once():
    state = snapshot(talk(4), fold=Fold(FoldKey("", 4_000), version=3, stale=True))
    assert folding.wanted(state, 4_000, NOW) == folding.STALE


def test_below_its_high_mark_the_tail_stays():
    said = talk(39, created_at_ms=NOW)
    assert folding.wanted(snapshot(said, covers=minis(said)), 4_000, NOW) is None


def test_at_its_high_mark_the_tail_is_folded_if_summaries_are_there():
    said = talk(40, created_at_ms=NOW)
    ready = snapshot(said, covers=minis(said[:20]))
    assert folding.wanted(ready, 4_000, NOW) == folding.HIGH_MARK
    assert folding.wanted(snapshot(said), 4_000, NOW) is None
    few = snapshot(said, covers=minis(said[:6]))
    assert folding.wanted(few, 4_000, NOW) is None


def test_a_tail_that_outgrows_its_share_is_folded_early():
    said = talk(24, created_at_ms=NOW, tokens=150)
    assert folding.wanted(snapshot(said, covers=minis(said)), 4_000, NOW) == folding.TOO_LARGE


def test_a_few_long_messages_outgrow_it_too():
    said = talk(12, created_at_ms=NOW, tokens=300)
    assert folding.wanted(snapshot(said, covers=minis(said)), 4_000, NOW) == folding.TOO_LARGE
    assert folding.move(snapshot(said, covers=minis(said)), 4_000, "x").tail == said[8:]
    exactly = talk(18, created_at_ms=NOW, tokens=100)
    filled = snapshot(exactly, covers=minis(exactly), visible_floors=5)
    assert folding.wanted(filled, 3_000, NOW) is None


def test_a_cold_cache_is_a_good_moment():
    said = talk(34, created_at_ms=NOW - folding.COLD_AFTER_MS - 1)
    assert folding.wanted(snapshot(said, covers=minis(said)), 4_000, NOW) == folding.COLD


def test_a_fold_leaves_the_low_mark_and_shows_the_rest_by_its_covers():
    said = talk(40)
    covers = minis(said[:20])
    moved = folding.move(snapshot(said, covers=covers), 4_000, folding.HIGH_MARK)
    assert moved.tail == said[20:]
    assert moved.shown == tuple(covers)
    assert moved.fold.tail_pos == said[20].pos
    assert moved.fold.version == 2
    assert moved.fold.from_pos == START


@pytest.mark.proves("G-34", "I1")
def test_a_message_whose_summary_is_still_to_come_stays_in_the_tail():
    said = talk(40)
    moved = folding.move(snapshot(said, covers=minis(said[:10])), 4_000, folding.HIGH_MARK)
    assert moved.tail == said[10:]


@pytest.mark.proves("G-39", "I1", "I2")
def test_a_hole_is_carried_along_as_it_was_said():
    said = talk(40)
    covers = [*minis(said[:8]), *minis(said[10:20], first=9)]
    state = snapshot(said, covers=covers, uncovered=[said[8:10], said[20:]])
    moved = folding.move(state, 4_000, folding.HIGH_MARK)
    assert moved.tail == said[20:]
    assert moved.shown == (*covers[:4], *said[8:10], *covers[4:])


def test_a_cover_that_would_reach_into_the_tail_pulls_the_tail_back():
    said = talk(40)
    wide = mini(1, said[18:22])
    moved = folding.move(
        snapshot(said, covers=[*minis(said[:18], first=2), wide]), 4_000, folding.HIGH_MARK
    )
    assert moved.tail == said[18:]
    assert wide not in moved.shown


def test_a_volume_that_would_reach_into_the_tail_is_opened_as_far_as_it_must_be():
    said = talk(40)
    leaves = minis(said[:24])
    volumes = [
        replace(mini(90 + i, said[8 * i : 8 * i + 8]), level=1, kind="volume") for i in range(3)
    ]
    era = replace(mini(99, said[:24]), level=2, kind="era")
    under = {v.id: tuple(leaves[4 * i : 4 * i + 4]) for i, v in enumerate(volumes)}
    state = snapshot(said, covers=[era])
    assert state.backlog is not None
    children = {era.id: tuple(volumes), **under}
    known = replace(state, backlog=replace(state.backlog, children=children))
    moved = folding.move(known, 9_000, "x")
    assert moved.tail == said[20:]
    assert moved.shown == (*volumes[:2], *leaves[8:10])
    inside = replace(known, tail=said[:-1])  # the low mark lies inside a leaf
    assert folding.move(inside, 9_000, "x").tail == said[18:-1]
    before = replace(known, tail=said, settings=replace(known.settings, visible_floors=16))
    assert folding.move(before, 9_000, "x").shown == (era,)


def test_what_a_volume_was_made_of_may_be_unknown_then_the_tail_goes_back_to_its_start():
    said = talk(40)
    volume = replace(mini(9, said[10:24]), level=1)
    moved = folding.move(snapshot(said, covers=[*minis(said[:10]), volume]), 9_000, "x")
    assert moved.tail == said[10:]
    assert moved.shown == tuple(minis(said[:10]))


def test_standing_messages_are_shown_first_and_cost_nothing_of_the_covers_share():
    rules = message(1, "system", "rules", pinned=True)
    said = talk(40)
    moved = folding.move(
        snapshot((rules, *said), covers=minis(said[:20]), standing=[rules]), 4_000, "x"
    )
    assert moved.shown[0] is rules
    assert [b.place for b in built(moved).trace.blocks[:2]] == ["standing", "cover"]


def test_covers_that_do_not_fit_their_share_are_left_out_oldest_first():
    said = talk(40)
    covers = [mini(i + 1, said[2 * i : 2 * i + 2], tokens=300) for i in range(10)]
    moved = folding.move(snapshot(said, covers=covers), 4_000, "x")
    assert moved.shown == tuple(covers[5:])
    assert moved.fold.from_pos == covers[5].first_pos
    (dropped,) = built(moved).trace.dropped
    assert (dropped.from_pos, dropped.before_pos) == (START, covers[5].first_pos)


def test_where_no_cover_fits_everything_before_the_tail_is_left_out():
    said = talk(40)
    covers = [mini(i + 1, said[2 * i : 2 * i + 2], tokens=3_000) for i in range(10)]
    moved = folding.move(snapshot(said, covers=covers), 4_000, "x")
    assert moved.shown == ()
    assert moved.fold.from_pos == moved.fold.tail_pos == said[20].pos


def test_an_empty_chat_folds_to_nothing():
    moved = folding.move(snapshot(()), 4_000, folding.FIRST)
    assert (moved.tail, moved.shown, moved.fold.tail_pos) == ((), (), START)
    assert built(moved).messages == []


def cut(state: Snapshot, first: int) -> Snapshot:
    """Only the messages from that one on are loaded."""
    return replace(state, tail=state.tail[first:], tail_cut=True)


@pytest.mark.proves("I1")
def test_a_tail_that_is_too_long_to_load_starts_where_it_did_and_says_what_is_missing():
    said = talk(60)
    moved = folding.move(cut(snapshot(said, uncovered=[said[:8]]), 30), 9_000, "x")
    assert moved.fold.tail_pos == said[0].pos
    assert moved.tail == said[30:]
    assert moved.shown == ()
    (dropped,) = built(moved, 9_000).trace.dropped
    assert (dropped.from_pos, dropped.before_pos) == (said[0].pos, said[30].pos)


def test_a_cut_that_lies_behind_covers_leaves_nothing_out():
    said = talk(60)
    covers = minis(said[:40])
    state = snapshot(said, covers=covers, uncovered=[said[40:48]])
    moved = folding.move(cut(state, 30), 9_000, "x")
    assert moved.tail == said[40:]
    assert moved.shown == tuple(covers)
    assert not moved.tail_cut
    assert built(moved, 9_000).trace.dropped == ()


def test_a_cut_right_where_the_tail_begins_leaves_nothing_out():
    said = talk(60)
    state = snapshot(said, covers=minis(said[:30]), uncovered=[said[30:38]])
    moved = folding.move(cut(state, 30), 9_000, "x")
    assert moved.tail == said[30:]
    assert not moved.tail_cut


def test_a_hole_that_was_covered_last_does_not_hold_a_cut_tail_back():
    said = talk(60)
    covers = minis(said[:38])
    state = snapshot(
        said, covers=covers, uncovered=[said[38:39], said[39:50]], covered_to=said[38].pos
    )
    moved = folding.move(cut(state, 45), 9_000, "x")
    assert moved.fold.tail_pos == said[39].pos
    assert moved.shown == (*covers, said[38])


@pytest.mark.parametrize("index", [20, 30])
def test_a_standing_message_of_the_tail_is_shown_there_and_only_there(index: int):
    said = talk(40)
    rules = replace(said[index], pinned=True)
    tail = (*said[:index], rules, *said[index + 1 :])
    moved = folding.move(snapshot(tail, covers=minis(said[:20]), standing=[rules]), 9_000, "x")
    assert rules in moved.tail
    assert rules not in moved.shown


def test_a_single_greeting_is_enough_to_gain_where_every_turn_may_fold():
    said = (message(1, "assistant"), *talk(20, created_at_ms=NOW))
    state = snapshot(said, covers=[mini(1, said[:1])], fold_every=1)
    assert folding.wanted(state, 9_000, NOW) == folding.HIGH_MARK


def test_the_oldest_hole_that_was_loaded_is_shown():
    said = talk(40)
    covers = minis(said[2:20])
    state = snapshot(said, covers=covers, uncovered=[said[:2]])
    assert state.backlog is not None
    known = replace(state, backlog=replace(state.backlog, from_pos=said[0].pos))
    assert folding.move(known, 9_000, "x").shown == (*said[:2], *covers)


def test_where_all_is_loaded_an_old_message_that_waits_is_carried_along_as_it_was_said():
    """It was let in again before the tail: a hole like any other."""
    said = talk(40)
    fold = Fold(FoldKey("", 4_000), version=3, tail_pos=said[10].pos, stale=True)
    state = snapshot(said[10:], uncovered=[said[4:5]], covered_to=said[3].pos, fold=fold)
    moved = folding.move(state, 9_000, "x")
    assert moved.tail == said[10:]
    assert moved.shown == (said[4],)


def test_a_summary_of_what_the_cut_left_out_moves_the_fold():
    said = talk(40, created_at_ms=NOW)
    fold = Fold(FoldKey("", 4_000), version=1, tail_pos=said[2].pos)
    state = snapshot(said[2:], covers=minis(said[:2]), fold=fold)
    assert folding.wanted(cut(state, 18), 9_000, NOW) is None
    known = snapshot(said[2:], covered_to=said[2].pos, fold=fold)
    assert folding.wanted(cut(known, 18), 9_000, NOW) == folding.TOO_LARGE
    assert folding.wanted(replace(known, tail=known.tail[18:]), 9_000, NOW) is None


@pytest.mark.proves("I1", "I2")
@given(
    st.integers(1, 60),
    st.sets(st.integers(0, 29)),
    st.integers(0, 59),
    st.integers(0, 40),
    st.integers(300, 6_000),
)
def test_however_much_of_the_tail_is_loaded_every_message_stands_once_or_is_named(
    count: int, skipped: set[int], loaded_from: int, page: int, budget: int
):
    said = tuple(message(i + 2, tokens=60) for i in range(count))
    covers = [s for i, s in enumerate(minis(said[: count // 2])) if i not in skipped]
    under = {m for s in covers for m in s.covers}
    covered_to = max((s.last_pos for s in covers), default=0)
    holes = [(m,) for m in said if m.id not in under and m.pos <= covered_to]
    after = [m for m in said if m.pos > covered_to][: page + 1]
    state = snapshot(said, covers=covers, uncovered=[*holes, after], visible_floors=5)
    first = min(loaded_from, count - 1)
    state = cut(state, first) if first else state
    prompt = built(folding.move(state, budget, "x"), budget)
    items = [item for b in prompt.trace.blocks for item in b.sources]
    for m in said:
        raw = items.count(Item.of(m))
        cover = sum(m.id in s.covers and Item.of(s) in items for s in covers)
        gone = any(d.from_pos <= m.pos < d.before_pos for d in prompt.trace.dropped)
        assert raw + cover + gone == 1, (m.pos, raw, cover, prompt.trace.dropped)


@pytest.mark.proves("I9")
@given(
    st.lists(st.integers(5, 900), min_size=1, max_size=60),
    st.integers(0, 40),
    st.integers(300, 6_000),
    st.integers(1, 30),
)
def test_a_prompt_fits_its_budget_unless_the_pending_turn_alone_does_not(
    sizes: list[int], covered: int, budget: int, floors: int
):
    said = tuple(message(i + 2, tokens=size) for i, size in enumerate(sizes))
    covers = minis(said[: min(covered, len(said)) // 2 * 2])
    moved = folding.move(snapshot(said, covers=covers, visible_floors=floors), budget, "x")
    prompt = built(moved, budget)
    pending = sum(b.tokens for b in prompt.trace.blocks if b.place == "pending")
    assert prompt.tokens <= max(budget, pending)
    assert bool(prompt.trace.notes) == (prompt.tokens > budget)


@pytest.mark.proves("I1", "I2", "I10")
@given(
    st.lists(st.integers(5, 400), min_size=1, max_size=60),
    st.sets(st.integers(0, 29)),
    st.integers(300, 6_000),
)
def test_every_message_stands_in_the_prompt_once_or_in_the_trace_as_dropped(
    sizes: list[int], skipped: set[int], budget: int
):
    said = tuple(message(i + 2, tokens=size) for i, size in enumerate(sizes))
    half = said[: len(said) // 4 * 2]
    covers = [s for i, s in enumerate(minis(half)) if i not in skipped]
    covered = {m for s in covers for m in s.covers}
    covered_to = max((s.last_pos for s in covers), default=0)
    holes = [(m,) for m in said if m.id not in covered and m.pos <= covered_to]
    state = snapshot(said, covers=covers, uncovered=holes, visible_floors=5)
    prompt = built(folding.move(state, budget, "x"), budget)
    assert prompt == built(folding.move(state, budget, "x"), budget)
    items = [item for b in prompt.trace.blocks for item in b.sources]
    assert len(items) == len(set(items))
    for m in said:
        raw = Item.of(m) in items
        cover = any(m.id in s.covers and Item.of(s) in items for s in covers)
        gone = any(d.from_pos <= m.pos < d.before_pos for d in prompt.trace.dropped)
        assert raw + cover + gone == 1, (m.pos, raw, cover, prompt.trace.dropped)


def test_the_tail_gives_way_before_the_covers_but_keeps_a_quarter():
    said = talk(22, tokens=100)
    shown = tuple(mini(i + 1, said[2 * i : 2 * i + 2], tokens=100) for i in range(5))
    state = replace(snapshot(said[10:]), shown=shown)
    prompt = built(state, 1_000)
    kept = [b for b in prompt.trace.blocks if b.place in ("tail", "pending")]
    covers = next(b for b in prompt.trace.blocks if b.place == "cover")
    assert len(kept) >= 2
    assert covers.sources
    assert prompt.tokens <= 1_000


def test_a_budget_for_the_pending_turn_alone_shows_nothing_else():
    rules = message(1, "system", "rules", pinned=True)
    said = (*talk(4), message(6, "user", tokens=500))
    prompt = built(replace(snapshot(said), shown=(rules, mini(1, talk(2)))), 505)
    assert [b.place for b in prompt.trace.blocks] == ["standing", "pending"]
    assert prompt.messages[-1]["content"] == "message 6"


def test_a_tail_that_was_not_loaded_whole_says_so():
    said = talk(10, first=500)
    prompt = built(replace(snapshot(said), tail_cut=True))
    (dropped,) = prompt.trace.dropped
    assert (dropped.from_pos, dropped.before_pos) == (START, said[0].pos)


def test_what_the_caller_puts_in_front_counts():
    said = talk(10, tokens=100)
    assert len(built(snapshot(said), 1_000).messages) == 10
    assert len(built(snapshot(said), 1_000, head=500).messages) == 5


@pytest.mark.proves("B-02", "G-36")
def test_every_closed_turn_outside_the_low_mark_is_due_with_the_two_minis_before_it():
    said = talk(30)
    done = minis(said[:4])
    state = snapshot(said, covers=done, uncovered=[said[4:]])
    tasks = plan(state, NOW).ready
    assert [t.sources for t in tasks] == [said[4:6], said[6:8], said[8:10]]
    assert tasks[0].context == (done[0].text, done[1].text)


@pytest.mark.proves("G-33")
def test_right_after_a_volume_the_next_mini_is_written_in_its_light():
    said = talk(30)
    first, second = minis(said[:4])
    volume = replace(first, id=9, level=1, last_pos=second.last_pos, text="the volume", tokens=600)

    def context(*covers: Summary, start: int) -> tuple[str, ...]:
        state = snapshot(said, covers=covers, uncovered=[said[start:]])
        return plan(state, NOW).ready[0].context

    assert context(volume, start=4) == ("the volume",)
    after = mini(11, said[4:6])
    assert context(volume, after, start=6) == ("the volume", after.text)
    another = mini(12, said[6:8])
    assert context(volume, after, another, start=8) == (after.text, another.text)
    long = replace(volume, tokens=601)
    assert context(long, start=4) == ()
    assert context(long, after, start=6) == (after.text,)


def test_neighbouring_minis_share_a_call_up_to_the_limit():
    said = talk(40)
    state = snapshot(said, uncovered=[said], minis_per_call=3)
    decided = plan(state, NOW)
    assert together(state, decided) == decided.ready[:3]
    alone = snapshot(said, uncovered=[said], minis_per_call=1)
    assert len(together(alone, plan(alone, NOW))) == 1
    assert state.backlog is not None
    failed = Attempt(decided.ready[1].id, "volumes", "failed", "", "", 1, 0)
    tried = replace(state, backlog=replace(state.backlog, attempts={failed.task_id: failed}))
    assert together(tried, plan(tried, NOW)) == decided.ready[:1]
    parted = snapshot(said, covers=minis(said[4:6]), uncovered=[said[:4], said[6:]])
    assert len(together(parted, plan(parted, NOW))) == 2  # a mini stands between


@pytest.mark.proves("B-47", "G-41")
def test_minis_can_be_switched_off():
    said = talk(30)
    state = snapshot(said, uncovered=[said], auto_mini_summary=False)
    assert plan(state, NOW).ready == ()


def test_the_next_task_starts_from_what_the_last_one_made():
    said = talk(30)
    state = snapshot(said, uncovered=[said])
    first = plan(state, NOW).ready[0]
    made = mini(1, first.sources)
    after = advance(state, made)
    second = plan(after, NOW).ready[0]
    assert second.sources == said[2:4]
    assert second.context == (made.text,)
    assert after.covered_to == said[1].pos


@pytest.mark.proves("G-107", "I1")
def test_a_turn_that_is_not_confirmed_yet_stays_in_the_tail():
    said = talk(40, state="candidate")
    moved = folding.move(snapshot(said), 4_000, folding.FIRST)
    assert moved.tail == said


def test_the_marks_are_where_they_are_said_to_be():
    """One message or one token less, and the fold stays."""
    said = talk(40, created_at_ms=NOW)
    assert folding.wanted(snapshot(said, covers=minis(said[:10])), 9_000, NOW) == folding.HIGH_MARK
    assert folding.wanted(snapshot(said, covers=minis(said[:8])), 9_000, NOW) is None
    assert folding.wanted(snapshot(said[:39], covers=minis(said)), 9_000, NOW) is None
    every = snapshot(said[:24], covers=minis(said[:2]), fold_every=3)
    assert folding.wanted(every, 9_000, NOW) == folding.HIGH_MARK
    one = snapshot(said[:22], covers=minis(said[:2]), fold_every=1)
    assert folding.wanted(one, 9_000, NOW) == folding.HIGH_MARK


def test_a_single_covered_turn_is_enough_where_the_tail_outgrows_its_share():
    said = talk(22, created_at_ms=NOW, tokens=100)
    covers = minis(said[:2])
    assert folding.wanted(snapshot(said, covers=covers), 3_667, NOW) is None
    assert folding.wanted(snapshot(said, covers=covers), 3_666, NOW) == folding.TOO_LARGE
    assert folding.wanted(snapshot(said), 3_666, NOW) is None


def test_a_cache_is_cold_after_its_time_and_not_before():
    assert folding.COLD_AFTER_MS == 10 * 60 * 1000
    warm = talk(34, created_at_ms=NOW - folding.COLD_AFTER_MS)
    assert folding.wanted(snapshot(warm, covers=minis(warm)), 9_000, NOW) is None
    cold = [*warm[:-2], replace(warm[-2], created_at_ms=NOW - folding.COLD_AFTER_MS - 1)]
    fresh = snapshot([*cold, replace(warm[-1], created_at_ms=NOW)], covers=minis(warm))
    assert folding.wanted(fresh, 9_000, NOW) == folding.COLD


def test_covers_fill_their_share_to_the_last_token():
    said = talk(40)
    covers = [mini(i + 1, said[2 * i : 2 * i + 2], tokens=98) for i in range(10)]
    exactly = (folding.LABEL_TOKENS + 5 * (98 + folding.LINE_TOKENS)) * 10 // 4
    whole = folding.move(snapshot(said, covers=covers), exactly, "x")
    assert whole.shown == tuple(covers[5:])
    short = folding.move(snapshot(said, covers=covers), exactly - 3, "x")
    assert short.shown == tuple(covers[6:])


def test_what_was_not_loaded_is_left_out_and_said_so():
    said = talk(40)
    covers = minis(said[:20])
    state = snapshot(said, covers=covers, uncovered=[said[:1]])
    assert state.backlog is not None
    cut = replace(state, backlog=replace(state.backlog, from_pos=covers[3].first_pos))
    moved = folding.move(cut, 9_000, "x")
    assert moved.shown == tuple(covers[3:])
    assert moved.fold.from_pos == covers[3].first_pos


def test_a_note_on_the_first_message_of_the_tail_is_not_shown():
    said = talk(40)
    covers = minis(said[:20])
    state = snapshot(said, covers=[*covers, mini(50, said[20:21])])
    moved = folding.move(state, 9_000, "x")
    assert moved.tail == said[20:]
    assert moved.shown == tuple(covers)


def test_a_hole_at_the_tails_edge_is_in_the_tail_and_nowhere_else():
    said = talk(40)
    covers = minis(said[:20])
    state = snapshot(said, covers=covers, uncovered=[said[20:]])
    moved = folding.move(state, 9_000, "x")
    assert moved.tail == said[20:]
    assert moved.shown == tuple(covers)


def test_an_audience_sees_what_all_of_it_saw():
    said = (*talk(2, presence=1), *talk(2, first=4, presence=2), *talk(2, first=6))
    state = replace(
        snapshot(said, covers=[mini(1, said[:2], presence=1)], uncovered=[said[2:4]]),
        shown=(mini(2, said[:2], presence=2),),
        presences={1: frozenset({"Mara", "Tomas"}), 2: frozenset({"Mara"})},
    )
    mara = folding.seen_by(state, ["Mara"])
    tomas = folding.seen_by(state, ["Tomas"])
    assert mara.tail == said
    assert tomas.tail == (*said[:2], *said[4:])
    assert len(mara.shown) == 1
    assert tomas.shown == ()
    assert tomas.backlog is not None
    assert tomas.backlog.uncovered.runs == ()
    assert len(tomas.backlog.covers) == 1
    assert folding.seen_by(state, ["Mara", "Tomas"]).tail == tomas.tail
    assert folding.seen_by(replace(state, backlog=None), ["Mara"]).backlog is None


def test_a_prompt_that_exactly_fits_is_not_cut():
    said = talk(10, tokens=100)
    assert len(built(snapshot(said), 1_000).messages) == 10
    assert len(built(snapshot(said), 999).messages) == 9


def test_covers_that_the_budget_drops_are_named_up_to_the_first_that_stays():
    said = (*talk(4), message(6, "user", tokens=400))
    notes = tuple(mini(i + 1, [message(-9 + i)], tokens=60) for i in range(3))
    rules = message(1, "system", "rules", pinned=True)
    state = replace(snapshot(said[4:]), shown=(rules, *notes))
    prompt = built(state, 580)
    (dropped,) = prompt.trace.dropped
    kept = next(b for b in prompt.trace.blocks if b.place == "cover")
    first = notes[3 - len(kept.sources)]
    assert 0 < len(kept.sources) < 3
    assert (dropped.from_pos, dropped.before_pos) == (START, first.first_pos)
