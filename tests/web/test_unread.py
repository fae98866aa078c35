"""What was said in requests that were not understood helps to read the next one."""

from __future__ import annotations

import pytest

from previously.align import Hints
from previously.text.wire import parse
from previously.web.unread import MESSAGES_MAX, Request, Unread

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
        (("a:3\n\n4", "a:6", "u:8"), ["3\n\n4", "6", "8"]),  # something was taken out
    ],
)
def test_what_is_joined_to_a_message_does_not_hide_it(now: list[str], whole: list[str]) -> None:
    unread = Unread()
    unread.keep(request(*JOINED))
    assert words(unread.widened(request(*now), ())) == whole


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
    ],
)
def test_a_request_goes_on_from_what_another_has_begun(
    now: tuple[str, ...], *, goes_on: bool
) -> None:
    unread = Unread()
    unread.keep(request("s:card", "a:hi", "u:1", "u:format", "a:<think>"))
    assert unread.begun(request("s:card", *now).said) == (["demo"] if goes_on else [])
