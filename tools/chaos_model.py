"""What a chat must hold after a row of changes: the plainest account of them that there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Change = Mapping[str, Any]  # {"op": ..., and what it needs}
State = dict[int, tuple[str, bool, bool, int]]  # key → body, hidden, deleted, variant; in order


@dataclass(slots=True)
class Said:
    """One message."""

    body: str
    hidden: bool = False
    deleted: bool = False
    variant: int = 0
    variants: list[str] = field(default_factory=list[str])

    def give(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Set what differs; what stood there before."""
        before = {k: getattr(self, k) for k, v in values.items() if getattr(self, k) != v}
        for name in before:
            setattr(self, name, values[name])
        if "body" in before and self.variants:
            self.variants[self.variant] = self.body
        return before


@dataclass(slots=True)
class ChatModel:
    """One chat, and how to take back what was done to it."""

    said: dict[int, Said] = field(default_factory=dict[int, Said])
    undoable: list[dict[int, dict[str, Any]]] = field(
        default_factory=list[dict[int, dict[str, Any]]]
    )

    def state(self) -> State:
        """What can be compared with a database."""
        return {i: (m.body, m.hidden, m.deleted, m.variant) for i, m in self.said.items()}

    def apply(self, change: Change, key: int) -> None:
        """Do it. `key` is that of the message it made or changed."""
        match change["op"]:
            case "append":
                self.said[key] = Said(change["body"])
            case "edit":
                self._change({key: {"body": change["body"]}})
            case "hide":
                self._change({key: {"hidden": change["hidden"]}})
            case "delete":
                self._change({i: {"deleted": True} for i in change["keys"]})
            case "swipe":
                self._swipe(key, change["choice"])
            case "undo":
                back = self.undoable.pop() if self.undoable else {}
                for i, values in back.items():
                    self.said[i].give(values)
            case other:
                raise ValueError(other)

    def _change(self, new: Mapping[int, Mapping[str, Any]]) -> None:
        before = {i: self.said[i].give(values) for i, values in new.items()}
        before = {i: values for i, values in before.items() if values}
        if before:
            self.undoable.append(before)

    def _swipe(self, key: int, choice: str | int) -> None:
        message = self.said[key]
        if isinstance(choice, str):
            message.variants = [*(message.variants or [message.body]), choice]
            choice = len(message.variants) - 1
        if message.variants:
            self._change({key: {"variant": choice, "body": message.variants[choice]}})
