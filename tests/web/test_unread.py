"""What was said in requests that were not understood helps to read the next one."""

from __future__ import annotations

import pytest

from previously.align import Hints, normal
from previously.text.wire import parse
from previously.web.unread import MESSAGES_MAX, Request, Unread
from tests.core.test_align import stored

ROLES = {"u": "user", "a": "assistant", "s": "system"}


def request(*lines: str, name: str = "demo") -> Request:
    raw = [{"role": ROLES[line[0]], "content": line[2:]} for line in lines]
    return Request(name, raw, tuple(map(parse, raw)), Hints())


def words(made: Request) -> list[str]:
    assert [m["content"] for m in made.raw] == [said.body for said in made.said]
    return [said.body for said in made.said]


BEFORE = ("s:card", "a:1", "u:2", "a:3", "u:4")


@pytest.mark.parametrize(
    ("before", "now", "whole"),
    [
        (BEFORE, ("s:card", "a:3", "u:4", "a:5", "u:6"), "card 1 2 3 4 5 6"),
        (BEFORE, ("s:other", "a:3", "s:note", "u:4", "a:5", "u:6"), "other 1 2 3 note 4 5 6"),
        (("u:head", *BEFORE[1:]), ("u:head", "a:3", "u:4", "a:5"), "head 1 2 3 4 5"),
        (BEFORE, (*BEFORE, "a:5", "u:6"), "card 1 2 3 4 5 6"),
        (BEFORE, ("s:card", "u:4", "a:5", "u:6"), "card 4 5 6"),  # one may be a chance
        (BEFORE, ("s:card", "u:else", "a:wholly"), "card else wholly"),
        (BEFORE, ("s:card", "u:new", "a:3", "u:4"), "card new 3 4"),  # what came in front of it?
        # An instruction has moved; the same words may be said again.
        (
            (*BEFORE, "a:5", "u:6"),
            ("s:card", "a:3", "u:4", "a:1", "a:5", "u:6", "a:7", "u:8"),
            "card 2 3 4 1 5 6 7 8",
        ),
        (BEFORE, ("s:card", "a:3", "u:4", "a:1", "u:6"), "card 1 2 3 4 1 6"),
    ],
)
def test_what_the_window_no_longer_shows_is_lent(
    before: tuple[str, ...], now: tuple[str, ...], whole: str
) -> None:
    unread = Unread()
    unread.keep(request(*before))
    made = unread.widened(request(*now), ())
    assert words(made) == whole.split()
    assert made.own == request(*now).raw


def test_what_came_before_everything_and_is_gone_again_is_not_lent() -> None:
    """It was an instruction; what has stood there for longer is out of the window."""
    for kept, whole in ((1, "card 1 2 3 4 5 6"), (2, "card lore 1 2 3 4 5 6")):
        unread = Unread()
        unread.keep(request(*BEFORE))
        for _ in range(kept):
            unread.keep(request("s:card", "a:lore", *BEFORE[1:]))
        made = unread.widened(request(*BEFORE, "a:5", "u:6"), ())
        assert words(made) == whole.split()


JOINED = ("a:1", "u:[lore]\n\n2", "a:3\n\n4", "u:5", "a:6", "u:<write as Bob>")


@pytest.mark.parametrize(
    ("now", "whole"),
    [
        (
            ("a:3\n\n4", "u:5", "a:6\n\n7", "u:8\n\n<write as Ann>"),
            ["1", "[lore]\n\n2", "3\n\n4", "5", "6\n\n7", "8\n\n<write as Ann>"],
        ),
        (  # an instruction has come between
            ("a:3\n\n4", "u:[lore]\n\n5", "a:6", "u:<write as Ann>"),
            ["1", "[lore]\n\n2", "3\n\n4", "[lore]\n\n5", "6", "<write as Ann>"],
        ),
        (  # the window begins in the midst of two replies
            ("a:4", "u:5", "a:6\n\n7", "u:8"),
            ["1", "[lore]\n\n2", "3\n\n4", "5", "6\n\n7", "8"],
        ),
        (  # the instruction stood elsewhere
            ("u:[lore]\n\n5", "a:6", "u:8"),
            ["1", "[lore]\n\n2", "3\n\n4", "[lore]\n\n5", "6", "8"],
        ),
        (  # something was taken out
            ("a:3\n\n4", "a:6", "u:8"),
            ["1", "[lore]\n\n2", "3\n\n4", "6", "8"],
        ),
        (  # something was edited
            ("a:3\n\n4", "u:five", "a:6", "u:8"),
            ["1", "[lore]\n\n2", "3\n\n4", "five", "6", "8"],
        ),
    ],
)
def test_what_is_joined_to_a_message_does_not_hide_it(now: list[str], whole: list[str]) -> None:
    unread = Unread()
    unread.keep(request(*JOINED))
    assert words(unread.widened(request(*now), ())) == whole


