from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously.align import NOTHING_TOLD, Alignment, Habit, Hints, align, normal, pieces
from previously.align.ending import ASKS_NOTHING, NO_MATCH, NOT_SETTLED, TOO_LITTLE, VERSION
from previously.align.reading import TWO_READINGS
from previously.model import CLIENT, Message, NewMessage, State, TurnRecord
from previously.text.wire import parse
from tests.core.shelf import Shelf
from tests.core.shelf import message as _message

CONTINUE = "s:[Continue your last message without repeating its original content.]"
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def said(line: str) -> NewMessage:
    """`u:text`, `a:text`, `t:text` or `s:text`; `a!` calls a tool."""
    role, _, text = line.partition(":")
    if role == "a!":
        return parse({"role": "assistant", "content": text, "tool_calls": [CALL]})
    if role == "t":
        return parse({"role": "tool", "content": text, "tool_call_id": "c1"})
    return parse({"role": {"u": "user", "a": "assistant", "s": "system"}[role], "content": text})


def history(*lines: str) -> list[NewMessage]:
    return [said(line) for line in lines]


def stored(*lines: str) -> list[Message]:
    """Messages 1, 2, 3 …; a line that ends in `?` is a candidate."""
    return [
        _message(
            i,
            replace(
                said(line.removesuffix("?")),
                state=State.CANDIDATE if line.endswith("?") else State.CONFIRMED,
            ),
        )
        for i, line in enumerate(lines, 1)
    ]


def turn_of(found: Alignment) -> TurnRecord:
    assert found.turn is not None, found.reason
    return found.turn


def texts(new: Sequence[NewMessage]) -> list[str]:
    return [one.body for one in new]


def test_in_an_empty_chat_everything_is_new() -> None:
    found = align([], history("a:welcome", "u:hi"))
    assert (found.kind, found.matched) == ("first", (None, None))
    assert turn_of(found).after_id is None
    assert texts(turn_of(found).appends) == ["welcome", "hi"]


def test_what_stands_before_a_reply_that_the_client_sends_is_confirmed() -> None:
    found = align([], history("u:one", "a:two", "u:three"))
    states = [new.state for new in turn_of(found).appends]
    assert states == [State.CONFIRMED, State.CONFIRMED, State.CANDIDATE]


def test_the_next_turn_confirms_the_last_one() -> None:
    found = align(stored("u:hi?", "a:hello?"), history("u:hi", "a:hello", "u:more"))
    assert (found.kind, found.matched) == ("append", (1, 2, None))
    turn = turn_of(found)
    assert turn.confirms == ((1, None), (2, None))
    assert (turn.after_id, turn.rerolls, texts(turn.appends)) == (2, None, ["more"])


def test_a_reply_that_comes_back_cleaned_is_confirmed_in_the_clients_words() -> None:
    found = align(stored("u:hi?", "a:hello\nUser: I?"), history("u:hi", "a:hello", "u:more"))
    confirms = dict(turn_of(found).confirms)
    assert confirms[1] is None
    assert confirms[2] is not None
    assert confirms[2].body == "hello"


def test_blanks_and_composed_letters_make_no_difference() -> None:
    found = align(
        stored("u:caf\u00e9  please", "a:yes", "u:so?", "a:now?"),
        history("u:cafe\u0301 please ", "a:yes\n", "u:so", "a:now", "u:more"),
    )
    assert found.matched == (1, 2, 3, 4, None)


def test_a_reworded_reply_needs_equal_neighbours() -> None:
    found = align(stored("u:hi?", "a:hello?"), history("u:ho", "a:hullo", "u:more"))
    assert (found.sure, found.reason) == (False, NO_MATCH)


def test_of_two_reworded_replies_in_a_row_neither_is_taken_for_an_echo() -> None:
    found = align(stored("u:1?", "a:2?", "a:3?"), history("u:1", "a:two", "a:three", "u:4"))
    assert not found.sure


