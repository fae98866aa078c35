"""Replies that were passed on while nothing was understood: whoever shows them again has kept them,
and what stands before them was said before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from previously.align import Alignment, Habit, Hints, align, lasting, normal, rejoin
from previously.align.certainty import is_in_touch
from previously.align.ending import ASKS_NOTHING, DEEP_FORK, NOT_SETTLED
from previously.align.hints import HEARD_MAX
from previously.align.looking import look
from previously.align.reading import LEADS_NOWHERE
from previously.align.rejoin import DOUBTS_MIN
from previously.align.trial import mended
from previously.model import CLIENT, Message, NewMessage
from tests.core.test_align import CONTINUE, history, stored, texts, turn_of

QUIET = "s:[Write your next reply from the point of view of Alice.]"
NORMAL = Hints(type="normal")


def hearing(habit: Habit, *replies: str) -> Habit:
    """With these, whether or not what is stored here says enough to be known by."""
    habit = replace(habit, in_touch=True)
    for reply in replies:
        habit = habit.hearing(normal.marks(reply))
    return habit


def test_what_is_as_far_from_the_end_was_said_if_our_reply_has_come_behind_it() -> None:
    """Two texts of lore went as a question and its reply came: nothing has moved but those."""
    kept = stored("u:one", "a:two")
    first = history("u:one", "a:two", "u:three", "u:four", "a:lore", "a:more lore", "u:five")
    then = history("u:one", "a:two", "u:three", "u:four", "u:five", "a:six", "u:seven")
    doubt = align(kept, first)
    assert doubt.turn is None
    turn = turn_of(align(kept, then, habit=hearing(doubt.habit, "six")))
    assert texts(turn.appends) == ["three", "four", "five", "six", "seven"]


def test_a_reply_of_ours_at_the_very_end_is_whole_and_begins_none() -> None:
    kept = stored("u:one", "a:two")
    doubt = align(kept, history("u:one", "a:two", "u:three", "u:four"))
    habit = hearing(doubt.habit, "five\n\nand six")
    shown = ["u:one", "a:two", "u:three", "u:four", "a:five\n\nand six"]
    assert align(kept, history(*shown), habit=habit).reason == ASKS_NOTHING  # more of it, or more?
    assert align(kept, history(*shown, CONTINUE), NORMAL, habit).reason == ASKS_NOTHING
    turn = turn_of(align(kept, history(*shown), NORMAL, habit))
    assert texts(turn.appends) == ["three", "four", "five\n\nand six"]


@pytest.mark.parametrize("known", [True, False])
def test_a_note_and_its_like_that_take_turns_are_no_turn_that_we_have_not_passed_on(
    *, known: bool
) -> None:
    """The second request of a chat, in which lore comes as the user and as the assistant."""
    doubt = align((), history("u:one", "a:<think>"))
    habit = hearing(doubt.habit, "two") if known else doubt.habit
    sent = history("u:one", "a:two", "u:lore", "a:more lore", "u:three", "a:<think>")
    found = align((), sent, habit=habit)
    assert found.reason == NOT_SETTLED if known else found.kind == "first"


def test_after_our_last_reply_nobody_else_replies_at_first_sight() -> None:
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    told = ["u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven"]
    doubt = align(kept, history(*told))
    assert doubt.reason == NOT_SETTLED
    turn = turn_of(align(kept, history(*told, "a:eight", "u:nine"), habit=doubt.habit))
    assert texts(turn.appends) == ["five", "six", "seven", "eight", "nine"]


def test_a_client_that_has_others_to_ask_as_well_is_believed_from_then_on() -> None:
    """Every second reply comes from another model."""
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    told = ["u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven"]
    doubt = align(kept, history(*told))
    assert doubt.reason == NOT_SETTLED
    told += ["a:eight", "u:nine", "a:ten", "u:eleven"]
    found = align(kept, history(*told), habit=hearing(doubt.habit, "eight"))
    assert texts(turn_of(found).appends) == [line[2:] for line in told[4:]]
    kept = [*kept, *stored(*(["u:"] * 4), *told[4:])[4:]]
    again = Habit().recalling(found.habit.written())
    found = align(kept, history(*told, "a:12", "u:13", "a:14", "u:15"), habit=again)
    assert texts(turn_of(found).appends) == ["12", "13", "14", "15"]


def test_what_comes_between_a_question_and_our_reply_to_it_was_not_said() -> None:
    """Where users often say two things in a row, and the last turns were taken back."""
    told = ["u:1", "u:2", "a:3", "u:4", "u:5", "a:6"]
    kept = stored(*told, "u:7", "u:8", "a:9", "u:10", "u:11?", "a:12?")
    doubt = align(kept, history(*told, "u:three", "u:four"))
    habit = hearing(doubt.habit, "five")
    assert doubt.reason == DEEP_FORK
    sent = history(*told, "u:three", "u:four", "u:lore", "a:five", "u:six")
    assert align(kept, sent, habit=habit).reason == NOT_SETTLED
    found = align(kept, [one for one in sent if one.body != "lore"], habit=habit)
    assert texts(turn_of(found).appends) == ["three", "four", "five", "six"]


def test_what_was_heard_outlives_a_process_and_ends_with_the_doubt() -> None:
    habit = hearing(Habit(doubts=2), "one", "two\n\nthree")
    again = Habit().recalling(habit.written())
    assert (again.heard, again.doubts) == (habit.heard, 2)
    kept = stored("u:one", "a:two", "u:three", "a:four")
    for request in (["u:one", "a:two", "u:three", "a:four", "u:five"], ["u:one", "a:two", "u:6"]):
        after = align(kept[: len(request) - 1], history(*request), habit=again).habit
        assert (after.heard, after.doubts) == ((), 0)
    many = hearing(Habit(), *(f"reply {n}" for n in range(2 * HEARD_MAX)))
    assert many.heard[-1] == normal.mark_of(f"reply {2 * HEARD_MAX - 1}")
    assert len(many.heard) == HEARD_MAX


def test_replies_are_heard_only_of_what_is_this_chats_own() -> None:
    told = ["a:a greeting of the card", "u:a first question", "a:a first answer"]
    kept = stored(*told, "u:a second question", "a:a second answer")
    own = align(kept, history(*told, "u:another second one", "u:and a third"))
    other = align(kept, history(told[0], "u:something else", "u:and a third"))
    for found, known in ((own, True), (other, False)):
        assert found.turn is None
        assert found.habit.in_touch == known
        assert bool(found.habit.hearing([b"reply"]).heard) == known
    shown = history("u:something else", "a:reply", "u:and more", "u:in a row")
    habit = replace(own.habit.hearing(normal.marks("reply")), in_touch=False)
    assert align(kept, shown, habit=habit).habit.in_touch  # it shows what was answered


# What is said more than once, changes that are read together, and such as lead nowhere


def test_of_words_said_twice_one_may_be_joined_to_others() -> None:
    kept = stored("u:one", "a:A: two", "a:B: 2", "u:go on", "a:A: three", "a:B: 3")
    kept = [*kept, *stored(*["u:"] * 6, "u:four", "u:go on", "a:A: five", "a:B: 5")[6:]]
    sent = ["u:one", "a:A: two\n\nB: 2", "u:go on", "a:A: three\n\nB: 3", "u:four\n\ngo on"]
    found = align(kept, history(*sent, "a:A: five\n\nB: 5", "u:six"))
    assert not turn_of(found).mends
    assert texts(turn_of(found).appends) == ["six"]


def test_words_said_at_every_turn_are_held_in_place_by_what_is_left_of_the_replies() -> None:
    """A rule shortens old replies, and one of the questions that all say the same is edited."""
    told = [f"a:reply number {n} of many\n<status>{n} is well</status>" for n in range(5)]
    kept = stored(
        "u:嗯。", told[0], "u:嗯。", told[1], "u:嗯。", told[2], "u:go", told[3], "u:no?", "a:4?"
    )
    short = [line.partition("\n")[0] for line in told]
    sent = [
        "u:嗯。",
        short[0],
        "u:嗯。",
        short[1],
        "u:edited",
        short[2],
        "u:go",
        told[3],
        "u:no",
        "a:4",
    ]
    turn = turn_of(align(kept, history(*sent, "u:yes")))
    assert [(number, text.body) for number, text in turn.edits] == [(5, "edited")]


def test_a_window_that_begins_with_what_anybody_says_hides_nothing() -> None:
    """Two questions were joined when they were new, and the window begins with the second."""
    kept = stored(
        "a:hi", "u:嗯。", "a:two", "u:three\n\n嗯。", "a:four", "u:five", "a:six", "u:7?", "a:8?"
    )
    turn = turn_of(align(kept, history("u:嗯。", "a:four", "u:five", "a:six", "u:7", "a:8", "u:9")))
    assert not turn.mends
    assert texts(turn.appends) == ["9"]


def test_of_words_said_twice_the_hidden_ones_are_not_meant() -> None:
    kept = stored("a:hi", "u:yes", "a:two", "u:yes", "a:four", "u:five?", "a:six?")
    kept[3] = replace(kept[3], hidden_by=CLIENT)
    turn = turn_of(align(kept, history("u:yes", "a:two\n\nfour", "u:five", "a:six", "u:seven")))
    assert not turn.mends
    both = ["a:hi", "u:yes", "a:two", "u:yes", "a:four", "u:five", "a:six", "u:seven"]
    assert turn_of(align(kept, history(*both))).shows == (4,)


def test_one_of_two_is_edited_and_the_other_hidden_where_roles_leave_no_choice() -> None:
    kept = stored("a:hi", "u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    first = ["a:hi", "u:other", "u:three", "a:four", "u:five", "a:six", "u:seven"]
    doubt = align(kept, history(*first))
    assert doubt.turn is None
    turn = turn_of(align(kept, history(*first, "a:8", "u:nine"), habit=hearing(doubt.habit, "8")))
    assert [(number, text.body) for number, text in turn.edits] == [(2, "other")]
    assert (turn.hides, turn.inserts) == ((3,), ())


def test_a_change_that_leads_to_no_certain_turn_is_not_made() -> None:
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    sent = history("u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven")
    found = align(kept, sent)
    assert lasting(found, kept, sent) == found
    edits = tuple((m.id, NewMessage(m.role, f"other {m.id}")) for m in kept)
    wrong = replace(found, turn=replace(turn_of(found), edits=edits))
    doubt = lasting(wrong, kept, sent)
    assert (doubt.kind, doubt.reason, doubt.turn) == ("unsure", LEADS_NOWHERE, None)
    assert doubt.habit.doubts == 1


def test_what_a_change_leaves_is_what_it_would_leave_in_the_store() -> None:
    """A random life compares the two; here each kind of change stands for itself."""
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    kept[1] = replace(kept[1], hidden_by=CLIENT)
    plain = turn_of(align(kept[2:], history("u:three", "a:four", "u:five", "a:six", "u:seven")))
    turn = replace(
        plain,
        edits=((4, NewMessage("assistant", "4")),),
        hides=(3,),
        shows=(2,),
        drops=(5, 6),
        inserts=((1, (NewMessage("user", "zero"), NewMessage("assistant", "half"))),),
    )
    after = mended(kept, turn)
    assert [(m.body, m.hidden_by) for m in after] == [
        *(("zero", None), ("half", None), ("one", None), ("two", None), ("three", CLIENT)),
        ("4", None),
    ]
    assert len({m.id for m in after}) == len(after)


def test_a_hidden_reply_that_is_shown_again_shortened_is_the_same() -> None:
    """A rule for old messages leaves its status out."""
    lines = [f"{'ua'[n % 2]}:said {n}\n<status>{n} is well</status>" for n in range(8)]
    kept = stored(*lines)
    kept[3] = replace(kept[3], hidden_by=CLIENT)
    short = ["u:said 0", "a:said 1", "u:said 2", "a:said 3", "u:said 4", *lines[5:]]
    turn = turn_of(align(kept, history(*short, "u:eight")))
    assert (turn.shows, turn.edits, turn.inserts) == ((4,), (), ())


# A doubt that has lasted until nothing that is stored is shown


def rejoined(kept: Sequence[Message], *lines: str, doubts: int = DOUBTS_MIN) -> Alignment:
    """After requests that were not understood, whose replies were 4, 6 and 8."""
    habit = replace(hearing(Habit(), "4", "6", "8"), doubts=doubts)
    return rejoin(align(kept, history(*lines), habit=habit), kept, history(*lines), habit=habit)


GONE_ON = ["a:other", "u:3", "a:4", "u:5", "a:6", "u:7", "a:8", "u:9"]


def test_a_client_that_shows_nothing_stored_any_more_is_known_by_our_own_replies() -> None:
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    turn = turn_of(rejoined(kept, *GONE_ON))
    assert texts(turn.appends) == [*"3456789"]  # what stands before may be stored in other words
    assert not turn.mends
    assert turn.confirms == ()


@pytest.mark.parametrize(
    ("lines", "doubts"),
    [
        (GONE_ON, DOUBTS_MIN - 1),  # others may tell more
        (GONE_ON[:3] + GONE_ON[-1:], DOUBTS_MIN),  # one may be a chance
        (GONE_ON[:-1], DOUBTS_MIN),  # nothing is asked: another reply, or more of it?
        ([*GONE_ON, "u:10"], DOUBTS_MIN),  # it may be an instruction
        ([*GONE_ON[:6], "a:a reply that is stored", "u:9"], DOUBTS_MIN),
        ([*GONE_ON, QUIET], DOUBTS_MIN),
    ],
)
def test_what_is_not_certain_then_stays_in_doubt(lines: list[str], doubts: int) -> None:
    kept = stored("a:hi", "u:zero", "a:well", "u:one", "a:a reply that is stored", "u:2?", "a:3?")
    assert rejoined(kept, *lines, doubts=doubts).turn is None


def test_nothing_that_is_stored_stands_behind_a_reply_that_came_later() -> None:
    """The last turns are taken back, and much of what was said in them is said again."""
    kept = stored("a:hi", "u:rain", "a:1", "u:more rain", "a:2", "u:rain", "a:3", "u:rain?", "a:4?")
    talk = ["a:hi", "u:rain", "a:1", "u:more rain", "u:more rain", "a:5", "u:rain"]
    doubt = align(kept, history(*talk[:5]))
    turn = turn_of(align(kept, history(*talk), habit=hearing(doubt.habit, "5")))
    assert turn.drops == (5, 6, 7, 8, 9)
    assert texts(turn.appends) == ["more rain", "5", "rain"]


def test_what_was_said_last_may_be_said_again_far_further_up() -> None:
    """Everything since is taken back; or it is a window of the first messages and the last one."""
    kept = stored(
        "a:hi", *(f"{'ua'[n % 2]}:the message number {n}" for n in range(11)), "u:go?", "a:x?"
    )
    kept[11] = stored("u:go")[0]
    told = ["a:hi", "u:the message number 0", "a:the message number 1", "u:go"]
    doubt = align(kept, history(*told))
    assert doubt.turn is None
    habit = hearing(doubt.habit, "a reply to that")
    turn = turn_of(align(kept, history(*told, "a:a reply to that", "u:more"), habit=habit))
    assert texts(turn.appends) == ["go", "a reply to that", "more"]
    assert len(turn.drops) == len(kept) - 3


def test_a_question_beside_the_chat_makes_nothing_of_an_instruction() -> None:
    """It shares nothing, and tells nothing of where things stood."""
    kept = stored(*(f"{'ua'[n % 2]}:the message number {n}" for n in range(8)))
    told = [f"{'ua'[n % 2]}:the message number {n}" for n in range(8)]
    first = align(kept, history(*told[:6], "u:a note as the user", *told[6:], "u:ninth"))
    aside = align(kept, history("u:translate this"), habit=first.habit)
    assert aside.turn is None
    assert replace(aside.habit, in_touch=True) == first.habit


def test_words_that_anybody_says_again_do_not_keep_a_client_from_being_known() -> None:
    kept = stored("u:one", "a:two", "u:go on", "a:four", "u:go on?", "a:six?")
    found = rejoined(kept, "u:3", "a:4", "u:go on", "a:6", "u:go on", "a:8", "u:9")
    assert texts(turn_of(found).appends) == ["3", "4", "go on", "6", "go on", "8", "9"]


def test_a_question_that_is_missing_before_its_reply_and_stands_elsewhere_was_an_instruction() -> (
    None
):
    """Lore that came as the user where nothing was said, and another member spoke."""
    kept = stored("u:one", "a:two", "u:three", "a:A: four", "u:lore?", "a:B: five?")
    sent = ["u:one", "a:two", "u:three", "a:A: four", "a:B: five", "u:six", "u:lore"]
    turn = turn_of(align(kept, history(*sent)))
    assert (turn.drops, texts(turn.appends)) == ((5,), ["six"])


def test_what_each_request_ends_with_is_no_question_when_it_stands_alone() -> None:
    """A preset that is sent as the user, joined to what the user says; then he says nothing."""
    end = "\n\n</chat>\n\n<format>"
    kept = stored("a:hi", "u:one", "a:two", f"u:three{end}?", "a:four?")
    told = ["a:hi", "u:one", "a:two", "u:three\n\nlore\n\nnote", "a:four"]
    found = align(kept, history(*told, f"u:five{end}"))
    assert texts(turn_of(found).appends) == ["five"]
    kept = stored("a:hi", "u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    told = ["a:hi", "u:one", "a:two", "u:three", "a:four", "u:five", "a:six", f"u:{end.strip()}"]
    assert align(kept, history(*told), habit=found.habit).reason == ASKS_NOTHING


@pytest.mark.parametrize("joined", [False, True])
def test_what_a_user_always_says_stands_before_the_last_reply(*, joined: bool) -> None:
    """Two members of a group reply to each of a few words; old replies lose a part, and the last
    one is kept without its end. The words go with those that were said last."""
    told = [
        *("u:更多", "a:Alice: the first tale <mood>", "a:Bob: the second tale <mood>"),
        *("u:更多", "a:Alice: the third tale <mood>", "a:Bob: the fourth tale <mood>"),
        *("u:继续", "a:Alice: the fifth tale <mood>", "a:Bob: the sixth tale <mood>"),
        *("u:更多", "a:Alice: the seventh tale <mood>", "a:Bob: the eighth tale <mood>"),
        *("u:更多", "a:Alice: the ninth tale", "a:Bob: the tenth tale and so?"),
    ]
    before = ["a:Alice: the seventh tale", "a:Bob: the eighth tale"]
    last = ["a:Alice: the ninth tale", "a:Bob: the tenth tale"]
    if joined:
        before, last = [[f"{one}\n\n{two.removeprefix('a:')}"] for one, two in (before, last)]
    turn = turn_of(align(stored(*told), history("u:更多", *before, "u:更多", *last, "u:继续")))
    assert not turn.mends
    assert texts(turn.appends) == ["继续"]


def test_a_reply_that_another_is_joined_to_has_not_left_the_window() -> None:
    """A group's first turn: two replies, sent as two messages and then as one."""
    begun, ends = "a:Alice: the lantern is lit", ("u:<format>", "a:<thinking>")
    first = [begun, "u:what is it", *ends]
    second = [begun, "u:what is it", "a:Alice: a tale of the sea", *ends]
    third = [begun, "u:what is it", "a:Alice: a tale of the sea\n\nBob: and one of mine", "u:more"]
    habit = Habit()
    for shown, reply in ((first, "Alice: a tale of the sea"), (second, "Bob: and one of mine")):
        habit = hearing(align((), history(*shown), habit=habit).habit, reply)
    turn = turn_of(align((), history(*third, *ends), habit=habit))
    assert "what is it" in texts(turn.appends)


