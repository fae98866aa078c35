"""The short way to a reading comes to what the long way comes to, or does not say anything."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import event, given, settings
from hypothesis import strategies as st

from previously.align import NOTHING_KNOWN, NOTHING_TOLD, Alignment, Habit, Hints, align
from previously.align.looking import look
from previously.align.plain import plainly
from previously.align.reading import read
from previously.model import CLIENT, Message, NewMessage, State
from tests.core.shelf import message

TEXTS = ("rain", "a lantern", "嗯。", "好的", "gulls", "Anna: yes", "[Start a new Chat]")
# Made here once: a strategy that is built at every draw costs more than what is tried with it.
WORDS: st.SearchStrategy[str] = st.one_of(
    [
        st.sampled_from([between.join(texts) for texts in product(TEXTS, repeat=count)])
        for count in (1, 2, 3)
        for between in (" ", "\n\n")
    ]
)
ODD = st.integers(0, 5).map(lambda n: n == 0)
RARE = st.integers(0, 40).map(lambda n: n == 0)
ROLES = st.sampled_from(["user", "assistant"])


def long_way(
    stored: list[Message], request: list[NewMessage], hints: Hints, habit: Habit, *, complete: bool
) -> Alignment:
    return read(look(request, stored, habit, hints, complete=complete), hints)


@st.composite
def kept(draw: st.DrawFn) -> list[Message]:
    """A chat, most of it as chats are."""
    out: list[Message] = []
    for n in range(draw(st.integers(4, 6)) * 2):
        role = draw(ROLES) if draw(RARE) else _turns(n)
        words = draw(WORDS) if draw(ODD) else f"{draw(WORDS)} {n}"
        said = NewMessage("system" if draw(RARE) else role, words)
        m = message(n + 1, said)
        state = State.CANDIDATE if draw(ODD) else State.CONFIRMED
        hidden = CLIENT if draw(RARE) else None
        out.append(replace(m, state=state, hidden_by=hidden, pinned=draw(RARE)))
    return out


def _turns(n: int) -> str:
    return ("user", "assistant")[n % 2]


@st.composite
def sent(draw: st.DrawFn, stored: list[Message]) -> list[NewMessage]:
    """What a client has of it, and one thing more; now and then something else."""
    cut = draw(st.integers(0, len(stored))) if draw(st.booleans()) else 0
    out = [
        NewMessage(m.role, m.body, m.name, state=State.CONFIRMED)
        for m in stored[cut:]
        if m.shown and not draw(RARE)
    ]
    again = draw(st.sampled_from(stored)).body if draw(ODD) else None
    asked = again or f"{draw(WORDS)} {len(stored)}"
    out.append(NewMessage("assistant" if draw(RARE) else "user", asked))
    if draw(ODD):
        out.insert(draw(st.integers(0, len(out))), NewMessage("user", draw(WORDS)))
    return [NewMessage("system", draw(WORDS)) for _ in range(draw(st.integers(0, 2)))] + out


@settings(max_examples=300)
@given(st.data())
def test_both_ways_come_to_the_same(data: st.DataObject) -> None:
    stored = data.draw(kept())
    request = data.draw(sent(stored))
    hints = data.draw(
        st.builds(
            Hints,
            type=st.sampled_from(["", "", "normal", "swipe"]),
            stream=st.booleans(),
            last_id=st.none() | st.integers(0, 20),
        )
    )
    complete = data.draw(st.booleans())
    found = plainly(request, stored, NOTHING_KNOWN, hints, complete=complete)
    event("plain" if found is not None else "not plain")
    if found is not None:
        assert found == long_way(stored, request, hints, NOTHING_KNOWN, complete=complete)


def chat(count: int) -> list[Message]:
    lines = [NewMessage(_turns(n), f"line {n}") for n in range(count)]
    return [message(n + 1, line) for n, line in enumerate(lines)]


def test_an_ordinary_next_turn_is_plain() -> None:
    stored = chat(60)
    shown = [NewMessage(m.role, m.body) for m in stored[-40:]]
    request = [NewMessage("system", "Be kind."), *shown, NewMessage("user", "and then?")]
    assert plainly(request, stored, NOTHING_KNOWN, NOTHING_TOLD, complete=False) is not None
    found = align(stored, request, complete=False)
    assert found == long_way(stored, request, NOTHING_TOLD, NOTHING_KNOWN, complete=False)
    assert found.turn is not None
    assert [one.body for one in found.turn.appends] == ["and then?"]
    assert found.places[0].part == "head"


def test_what_earlier_requests_put_in_doubt_takes_the_long_way() -> None:
    stored = chat(8)
    request = [NewMessage(m.role, m.body) for m in stored] + [NewMessage("user", "and then?")]
    doubting = replace(NOTHING_KNOWN, floating=frozenset({b"mark"}))
    assert plainly(request, stored, doubting, NOTHING_TOLD, complete=True) is None


def test_what_may_be_read_in_two_ways_takes_the_long_way() -> None:
    stored = chat(8)
    shown = [NewMessage(m.role, m.body) for m in stored]
    asked = NewMessage("user", "and then?")

    def plain(over: list[Message], *request: NewMessage) -> bool:
        found = plainly(request, over, NOTHING_KNOWN, NOTHING_TOLD, complete=True)
        return found is not None

    assert plain(stored, *shown, asked)
    assert not plain(stored, *shown, NewMessage("user", stored[-2].body))  # or the last turn again
    assert not plain(stored, *shown, NewMessage("assistant", "and then?"))
    assert not plain(stored, *shown[:-1], asked)
    assert not plain(stored, *shown[-3:], asked)
    held = NewMessage("user", f"{stored[0].body}\n\nand then?")
    assert not plain(stored, *shown[4:], held)
    hidden = replace(stored[2], hidden_by=CLIENT)
    assert not plain([*stored[:2], hidden, *stored[3:]], *shown, asked)
    narrator = replace(stored[0], role="system", body="It rains.")
    told = NewMessage("system", "It rains.")
    assert not plain([narrator, *stored[1:]], told, *shown[1:], asked)
    called = replace(stored[-1], tool_calls="[]")
    assert not plain(
        [*stored[:-1], called], *shown[:-1], replace(shown[-1], tool_calls="[]"), asked
    )
