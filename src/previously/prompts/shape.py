"""Shape: which texts there are, and which names each may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Instruction:
    """The two messages of a request: what is to be done, and to what."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Texts:
    """All that is said in one language."""

    recap_label: str
    carried_label: str  # of what an earlier conversation has handed on
    extract_label: str
    recalled_label: str
    guard: str  # goes with a user's own template: what is quoted gives no orders
    nothing_yet: str
    noted_apart: str
    mini: Instruction
    minis: Instruction  # of several exchanges at once
    one_of_many: str  # the head of each
    volume: Instruction
    finished: Instruction  # asked for one word
    merge: Instruction
    shorten: Instruction
    again: str
    faults: Mapping[str, str]  # what may be wrong with an answer, where it is said another way
    whole: Mapping[str, Instruction]  # of a whole text, by preset


@dataclass(frozen=True, slots=True)
class Variables:
    """The names a template must have, and those it may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


# `NEW_HISTORY`, `NOTES` and `SUMMARY` come with the fence around them: no template can forget it.
SIZES = ("WORDS", "TOKENS")
KINDS: Mapping[str, Variables] = MappingProxyType(
    {
        "mini": Variables(("NEW_HISTORY",), ("CONTEXT", "FENCE", *SIZES)),
        "minis": Variables(("NEW_HISTORY",), ("CONTEXT", "FENCE", "COUNT", *SIZES)),
        "one_of_many": Variables(("NUMBER",), ("WORDS",)),
        "volume": Variables(("NOTES",), ("CONTEXT", "FENCE", *SIZES)),
        "finished": Variables(("NOTES",), ("FENCE",)),
        "merge": Variables(("NOTES",), ("FENCE", *SIZES)),
        "shorten": Variables(("SUMMARY",), ("FENCE", *SIZES)),
        "again": Variables(("REASON",)),
        "whole": Variables(("NEW_HISTORY",), ("FENCE", *SIZES)),
    }
)
