"""A client with a history of its own, whose requests are all that the aligner ever sees of it.

Whatever the client does, what is stored is what it has: nothing twice, nothing lost, nothing that
was injected. A request that is not understood leaves no mark, and doubt does not last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from previously.align import (
    MENDINGS_MAX,
    READ_MORE,
    Alignment,
    Habit,
    Hints,
    align,
    lasting,
    rejoin,
)
from previously.align.normal import SHARED_MIN, bare, heard_marks
from previously.align.trial import mended
from previously.model import NewMessage, TurnRecord
from tests.core.shelf import Shelf

HEAD = (NewMessage("system", "Write the next reply."), NewMessage("system", "[Start a new Chat]"))
JAILBREAK = NewMessage("system", "Stay in character.")
TEXTS = st.lists(
    st.sampled_from(
        ["rain", "a lantern", "the harbour", "嗯。", "好的", "gulls", "Anna", "caf\u00e9"]
    ),
    min_size=1,
    max_size=5,
).map(" ".join)
DOUBTS_MAX = 3  # sends in a row
QUIET = NewMessage("system", "Describe the weather in one sentence.")
CONTINUE = NewMessage(
    "system", "[Continue your last message without repeating its original content.]"
)
IMPERSONATE = NewMessage(
    "system", "[Write your next reply from the point of view of Alice, using the chat so far.]"
)
FLOORS_MIN = 4
INJECTED_MAX = 3
LEFT_MIN = 3  # the last turn and the next question
STEPS_MAX = 2  # changes between two requests

Line = tuple[str, str]


@dataclass
class Floor:
    """One message as the client has it."""

    role: str
    text: str
    hidden: bool = False
    others: list[str] = field(default_factory=list[str])  # replies that were swiped away


@dataclass
class Client:
    """A chat program: its history, and how it turns that into a request."""

    floors: list[Floor] = field(default_factory=list[Floor])
    window: int | None = None  # floors that it sends at most
    merges: bool = False  # neighbours of one role become one message
    names: bool = False
    streams: bool = True
    injected: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    @property
    def visible(self) -> list[Floor]:
        return [floor for floor in self.floors if not floor.hidden]

    @property
    def sent(self) -> list[Floor]:
        return self.visible[-(self.window or len(self.floors)) :]

    @property
    def spoken(self) -> list[Floor]:
        """What is stored of it: all but the narrator's lines."""
        return [floor for floor in self.visible if floor.role != "system"]

    @property
    def hints(self) -> Hints:
        return Hints(stream=self.streams)

    def request(self, floors: Sequence[Floor]) -> list[NewMessage]:
        shown = [NewMessage(f.role, self._dressed(f)) for f in floors]
        messages = [*HEAD, *self._with_injections(shown), JAILBREAK]
        return list(_merged(messages)) if self.merges else messages

    def _dressed(self, floor: Floor) -> str:
        name = {"user": "Alice", "assistant": "Keeper"}.get(floor.role, "")
        return f"{name}: {floor.text}" if self.names and name else floor.text

    def _with_injections(self, shown: Sequence[NewMessage]) -> Iterator[NewMessage]:
        for i in range(len(shown) + 1):
            for role, text, depth in self.injected:
                if len(shown) - i == depth:
                    yield NewMessage(role, text)
            yield from shown[i : i + 1]


def _merged(messages: Sequence[NewMessage]) -> Iterator[NewMessage]:
    for role, run in groupby(messages, lambda m: m.role):
        yield NewMessage(role, "\n\n".join(m.body for m in run))


def _difference(stored: Sequence[Line], truth: Sequence[Line]) -> str:
    return "\n".join(["stored:", *map(str, stored), "truth:", *map(str, truth)])


def _is_part(some: Sequence[Line], whole: Sequence[Line]) -> bool:
    rest = iter(whole)
    return all(line in rest for line in some)


def _is_version(text: str, other: str) -> bool:
    """Whether one holds all the words of the other."""
    return len(min(text, other, key=len)) >= SHARED_MIN and (text in other or other in text)


def _last(line: Line, lines: Sequence[Line]) -> int:
    """Where it stands for the last time; 0 if nowhere."""
    return max((i for i, one in enumerate(lines) if one == line), default=0)