def test_other_words_between_equal_neighbours_are_an_edit() -> None:
    found = align(
        stored("u:1", "a:2", "u:3?", "a:4?"), history("u:1", "a:two", "u:3", "a:4", "u:5")
    )
    assert found.matched == (1, 2, 3, 4, None)
    assert [(i, text.body) for i, text in turn_of(found).edits] == [(2, "two")]


@pytest.mark.parametrize("marks", ["", "?"])
def test_the_same_request_again_is_a_reroll(marks: str) -> None:
    found = align(stored("u:1", "a:2", f"u:3{marks}", "a:4?"), history("u:1", "a:2", "u:3"))
    assert (found.kind, found.matched) == ("reroll", (1, 2, 3))
    turn = turn_of(found)
    assert (turn.rerolls, turn.appends, turn.confirms, turn.after_id) == (4, (), (), 4)


def test_the_first_turn_can_be_asked_again() -> None:
    assert align(stored("u:1?", "a:2?"), history("u:1")).kind == "reroll"


def test_an_empty_reply_can_be_asked_again_too() -> None:
    assert align(stored("u:1?", "a:?"), history("u:1")).kind == "reroll"


def test_a_reply_that_was_kept_can_be_asked_again_too() -> None:
    assert turn_of(align(stored("u:1", "a:2"), history("u:1"))).rerolls == 2


def test_stored_words_that_wait_for_a_reply_get_one() -> None:
    found = align(stored("u:1", "a:2", "u:3"), history("u:1", "a:2", "u:3"))
    assert (found.kind, turn_of(found).appends) == ("append", ())


def test_a_shortened_history_is_a_suffix_and_confirms_what_it_no_longer_shows() -> None:
    found = align(
        stored("u:1?", "a:2?", "u:3", "a:4", "u:5?", "a:6?"), history("a:4", "u:5", "a:6", "u:7")
    )
    assert (found.kind, found.matched) == ("append", (4, 5, 6, None))
    assert [number for number, _ in turn_of(found).confirms] == [1, 2, 5, 6]


def test_a_shortened_history_can_be_asked_again() -> None:
    found = align(stored("u:1", "a:2", "u:3", "a:4", "u:5?", "a:6?"), history("u:3", "a:4", "u:5"))
    assert (found.kind, found.matched) == ("reroll", (3, 4, 5))


def test_one_shared_message_is_too_little() -> None:
    assert not align(stored("u:1", "a:2", "u:3?", "a:4?"), history("a:4", "u:5")).sure
    assert not align(stored("u:1", "a:2", "u:3?", "a:4?"), history("u:3")).sure


def test_two_shared_messages_before_a_long_unknown_story_are_too_little() -> None:
    other = [f"{'ua'[i % 2]}:other {i}" for i in range(9)]
    found = align(stored("u:0", "a:0", "u:hi?", "a:hello?"), history("u:hi", "a:hello", *other))
    assert not found.sure


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("u:else",), NO_MATCH),
        (("a:2", "u:1", "u:3"), TOO_LITTLE),
        (("u:1", "a:2", "u:3", "u:more"), NOT_SETTLED),
        (("u:1", "a:2", "u:3", "a:4", "u:one", "u:two"), NOT_SETTLED),
        (("u:1", "a:2", "u:3", "a:4", "a:injected", "u:5"), NOT_SETTLED),
        (("u:1", "a:2", "u:3", "a:4"), ASKS_NOTHING),
        (("u:1", "a:2", "u:3", "a:prefill"), VERSION),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(lines: tuple[str, ...], reason: str) -> None:
    found = align(stored("u:1", "a:2", "u:3?", "a:4?"), history(*lines))
    assert (found.kind, found.turn, found.reason) == ("unsure", None, reason)
    assert found.confidence < 1


@dataclass(frozen=True)
class Reading:
    """What a request must be read as."""

    kept: tuple[str, ...]
    sent: tuple[str, ...]
    new: tuple[str, ...]
    changes: dict[str, object] = field(default_factory=dict[str, object])
    hints: Hints = NOTHING_TOLD
    kind: str = "append"


