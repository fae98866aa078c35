"""What a summarising model is given, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from previously.model.keys import digest


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the material that a summarising model reads: who says what."""

    source: int  # key of its message; in plain text, the number of its paragraph
    pos: int  # where it stands in the order; cuts are placed by it
    speaker: str
    text: str
    tokens: int  # as it is written out
    joined: bool = False  # never parted from the line before: a tool's result from its call
    continued: bool = False  # it begins in the middle of its message


@dataclass(frozen=True, slots=True)
class Part:
    """What one request of a run is about: a stretch of the material, or notes on such stretches."""

    tokens_max: int
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()  # to be made into one, oldest first
    opens: bool = True  # it begins where the material begins

    @property
    def material(self) -> tuple[tuple[str, str], ...]:
        """Who says what; a note is said by nobody."""
        said = tuple((line.speaker, line.text) for line in self.lines)
        return said or tuple(("", note) for note in self.notes)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The words of an answer that will do, and what is doubtful about them."""

    text: str
    tokens: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a summarising model."""

    messages: tuple[Mapping[str, str], ...]
    material: tuple[tuple[str, str], ...]  # (speaker, text), for a summariser that is no model
    tokens_max: int
    language: str
    asked_of: str = ""  # the identity of the model that it is put to
    parts: tuple[Part, ...] = ()  # where it is about several things, each answered by itself

    @property
    def hash(self) -> str:
        """What an answer is paid for once by: everything that determines it."""
        body = json.dumps([list(self.messages), self.tokens_max], sort_keys=True)
        return digest(self.asked_of, body).hex()


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost, as the provider reports it."""

    input_tokens: int = 0  # all of the prompt, also what came from the provider's cache
    output_tokens: int = 0  # all that was written, also the thinking
    cached_tokens: int = 0  # of the input
    reasoning_tokens: int = 0  # of the output, where the provider says


@dataclass(frozen=True, slots=True)
class Reply:
    """What a summarising model answered."""

    text: str
    model: str
    finish: str = "stop"  # stop | length | content_filter | tool | other
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""  # what a thinking model said to itself; no part of the text