FIRST, SECOND, THIRD = (
    f"A telling reply, the {name}.\n<status>{name}</status>" for name in ("one", "two", "three")
)


def cut(text: str) -> str:
    return text.partition("\n<status>")[0]


@pytest.mark.parametrize("joined", [False, True])
def test_the_last_replies_are_known_shortened_if_they_stand_before_one_that_we_gave_since(
    *, joined: bool
) -> None:
    """A rule leaves a part of them out once they are old, and all behind them is in doubt."""
    kept = stored("u:one", f"a:{FIRST}", "u:继续", f"a:{SECOND}", f"a:{THIRD}?")
    before = ["u:one", f"a:{cut(FIRST)}", "u:继续"]
    doubt = align(kept, history(*before, f"a:{SECOND}", f"a:{THIRD}", "u:six", "u:继续"))
    assert doubt.reason == NOT_SETTLED
    short = [f"a:{cut(SECOND)}", f"a:{cut(THIRD)}"]
    replies = [f"a:{cut(SECOND)}\n\n{cut(THIRD)}"] if joined else short
    then = history(*before, *replies, "u:six", "u:继续", "a:seven, and more", "u:eight")
    turn = turn_of(align(kept, then, habit=hearing(doubt.habit, "seven, and more")))
    assert texts(turn.appends) == ["six", "继续", "seven, and more", "eight"]
    assert not turn.mends
    assert not turn.rewords


