"""Measure: how long a text is, in tokens, words and characters, the same answer every time.

Tokens are those of one reference vocabulary, whatever model reads the text later; budgets are
scaled per model, stored counts never are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

REFERENCE_VOCABULARY = "o200k_base"

MESSAGE_OVERHEAD_TOKENS = 4
"""What a message costs before its text: the marks around it and a role of one token."""

NAME_OVERHEAD_TOKENS = 1

# Every special token of the vocabulary starts like this (a test holds it to that). A text without
# it may take the library's fast call, which would read such a token as one instead of as letters.
_SPECIAL_OPENING = "<|"

_BYTES_PER_ID = 4  # the fast call answers with packed 32-bit ids

# Byte-pair counts only roughly grow with the text: "lighth" costs more than "lighthouse". So far
# behind the first end that is too long, a longer one is still looked for.
_LOOK_AHEAD_CHARS = 24

_CJK = (
    "\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7a3\ud7b0-\ud7fb"  # hangul
)
_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # two letters make one flag

_WORD = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


def count_tokens(text: str) -> int:
    """Tokens in the reference vocabulary. Text that looks like a control token counts as text."""
    return counter(REFERENCE_VOCABULARY)(text)


def counts_are_exact() -> bool:
    """Whether `count_tokens` has its vocabulary, or has to estimate."""
    return counter(REFERENCE_VOCABULARY) is not estimate_tokens


@cache
def counter(vocabulary: str) -> Callable[[str], int]:
    """The counting function of a vocabulary; `estimate_tokens` where it cannot be had."""
    try:
        from splintr import Tokenizer  # noqa: PLC0415 a missing library must not stop the program

        tokenizer = Tokenizer.from_pretrained(vocabulary)
    except (ImportError, ValueError):
        return estimate_tokens

    def count(text: str) -> int:
        try:
            if _SPECIAL_OPENING in text:
                return len(tokenizer.encode_ordinary(text))
            return len(tokenizer.encode_flat(text)) // _BYTES_PER_ID
        except UnicodeEncodeError:
            return count(_without_surrogates(text))

    return count


def estimate_tokens(text: str) -> int:
    """A count without a vocabulary: 1.4 tokens per 4 bytes of UTF-8, rounded up.

    A CJK character has at least 3 bytes, hence at least one token: the estimate may waste room in
    a prompt, but does not burst it.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) * 7 // 20)


def message_tokens(
    role: str, text: str, *, name: str | None = None, tool_calls: str | None = None
) -> int:
    """Tokens of one message as it is sent; `tool_calls` is their JSON."""
    tokens = MESSAGE_OVERHEAD_TOKENS + max(0, count_tokens(role) - 1) + count_tokens(text)
    if name:
        tokens += NAME_OVERHEAD_TOKENS + count_tokens(name)
    if tool_calls:
        tokens += count_tokens(tool_calls)
    return tokens


def count_words(text: str) -> int:
    """Words: each CJK character is one, and so is each run of other letters and digits."""
    # An accent that stands as its own code point would otherwise end the run.
    return len(_WORD.findall(unicodedata.normalize("NFC", text)))


def count_chars(text: str) -> int:
    """Characters: code points."""
    return len(text)


def cut_to_tokens(text: str, tokens_max: int) -> str:
    """The longest beginning of whole characters within the limit; empty where none fits.

    Only behind a long run of one sign may a few more characters have fitted.
    """
    if tokens_max <= 0:
        return ""
    if count_tokens(text) <= tokens_max:
        return text
    for end in range(_last_plausible_end(text, tokens_max), 0, -1):
        if is_whole(text, end) and count_tokens(text[:end]) <= tokens_max:
            return text[:end]
    return ""


def _last_plausible_end(text: str, tokens_max: int) -> int:
    """Where the search backwards starts: a little behind the first end found too long."""
    fits, too_long = 0, tokens_max
    while too_long < len(text) and count_tokens(text[:too_long]) <= tokens_max:
        fits, too_long = too_long, too_long * 2
    too_long = min(too_long, len(text) + 1)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count_tokens(text[:middle]) <= tokens_max:
            fits = middle
        else:
            too_long = middle
    return min(len(text), fits + _LOOK_AHEAD_CHARS)


def is_whole(text: str, end: int) -> bool:
    """Whether a cut before `text[end]` leaves the last visible character in one piece."""
    if end == len(text):
        return True
    last, following = text[end - 1], text[end]
    if last == "\u200d" or _continues(following):
        return False
    if last in _FLAG_HALVES and following in _FLAG_HALVES:
        halves = end - len(text[:end].rstrip(_FLAG_HALVES))
        return halves % 2 == 0
    return not ("\ud800" <= last <= "\udbff" and "\udc00" <= following <= "\udfff")


def _continues(char: str) -> bool:
    """Whether a character only completes the one before it: accents, joiners, tones, vowels."""
    return (
        unicodedata.category(char).startswith("M")
        or char == "\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\u1160" <= char <= "\u11ff"  # vowels and finals of a hangul syllable
        or "\U000e0020" <= char <= "\U000e007f"  # letters of a regional flag
    )


def _without_surrogates(text: str) -> str:
    """Halves that belong together become their character, others the replacement mark."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