def test_a_window_may_begin_in_the_midst_of_questions_that_were_joined() -> None:
    """They begin with one that is stored; what else stands before a question may be lore."""
    unread = Unread()
    unread.keep(request("u:1", "a:2", "u:3\n\n4\n\n5", "a:6", "u:7"))
    window = request("u:5", "a:6", "u:7", "a:8", "u:9")
    known = {request("u:3").said[0].hash}
    assert words(unread.widened(window, known)) == ["1", "2", "3\n\n4\n\n5", "6", "7", "8", "9"]
    assert words(unread.widened(window, ())) == ["1", "2", "5", "6", "7", "8", "9"]


LONG = ("a:hello", "u:1", "a:two <mood>", "u:3", "a:four\n\n<mood>", "u:5")


@pytest.mark.parametrize(
    ("now", "whole"),
    [
        (
            ("a:hello", "u:1", "a:two", "u:3", "a:four", "u:5", "a:six", "u:7"),
            ["hello", "1", "two <mood>", "3", "four\n\n<mood>", "5", "six", "7"],
        ),
        (  # the window begins with one of them, and something was taken out
            ("a:two", "u:3", "a:four", "a:six", "u:7", "a:eight"),
            ["two <mood>", "3", "four\n\n<mood>", "six", "7", "eight"],
        ),
        (  # what is missing stands elsewhere now: it had been joined to it
            ("u:1", "a:two", "u:3", "a:four", "u:5", "a:<mood>", "u:7"),
            ["1", "two <mood>", "3", "four", "5", "<mood>", "7"],
        ),
        (  # the newest may have been cut by the user
            ("a:hello", "u:1", "a:two <mood>", "u:3", "a:four", "u:5"),
            ["hello", "1", "two <mood>", "3", "four", "5"],
        ),
        (("a:hello", "u:other", "a:wholly"), ["hello", "other", "wholly"]),
    ],
)
def test_replies_in_doubt_that_are_shown_shortened_are_whole_again(
    now: list[str], whole: list[str]
) -> None:
    unread = Unread()
    unread.keep(request(*LONG))
    made = unread.restored(request(*now), ())
    assert [said.body for said in made.said] == whole
    assert made.raw == request(*now).raw


def test_what_is_stored_for_good_is_not_restored() -> None:
    unread = Unread()
    unread.keep(request(*LONG))
    now = request("a:hello", "u:1", "a:two", "u:3", "a:four", "u:5", "a:six", "u:7")
    kept = stored("a:two <mood>", "a:four\n\n<mood>?")
    assert [m.body for m in unread.restored(now, kept).said][2::2] == ["two", LONG[4][2:], "six"]


def test_what_is_taken_out_of_the_middle_is_not_lent() -> None:
    unread = Unread()
    unread.keep(request(*BEFORE))
    stored = {parse({"role": "assistant", "content": "1"}).hash}
    now = request("s:card", "a:1", "a:3", "u:4", "a:5", "u:6")
    assert unread.widened(now, stored) is now


def test_it_grows_from_request_to_request_and_ends_with_a_turn() -> None:
    unread = Unread()
    unread.keep(request("a:1", "u:2", "a:3", "u:4"))
    unread.keep(unread.widened(request("a:3", "u:4", "a:5", "u:6"), ()))
    assert words(unread.widened(request("a:5", "u:6", "a:7", "u:8"), ())) == list("12345678")
    unread.forget("demo")
    now = request("a:5", "u:6", "a:7", "u:8")
    assert unread.widened(now, ()) is now