PLAIN = ("u:1", "a:2", "u:3", "a:4", "u:5?", "a:6?")
START = "s:[Start a new Chat]"
READINGS = {
    "instructions in front, inside and behind are never stored": Reading(
        PLAIN,
        ("s:card", START, "u:1", "a:2", "s:note", "u:3", "a:4", "u:5", "a:6", "u:7", "s:post"),
        ("7",),
    ),
    "an injected user's or assistant's text between known neighbours": Reading(
        PLAIN, ("u:1", "a:2", "u:inject", "u:3", "a:4", "u:5", "a:6", "u:7"), ("7",)
    ),
    "a beginning of the reply at the end": Reading(
        PLAIN, ("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7", "a:<thinking>", "s:post"), ("7",)
    ),
    "the placeholder that strict clients begin with": Reading(
        PLAIN,
        ("s:all", "u:[Start a new chat]", "u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7"),
        ("7",),
    ),
    "missing between two is hidden": Reading(
        PLAIN, ("u:1", "a:4", "u:5", "a:6", "u:7"), ("7",), {"hides": (2, 3)}
    ),
    "missing in front was cut off": Reading(PLAIN, ("a:4", "u:5", "a:6", "u:7"), ("7",)),
    "the last turn deleted and another begun": Reading(
        PLAIN, ("u:1", "a:2", "u:3", "a:4", "u:other"), ("other",), {"drops": (5, 6)}
    ),
    "two edits side by side": Reading(
        PLAIN,
        ("u:1", "a:two", "u:three", "a:4", "u:5", "a:6", "u:7"),
        ("7",),
        {"edits": (2, 3)},
    ),
    "a fork that the client names a turn": Reading(
        ("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7?", "a:8?"),
        ("u:1", "a:2", "u:other"),
        ("other",),
        {"drops": (3, 4, 5, 6, 7, 8)},
        Hints("normal"),
    ),
    "a fork that has gone on": Reading(
        ("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7?", "a:8?"),
        ("u:1", "a:2", "u:other", "a:way", "u:on"),
        ("other", "way", "on"),
        {"drops": (3, 4, 5, 6, 7, 8)},
    ),
    "names in front": Reading(
        PLAIN,
        ("u:Al: 1", "a:Bo: 2", "u:Al: 3", "a:Bo: 4", "u:Al: 5", "a:Bo: 6", "u:Al: 7"),
        ("7",),
    ),
    "neighbours of one role in one message": Reading(
        ("u:1", "a:2", "a:3", "u:4", "u:5?", "a:6?"),
        ("u:1", "a:2\n\n3", "u:4\n\n5", "a:6", "u:7"),
        ("7",),
    ),
    "an instruction joined to what was said": Reading(
        PLAIN, ("u:1", "a:2", "u:3\n\nnote", "a:4", "u:5", "a:6", "u:7"), ("7",)
    ),
    "thoughts that the client does not keep": Reading(
        ("u:1", "a:<think>hm</think>two", "u:3?", "a:4?"),
        ("u:1", "a:two", "u:3", "a:4", "u:5"),
        ("5",),
    ),
    "the next member of a group": Reading(
        ("u:hi?", "a:hello?"),
        ("u:hi", "a:Bo: hello", "s:[Write the next reply only as Cy.]"),
        (),
    ),
    "another reply, where the client says so": Reading(
        PLAIN, ("u:1", "a:2", "u:3", "a:4", "u:5", "a:6"), (), hints=Hints("normal")
    ),
    "continue by its sentence": Reading(
        PLAIN,
        ("u:1", "a:2", "u:3", "a:4", "u:5", "s:post", "a:6", CONTINUE),
        (),
        {"grows": 6},
        kind="continue",
    ),
    "continue by its name": Reading(
        PLAIN,
        ("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "s:go on"),
        (),
        {"grows": 6},
        Hints("continue"),
        kind="continue",
    ),
    "swipe with an instruction that came meanwhile": Reading(
        PLAIN, ("u:1", "a:2", "u:3", "a:4", "s:lore", "u:5"), (), {"rerolls": 6}, kind="reroll"
    ),
}


@pytest.mark.parametrize("how", READINGS)
def test_what_a_client_does_is_read_out_of_its_request(how: str) -> None:
    case = READINGS[how]
    found = align(stored(*case.kept), history(*case.sent), case.hints)
    turn = turn_of(found)
    assert (found.kind, found.confidence) == (case.kind, 1.0)
    assert tuple(texts(turn.appends)) == case.new
    changes = {
        "edits": tuple(i for i, _ in turn.edits),
        "hides": turn.hides,
        "shows": turn.shows,
        "drops": turn.drops,
        "inserts": turn.inserts,
        "rerolls": turn.rerolls,
        "grows": turn.grows,
    }
    assert {what: ids for what, ids in changes.items() if ids} == case.changes
    assert [i for i, text in turn.confirms if text is not None] in ([], [2])


def test_what_is_hidden_and_sent_again_is_shown_again() -> None:
    kept = [replace(m, hidden_by=CLIENT if m.id == 2 else None) for m in stored(*PLAIN)]
    assert not turn_of(align(kept, history("u:1", "u:3", "a:4", "u:5", "a:6", "u:7"))).mends
    again = turn_of(align(kept, history("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7")))
    assert (again.shows, again.hides) == ((2,), ())


@pytest.mark.parametrize("kind", ["quiet", "impersonate"])
def test_side_requests_are_left_alone(kind: str) -> None:
    sent = history("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7")
    found = align(stored(*PLAIN), sent, Hints(kind))
    assert (found.kind, found.sure) == ("side", False)


def test_a_request_that_is_not_streamed_and_ends_with_something_unknown_is_a_side_request() -> None:
    sent = [*history("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:7"), said("s:post")]
    known = align(stored(*PLAIN), sent, Hints(stream=True)).habit
    plain = Hints(stream=False)
    assert align(stored(*PLAIN), sent, plain, known).sure
    quiet = align(stored(*PLAIN), [*sent[:-1], said("s:Describe the weather.")], plain, known)
    assert quiet.kind == "side"


def test_two_things_in_a_row_are_believed_at_second_sight() -> None:
    kept = stored("u:1", "a:2", "u:3?", "a:4?")
    first = align(kept, history("u:1", "a:2", "u:3", "a:4", "u:5", "u:6"))
    assert first.reason == NOT_SETTLED
    more = history("u:1", "a:2", "u:3", "a:4", "u:5", "u:6", "a:7", "u:8")
    second = align(kept, more, habit=first.habit)
    assert texts(turn_of(second).appends) == ["5", "6", "7", "8"]


@pytest.mark.parametrize("first", [("u:1?", "a:2?"), ("u:1?",)])
def test_a_first_turn_that_was_dropped_is_gone_once_another_has_gone_on(first: tuple[str, ...]):
    kept = stored(*first)
    unsure = align(kept, history("u:3"))
    assert unsure.reason == NO_MATCH  # it may as well be a question aside
    found = align(kept, history("u:3", "a:4", "u:5"), habit=unsure.habit)
    assert turn_of(found).drops == tuple(m.id for m in kept)
    assert texts(turn_of(found).appends) == ["3", "4", "5"]


def test_a_first_turn_stays_beside_questions_of_another_kind() -> None:
    kept, asides = stored("u:1?", "a:2?"), Habit()
    for number in range(3):  # each with the same example in front
        aside = align(kept, history("u:ex", "a:ample", f"u:aside {number}"), habit=asides)
        assert not aside.sure
        asides = aside.habit
    assert not align(stored("u:1", "a:2?"), history("u:3", "a:4", "u:5"), habit=asides).sure
    after = align(kept, history("u:1", "a:2", "u:3"), habit=asides)
    assert texts(turn_of(after).appends) == ["3"]


def test_a_text_that_wanders_is_an_instruction() -> None:
    kept = stored("u:1", "a:2", "u:3?", "a:4?")
    first = align(kept, history("u:1", "a:2", "u:3", "a:4", "u:inject", "u:5"))
    more = history("u:1", "a:2", "u:3", "a:4", "u:5", "a:6", "u:inject", "u:7")
    second = align(kept, more, habit=first.habit)
    assert texts(turn_of(second).appends) == ["5", "6", "7"]
    assert second.places[6].part == "loose"


def test_an_instruction_in_the_place_of_the_last_reply_is_no_reply_also_after_a_restart() -> None:
    talk = ["u:one", "a:two", "u:three", "a:four", "u:five"]
    kept = stored(*talk[:-1], "u:five?", "a:six?")
    seen = align(kept, history(*talk, "a:six", "a:note", "u:more"))
    assert seen.reason == NOT_SETTLED
    known = Habit().recalling(seen.habit.written())
    other = history(*talk, "a:note", "u:else")
    assert align(kept, other, habit=known).turn is None


def test_a_branch_that_repeats_words_of_the_one_that_was_left_is_believed_once_it_went_on() -> None:
    shared = ["a:welcome", "u:one", "a:two", "u:three"]
    left = ["a:four", "u:the lamp burns low", "a:five", "u:six", "a:seven", "u:eight?", "a:nine?"]
    kept = stored(*shared, *left)
    taken = ["u:another way", "u:the lamp burns low tonight", "a:ten", "u:eleven"]
    seen = align(kept, history(*shared, *taken[:2]))
    assert seen.turn is None
    turn = turn_of(align(kept, history(*shared, *taken), habit=seen.habit))
    assert turn.drops == tuple(m.id for m in kept[4:])
    assert texts(turn.appends) == texts(history(*taken))


def test_what_was_taken_for_an_instruction_is_believed_once_it_has_come_to_rest() -> None:
    kept = stored("u:one", "a:two", "u:three?", "a:four?")
    talk = [
        "u:one",
        "a:two",
        "u:three",
        "a:four",
        "u:嗯。",
        "a:five",
        "u:six",
        "a:seven",
        "u:eight",
    ]
    habit = Habit(floating=frozenset({normal.mark(said("u:嗯。"))}))
    for end in (5, 7):
        found = align(kept, history(*talk[:end]), habit=habit)
        assert found.turn is None
        habit = Habit().recalling(found.habit.written())  # also after a restart
    turn = turn_of(align(kept, history(*talk), habit=habit))
    assert texts(turn.appends) == ["嗯。", "five", "six", "seven", "eight"]


def test_an_instruction_behind_words_that_are_said_again_has_moved_with_them() -> None:
    kept = stored("u:one", "a:two", "u:嗯。", "a:three", "u:嗯。?", "a:four?")
    first = history("u:one", "a:two", "u:嗯。", "u:note", "a:three", "u:嗯。", "a:four", "u:five")
    seen = align(kept, first)
    kept += [_message(7, said("u:five")), _message(8, said("a:six"))]
    then = ["u:one", "a:two", "u:嗯。", "a:three", "u:嗯。", "u:note", "a:four", "a:other note"]
    found = align(kept, history(*then, "u:five", "a:six", "u:seven"), habit=seen.habit)
    assert turn_of(found).inserts == ()


def test_an_instruction_at_one_depth_never_comes_to_rest() -> None:
    note, habit = said("u:note"), Habit(floating=frozenset({normal.mark(said("u:note"))}))
    talk, shelf = ["u:one", "a:two", "u:three"], Shelf()
    for turn in range(8):
        request = history(*talk)
        found = align(shelf.messages, [*request[:-2], note, *request[-2:]], habit=habit)
        shelf.record(turn_of(found), said(f"a:answer {turn}"))
        talk += [f"a:answer {turn}", f"u:question {turn}"]
        habit = found.habit
    assert "note" not in [m.body for m in shelf.messages]


def test_what_was_joined_to_a_question_is_known_when_the_question_comes_back_without() -> None:
    first = align([], history("s:card", "a:hi", "u:one\n\nStay in character."))
    assert texts(turn_of(first).appends) == ["hi", "one\n\nStay in character."]
    kept = stored("a:hi", "u:one\n\nStay in character.?", "a:two?")
    sent = history("s:card", "a:hi", "u:one", "a:two", "u:three\n\nStay in character.")
    second = turn_of(align(kept, sent))
    assert texts(second.appends) == ["three"]
    assert {i: text.body for i, text in second.confirms if text is not None} == {2: "one"}


def test_older_messages_are_revealed_at_second_sight() -> None:
    kept = stored("u:5", "a:6", "u:7?", "a:8?")
    first = align(kept, history("u:3", "a:4", "u:5", "a:6", "u:7", "a:8", "u:9"))
    assert turn_of(first).inserts == ()
    kept = stored("u:5", "a:6", "u:7", "a:8", "u:9?", "a:10?")
    sent = history("u:3", "a:4", "u:5", "a:6", "u:7", "a:8", "u:9", "a:10", "u:11")
    ((before, older),) = turn_of(align(kept, sent, habit=first.habit)).inserts
    assert (before, texts(older)) == (5 - 4, ["3", "4"])


def test_more_edits_than_a_user_makes_are_another_view_of_the_same() -> None:
    kept = stored(*(f"{'ua'[i % 2]}:{i}" for i in range(14)), "u:x?", "a:y?")
    sent = [f"{'ua'[i % 2]}:{i}" if i % 2 == 0 else f"a:[{i} in short]" for i in range(14)]
    found = align(kept, history(*sent, "u:x", "a:y", "u:more"))
    assert not turn_of(found).mends
    assert found.matched == (*range(1, 17), None)


def test_two_readings_are_decided_by_what_the_client_says() -> None:
    kept = stored("u:1", "a:2", "u:嗯。", "a:嗯。", "u:嗯。?", "a:嗯。?")
    sent = history("u:嗯。", "a:嗯。", "u:嗯。")
    assert align(kept, sent, Hints("swipe")).kind == "reroll"
    assert align(kept, sent, Hints("normal")).kind == "append"
    habit = Habit(last_id=4)
    assert align(kept, sent, Hints(last_id=4), habit).kind == "reroll"
    assert align(kept, sent, Hints(last_id=6), habit).kind == "append"
    assert align(kept, sent, Hints(swipe=2)).kind == "reroll"
    assert align(kept, sent, Hints(swipe=1)).reason == TWO_READINGS
    assert align(kept, sent, Hints("normal", swipe=2)).kind == "append"


def test_a_request_with_the_clients_own_number_needs_no_second_sight() -> None:
    kept = stored("u:1", "a:2", "u:3", "a:4?")
    sent = history("u:1", "a:2", "u:3", "u:other")
    assert not align(kept, sent, Hints("normal", last_id=2)).sure
    assert turn_of(align(kept, sent, Hints("normal", last_id=3))).drops == (4,)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"type": "swipe", "last_id": "50"}, Hints("swipe", False, 50)),
        ({"last_id": 50, "swipe": "2"}, Hints("", False, 50, swipe=2)),
        ({"swipe": ""}, Hints("", False)),
        ({"type": "{{lastGenerationType}}", "last_id": ""}, Hints("", False)),
        ({"user": "Al", "group": "Bo, Cy"}, Hints("", False, names=frozenset({"Al", "Bo", "Cy"}))),
        ({"type": 3, "last_id": None, "char": ["x"]}, Hints("", False, names=frozenset({"['x']"}))),
    ],
)
def test_hints_are_read_as_clients_write_them(given: dict[str, object], read: Hints) -> None:
    assert Hints.read(given) == read
    assert Hints.read(given, "QUIET", stream=True).type == "quiet"


