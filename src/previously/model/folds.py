"""What stands before the verbatim tail of a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from previously.model.keys import START, birth, key
from previously.model.messages import Message
from previously.model.summaries import Carried, Summary

Shown = Carried | Message | Summary  # what may stand before the tail


class ItemKind(StrEnum):
    """What an item shows, as it is written down."""

    MESSAGE = "m"
    SUMMARY = "s"
    CARRIED = "c"


class Item(NamedTuple):  # many are made for every prompt: the cheapest of what cannot change
    """One thing shown before the tail: what was carried over, a summary, or a message that no
    summary stands for."""

    kind: ItemKind
    id: int

    @staticmethod
    def of(thing: Shown) -> Item:
        """The item that shows this record."""
        if isinstance(thing, Message):
            return Item(ItemKind.MESSAGE, thing.id)
        carried = isinstance(thing, Carried)
        return Item(ItemKind.CARRIED if carried else ItemKind.SUMMARY, thing.id)

    @property
    def is_message(self) -> bool:
        """Whether it shows a message as it was said."""
        return self.kind is ItemKind.MESSAGE

    @property
    def is_summary(self) -> bool:
        """Whether it shows a summary."""
        return self.kind is ItemKind.SUMMARY

    def __str__(self) -> str:
        return f"{self.kind}{birth(self.id)}"

    @staticmethod
    def parse(chat_id: int, text: str) -> Item:
        """The item that `str` wrote down for a chat."""
        return Item(ItemKind(text[0]), key(chat_id, int(text[1:])))


@dataclass(frozen=True, slots=True)
class FoldKey:
    """Whose prompt, at which budget."""

    audience: str = ""
    budget_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """Where the verbatim tail starts and what stands before it."""

    key: FoldKey
    version: int = 0  # 0: nothing was ever folded
    tail_pos: int = START
    from_pos: int = START  # what stands before this did not fit and is not shown at all
    items: tuple[Item, ...] = ()
    room_tokens: int = 0  # the budget less what was fixed when it moved
    reason: str = ""
    stale: bool = False
