"""Cuts: where material that is too long for one request is parted, and what is left of it if not
even that helps. Parts put together again are the material, character by character.

A cut between messages is placed by their positions and not by the middle of what is left: in a
chat that has grown or lost a message nearly all cuts stay where they were, and with them the notes
that were already paid for.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from previously.measure import count_tokens, cut_to_tokens, is_whole
from previously.model import START, Line
from previously.text.lines import line_tokens

SHARE_MIN = 1 / 8  # of the tokens: a cut nearer to an end would leave the rest as long as it was
MIDDLE = (1 / 4, 3 / 4)  # of the characters, where a text is cut inside a message
LEFT_OUT = "[…]"

Halves = tuple[tuple[Line, ...], tuple[Line, ...]]

_CODE_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n[ \t\r]*\n+")
_LINE_END = re.compile(r"\n+")
_SENTENCE_END = re.compile(r"[。！？；…][」』”’）】》]*|[.!?][\"')\]]*\s+")
_CLAUSE_END = re.compile(r"[，、：]|[,;:]?\s+")


def count_sources(lines: Sequence[Line]) -> int:
    """How many messages the lines belong to."""
    return len({line.source for line in lines})


def between_messages(lines: Sequence[Line]) -> Halves | None:
    """Two stretches, parted where the positions are roundest; None if no cut is legal.

    A legal cut parts no tool result from its call and no message from itself.
    """
    legal = [i for i in range(1, len(lines)) if _is_legal(lines[i - 1], lines[i])]
    if not legal:
        return None
    total = sum(line.tokens for line in lines)
    before = list(accumulate((line.tokens for line in lines), initial=0))
    inside = [i for i in legal if total * SHARE_MIN <= before[i] <= total * (1 - SHARE_MIN)]
    if inside:
        at = max(inside, key=lambda i: roundness(lines[i - 1].pos, lines[i].pos))
    else:
        at = min(legal, key=lambda i: abs(total - 2 * before[i]))
    return tuple(lines[:at]), tuple(lines[at:])


def _is_legal(before: Line, after: Line) -> bool:
    return not after.joined and after.source != before.source


def roundness(before_pos: int, after_pos: int) -> int:
    """How round the roundest number is that lies after the one position and not after the other.

    It need not be the position of a message: where one was taken out, the cut stays.
    """
    low, high = before_pos - 2 * START, after_pos - 2 * START  # of numbers that are not negative
    free_bits = max(0, (low ^ high).bit_length() - 1)
    roundest = high >> free_bits << free_bits
    return (roundest & -roundest).bit_length()


def inside_text(lines: Sequence[Line]) -> Halves | None:
    """Two stretches, parted near the middle of the text, inside a message if need be.

    Paragraphs are parted rather than sentences, those rather than words, and characters never;
    code between fences stays whole if it can. None if a single character is left.
    """
    ends = list(accumulate(len(line.text) for line in lines))
    total = ends[-1]
    low, high = int(total * MIDDLE[0]), int(total * MIDDLE[1])
    places: list[tuple[int, int, int]] = []
    for index, line in enumerate(lines):
        start = ends[index] - len(line.text)
        if index and low <= start <= high:
            places.append((0 if _is_legal(lines[index - 1], line) else 5, start, index))
        if start < high and ends[index] > low:
            found = _places(line.text, max(0, low - start), min(len(line.text), high - start))
            places += [(rank, start + at, index) for rank, at in found]
    if not places:
        return None
    _, at, index = min(places, key=lambda place: (place[0], abs(total - 2 * place[1])))
    return _parted(lines, index, at - (ends[index] - len(lines[index].text)))


def _parted(lines: Sequence[Line], index: int, at: int) -> Halves:
    line = lines[index]
    if at == 0:
        return tuple(lines[:index]), tuple(lines[index:])
    head, rest = _piece(line, line.text[:at]), _piece(line, line.text[at:], continued=True)
    return (*lines[:index], head), (rest, *lines[index + 1 :])


def _piece(line: Line, text: str, *, continued: bool = False) -> Line:
    size = line_tokens(line.speaker, text)
    return replace(line, text=text, tokens=size, continued=continued or line.continued)


def _places(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Where one text may be cut between two offsets, each with a rank: the lower, the better."""
    marks = [mark.start() for mark in _CODE_FENCE.finditer(text)]
    # One character of margin: a mark at the edge may end just outside.
    patterns = (_PARAGRAPH_END, _LINE_END, _SENTENCE_END, _CLAUSE_END)
    for rank, pattern in enumerate(patterns, start=1):
        for mark in pattern.finditer(text, max(0, low - 1), high):
            at = mark.end()
            if 0 < at < len(text) and is_whole(text, at):
                in_code = bisect_left(marks, at) % 2
                yield rank + (5 if in_code else 0), at
    middle = (low + high) // 2
    whole = (at for at in _outwards(middle, low, high) if 0 < at < len(text) and is_whole(text, at))
    yield from ((11, at) for at in [next(whole, None)] if at is not None)


def _outwards(middle: int, low: int, high: int) -> Iterator[int]:
    for step in range(max(middle - low, high - middle) + 1):
        yield from (at for at in (middle - step, middle + step) if low <= at <= high)


def squeezed(lines: Sequence[Line], tokens_max: int) -> tuple[tuple[Line, ...], tuple[int, ...]]:
    """The beginning and the end of the lines within the limit, and the messages that lost words."""
    if sum(line.tokens for line in lines) <= tokens_max:
        return tuple(lines), ()
    front, front_room = _whole_lines(lines, tokens_max // 2)
    back, back_room = _whole_lines(lines[::-1], tokens_max // 2)
    hurt = lines[front : len(lines) - back]
    head = cut_to_tokens(hurt[0].text, front_room - _heading_tokens(hurt[0]))
    tail = _end_within(hurt[-1].text, back_room - _heading_tokens(hurt[-1]))
    if len(hurt) == 1:
        tail = tail[max(0, len(head) + len(tail) - len(hurt[0].text)) :]
        mended = [_piece(hurt[0], head + LEFT_OUT + tail)]
    else:
        mended = [_piece(hurt[0], head + LEFT_OUT), _piece(hurt[-1], LEFT_OUT + tail)]
    kept = (*lines[:front], *mended, *lines[len(lines) - back :])
    return kept, tuple(dict.fromkeys(line.source for line in hurt))


def _whole_lines(lines: Sequence[Line], room: int) -> tuple[int, int]:
    """How many lines from the first on fit, and the room that they leave."""
    for index, line in enumerate(lines):
        if line.tokens > room:
            return index, room
        room -= line.tokens
    return len(lines), room


def _heading_tokens(line: Line) -> int:
    return line_tokens(line.speaker, LEFT_OUT)


def _end_within(text: str, tokens_max: int) -> str:
    """The longest end of whole characters that was found within the limit."""
    fits, too_long = len(text), -1
    while fits - too_long > 1:
        middle = (fits + too_long) // 2
        if count_tokens(text[middle:]) <= tokens_max:
            fits = middle
        else:
            too_long = middle
    while 0 < fits < len(text) and not is_whole(text, fits):
        fits += 1
    return text[fits:]
