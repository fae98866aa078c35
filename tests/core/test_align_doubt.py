"""Lives that random clients have led: each kept a doubt for too long, or believed too early."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from previously.align import Alignment, Habit, Hints, align, normal
from previously.align.ending import NOT_SETTLED, VERSION
from previously.align.reading import UNKNOWN_LAST
from previously.model import CLIENT, Message
from tests.core.test_align import CONTINUE, history, said, stored, texts, turn_of

QUIET = "s:Describe the weather."
FORMAT = {normal.mark_of("<format>")}


def read(
    kept: Sequence[Message], *requests: Sequence[str], habit: Habit | None = None
) -> Alignment:
    """The last of several requests, of which those before were not understood."""
    known = habit or Habit()
    for lines in requests[:-1]:
        found = align(kept, history(*lines), habit=known)
        assert found.turn is None
        known = found.habit
    return align(kept, history(*requests[-1]), habit=known)


def test_a_quiet_request_is_known_by_how_turns_were_sent_before_a_restart() -> None:
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    first = ["u:one", "a:two", "u:three"]
    turn = align(kept[:2], history(*first), Hints(stream=True))
    habit = Habit().recalling(turn.habit.written())
    for _ in range(2):
        found = align(kept, history(*first, "a:four", QUIET), Hints(stream=False), habit)
        assert (found.kind, found.reason) == ("side", UNKNOWN_LAST)
        habit = found.habit


def test_a_reply_cut_short_that_was_in_doubt_does_not_begin_another_one() -> None:
    """A side request whose kind nobody knows, sent twice."""
    kept = stored("u:one", "a:two", "u:three?", "a:The gulls cry and so?")
    sent = ["u:one", "a:two", "u:three", "a:The gulls cry", QUIET]
    assert read(kept, sent, sent).reason == VERSION


def test_what_began_an_earlier_reply_begins_the_next_one_too() -> None:
    asked = ["u:one", "a:two", "u:three", "a:The gulls cry"]
    habit = read(stored("u:one", "a:two"), asked).habit
    kept = stored("u:one", "a:two", "u:three?", "a:The gulls cry and so?")
    assert read(kept, asked, habit=habit).kind == "reroll"


def test_a_question_asked_again_while_all_is_in_doubt_is_new() -> None:
    """The story goes another way for longer than a user deletes, and says by chance what is stored
    at one place, so that it takes several requests to be believed."""
    kept = stored(*[f"{'ua'[i % 2]}:{i}" for i in range(10)], "u:10?", "a:11?")
    talk = [*("u:0", "a:1", "u:2", "a:3", "u:other", "a:way", "u:4", "a:new", "u:好")]
    talk += [*("a:ok", "u:嗯。", "a:yes", "u:嗯。")]
    found = read(kept, talk[:5], talk[:7], talk[:9], talk[:11], talk)
    assert texts(turn_of(found).appends) == ["new", "好", "ok", "嗯。", "yes", "嗯。"]


def test_words_that_repeat_a_stored_question_are_remembered_by_themselves() -> None:
    """Three questions in a row, the last of which is new and says what the first ones said."""
    kept = stored("u:one", "a:two", "u:gulls", "u:gulls?", "a:cry?")
    talk = [*("u:one", "a:two", "u:gulls", "u:gulls", "u:gulls", "a:they cry", "u:six")]
    more = [*talk, "a:seven", "u:eight"]
    found = read(kept, talk[:5], [*talk, "u:note"], [*more, "u:note"])
    assert texts(turn_of(found).appends) == ["gulls", "they cry", "six", "seven", "eight"]


def test_what_is_shown_again_further_up_makes_no_instruction_of_the_last_question() -> None:
    """As far from the end as before, and yet nothing was said since."""
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    first = ["a:welcome", "u:one", "a:two", "u:three", "a:four", "a:6", "u:seven"]
    second = ["a:welcome", "u:one", "a:two", "u:three", "a:four", "u:edited", "a:edited too"]
    found = read(kept, first, [*second, "u:seven"])
    assert found.reason == NOT_SETTLED
    assert not found.habit.floating


def test_more_than_a_question_is_believed_only_with_what_others_have_seen() -> None:
    """A server that has never seen the notes would read them as a turn that it has missed."""
    kept = stored("u:one", "a:two", "u:three", "a:four")
    sent = history("u:one", "a:two", "u:three", "a:four", "u:note", "a:other", "u:five")
    assert align(kept, sent).reason == NOT_SETTLED  # who was it that replied?
    notes = frozenset(normal.mark(said(one)) for one in ("u:note", "a:other"))
    known = Habit().recalling(Habit(floating=notes).written())
    assert texts(turn_of(align(kept, sent, habit=known)).appends) == ["five"]


def test_words_that_were_taken_back_may_be_said_elsewhere_later() -> None:
    """Asked with a note, deleted, and asked again at another place, where another note is new."""
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    told = ["u:one", "a:two", "u:three", "a:four"]
    doubt = read(kept, [*told, "u:five", "u:note"])
    gone = align(kept, history(*told, "u:six"), habit=doubt.habit)
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:six?", "a:seven?")
    told += ["u:six", "a:seven"]
    found = align(kept, history(*told, "u:five", "u:other note"), habit=gone.habit)
    assert found.reason == NOT_SETTLED
    more = [*told, "u:five", "a:eight", "u:nine", "u:other note"]
    turn = turn_of(align(kept, history(*more), habit=found.habit))
    assert texts(turn.appends) == ["five", "eight", "nine"]


def test_questions_that_stand_together_since_a_reply_is_gone_are_no_habit() -> None:
    """Only who says several things in one breath is believed when the next time comes."""
    one_breath = stored("u:1", "u:2", "a:3", "u:4", "u:5", "a:6")
    sent = history("u:1", "u:2", "a:3", "u:4", "u:5", "a:6", "u:7", "u:8")
    assert texts(turn_of(align(one_breath, sent)).appends) == ["7", "8"]
    parted = stored("u:1", "a:x", "u:2", "a:3", "u:4", "a:y", "u:5", "a:6")
    left = [m for m in parted if m.body not in ("x", "y")]
    assert align(left, sent).reason == NOT_SETTLED


BEHIND = "</history>\n\n<format>"


def test_what_was_joined_to_a_question_in_doubt_is_no_question_of_its_own() -> None:
    """Instructions are sent as the user and joined to what stands before them: first to the
    question, and to nothing when another member of a group is to speak."""
    begun = "a:<thinking>"
    first = ["a:hello", f"u:one\n\n{BEHIND}", begun]
    second = ["a:hello", "u:one", "a:two", f"u:{BEHIND}", begun]
    third = ["a:hello", "u:one", "a:two\n\nthree", f"u:four\n\n{BEHIND}", begun]
    found = read([], first, second, third)
    assert texts(turn_of(found).appends) == ["hello", "one", "two\n\nthree", "four"]


def test_what_was_joined_in_doubt_is_known_after_a_restart() -> None:
    unsure = align([], history("a:hello", f"u:one\n\n{BEHIND}", "a:<thinking>"))
    known = Habit().recalling(unsure.habit.written())
    found = align([], history("a:hello", "u:one", "a:two", f"u:{BEHIND}", "a:<x>"), habit=known)
    assert found.turn is None
    marks = {normal.mark(one) for one in history(*(f"u:{p}" for p in BEHIND.split("\n\n")))}
    assert marks <= found.habit.floating


def test_what_is_joined_to_words_that_were_seen_without_it_is_not_theirs() -> None:
    found = read(
        [],
        ["a:hello", "u:one", "a:<thinking>"],
        ["a:hello", "u:[lore]\n\none\n\n[note]", "a:two", "u:three", "a:<thinking>"],
    )
    assert texts(turn_of(found).appends) == ["hello", "one", "two", "three"]


def test_a_reply_that_was_stored_with_another_joined_to_it_comes_back_alone() -> None:
    """The other one is deleted, and it stands where it was first seen, not stored yet."""
    behind = ["u:<format>", "a:<thinking>"]
    first = ["a:hello", "u:one"]
    kept = read(
        [],
        [*first, *behind],
        [*first, "a:two", *behind],
        [*first, "a:two\n\nthree", "u:four", *behind],
    )
    now = stored("a:hello", "u:one", "a:two\n\nthree", "u:four?", "a:five?")
    asked = [*first, "a:two\n\nsix", "u:seven", *behind]
    found = read(now, [*first, "a:two", *behind], asked, habit=kept.habit)
    assert normal.mark(said("a:two")) not in found.habit.floating
    assert "two\n\nsix" in texts([*turn_of(found).appends, *dict(turn_of(found).edits).values()])


def test_a_reply_that_is_to_grow_stands_behind_what_has_its_place_already() -> None:
    """An instruction four messages from the end, twice behind the same one."""
    talk = ["u:one", "a:two", "u:(lore)", "u:three", "a:four", "u:five"]
    kept = stored("u:one", "a:two", "u:three", "a:four")
    turn = align(kept, history(*talk))
    now = stored("u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    nudge = "s:[Continue your last message without repeating its original content.]"
    found = align(now, history(*talk, "a:six", nudge), habit=turn.habit)
    assert found.kind == "continue"
    assert not turn_of(found).inserts


def test_an_instruction_that_was_taken_for_the_first_message_is_known_when_it_comes_back() -> None:
    """It stood before everything, as nobody could tell; by now the first messages are cut off."""
    talk = ["u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven?", "a:eight?"]
    kept = stored("u:(lore)", "a:hello", *talk)
    now = ["u:five", "a:six", "u:(lore)", "u:seven", "a:eight", "u:nine"]
    assert turn_of(align(kept, history(*now))).hides == (kept[0].id,)


def test_the_same_where_it_always_stands_before_the_last_question() -> None:
    kept = stored("a:(lore)", "u:one?", "a:two?")
    first = ["u:one", "a:two", "a:(lore)", "u:three"]
    later = ["u:one", "a:two", "u:three", "a:four", "a:(lore)", "u:five"]
    assert turn_of(read(kept, first, later)).hides == (kept[0].id,)


def shown(*lines: str, rule: int = 99) -> list[str]:
    """As a client sends them whose rule leaves out what is in brackets from a depth on."""
    depths = range(len(lines) - 1, -1, -1)
    told = zip(depths, lines, strict=True)
    return [re.sub(r" <.*>", "", one) if d >= rule else one for d, one in told]


TALK = [f"u:question {n}" if n % 2 == 0 else f"a:answer {n} <mood {n}> and so" for n in range(24)]


def lived(*requests: list[str], rule: int = 99) -> tuple[list[Message], list[int]]:
    """What is stored after these requests, each of which is understood, and where it was edited."""
    kept: list[Message] = []
    habit, edited = Habit(), list[int]()
    for lines in requests:
        found = align(kept, history(*shown(*lines, rule=rule)), habit=habit)
        edits = dict(turn_of(found).edits)
        edited += [m.pos for m in kept if m.id in edits]
        habit = Habit().recalling(found.habit.written())
        said_so_far = [*lines, TALK[len(lines)]]
        kept = stored(*said_so_far[:-2], *(f"{one}?" for one in said_so_far[-2:]))
    return kept, edited


@pytest.mark.parametrize("rule", [2, 3, 4, 5, 6])
def test_a_rule_that_shortens_what_is_old_edits_nothing(rule: int) -> None:
    _, edited = lived(*(TALK[: 2 * n + 1] for n in range(11)), rule=rule)
    assert not edited


def test_what_the_user_cuts_is_edited_once_the_next_one_stands_there_whole() -> None:
    talk = [*TALK[:3], "a:answer 3", *TALK[4:9]]
    first = align(stored(*TALK[:6], f"{TALK[6]}?", f"{TALK[7]}?"), history(*talk))
    assert not turn_of(first).edits
    kept = stored(*TALK[:8], f"{TALK[8]}?", f"{TALK[9]}?")
    now = align(kept, history(*talk, *TALK[9:11]), habit=first.habit)
    assert [(m, new.body) for m, new in turn_of(now).edits] == [(kept[3].id, "answer 3")]


def test_a_message_that_has_nothing_to_leave_out_is_no_sign_against_a_rule() -> None:
    talk = [*TALK[:5], "a:answer 5 is bare", *TALK[6:]]
    kept = stored(*talk[:8], f"{talk[8]}?", f"{talk[9]}?")
    habit = Habit(views={kept[3].id: 5})
    found = align(kept, history(*shown(*talk[:11], rule=5)), habit=habit)
    assert not turn_of(found).edits


def test_two_that_lack_the_same_kind_of_thing_are_under_a_rule() -> None:
    """Though one that stands where they stood is shown whole: it was not stored for long."""
    kept = stored(*TALK[:8], f"{TALK[8]}?", f"{TALK[9]}?")
    talk = [*shown(*TALK[:5], rule=0), *TALK[5:11]]
    found = align(kept, history(*talk), habit=Habit(views={m.id: 5 for m in kept[1:4:2]}))
    assert not turn_of(found).edits


def test_replies_that_are_shortened_and_joined_are_known_one_by_one() -> None:
    kept = stored(
        *("u:one", "a:Ann says two. <mood>", "a:Bob says three. <mood>", "u:four"),
        *("a:five <mood>", "u:six?", "a:seven?"),
    )
    now = ["u:one", "a:Ann says two.\n\nBob says three.", "u:four", "a:five <mood>", "u:six"]
    found = align(kept, history(*now, "a:seven", "u:eight"))
    assert found.places[1].ids == (kept[1].id, kept[2].id)
    assert not turn_of(found).mends


def test_the_same_where_what_stood_between_them_is_hidden() -> None:
    kept = stored("u:one", "a:two <mood>", "u:three", "a:four <mood>", "u:five", "a:six", "u:7?")
    now = ["u:one", "a:two\n\nfour", "u:five", "a:six", "u:7", "a:8", "u:9"]
    turn = turn_of(align(kept, history(*now)))
    assert (turn.hides, turn.edits, turn.inserts) == ((kept[2].id,), (), ())


def test_whole_paragraphs_that_a_users_words_lack_had_been_joined_to_them() -> None:
    kept = stored("a:hello", "u:one\n\n[lore]", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    now = ["a:hello", "u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven"]
    assert dict(turn_of(align(kept, history(*now))).edits)[kept[1].id].body == "one"


@pytest.mark.parametrize("now", ["one and only", "one and only\n\n[note]"])
def test_the_very_first_message_may_come_back_as_a_version_of_itself(now: str) -> None:
    """There is none before it that it could be known by."""
    kept = stored("u:one and only\n\n[lore]?", "a:two?")
    found = turn_of(align(kept, history(f"u:{now}", "a:two", "u:three")))
    assert [new.body for _, new in found.confirms if new] == ["one and only"]


def test_what_came_and_went_while_nothing_is_stored_has_not_stayed() -> None:
    """Lore before everything, gone, and back between others: nothing is stored to hold on to."""
    behind = ["u:<format>", "a:<thinking>"]
    talk = ["a:hello", "u:one", "a:two", "a:and two", "u:three"]
    found = read(
        [],
        ["u:(lore)", *talk[:2], *behind],
        [*talk[:3], *behind],
        [*talk, *behind],
        [*talk[:4], "u:(lore)", "u:three", "a:four", "u:five", *behind],
    )
    assert found.reason == NOT_SETTLED


def test_an_instruction_taken_for_the_first_message_does_not_count_when_it_is_gone() -> None:
    """The question after it is asked in other words at once: only the greeting is left of all."""
    kept = stored("u:(lore)", "a:hello", "u:one?", "a:two?")
    now = align(kept, history("a:hello", "u:another"))
    assert turn_of(now).drops == (kept[2].id, kept[3].id)
    kept = stored("u:(lore)", "a:hello", "u:another?", "a:three?")
    later = ["a:hello", "u:another", "s:[note]", "u:(lore)", "a:three", "u:four"]
    found = align(kept, history(*later), habit=now.habit)
    assert turn_of(found).hides == (kept[0].id,)


def test_what_was_joined_in_the_midst_of_a_question_is_told_from_what_is_said_after_it() -> None:
    """A note between two things said at once, and the client's instructions behind them."""
    kept = stored("a:hello", "u:one\n\n[note]\n\nand two\n\n<format>?", "a:three?")
    now = ["a:hello", "u:one\n\nand two\n\n[note]", "a:three", "u:<format>", "a:<thinking>"]
    found = align(kept, history(*now))
    assert normal.mark_of("<format>") in found.habit.floating
    known = Habit(floating=frozenset({normal.mark_of("[note]")}))
    now = ["a:hello", "u:one\n\nand two\n\n[note]", "a:three", "u:four\n\n<format>"]
    turn = turn_of(align(kept, history(*now), habit=known))
    assert [new.body for _, new in turn.confirms if new] == ["one\n\nand two"]
    assert [new.body for new in turn.appends] == ["four"]


