"""Lines: messages or plain text as the material that a summarising model reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from previously.measure import count_tokens
from previously.model import POS_GAP, Line, Message, Summary
from previously.text.spoken import speaker_of, spoken_text
from previously.text.turns import groups

SPEAKER_CHARS_MAX = 80
CONTINUED = "…"

_MACRO = re.compile(r"\{\{[ \t]*(user|char)[ \t]*\}\}|<(user|char|bot)>", re.IGNORECASE)
_PARAGRAPH = re.compile(r"(?:[^\n]*\n)+?(?:[ \t\r]*\n)+|(?s:.+)")


def written(speaker: str, text: str, *, continued: bool = False) -> str:
    """A line as a model sees it."""
    name = " ".join(speaker.split())[:SPEAKER_CHARS_MAX]
    said = f"{CONTINUED}{text}" if continued else text
    return f"{name}: {said}" if name else said


def line_tokens(speaker: str, text: str) -> int:
    """What a line weighs, with the end of the line."""
    return count_tokens(written(speaker, text)) + 1


def transcript(lines: Iterable[Line]) -> str:
    """The lines one under the other, each with its speaker."""
    return "\n".join(written(x.speaker, x.text, continued=x.continued) for x in lines)


def lines_of(messages: Sequence[Message], language: str = "en") -> tuple[Line, ...]:
    """Messages as lines; the results of a tool call are joined to it, names stand for macros."""
    names = names_of(messages)
    lines: list[Line] = []
    for group in groups(messages):
        for index, message in enumerate(group):
            text = resolved(spoken_text(message, language), names)
            speaker = speaker_of(message, language)
            size = line_tokens(speaker, text)
            lines.append(Line(message.id, message.pos, speaker, text, size, joined=index > 0))
    return tuple(lines)


def lines_of_notes(notes: Sequence[Summary]) -> tuple[Line, ...]:
    """Summaries as lines, said by nobody. Their keys are negative: a message may have the same."""
    return tuple(Line(-s.id, s.first_pos, "", s.text, line_tokens("", s.text)) for s in notes)


def lines_of_text(text: str) -> tuple[Line, ...]:
    """Plain text as lines: its paragraphs, with nothing lost between them."""
    found = [m.group() for m in _PARAGRAPH.finditer(text)]
    return tuple(Line(n, n * POS_GAP, "", p, line_tokens("", p)) for n, p in enumerate(found, 1))


def names_of(messages: Iterable[Message]) -> dict[str, str]:
    """Who `{{user}}` and `{{char}}` are, where the messages say so."""
    names: dict[str, str] = {}
    for message in messages:
        macro = {"user": "user", "assistant": "char"}.get(message.role)
        if macro and message.name:
            names.setdefault(macro, message.name)
    return names


def resolved(text: str, names: Mapping[str, str]) -> str:
    """The text with known names in place of the macros that stand for them."""
    if not names or ("{{" not in text and "<" not in text):
        return text

    def name_of(macro: re.Match[str]) -> str:
        meant = (macro[1] or macro[2]).lower()
        return names.get("char" if meant == "bot" else meant, macro[0])

    return _MACRO.sub(name_of, text)