class Life(RuleBasedStateMachine):
    """Between two requests the client does one thing, or several."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Client()
        self.shelf = Shelf()
        self.habit = Habit()
        self.elsewhere = Habit()  # of another server on the same database
        self.written: dict[str, Any] = {}  # what both can read
        self.replies = 0
        self.changed = False  # since the last request
        self.steps = 0
        self.behind = False  # something was said that is not stored
        self.lost = False  # the window has moved on meanwhile
        self.doubts = 0  # for how many sends in a row, with nothing else between
        self.asked: set[str] = set()
        self.box = ""  # what stands in the client's input box

    @initialize(
        texts=st.lists(TEXTS, min_size=1, max_size=4),
        older=st.integers(0, 5),
        window=st.none() | st.integers(5, 8),
        streams=st.booleans(),
    )
    def start(self, texts: list[str], older: int, window: int | None, streams: bool) -> None:
        self.client.floors = [Floor("assistant", "Welcome.")]
        for n in range(older):
            self.client.floors += [Floor("user", f"older {n}"), Floor("assistant", f"told {n}")]
        self.client.window = window
        self.client.streams = streams
        for words in texts:
            self._send(words)

    def _send(self, text: str, clean: str = "") -> None:
        gone = self.asked - {floor.text for floor in self.client.visible}
        if any(text != one and _is_version(text, one) for one in gone):
            text = self._reply(" in other words")  # it would be the one that is gone, edited
        self.asked.add(text)
        self.client.floors.append(Floor("user", text))
        self._ask(clean=clean, plain=True)

    def _ask(self, type_: str = "", *, clean: str = "", plain: bool = False) -> Floor:
        floors = self.client.sent
        found = self._read(self.client.request(floors), type_)
        text = self._reply(f" about {self.client.spoken[-1].text}")
        said = {"": text, "prefix": f"Keeper: {text}\nAlice: I", "cut": f"{text} and so"}[clean]
        if found.turn is not None:
            self.shelf.record(found.turn, NewMessage("assistant", said))
        elif found.kind == "unsure":
            self.habit = self.habit.hearing(heard_marks(said))
            self.written = self.habit.written()
        self.client.floors.append(Floor("assistant", text))
        self._check(found, plain=plain and not self.changed)
        self.changed = False
        self.steps = 0
        return self.client.floors[-1]

    def _reply(self, more: str = "") -> str:
        self.replies += 1
        return f"Reply {self.replies}{more}"

    def _read(self, request: Sequence[NewMessage], type_: str = "") -> Alignment:
        hints = replace(self.client.hints, type=type_)
        self._recall()
        found = self._aligned(request, hints)
        assert found == self._aligned(request, hints)
        if found.kind == "unsure":
            stored = self.shelf.messages[-len(request) - READ_MORE :]
            found = rejoin(found, stored, request, hints, self.habit)
            self.lost = self.lost or found.turn is not None  # what was stored last may be gone
        tried = False
        for _ in range(MENDINGS_MAX + 1):
            if found.turn is None or not found.turn.mends:
                break
            if not tried:
                tried, stored = True, self.shelf.messages[-len(request) - READ_MORE :]
                found = lasting(found, stored, request, hints, self.habit)
            if found.turn is not None:
                self._mend(found.turn)
                found = self._aligned(request, hints)
                assert found.turn is not None, found.reason
        assert found.turn is None or not found.turn.mends
        self.habit = found.habit
        if found.kind != "side" and found.habit.in_touch:
            self.written = found.habit.written()
        return found

    def _mend(self, turn: TurnRecord) -> None:
        """What it changes is what was tried, and can be taken back."""
        before = list(self.shelf.messages)
        self.shelf.record(turn.mending(), None)
        assert self.shelf.undone()[: len(before)] == before
        tried = [(m.role, m.body, m.hash, m.shown) for m in mended(before, turn)]
        assert tried == [(m.role, m.body, m.hash, m.shown) for m in self.shelf.messages]

    def _recall(self) -> None:
        """What every server reads first: it is written down with each turn."""
        self.habit = self.habit.recalling(self.written)

    def _aligned(self, request: Sequence[NewMessage], hints: Hints) -> Alignment:
        limit = len(request) + READ_MORE
        return align(self.shelf.messages[-limit:], request, hints, self.habit)

    def _check(self, found: Alignment, *, plain: bool) -> None:
        """What is stored is what the client has, as far back as it was ever shown.

        Only a request that was not understood may leave something out, and not for long.
        """
        truth = [(f.role, bare(f.text)) for f in self.client.spoken]
        stored = [(role, bare(body)) for role, body in self.shelf.lines()]
        all_said = _is_part(stored[:-1], truth)
        self.lost = self.lost or (self.behind and self.client.window is not None)
        if self.lost:  # what changed unread, and has left the window since, is as it was last read
            shown = sum(f.role != "system" for f in self.client.sent)
            truth = truth[-shown:]
            known = next((line for line in truth if line in stored), truth[0])
            stored = stored[_last(known, stored) :]
        equal = False
        if found.turn is not None:
            stored[-1] = truth[-1] if truth[-1][1] in stored[-1][1] else stored[-1]
            equal = stored == truth[len(truth) - len(stored) :]
            assert equal or self.behind, _difference(stored, truth)
            assert _is_part(stored, truth) or all_said, _difference(stored, truth)
        self.behind = not equal
        self.lost = self.lost and not (equal and self.client.window is None)
        sent = [(f.role, bare(f.text)) for f in self.client.sent]
        in_touch = len(set(stored) & set(sent)) >= FLOORS_MIN
        self.doubts = self.doubts + 1 if plain and self.behind and in_touch else 0
        assert self.doubts <= DOUBTS_MAX, (found.reason, _difference(stored, truth))
        self._check_injections()

    def _check_injections(self) -> None:
        told = [m.body for m in (*HEAD, JAILBREAK, QUIET, CONTINUE, IMPERSONATE)]
        told += [text for _, text, _ in self.client.injected]
        told += [f.text for f in self.client.floors if f.role == "system"]
        for text in told:
            assert not any(text in m.body for m in self.shelf.messages), text

    @rule(text=TEXTS, clean=st.sampled_from(["", "prefix", "cut"]))
    def send(self, text: str, clean: str) -> None:
        self._send(self.box or text, clean=clean)
        self.box = ""

    @rule(texts=st.lists(TEXTS, min_size=2, max_size=4))
    def talk(self, texts: list[str]) -> None:
        for text in texts:
            self._send(text)

    @rule(told=st.booleans())
    def swipe(self, told: bool) -> None:
        if self.client.floors[-1].role == "assistant" and len(self.client.sent) > FLOORS_MIN:
            old = self.client.floors.pop()
            new = self._ask("swipe" if told else "")
            new.others = [*old.others, old.text]

    @rule()
    def swipe_back(self) -> None:
        """Between replies that are there; the next request simply shows the other one."""
        last = self.client.floors[-1]
        if last.others and not last.hidden:
            last.others.append(last.text)
            last.text = last.others.pop(0)

    @precondition(lambda self: not self.changed and not self.behind)
    @rule(nudged=st.booleans(), text=TEXTS)
    def go_on(self, nudged: bool, text: str) -> None:
        """The last reply is to grow; it stands at the very end then."""
        last = self.client.floors[-1]
        if last.role != "assistant" or last.hidden or len(self.client.sent) <= FLOORS_MIN:
            return
        request = self.client.request(self.client.sent)
        at = max(i for i, m in enumerate(request) if last.text in m.body)
        if request[at].role == "assistant" and bare(request[at].body) == bare(last.text):
            request.append(request.pop(at))
        found = self._read(
            [*request, CONTINUE] if nudged else request, "" if nudged else "continue"
        )
        if found.turn is not None:
            self.shelf.record(found.turn, NewMessage("assistant", text))
        last.text = f"{last.text} {text}"
        self.behind = self.behind or found.turn is None
        self._check_injections()

    def _aside(self, request: Sequence[NewMessage], type_: str = "", *, streams: bool) -> Alignment:
        now, self.client.streams = self.client.streams, streams
        found = self._read(request, type_)
        self.client.streams = now
        if found.turn is not None:
            self.shelf.record(found.turn, NewMessage("assistant", self._reply(" aside")))
        self._check_injections()
        return found

    @precondition(lambda self: not self.changed)
    @rule(kind=st.sampled_from(["quiet", "impersonate", "raw"]), told=st.booleans(), text=TEXTS)
    def ask_aside(self, kind: str, told: bool, text: str) -> None:
        """Its answer never joins the history, or as words of the user's."""
        whole = self.client.request(self.client.sent)
        streams = self.client.streams and kind == "impersonate"
        request = {
            "quiet": [*whole, QUIET],
            "impersonate": [*whole, IMPERSONATE],
            "raw": [HEAD[0], NewMessage("user", f"Translate {text}")],
        }[kind]
        if kind != "quiet" or told or self.client.streams:
            found = self._aside(request, kind if told and kind != "raw" else "", streams=streams)
            assert found.turn is None
        self.box = self._reply(" for me") if kind == "impersonate" else self.box

    @rule()
    def restart(self) -> None:
        """What earlier requests have shown is forgotten."""
        self.habit = Habit()
        self.doubts = 0

    @rule()
    def ask_another_server(self) -> None:
        self.habit, self.elsewhere = self.elsewhere, self.habit
        self.doubts = 0

    @precondition(lambda self: not self.changed)
    @rule()
    def narrate(self) -> None:
        told = takewhile(lambda floor: floor.role == "system", reversed(self.client.floors))
        if self.client.window and len(list(told)) + LEFT_MIN >= self.client.window:
            return  # a window that shows less than a turn of the chat may be anybody's
        self.tell()

    def tell(self) -> None:
        """A line of the narrator's."""
        self.replies += 1
        self.client.floors.append(Floor("system", f"Night number {self.replies} falls."))

    def _has_neighbours(self, back: int) -> bool:
        """What changes at the edge of all that was ever shown is beyond anybody's sight."""
        self.steps += 1
        before = sum(floor.role != "system" for floor in self.client.sent[:-back])
        known = min(before, len(self.shelf.lines()) - back)
        return known >= FLOORS_MIN and self.steps <= STEPS_MAX

    @rule(text=TEXTS, back=st.integers(1, 6))
    def edit(self, text: str, back: int) -> None:
        if self._has_neighbours(back) and self.client.sent[-back].role != "system":
            # What is only shortened may be a client's rule, and is believed later.
            self.client.sent[-back].text = f"edited {self._reply()} {text}"
            self.client.merges = False  # where two new texts were joined nobody can tell
            self.changed = True

    @rule(count=st.integers(1, 6))
    def delete_last(self, count: int) -> None:
        if self._has_neighbours(count) and not self.client.floors[-1].hidden:
            for floor in self.client.visible[-count:]:
                self.client.floors = [f for f in self.client.floors if f is not floor]
            self.client.merges = False
            self._moves_back()

    def _moves_back(self) -> None:
        """What changed unread, and has left the window, may come into view again. Where a question
        is taken out between two replies that are not stored yet, they would be joined."""
        self.changed = True
        self.client.merges = self.client.merges and not self.behind
        self.behind = self.behind or self.lost

    @rule(back=st.integers(2, 6))
    def delete_middle(self, back: int) -> None:
        if self._has_neighbours(back):
            gone = self.client.sent[-back]
            self.client.floors = [f for f in self.client.floors if f is not gone]
            self._moves_back()

    @rule(back=st.integers(2, 6))
    def hide(self, back: int) -> None:
        if self._has_neighbours(back):
            self.client.sent[-back].hidden = True
            self._moves_back()

    @rule()
    def unhide(self) -> None:
        for floor in reversed(self.client.floors):
            if floor.hidden:
                floor.hidden = False
                floor.hidden = all(one is not floor for one in self.client.sent[1:])
        self.changed = self.behind = True  # what was never stored is believed at second sight

    @precondition(lambda self: not self.changed and not self.behind)
    @rule(
        role=st.sampled_from(["system", "user", "assistant"]), depth=st.integers(0, 5), text=TEXTS
    )
    def inject(self, role: str, depth: int, text: str) -> None:
        most = len(self.client.injected) < INJECTED_MAX
        if most and (not self.client.merges or role == "system"):
            self.replies += 1
            self.client.injected.append((role, f"Injected text number {self.replies}.", depth))
            self._send(text)  # the same instant: nothing is told apart that changes at one place

    @precondition(lambda self: not self.changed)
    @rule()
    def inject_nothing(self) -> None:
        if self.client.injected:
            self.client.injected.pop()
            self.changed = True

    @precondition(lambda self: not self.changed)
    @rule(names=st.booleans(), merges=st.booleans())
    def dress(self, names: bool, merges: bool) -> None:
        self.client.names = names
        told_apart = not self.behind and all(
            role == "system" for role, _, _ in self.client.injected
        )
        self.client.merges = merges and told_apart
        self.changed = True

    @precondition(lambda self: not self.changed)
    @rule(window=st.none() | st.integers(6, 12))
    def show_more_or_less(self, window: int | None) -> None:
        self.client.window = window
        self._moves_back()


# Other lives every time, but for the `ci` profile. What they are spared is told in decision 0017.
Life.TestCase.settings = settings(max_examples=40, stateful_step_count=24)
TestLife = Life.TestCase
