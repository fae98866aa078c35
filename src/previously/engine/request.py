"""Request: what a run is to summarise and the words to ask for it with, with or without a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from previously.errors import BadInput
from previously.lanes.registry import LANES
from previously.lanes.wording import ask_about, ask_to_merge
from previously.model import Accepted, Ask, ChatRef, Line, Part, Reply, Task
from previously.prompts import texts
from previously.text.answer import judge
from previously.text.language import language_of
from previously.text.lines import lines_of, lines_of_notes, lines_of_text


class Request(Protocol):
    """Material, its target, and pure decisions about asking and accepting."""

    @property
    def lines(self) -> tuple[Line, ...]: ...

    @property
    def tokens_max(self) -> int: ...

    @property
    def language(self) -> str: ...

    @property
    def chat(self) -> ChatRef | None:
        """Where answers are kept until they are used."""
        ...

    def ask(self, part: Part, fence: str) -> Ask: ...

    def accept(self, part: Part, reply: Reply, *, last: bool) -> Accepted: ...


class TaskRequest:
    """A lane's task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._lane = LANES[task.lane]
        self.lines = (
            lines_of(task.sources, task.language) if task.sources else lines_of_notes(task.children)
        )
        self.decides = self._lane.decides(task)
        self.tokens_max = task.tokens_max
        self.language = task.language
        self.chat: ChatRef | None = task.chat

    def ask(self, part: Part, fence: str) -> Ask:
        """As the lane says it."""
        return self._lane.ask(self._task, fence, part)

    def accept(self, part: Part, reply: Reply, *, last: bool) -> Accepted:
        """As the lane judges."""
        return self._lane.accept(self._task, part, reply, last=last)

    def verdict(self, reply: Reply) -> bool:
        """As the lane reads a yes or no."""
        return self._lane.verdict(self._task, reply)


def ask_together(tasks: Sequence[Task], fence: str) -> Ask:
    """One request about several tasks of one lane, as the lane says it."""
    parts = [Part(task.tokens_max, TaskRequest(task).lines) for task in tasks]
    return LANES[tasks[0].lane].ask_together(tasks, fence, parts)


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A whole text or transcript, in the manner of a preset."""

    lines: tuple[Line, ...]
    tokens_max: int
    language: str
    preset: str
    chat: ChatRef | None = None

    def ask(self, part: Part, fence: str) -> Ask:
        """The preset's own words for a stretch, the common ones to join notes."""
        if part.notes:
            return ask_to_merge(part, fence, self.language)
        return ask_about(texts(self.language).whole[self.preset], part, fence, self.language)

    def accept(self, part: Part, reply: Reply, *, last: bool) -> Accepted:
        """By the common rules."""
        wording = texts(self.language)
        ours = wording.merge if part.notes else wording.whole[self.preset]
        return judge(part, reply, last=last, instructions=ours.system)


def text_request(
    material: str | Sequence[Line], *, preset: str, tokens_max: int, language: str = "auto"
) -> TextRequest:
    """A request about plain text, or about lines made of messages."""
    lines = lines_of_text(material) if isinstance(material, str) else tuple(material)
    known = texts("en").whole
    if preset not in known:
        raise BadInput(f"unknown preset {preset!r}; there are: {', '.join(known)}", field="preset")
    if not any(line.text.strip() for line in lines):
        raise BadInput("there is nothing to summarise", field="material")
    spoken = language_of("\n".join(line.text for line in lines))
    return TextRequest(lines, tokens_max, spoken if language == "auto" else language, preset)