def story(count: int, marks: str = "") -> list[str]:
    return [f"{'ua'[i % 2]}:line {i} of the story{marks}" for i in range(count)]


def same(count: int) -> list[str]:
    return [f"{'ua'[i % 2]}:嗯。" for i in range(count)]


@pytest.mark.parametrize("told", [story, same])
@pytest.mark.parametrize("how", ["whole", "injected", "shortened", "other"])
def test_twice_the_messages_are_twice_the_work(told: Callable[[int], list[str]], how: str) -> None:
    def work(count: int) -> int:
        kept, sent = stored(*told(count)), history(*told(count))
        if how == "injected":
            sent = [*sent[:-7], said("s:note"), *sent[-7:-3], said("u:injected"), *sent[-3:]]
        elif how == "shortened":
            sent = sent[count // 2 :]
        elif how == "other":
            sent = history(*story(count, " elsewhere"))
        normal._kept_bare.cache_clear()  # what was read for the other length must be read again
        pieces._told.cache_clear()
        looks = CountedLooks()
        sys.setprofile(looks)
        try:
            align(kept, [*sent, said("u:more")])
        finally:
            sys.setprofile(None)
        return looks.count

    assert work(2_000) < 2.5 * work(1_000)


class CountedLooks:
    """Calls, as a measure of work that no other load on the machine changes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: object) -> None:
        self.count += 1


def test_no_history_is_unsure() -> None:
    assert not align(stored("u:1"), []).sure


def test_a_tool_result_continues_the_call() -> None:
    found = align(stored("u:1?", "a!:?"), history("u:1", "a!:", "t:found"))
    assert found.matched == (1, 2, None)
    assert turn_of(found).appends[0].state == State.CANDIDATE


def test_a_call_under_another_id_is_not_the_same_call() -> None:
    other = parse({"role": "assistant", "content": "", "tool_calls": [{**CALL, "id": "c2"}]})
    found = align(stored("u:1?", "a!:?"), [said("u:1"), other, said("t:found")])
    assert (found.matched, turn_of(found).drops) == ((1, None, None), (2,))


def test_another_image_with_the_same_name_is_another_message() -> None:
    def image(data: str) -> NewMessage:
        url = {"url": f"data:image/png;base64,{data}"}
        return parse({"role": "user", "content": [{"type": "image_url", "image_url": url}]})

    kept = [_message(1, image("AAAA")), *stored("u:x", "a:y?")[1:]]
    assert align(kept, [image("AAAA")]).kind == "reroll"
    assert not align(kept, [image("BBBB")]).sure


@pytest.mark.proves("G-101")
def test_genuine_repetitions_are_kept() -> None:
    found = align(
        stored("u:嗯。", "a:嗯。", "u:嗯。?", "a:嗯。?"),
        history("u:嗯。", "a:嗯。", "u:嗯。", "a:嗯。", "u:嗯。"),
    )
    assert found.matched == (1, 2, 3, 4, None)
    assert texts(turn_of(found).appends) == ["嗯。"]


def test_two_possible_readings_are_not_decided() -> None:
    kept = stored("u:1", "a:2", "u:嗯。", "a:嗯。", "u:嗯。?", "a:嗯。?")
    found = align(kept, history("u:嗯。", "a:嗯。", "u:嗯。"))
    assert (found.sure, found.reason) == (False, TWO_READINGS)


def test_words_that_stand_further_up_as_well_are_not_decided_either() -> None:
    """Three of the last may be gone; or the last of it is new."""
    kept = stored("u:1", "a:2", *("u:好", "a:嗯。", "u:嗯。", "a:嗯。", "u:好?", "a:嗯。?"))
    shown = history("u:好", "a:嗯。", "u:嗯。")
    assert align(kept, shown).reason == TWO_READINGS
    assert texts(turn_of(align(kept, shown, Hints(type="normal"))).appends) == ["嗯。"]
    assert turn_of(align(kept, shown, Hints(type="regenerate"))).drops == (6, 7, 8)


def test_a_turn_that_says_what_another_said_may_be_gone_or_not() -> None:
    kept = stored("u:好", "a:嗯。", "u:好?", "a:嗯。?")
    shown, habit = history("u:好", "a:嗯。", "u:嗯。"), Habit(last_id=2)
    assert align(kept, shown).reason == TWO_READINGS
    assert not turn_of(align(kept, shown, Hints(type="normal", last_id=4), habit)).drops
    assert turn_of(align(kept, shown, Hints(type="normal", last_id=2), habit)).drops == (3, 4)


# A client that keeps its own log, shows a window of it, and cleans what it was told.

WORDS = st.sampled_from(["嗯。", "好", "ok", "", "go on", "go  on", "\u00e9", "e\u0301"])


@dataclass(frozen=True)
class Step:
    again: bool
    words: str
    reply: str
    cleaned: bool
    window: int | None


STEPS = st.lists(
    st.builds(
        Step,
        again=st.booleans(),
        words=WORDS,
        reply=WORDS,
        cleaned=st.booleans(),
        window=st.none() | st.integers(3, 9),
    ),
    max_size=14,
)


def _log_lines(log: Sequence[NewMessage]) -> list[tuple[str, str]]:
    return [(one.role, one.body) for one in log]


@given(STEPS, st.booleans())
def test_no_story_of_a_client_loses_or_doubles_a_message(steps: list[Step], cuts: bool) -> None:
    shelf = Shelf()
    log: list[NewMessage] = []
    for number, step in enumerate(steps):
        asked = log[:-1] if step.again and log else [*log, said(f"u:{step.words}")]
        window = asked[-step.window :] if cuts and step.window else asked
        found = align(shelf.messages[-(len(window) + 2) :], window)
        assert align(shelf.messages[-(len(window) + 2) :], window) == found
        reply = said(f"a:{step.reply}")
        if found.turn is not None:
            shelf.record(found.turn, reply)
            assert shelf.lines()[:-1] == _log_lines(asked)[: len(shelf.messages) - 1]
            assert [m.body for m in shelf.messages[-2:]] == [asked[-1].body, step.reply]
            assert len(shelf.messages) == len(asked) + 1
        elif len(window) < len(asked):
            return  # the client shows too little; nothing was stored
        else:
            # Only a reroll amid repetitions may be left alone; the next turn puts it right.
            assert step.again
            assert found.reason == TWO_READINGS
        log = [*asked, said(f"a:{step.reply} [{number}]") if step.cleaned else reply]


@given(STEPS)
def test_a_client_that_sends_everything_is_always_understood_when_it_goes_on(
    steps: list[Step],
) -> None:
    shelf = Shelf()
    log: list[NewMessage] = []
    for number, step in enumerate(steps):
        asked = [*log, said(f"u:{step.words}")]
        found = align(shelf.messages, asked)
        shelf.record(turn_of(found), said(f"a:{step.reply}"))
        log = [*asked, said(f"a:{step.reply} [{number}]" if step.cleaned else f"a:{step.reply}")]
    assert len(shelf.messages) == len(log)


def test_a_turn_that_repeats_earlier_words_is_revealed_with_its_reply():
    """The words alone are remembered as the stored ones that they repeat."""
    past = ["u:one", "a:1", "u:two", "a:2", "u:three", "a:3"]
    more = ["u:one", "a:1", "u:one", "a:new", "u:two", "a:2", "u:three", "a:3"]
    first = align(stored(*past), history(*more, "u:five"))
    assert turn_of(first).inserts == ()
    kept = stored(*past, "u:five?", "a:5?")
    found = align(kept, history(*more, "u:five", "a:5", "u:six"), habit=first.habit)
    assert [(before, texts(new)) for before, new in turn_of(found).inserts] == [(3, ["one", "new"])]
