"""Patience: how long an upstream asks us to wait, in the many ways in which they say it.

Dates are read against the answer's own `Date`, so that no clock of ours has to agree with theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

RETRY_AFTER_S_MAX = 24 * 3_600.0

_EPOCH_S_MIN = 1_000_000_000  # a larger number of seconds is a date
_EPOCH_MS_MIN = 1_000_000_000_000

_DURATION = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d)(?![a-z])"
)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SENTENCE = re.compile(
    r"(?:try again|retry|wait)(?:ing)?(?: in| after| for)? ((?:\d[\d.]* ?[a-z]+ ?)+)", re.I
)
_RESET = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:reset(?:-(\w+))?|(\w+)-reset)")


def retry_after_s(headers: Mapping[str, str], text: str = "") -> float | None:
    """Seconds until a new try makes sense; None if nobody said. Names of headers are small."""
    for found in (*_said_plainly(headers), _in_words(text), _until_reset(headers)):
        if found is not None:
            return min(max(0.0, found), RETRY_AFTER_S_MAX)
    return None


def _said_plainly(headers: Mapping[str, str]) -> Iterator[float | None]:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    yield None if milliseconds is None else milliseconds / 1_000
    yield _span(headers.get("retry-after", ""), headers)


def _in_words(text: str) -> float | None:
    sentence = _SENTENCE.search(text)
    return None if sentence is None else _duration(sentence[1])


def _until_reset(headers: Mapping[str, str]) -> float | None:
    """The last of the limits that are used up; of all limits if none is known to be."""
    resets: list[tuple[bool, float]] = []
    for name, value in headers.items():
        matched = _RESET.fullmatch(name)
        span = _span(value, headers) if matched else None
        if span is not None:
            left = headers.get(name.replace("reset", "remaining"))
            resets.append((left == "0", span))
    used_up = [span for is_used_up, span in resets if is_used_up]
    return max(used_up or [span for _, span in resets], default=None)


def _span(value: str, headers: Mapping[str, str]) -> float | None:
    """Seconds, a duration such as `6m0s`, or the seconds until a date."""
    seconds = _number(value)
    if seconds is None:
        return _duration(value) if _DURATION.match(value) else _until(_date(value), headers)
    if seconds >= _EPOCH_MS_MIN:
        return _until(seconds / 1_000, headers)
    return _until(seconds, headers) if seconds >= _EPOCH_S_MIN else seconds


def _number(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _duration(text: str) -> float | None:
    parts = _DURATION.findall(text.lower())
    return sum(float(n) * _seconds(unit) for n, unit in parts) if parts else None


def _seconds(unit: str) -> float:
    return _UNITS_S["ms" if unit.startswith(("ms", "milli")) else unit[0]]


def _date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def _until(moment_s: float | None, headers: Mapping[str, str]) -> float | None:
    now_s = _date(headers.get("date", ""))
    return None if moment_s is None or now_s is None else moment_s - now_s
