from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from previously import align as align_module
from previously.align import NO_MATCH, TWO_READINGS, Alignment, align
from previously.model import POS_GAP, Message, NewMessage, State, TurnRecord
from previously.text.wire import parse, tokens_of

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


def _message(number: int, new: NewMessage) -> Message:
    return Message(
        id=number,
        pos=number * POS_GAP,
        role=new.role,
        body=new.body,
        hash=new.hash,
        tokens=tokens_of(new),
        name=new.name,
        tool_calls=new.tool_calls,
        tool_call_id=new.tool_call_id,
        parts=new.parts,
        extra=new.extra,
        state=new.state,
    )


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


def test_a_confirmed_reply_in_other_words_is_an_edit_and_not_guessed_at() -> None:
    found = align(
        stored("u:1", "a:2", "u:3?", "a:4?"), history("u:1", "a:two", "u:3", "a:4", "u:5")
    )
    assert not found.sure


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


def test_a_confirmed_reply_is_not_asked_again() -> None:
    assert not align(stored("u:1", "a:2"), history("u:1")).sure


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
    "lines",
    [
        ("u:else",),
        ("u:1", "a:2", "u:edited"),
        ("u:1", "u:3", "a:4", "u:5"),
        ("a:2", "u:1", "u:3"),
        ("u:1", "a:2", "s:injected", "u:3", "a:4", "u:5"),
    ],
)
def test_anything_else_is_unsure(lines: tuple[str, ...]) -> None:
    found = align(stored("u:1", "a:2", "u:3?", "a:4?"), history(*lines))
    assert (found.kind, found.turn) == ("unsure", None)
    assert found.matched == (None,) * len(lines)
    assert found.reason


@pytest.mark.parametrize("last", ["a:prefill", "s:post history"])
def test_a_request_that_does_not_end_with_a_question_is_unsure(last: str) -> None:
    assert not align([], history("u:1", last)).sure


def test_no_history_is_unsure() -> None:
    assert not align(stored("u:1"), []).sure


def test_a_tool_result_continues_the_call() -> None:
    found = align(stored("u:1?", "a!:?"), history("u:1", "a!:", "t:found"))
    assert found.matched == (1, 2, None)
    assert turn_of(found).appends[0].state == State.CANDIDATE


def test_a_call_under_another_id_is_not_the_same_call() -> None:
    other = parse({"role": "assistant", "content": "", "tool_calls": [{**CALL, "id": "c2"}]})
    found = align(stored("u:1?", "a!:?"), [said("u:1"), other, said("t:found")])
    assert not found.sure


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


def test_a_text_that_only_repeats_itself_is_read_with_bounded_effort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    same = align_module._same

    def counted(m: Message, new: NewMessage) -> bool:
        nonlocal compared
        compared += 1
        return same(m, new)

    monkeypatch.setattr(align_module, "_same", counted)
    kept = stored(*(f"{'ua'[i % 2]}:嗯。" for i in range(1_200)), "u:x", "a:y")
    lines = [f"{'ua'[i % 2]}:嗯。" for i in range(1_000)]
    assert not align(kept, history(*lines, "u:x", "a:z", "u:more")).sure
    assert compared < 40 * (len(kept) + len(lines))


# A client that keeps its own log, shows a window of it, and cleans what it was told.

WORDS = st.sampled_from(["嗯。", "好", "ok", "", "go on", "go  on", "\u00e9", "e\u0301"])


@dataclass
class Shelf:
    """The store, as `record_turn` is meant to work."""

    messages: list[Message] = field(default_factory=list[Message])

    def record(self, turn: TurnRecord, reply: NewMessage) -> None:
        by_id = {m.id: i for i, m in enumerate(self.messages)}
        for number, text in turn.confirms:
            old = self.messages[by_id[number]]
            new = old if text is None else _message(number, text)
            self.messages[by_id[number]] = replace(new, state=State.CONFIRMED)
        if turn.rerolls is not None:
            reply = replace(reply, state=State.CANDIDATE)
            self.messages[by_id[turn.rerolls]] = _message(turn.rerolls, reply)
            return
        for new in (*turn.appends, replace(reply, state=State.CANDIDATE)):
            self.messages.append(_message(len(self.messages) + 1, new))

    def lines(self) -> list[tuple[str, str]]:
        return [(m.role, m.body) for m in self.messages]


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
