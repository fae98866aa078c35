"""Parts: an answer that holds several notes, taken apart strictly or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from previously.text.answer import cleaned

# `[2]` at the head of a line, as it was asked for; some write the brackets of their language, or
# set the number in bold.
_NUMBER = r"[ \t]*(\d{1,3})[ \t]*"
_MARK = re.compile(
    rf"^[ \t]*(?:\*\*)?(?:\[{_NUMBER}\]|【{_NUMBER}】)(?:\*\*)?[:：.]?[ \t]*", re.MULTILINE
)


def parted(text: str, count: int, *, cut: bool = False) -> tuple[str, ...]:
    """The notes in order, numbered from one; none if the answer is anything but these.

    `cut`: the answer broke off, so that its last note is not whole and is left out.
    """
    text = cleaned(text)
    marks = list(_MARK.finditer(text))
    numbers = [int(mark[1] or mark[2]) for mark in marks]
    whole = len(numbers) == count or (cut and len(numbers) <= count)
    if not marks or not whole or numbers != list(range(1, len(numbers) + 1)):
        return ()
    if text[: marks[0].start()].strip():
        return ()  # something stands before the first
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    notes = tuple(text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
    return notes[:-1] if cut else notes


def joined(notes: Sequence[str]) -> str:
    """Notes as such an answer has them."""
    return "\n".join(f"[{number}] {note}" for number, note in enumerate(notes, 1))
