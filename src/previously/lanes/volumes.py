"""Volumes: a mini summary for each turn that leaves the tail, written once and never rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from previously.errors import DraftRejected
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import (
    Ask,
    Block,
    Draft,
    Item,
    Message,
    Reply,
    Snapshot,
    Summary,
    Task,
    Uncovered,
)
from previously.prompts import texts
from previously.settings import TAIL_SHARE
from previously.text.language import language_of
from previously.text.template import render
from previously.text.turns import tail_start, turns
from previously.text.wire import told_calls

NAME = "volumes"
MINI = "mini"
RUN = "run"
CONTEXT_MINIS = 2
TARGET_MIN_TOKENS = 32
LINE_TOKENS = 2  # what joining one more line to a block may add


class Volumes:
    """Default lane: facts pass through few hands, so they last."""

    name = NAME

    def due(self, snapshot: Snapshot) -> list[Task]:
        """One mini for each closed turn that has left the low mark and has none."""
        backlog = snapshot.backlog
        if backlog is None or not snapshot.settings.auto_mini_summary:
            return []
        before = _low_mark(snapshot)
        tasks = [self._task(snapshot, r.sources, r.summary.id) for r in backlog.rebuilds]
        for run in backlog.uncovered.runs:
            closed, rest = turns(run)
            # What a run leaves open was closed when it was first covered.
            whole = [*closed, rest] if rest and run is not backlog.uncovered.runs[-1] else closed
            tasks += [
                self._task(snapshot, turn)
                for turn in whole
                if turn[-1].pos < before and not any(m.id in backlog.proposed for m in turn)
            ]
        return tasks

    def _task(
        self, snapshot: Snapshot, turn: tuple[Message, ...], replaces: int | None = None
    ) -> Task:
        assert snapshot.backlog is not None
        earlier = [s for s in snapshot.backlog.covers if s.last_pos < turn[0].pos]
        wanted = snapshot.settings.language
        spoken = language_of("\n".join(m.body for m in turn))
        return Task(
            chat=snapshot.ref,
            lane=NAME,
            kind=MINI,
            sources=turn,
            context=tuple(s.text for s in earlier[-CONTEXT_MINIS:]),
            tokens_max=_target(turn, snapshot.settings.mini_tokens),
            language=spoken if wanted == "auto" else wanted,
            uncovered=snapshot.backlog.uncovered if replaces is None else Uncovered((turn,)),
            replaces=replaces,
        )

    def ask(self, task: Task, fence: str) -> Ask:
        """Instruction, the two minis before, and the turn, quoted between fences."""
        wording = texts(task.language)
        material = tuple((m.speaker, spoken_text(m)) for m in task.sources)
        values = {
            "FENCE": fence,
            "TOKENS": str(task.tokens_max),
            "CONTEXT": "\n".join(task.context) or wording.nothing_yet,
            "NEW_HISTORY": "\n".join(f"{speaker}: {text}" for speaker, text in material),
        }
        return Ask(
            messages=(
                {"role": "system", "content": render(wording.mini_system, values)},
                {"role": "user", "content": render(wording.mini_user, values)},
            ),
            material=material,
            tokens_max=task.tokens_max,
            language=task.language,
        )

    def accept(self, task: Task, reply: Reply) -> Draft:
        """The reply as a draft, if it is whole, not empty and shorter than what it stands for."""
        text = reply.text.strip()
        if reply.finish == "length":
            raise DraftRejected("the answer was cut off")
        if not text:
            raise DraftRejected("the answer was empty")
        tokens = count_tokens(text)
        room = max(task.tokens_max, sum(m.tokens for m in task.sources))
        if tokens > 2 * room:
            raise DraftRejected(f"{tokens} tokens to stand for {room}")
        provenance = {"model": reply.model, "tokens_max": task.tokens_max}
        return Draft(task, text, tokens, provenance, reply.usage)

    def covers(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """Every valid mini that is loaded."""
        return snapshot.backlog.covers if snapshot.backlog else ()

    def show(self, covers: Sequence[Summary]) -> Block:
        """One system message: a label that says what this is, then a line for each mini."""
        wording = texts(language_of(covers[0].text))
        extracts = any(s.is_extract for s in covers)
        label = wording.recap_label + (wording.extract_label if extracts else "")
        content = "\n".join([label, *(f"- {s.text}" for s in covers)])
        size = sum(s.tokens + LINE_TOKENS for s in covers)
        return Block(
            place="cover",
            wire={"role": "system", "content": content},
            tokens=size + count_tokens(label) + MESSAGE_OVERHEAD_TOKENS,
            sources=tuple(map(Item.of, covers)),
        )


def _target(turn: Sequence[Message], tokens_max: int) -> int:
    """Half of what it stands for, within limits: a note as long as its turn saves nothing."""
    return min(tokens_max, max(TARGET_MIN_TOKENS, sum(m.tokens for m in turn) // 2))


def spoken_text(message: Message) -> str:
    """What was said, with tool calls told in words."""
    if message.tool_calls is None:
        return message.body
    return f"{message.body}\n{told_calls(message.tool_calls)}".strip()


def _low_mark(snapshot: Snapshot) -> int:
    """The position where the tail starts once it is folded to its low mark."""
    tail, settings = snapshot.tail, snapshot.settings
    room = snapshot.backlog.room_tokens if snapshot.backlog else None
    share = int(min(room or settings.budget_tokens, settings.budget_tokens) * TAIL_SHARE)
    wishes = snapshot.backlog.intents if snapshot.backlog else ()
    now = any(wish.kind == RUN for wish in wishes)
    index = tail_start(tail, 1 if now else settings.visible_floors, 0 if now else share)
    return tail[index].pos if tail else 0