def test_a_question_that_an_instruction_parts_in_two_has_lost_nothing() -> None:
    kept = stored("a:hello", "u:one\n\nand two?", "a:three?")
    talk = ["a:hello", "u:one", "s:(lore)", "u:and two", "a:three", "u:four"]
    found = align(kept, history(*talk))
    assert found.turn is None
    assert normal.mark_of("and two") not in found.habit.floating
    together = ["a:hello", "u:one\n\nand two", "a:three", "u:four", "a:five", "u:six"]
    turn = turn_of(align(kept, history(*together), habit=found.habit))
    assert not turn.mends


def test_what_wanders_may_come_to_stand_in_the_midst_of_words_that_are_joined() -> None:
    known = Habit(floating=frozenset({normal.mark_of("(lore)")}))
    kept = stored("a:hello", "u:one\n\nand two", "a:three", "u:four?", "a:five?")
    now = ["a:hello", "u:one\n\n(lore)\n\nand two", "a:three", "u:four", "a:five", "u:six"]
    found = align(kept, history(*now), habit=known)
    assert not turn_of(found).mends
    assert found.places[1].ids == (kept[1].id,)


def test_a_message_that_comes_apart_is_not_more_than_it_was() -> None:
    """Nothing has been said since the note was first seen behind an old question."""
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:five?", "a:six?")
    talk = ["u:one\n\n[note]", "a:two", "u:three", "a:four", "u:five\n\n<format>"]
    first = align(kept[:4], history(*talk), habit=Habit(floating=frozenset(FORMAT)))
    found = align(kept, history(*talk, "a:six", CONTINUE), habit=first.habit)
    assert not turn_of(found).inserts


