"""Any tree of responses in one line of messages: what is shown is always the way to the newest."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from previously.model import CLIENT, RESPONSE, Message, digest
from previously.web.branches import Branch, branch_to


class Chat:
    """A chat as the store would keep it, and the tree that it stands for."""

    def __init__(self) -> None:
        self.line: list[Message] = []
        self.tree: dict[str, str | None] = {}  # each response and the one before it

    def say(self, role: str, body: str, response: str | None, after: str | None) -> None:
        link = {RESPONSE: {"id": response, "after": after}} if response else {}
        n = len(self.line) + 1
        extra = json.dumps(link) if link else None
        self.line.append(Message(n, n, role, body, digest(body), 1, extra=extra))

    def go_on(self, after: str | None, inputs: int, seen: int) -> None:
        name = f"r{len(self.tree)}"
        if after is not None:
            self.show(self.found(after, seen))
        for n in range(inputs):
            self.say("user", f"{name} asks {n}", name, after)
        self.say("assistant", f"{name} says", name, after)
        self.tree[name] = after

    def found(self, name: str, seen: int) -> Branch:
        """From ever more of the newest messages, as the door looks for it."""
        while True:
            complete = seen > len(self.line)
            branch = branch_to(self.line[-seen:], name, complete=complete)
            if branch is not None:
                return branch
            assert not complete
            seen *= 2

    def show(self, branch: Branch) -> None:
        hidden = {**dict.fromkeys(branch.shows), **dict.fromkeys(branch.hides, CLIENT)}
        self.line = [replace(m, hidden_by=hidden.get(m.id, m.hidden_by)) for m in self.line]

    def way(self, name: str | None) -> list[str]:
        """The responses that lead to one, itself the last."""
        return [] if name is None else [*self.way(self.tree[name]), name]

    def shown(self) -> list[str]:
        return [m.body for m in self.line if m.hidden_by != CLIENT]


steps = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=16
)


@settings(max_examples=400, deadline=None)
@given(steps)
def test_what_is_shown_is_the_way_to_the_newest_response(picked: list[tuple[int, int, int]]):
    chat = Chat()
    for pick, inputs, seen in picked:
        after = f"r{pick % len(chat.tree)}" if chat.tree else None
        chat.go_on(after, inputs, seen)
        newest = f"r{len(chat.tree) - 1}"
        way = chat.way(newest)
        said = [m.body for m in chat.line if m.body.split()[0] in way]
        assert chat.shown() == said


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(0, 100))
def test_every_response_can_be_shown_again(picked: list[tuple[int, int, int]], back: int):
    chat = Chat()
    for pick, inputs, seen in picked:
        chat.go_on(f"r{pick % len(chat.tree)}" if chat.tree else None, inputs, seen)
    name = f"r{back % len(chat.tree)}"
    chat.show(chat.found(name, 1))
    assert chat.shown() == [m.body for m in chat.line if m.body.split()[0] in chat.way(name)]
    again = chat.found(name, 1)
    assert not again.shows
    assert not again.hides


def test_what_others_have_added_stays():
    chat = Chat()
    chat.say("user", "by another door", None, None)
    chat.go_on(None, 1, 4)
    chat.say("user", "a note", None, None)
    chat.go_on("r0", 1, 4)
    chat.go_on("r0", 1, 4)
    assert chat.shown()[0] == "by another door"
    chat.say("user", "a last note", None, None)
    assert chat.found("r2", 1).hides == ()


def test_an_unknown_response_is_not_found():
    chat = Chat()
    chat.go_on(None, 1, 4)
    assert branch_to(chat.line, "r9", complete=True) is None
    assert branch_to([], "r0", complete=True) is None


def test_a_root_that_was_hidden_leaves_what_stands_before_it():
    chat = Chat()
    chat.say("user", "before", None, None)
    chat.go_on(None, 1, 4)
    chat.line = [replace(m, hidden_by=CLIENT if m.extra else None) for m in chat.line]
    chat.show(chat.found("r0", 1))
    assert chat.shown() == ["before", "r0 asks 0", "r0 says"]
