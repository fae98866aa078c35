"""Sentences that clients send by default to say where a history starts or what is asked.

They are SillyTavern's documented defaults; a user may change or remove every one of them. Where
one is there it makes a reading certain, where it is missing nothing is concluded from that.
"""

from __future__ import annotations

from previously.align.normal import plain

_STARTS = ("[start a new chat]", "[start a new group chat.", "[example chat]")
_CONTINUES = "[continue your last message without repeating its original content"
_CONTINUES_FROM = "[continue the following message."
_IMPERSONATES = "[write your next reply from the point of view of"
_NEXT_SPEAKER = "[write the next reply only as"


def starts_history(text: str) -> bool:
    """Whether the history starts after this text: its last line says so."""
    last = plain(text.rstrip().rpartition("\n")[2]).lower()
    return last.startswith(_STARTS)


def asks_to_continue(text: str) -> bool:
    """Whether the last reply is to grow."""
    return _says(text, _CONTINUES, _CONTINUES_FROM)


def asks_to_impersonate(text: str) -> bool:
    """Whether the reply will be the user's words, in the input box."""
    return _says(text, _IMPERSONATES)


def asks_next_speaker(text: str) -> bool:
    """Whether another member of a group is to speak."""
    return _says(text, _NEXT_SPEAKER)


def is_instruction(text: str) -> bool:
    """Whether it says what is asked, whatever role it is sent as."""
    return "[" in text and _says(text, _CONTINUES, _CONTINUES_FROM, _IMPERSONATES, _NEXT_SPEAKER)


def _says(text: str, *starts: str) -> bool:
    """Whether a line starts so: clients join instructions to one another."""
    return any(plain(line).lower().startswith(starts) for line in text.splitlines())
