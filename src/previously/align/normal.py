"""What a reader would call the same words: the form in which messages are compared.

A client sends one message in several dresses: with a name in front, with other blanks, without
the model's thoughts. None of that may make it another message.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache

from previously.model import Message, NewMessage, digest
from previously.text.wire import attachments

PARAGRAPH = "\n\n"  # what clients join neighbouring messages with
SHARED_MIN = 8  # characters in common that make two texts versions of one

TEXTS_KEPT = 8_192  # a client sends the same texts again with every request…
TEXT_CHARS_MAX = 4_096  # …and those that are no longer than this are read once

_NAME = re.compile(r"[^\s:][^\n:]{0,63}:\s+(?=\S)")
_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL)
_SIGN = re.compile(r"[^\w\s]+\w*")
_THOUGHT_END = "</think>"  # some servers open the thought themselves

Said = Message | NewMessage


def plain(text: str) -> str:
    """Composed letters, single blanks, none at the ends."""
    made = " ".join(unicodedata.normalize("NFC", text).split())
    return text if made == text else made  # thousands of them are kept: most need no second copy


def prefix(text: str) -> str:
    """The name in front, as `Name: `; empty if there is none."""
    found = _NAME.match(text.lstrip())
    return found.group().strip() if found else ""


def bare(text: str) -> str:
    """The words alone: no thoughts, no name in front."""
    return _kept_bare(text) if len(text) <= TEXT_CHARS_MAX else _bare(text)


def _bare(text: str) -> str:
    if "</" in text:
        spoken = _THOUGHT.sub("", text).rpartition(_THOUGHT_END)[2]
        text = spoken if spoken.strip() else text
    text = text.strip()
    name = _NAME.match(text)
    return plain(text[name.end() :] if name else text)


_kept_bare = lru_cache(maxsize=TEXTS_KEPT)(_bare)


def raw_key(said: Said) -> tuple[object, ...]:
    """Equal for messages that are the same letter by letter."""
    return said.role, said.body, said.tool_calls, said.tool_call_id, said.parts


def key(said: Said) -> str:
    """Equal for messages that say the same."""
    words = bare(said.body)
    if said.parts is None and said.tool_calls is None and said.tool_call_id is None:
        return f"{said.role}\0{words}"
    calls = "\0".join(call_ids(said.tool_calls))
    return f"{said.role}\0{words}\0{calls}\0{said.tool_call_id}\0{_attached(said.parts)}"


def mark(said: Said) -> bytes:
    """The key, short enough to be remembered; a system text keeps it when it is sent as another
    role's."""
    return mark_of(said.body)


def mark_of(text: str) -> bytes:
    """The same for words that are no message of their own."""
    return digest(bare(text))


def marks(text: str) -> tuple[bytes, ...]:
    """What the paragraphs of a text are remembered by."""
    return tuple(map(mark_of, paragraphs(text)))


def heard_marks(text: str) -> tuple[bytes, ...]:
    """The same of a reply that was passed on, and of its telling lines: a rule may leave others
    out of it before it comes back."""
    lines = (mark_of(line) for line in text.splitlines() if len(bare(line)) >= SHARED_MIN)
    return tuple(dict.fromkeys((*marks(text), *lines)))


def call_ids(tool_calls: str | None) -> tuple[str, ...]:
    """The ids of the tool calls a message makes."""
    return tuple(str(call.get("id", "")) for call in json.loads(tool_calls)) if tool_calls else ()


def reworded(ours: Said, theirs: Said) -> bool:
    """Whether one is plainly a version of the other: longer, shorter, cleaned or grown."""
    a, b = bare(ours.body), bare(theirs.body)
    if not a or not b or call_ids(ours.tool_calls) != call_ids(theirs.tool_calls):
        return False
    if len(min(a, b, key=len)) >= SHARED_MIN:
        return a in b or b in a
    firsts = {bare(paragraphs(said.body)[0]) for said in (ours, theirs)}
    return bool(firsts & {a, b}) and len(firsts) == 1  # one of them with something joined to it


def was_joined_to(said: Said, more: Said) -> bool:
    """Whether a user's words are what another message begins with, and whole paragraphs follow
    there: those had been joined to them."""
    own, all_of_it = marks(said.body), marks(more.body)
    return said.role == "user" and 0 < len(own) < len(all_of_it) and all_of_it[: len(own)] == own


def is_telling(said: Said) -> bool:
    """Whether it is more than anybody says."""
    return len(bare(said.body)) >= SHARED_MIN


def is_cut(whole: str, rest: str) -> bool:
    """Whether one text is what is left of another without a part, or without some of its lines."""
    a, b = bare(whole), bare(rest)
    if not b or len(b) >= len(a):
        return False
    if a.endswith(b[_shared_start(a, b) :]):
        return True
    lines = iter([plain(line) for line in whole.splitlines()])
    return all(line in lines for line in map(plain, rest.splitlines()) if line)


def cut_out(whole: str, rest: str) -> str:
    """The sign with which the part begins that a text lacks: a tag, a bracket, a fence; empty if it
    begins like speech."""
    a, b = bare(whole), bare(rest)
    found = _SIGN.match(a[_shared_start(a, b) :].lstrip())
    return found.group() if found else ""


def _shared_start(a: str, b: str) -> int:
    """How many letters are the same from the beginning on, without looking at each."""
    low, high = 0, len(b)
    while low < high:
        middle = (low + high + 1) // 2
        if a.startswith(b[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def same_name(ours: Said, theirs: Said) -> bool:
    """False for two texts that put different names in front of the same words."""
    if ours.body == theirs.body:
        return True
    a, b = prefix(ours.body), prefix(theirs.body)
    return not a or not b or plain(a) == plain(b)


def paragraphs(text: str) -> list[str]:
    """The parts that a client may have joined, blank ones left out."""
    return [part for part in text.split(PARAGRAPH) if part.strip()]


def _attached(parts: str | None) -> str:
    """Two images have the same marker; only their data tells them apart."""
    held = attachments(parts) if parts else []
    return digest(json.dumps(held, sort_keys=True)).hex() if held else ""