def test_what_stands_behind_all_that_is_there_still_has_outlasted_nothing() -> None:
    """The first reply is edited, while nothing is stored yet."""
    doubt = align((), history("a:welcome", "u:one", "a:two", "u:three", "u:four"))
    assert doubt.turn is None
    shown = ["a:welcome", "u:one", "a:in other words", "u:three", "u:four", "a:five", "u:six"]
    doubt = align((), history(*shown), habit=hearing(doubt.habit, "two", "five"))
    assert doubt.turn is None
    found = align((), history(*shown, "a:seven", "u:8"), habit=hearing(doubt.habit, "seven"))
    assert texts(turn_of(found).appends)[:3] == ["welcome", "one", "in other words"]


def test_what_was_joined_into_one_question_was_said_if_our_reply_to_it_follows() -> None:
    """The reply between two questions was taken back, so that a client joins them; then a note
    parts them."""
    kept = stored("a:welcome", "u:one", "a:two", "u:five?", "a:six?")
    before = ["a:welcome", "u:one", "a:two"]
    doubt = align(kept, history(*before, "u:five\n\nseven"))
    assert doubt.reason == NOT_SETTLED
    doubt = align(kept, history(*before, "u:five\n\nseven\n\n继续"), habit=doubt.habit)
    assert doubt.reason == NOT_SETTLED
    then = [*before, "u:five\n\nseven", "s:note", "u:继续", "a:eight, and more", "u:nine"]
    habit = hearing(doubt.habit, "eight, and more")
    turn = turn_of(align(kept, history(*then), habit=habit))
    assert texts(turn.appends) == ["seven", "继续", "eight, and more", "nine"]
    assert turn.drops == (5,)


@pytest.mark.parametrize(
    ("first", "in_touch"), [("u:A first question.", True), ("a:A greeting to all.", False)]
)
def test_what_goes_on_behind_a_message_of_the_chat_is_in_touch_with_it(
    first: str, *, in_touch: bool
) -> None:
    """All but the first message was taken back. Behind a greeting it may be another story."""
    kept = stored(first, "a:One reply of ours.", "u:three, and more", "a:Another reply of ours.")
    shown = [first, "u:asked otherwise", "a:and replied to", "u:more of that"]
    habit = align(kept, history(*shown[:2])).habit
    habit = align(kept, history(*shown), habit=habit).habit
    assert not habit.in_touch
    now = history(*shown, "a:and more replied", "u:and so on")
    assert is_in_touch(look(now, kept, habit, Hints(), complete=True)) == in_touch