def test_two_things_that_were_seen_side_by_side_are_both_kept_when_they_are_joined() -> None:
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    talk = ["u:one", "a:two", "u:three", "a:four"]
    apart = [*talk, "u:five", "s:[note]", "u:and six"]
    now = [*talk, "u:five\n\nand six", "a:seven", "u:eight"]
    turn = turn_of(read(kept, apart, now))
    assert [new.body for new in turn.appends] == ["five\n\nand six", "seven", "eight"]


def test_of_two_that_changed_places_the_one_moved_that_is_as_far_from_the_end() -> None:
    """Lore at a fixed depth, when the last turn was taken back and nothing is stored yet."""
    before = ["a:hello", "u:one", "a:two", "a:(lore)", "u:three", "a:four", "a:and four"]
    after = ["a:hello", "a:(lore)", "u:one", "a:two", "u:three"]
    known = read([], before, after).habit
    assert not known.floating


def test_a_reply_in_a_group_is_whole_where_another_member_is_to_speak_after_it() -> None:
    kept = stored("a:Ann: hello", "u:one", "a:Ann: two", "a:Bob: three?")
    talk = ["a:Ann: hello", "u:one", "a:Ann: two", "a:Bob: three", "u:four", "u:and more"]
    nudge = "s:[Write the next reply only as Bob.]"
    found = read(kept, [*talk, nudge], [*talk, "a:Ann: five", nudge])
    assert [new.body for new in turn_of(found).appends] == ["four", "and more", "Ann: five"]
    assert read(kept, [*talk, nudge], [*talk, "a:<thinking>", nudge]).turn is None