def test_no_more_is_kept_than_fits() -> None:
    unread = Unread()
    unread.keep(request(*(f"u:{n}" for n in range(MESSAGES_MAX + 1))))
    now = request("u:2", "u:3")
    assert unread.widened(now, ()) is now


@pytest.mark.parametrize(
    ("now", "goes_on"),
    [
        (("a:hi", "u:1", "a:2", "u:3", "u:format", "a:<think>"), True),
        (("a:hi", "u:1", "u:format", "a:<think>"), True),  # asked again
        (("a:hi", "u:other", "u:format", "a:<think>"), False),
        (("u:1", "a:2", "u:3"), False),
        (("a:hi", "u:1"), False),  # less than there was
        (("a:hi", "u:1\n\n<as Bob>", "a:2", "u:3", "u:format", "a:<think>"), True),
        (("a:hi\n\n2", "u:1", "a:2", "u:format", "a:<think>"), True),
    ],
)
def test_a_request_goes_on_from_what_another_has_begun(
    now: tuple[str, ...], *, goes_on: bool
) -> None:
    unread = Unread()
    unread.keep(request("s:card", "a:hi", "u:1", "u:format", "a:<think>"))
    assert unread.begun(request("s:card", *now).said) == (["demo"] if goes_on else [])


@pytest.mark.parametrize(
    ("now", "goes_on"),
    [
        (("u:1", "a:2", "u:3", "a:4", "u:5", "u:format"), True),
        (("u:3", "a:4", "u:5", "u:format"), False),  # one may be a chance
        (("u:1", "a:2", "u:other", "a:4", "u:5", "u:format"), False),
        (("u:1", "a:2", "u:3", "u:format"), False),  # nothing is said since
    ],
)
def test_a_window_that_moves_on_goes_on_from_the_request_before(
    now: tuple[str, ...], *, goes_on: bool
) -> None:
    unread = Unread()
    unread.keep(request("a:hi", "u:1", "a:2", "u:3", "u:format"))
    assert unread.begun(request(*now).said) == (["demo"] if goes_on else [])


def test_a_window_in_doubt_is_known_by_what_was_said_since_and_nothing_else() -> None:
    """Two chats under one preset, of which each request begins and ends alike."""
    head, tail = ("u:<rules>", "a:yes", "a:hello"), ("u:<format>", "a:<thinking>")
    unread = Unread()
    unread.keep(request(*head, "u:1", "a:2", *tail, name="one"))
    unread.keep(request(*head, "u:1", "a:2", "u:3", "a:4", "u:5", *tail, name="one"))
    assert unread.begun(request(*head, "u:3", "a:4", "u:else", *tail).said) == ["one"]
    assert unread.begun(request(*head, "u:other", *tail).said) == []
    assert unread.begun(request(*head, "u:1", "a:other", "u:3", *tail).said) == []


def test_a_reply_that_has_grown_since_is_still_the_same() -> None:
    unread = Unread()
    unread.keep(request("a:hello", "u:1", "a:A telling reply.", "s:[Continue]"))
    assert unread.begun(request("a:hello", "u:1", "a:A telling reply. And more.", "u:2").said)
    assert not unread.begun(request("a:hello", "u:1", "a:Another telling reply.", "u:2").said)


def test_a_chat_in_doubt_is_known_behind_what_came_in_front_and_by_our_reply() -> None:
    """Lore wanders from request to request, and a rule shortens what is old."""
    unread = Unread()
    unread.keep(request("a:hi", "u:1", "u:format", "a:<think>"))
    then = ("a:lore", "a:hi", "u:1", "a:A telling reply.\n<mood>", "u:2", "u:format", "a:<think>")
    assert unread.begun(request(*then).said) == ["demo"]
    unread.keep(request(*then))
    now = request(
        *("a:hi", "u:1", "u:more lore", "a:A telling reply.", "u:2", "a:Another telling one."),
        *("u:3", "u:format", "a:<think>"),
    )
    assert unread.begun(now.said) == []
    heard = normal.marks("Another telling one.")
    assert unread.begun(now.said, lambda name: heard if name == "demo" else ()) == ["demo"]
