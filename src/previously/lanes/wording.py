"""Wording: from our texts and what they are about to requests, alike for every lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from previously.model import Ask, Part
from previously.prompts import KINDS, Instruction, Texts, texts
from previously.text.lines import transcript
from previously.text.template import missing, render, unknown

WORDS_PER_TOKEN = {"en": 0.75, "zh": 0.9}  # rather too few: a limit is easily overrun
WORDS_STEP = 5
MARK_TOKENS = 6  # what numbering a note takes


def ask_about(
    instruction: Instruction,
    part: Part,
    fence: str,
    language: str,
    values: Mapping[str, str] | None = None,
) -> Ask:
    """A request about a stretch of the material, which is quoted between fences."""
    quoted = _fenced(transcript(part.lines), fence)
    return _ask(instruction, part, fence, language, {"NEW_HISTORY": quoted, **(values or {})})


def ask_about_notes(
    instruction: Instruction, part: Part, fence: str, language: str, values: Mapping[str, str]
) -> Ask:
    """A request about notes, which are numbered and quoted between fences."""
    notes = "\n\n".join(f"[{n}] {note}" for n, note in enumerate(part.notes, 1))
    return _ask(instruction, part, fence, language, {"NOTES": _fenced(notes, fence), **values})


def ask_about_each(
    wording: Texts, parts: Sequence[Part], fence: str, language: str, before: str
) -> Ask:
    """A request about several stretches, each quoted under its number and answered under it."""
    quoted = (
        render(wording.one_of_many, {"NUMBER": str(number), "WORDS": _limit(part, language)})
        + "\n"
        + _fenced(transcript(part.lines), fence)
        for number, part in enumerate(parts, 1)
    )
    whole = Part(
        sum(part.tokens_max + MARK_TOKENS for part in parts),
        lines=tuple(line for part in parts for line in part.lines),
    )
    values = {"NEW_HISTORY": "\n\n".join(quoted), "CONTEXT": before, "COUNT": str(len(parts))}
    ask = _ask(wording.minis, whole, fence, language, values)
    return replace(ask, parts=tuple(parts))


def _limit(part: Part, language: str) -> str:
    return str(_words(part.tokens_max, language))


def ask_to_merge(part: Part, fence: str, language: str) -> Ask:
    """A request to make one note of several."""
    return ask_about_notes(texts(language).merge, part, fence, language, {})


def ask_to_shorten(text: str, tokens_max: int, fence: str, language: str) -> Ask:
    """A request to say the same in fewer words."""
    part = Part(tokens_max, notes=(text,))
    given = {"SUMMARY": _fenced(text, fence)}
    return _ask(texts(language).shorten, part, fence, language, given)


def ask_again(ask: Ask, reason: str) -> Ask:
    """The same request with a word on why the last answer will not do."""
    wording = texts(ask.language)
    note = render(wording.again, {"REASON": wording.faults.get(reason, reason)})
    return replace(ask, messages=(*ask.messages, {"role": "user", "content": note}))


def context(part: Part, notes: Sequence[str], wording: Texts) -> str:
    """What was noted before; a later stretch of one long exchange has that noted apart."""
    if not part.opens:
        return wording.noted_apart
    return "\n".join(notes) or wording.nothing_yet


def validate(kind: str, template: str) -> list[str]:
    """What is wrong with a user's own template, in words; nothing if it will do."""
    if not template.strip():
        return ["the template is empty"]
    names = KINDS[kind]
    lacks = [f"{{{{{name}}}}} is missing" for name in missing(template, names.required)]
    known = (*names.required, *names.optional)
    offered = ", ".join(f"{{{{{name}}}}}" for name in known)
    return lacks + [
        f"{{{{{name}}}}} means nothing here; there are: {offered}"
        for name in unknown(template, known)
    ]


def own(kind: str, template: str, language: str) -> Instruction | None:
    """A user's own template as an instruction; None if there is none that will do."""
    if not template or validate(kind, template):
        return None
    return Instruction(texts(language).guard, template)


def _ask(
    instruction: Instruction, part: Part, fence: str, language: str, values: Mapping[str, str]
) -> Ask:
    known = {
        "FENCE": fence,
        "TOKENS": str(part.tokens_max),
        "WORDS": str(_words(part.tokens_max, language)),
        **values,
    }
    return Ask(
        messages=(
            {"role": "system", "content": render(instruction.system, known)},
            {"role": "user", "content": render(instruction.user, known)},
        ),
        material=part.material,
        tokens_max=part.tokens_max,
        language=language,
    )


def _fenced(text: str, fence: str) -> str:
    return f"{fence}\n{text}\n{fence}"


def _words(tokens: int, language: str) -> int:
    """A limit that a writer can count, rounded down to a number that people use."""
    words = int(tokens * WORDS_PER_TOKEN[language])
    return max(WORDS_STEP, words - words % WORDS_STEP)