def test_a_question_in_doubt_that_an_instruction_parts_in_two_has_lost_nothing() -> None:
    kept = stored("u:one", "a:two")
    talk = ["u:one", "a:two", "a:more"]
    together = [*talk, "u:three\n\nand four"]
    apart = [*talk, "u:three", "s:[note]", "u:and four\n\nand five"]
    assert normal.mark_of("and four") not in read(kept, together, apart).habit.floating


def test_what_has_instructions_put_before_it_has_not_wandered() -> None:
    """As much is said after it as before, and more after what stands before it; but no reply."""
    kept = stored("u:one", "a:two", "u:three")
    talk = ["u:one", "a:two", "u:three", "u:four"]
    before = [*talk, "u:and five", "a:six", "u:seven"]
    after = [*talk, "u:(lore)", "u:(more lore)", "u:and five", "a:six", "u:else"]
    assert not read(kept, before, after).habit.floating


def test_what_is_as_far_from_the_end_only_because_of_instructions_has_not_wandered() -> None:
    """Lore goes and a turn comes: the greeting is as far away as it was, and was never moved."""
    tail = ["u:<format>", "a:<thinking>"]
    found = read(
        [],
        ["a:hello", "u:one", *tail],
        ["u:(vales)", "u:(dunes)", "a:hello", "u:one", "a:two", *tail],
        ["a:hello", "u:(dunes)", "u:(vales)", "u:one", "a:two", "a:three", "u:four", *tail],
        ["a:hello", "u:one", "u:(dunes)", "a:two", "a:three", "u:four", "a:five", *tail],
    )
    assert normal.mark_of("hello") not in found.habit.floating


