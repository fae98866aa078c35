"""What `record_turn` is meant to do, on a list: the store of the aligner's own tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from previously.model import CLIENT, POS_GAP, Message, NewMessage, State, TurnRecord
from previously.text.wire import tokens_of


def message(number: int, new: NewMessage) -> Message:
    """A stored message."""
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


@dataclass
class Shelf:
    """Messages in order, and how they were before the last change."""

    messages: list[Message] = field(default_factory=list[Message])
    before: list[Message] | None = None
    _born: int = 0

    def record(self, turn: TurnRecord, reply: NewMessage | None) -> None:
        last = self.messages[-1] if self.messages else None
        assert (turn.after_id, turn.after_hash) == ((last.id, last.hash) if last else (None, None))
        self._mend(turn)
        for number, text in turn.confirms:
            self._change(number, lambda m, t=text: _worded(m, t), state=State.CONFIRMED)
        candidate = None if reply is None else replace(reply, state=State.CANDIDATE)
        if candidate is not None and turn.grows is not None:
            self._change(turn.grows, lambda m: _grown(m, candidate), state=State.CANDIDATE)
        elif candidate is not None and turn.rerolls is not None:
            self._change(turn.rerolls, lambda m: _worded(m, candidate), state=State.CANDIDATE)
        else:
            self.messages += [self._made(new) for new in turn.appends]
            self.messages += [] if candidate is None else [self._made(candidate)]

    def _mend(self, turn: TurnRecord) -> None:
        if not turn.mends:
            return
        self.before = list(self.messages)
        for before_id, new in turn.inserts:
            at = self._at(before_id)
            self.messages[at:at] = [self._made(one) for one in new]
        for number, text in turn.edits:
            self._change(number, lambda m, t=text: _worded(m, t))
        for number in turn.hides:
            self._change(number, hidden_by=CLIENT)
        for number in turn.shows:
            self._change(number, hidden_by=None)
        self.messages = [m for m in self.messages if m.id not in turn.drops]

    def undone(self) -> list[Message]:
        """What one undo leaves: the last change taken back, what was added since still there."""
        assert self.before is not None
        old = {m.id for m in self.before}
        return [*self.before, *(m for m in self.messages if m.id not in old)]

    def _made(self, new: NewMessage) -> Message:
        self._born += 1
        return message(self._born, new)

    def _at(self, number: int) -> int:
        return next(i for i, m in enumerate(self.messages) if m.id == number)

    def _change(
        self, number: int, how: Callable[[Message], Message] = lambda m: m, **values: object
    ) -> None:
        at = self._at(number)
        self.messages[at] = replace(how(self.messages[at]), **values)

    def lines(self) -> list[tuple[str, str]]:
        """Who says what, of all that is shown."""
        return [(m.role, m.body) for m in self.messages if m.shown]


def _worded(m: Message, text: NewMessage | None) -> Message:
    if text is None:
        return m
    said = replace(text, name=m.name)
    return replace(m, body=text.body, tool_calls=text.tool_calls, parts=text.parts, hash=said.hash)


def _grown(m: Message, more: NewMessage) -> Message:
    body = f"{m.body} {more.body}"
    return replace(m, body=body, hash=replace(more, body=body).hash)
