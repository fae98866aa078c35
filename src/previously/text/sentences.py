"""Sentences: a Chinese or English text cut where its sentences end, with nothing lost."""

from __future__ import annotations

import re

# Marks that close what the sentence opened. Emphasis opens and closes with the same sign: it closes
# unless a word begins right after it.
_CLOSING = r"(?:[」』”’)）】》\]']|[*_~]++(?!\w))*"
_STOP = re.compile(r"(?P<stops>[。！？；…!?.]+)" + _CLOSING)
_STRAIGHT_QUOTE = re.compile('"' + _CLOSING)
_WIDE_STOPS = frozenset("。！？；")
_OPENING_QUOTES = frozenset("“‘")
_CJK_FIRST = "\u2e80"
_WORD_CHAR = re.compile(r"[^\W_]")

_ABBREVIATION = re.compile(
    r"mrs?|ms|dr|prof|st|[js]r|gen|col|capt|lt|sgt|rev|hon|vs|cf|fig|vol|pp|approx|dept|est|inc|ltd"
    r"|[a-hj-z]|[a-z](?:\.[a-z])+"  # J. R. or e.g. or p.m., but "So do I."
)
_WORD_CHARS_MAX = 16


def sentences(text: str) -> list[str]:
    """The sentences in order, without blanks around them; every other character is kept."""
    return [sentence for line in text.splitlines() for sentence in _sentences_of_line(line)]


def _sentences_of_line(line: str) -> list[str]:
    found: list[str] = []
    start = quotes = seen_to = 0
    has_word = False  # kept from stop to stop: looking back each time would take quadratic time
    for stop in _STOP.finditer(line):
        quotes += line.count('"', seen_to, stop.end())
        has_word = has_word or _WORD_CHAR.search(line, seen_to, stop.start()) is not None
        seen_to = stop.end()
        end = _end_of_quote(line, seen_to) if quotes % 2 else seen_to
        # Dots before the first word lead into a sentence, they end none.
        if has_word and _ends_sentence(line, start, stop, end):
            found.append(line[start:end].strip())
            start, has_word = end, False
    rest = line[start:].strip()
    return [*found, rest] if rest else found


def _end_of_quote(line: str, end: int) -> int:
    """Past a straight quote, which looks the same at both ends: an even one closes."""
    quote = _STRAIGHT_QUOTE.match(line, end)
    return quote.end() if quote else end


def _ends_sentence(line: str, start: int, stop: re.Match[str], end: int) -> bool:
    stops = stop["stops"]
    if not _WIDE_STOPS.isdisjoint(stops):
        return True
    following = line[end : end + 1]
    if following and not (
        following.isspace() or following >= _CJK_FIRST or following in _OPENING_QUOTES
    ):
        return False  # 3.14, example.org, page?id=1
    return stops != "." or not _is_abbreviated(line, start, stop.start())


def _is_abbreviated(line: str, start: int, dot: int) -> bool:
    """Whether the dot belongs to the word before it."""
    before = line[max(start, dot - _WORD_CHARS_MAX) : dot]
    if before.strip().isdigit():
        return True  # the number of a list item
    word = before.rpartition(" ")[2].lstrip("(\"'“‘[*_").lower()
    return _ABBREVIATION.fullmatch(word) is not None