def test_what_was_joined_to_the_very_first_question_is_taken_out() -> None:
    """It was stored with it, since its reply had come back before it could be told from it."""
    kept = stored("u:one\n\n[note]", "a:two", "u:three", "a:four?")
    turn = turn_of(align(kept, history("u:one", "a:two", "u:three\n\n[note]", "a:four", "u:five")))
    assert [(number, text.body) for number, text in turn.edits] == [(1, "one")]
    assert texts(turn.appends) == ["five"]


def test_what_is_shown_again_in_doubt_and_then_edited_is_that_message() -> None:
    kept = stored("u:one", "a:two", "u:three", "a:four", "u:five", "a:six")
    kept[1] = replace(kept[1], hidden_by=CLIENT)
    again = history("u:one", "a:two", "u:three", "a:four", "u:five", "a:six", "u:seven", "u:eight")
    doubt = align(kept, again)
    assert doubt.turn is None
    shown = ["u:one", "a:other words", "u:three", "a:four", "u:five", "a:six"]
    then = history(*shown, "u:seven", "u:eight", "a:nine", "u:ten")
    turn = turn_of(align(kept, then, habit=doubt.habit))
    assert turn.shows == (2,)
    assert [(number, text.body) for number, text in turn.edits] == [(2, "other words")]
    # Where the last request did not show it, this may as well be an instruction.
    turn = turn_of(align(kept, history(*shown, "u:seven")))
    assert (turn.shows, turn.edits) == ((), ())


def test_few_words_behind_a_reply_that_is_not_stored_are_not_the_first_ones_again() -> None:
    """The first turn was taken back, and what was asked instead has gone on."""
    kept = stored("u:嗯。?", "a:one?")
    doubt = align(kept, history("u:two, and more", "a:three"))
    assert doubt.turn is None
    turn = turn_of(align(kept, history("u:two, and more", "a:three", "u:嗯。"), habit=doubt.habit))
    assert texts(turn.appends) == ["two, and more", "three", "嗯。"]
    assert (turn.rerolls, turn.drops) == (None, (1, 2))


def test_of_words_that_are_said_twice_nobody_knows_which_were_taken_back() -> None:
    """One of two that say the same is gone: neither has it moved, nor has anything passed it."""
    kept = stored("u:one", "a:two", "u:three", "a:four")
    before = ["u:one", "a:two", "u:three", "a:four", "u:five", "u:嗯。", "a:six, and more"]
    doubt = align(kept, history(*before, "u:seven", "u:eight", "u:嗯。"))
    assert doubt.reason == NOT_SETTLED
    doubt = align(kept, history(*before, "u:seven", "u:eight", "u:nine"), habit=doubt.habit)
    assert not doubt.habit.floating
