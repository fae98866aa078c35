"""A role-play client as it behaves: it keeps its own chat and tells the server what it likes to.

Its prompt is laid out as such clients lay it out: card and lore in front, the chat with notes
between its messages, instructions behind. What it keeps of a reply is not always what it got.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.web.rig import Door

Raw = dict[str, Any]


@dataclass
class Row:
    """One message as the client keeps it."""

    name: str
    text: str
    role: str
    hidden: bool = False
    extra: list[Raw] = field(default_factory=list[Raw])  # calls of tools and what they gave


@dataclass
class Tavern:
    """One chat of a client; its attributes are its user's settings."""

    door: Door
    user: str = "Alex"
    members: tuple[str, ...] = ("Alice",)
    greeting: str = "The lantern is lit when you wake."
    names: str = "none"  # content | completion
    note: str = ""
    note_depth: int = 4
    lore: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    jailbreak: str = ""
    behind: tuple[tuple[str, str], ...] = ()  # a preset's own messages after everything
    around: tuple[str, str] | None = None  # a preset's frame around the chat
    window: int | None = None  # newest messages that fit the client's own limit
    shows: Callable[[str, int], str] = lambda text, _: text  # a rule for prompts only, by depth
    keeps: Callable[[str], str] = str.strip  # how a reply is cleaned before it is kept
    stream: bool = True
    merges: bool = False
    as_user: bool = False  # instructions behind the first are sent as the user
    chat: str = "demo"  # empty: it names none
    found: str = ""  # the chat that its last request was found to belong to
    rows: list[Row] = field(default_factory=list[Row])
    traces: list[str] = field(default_factory=list[str])
    last: list[Raw] = field(default_factory=list[Raw])  # messages of its last request
    shown: set[int] = field(default_factory=set[int])  # rows that turns have shown
    hid: set[int] = field(default_factory=set[int])  # those that were hidden since

    def __post_init__(self) -> None:
        if self.greeting:
            self.rows.append(Row(self.members[0], self.greeting, "assistant"))

    @property
    def group(self) -> bool:
        return len(self.members) > 1

    def visible(self) -> list[Row]:
        rows = [row for row in self.rows if not row.hidden]
        return rows[-self.window :] if self.window else rows

    def prompt(self, speaker: str, *, without_last: bool = False) -> list[Raw]:
        rows = self.visible()[: -1 if without_last else None]
        told: list[Raw] = []
        for depth, row in zip(range(len(rows) - 1, -1, -1), rows, strict=True):
            told += [self._told(row, depth), *row.extra]
        for text, role in self._notes(rows):
            told.insert(max(0, len(told) - self.note_depth), {"role": role, "content": text})
        start = "[Start a new Chat]"
        if self.group:
            start = f"[Start a new group chat. Group members: {', '.join(self.members)}]"
        head = (
            f"Write {speaker}'s next reply in a fictional chat between {speaker} and {self.user}."
        )
        before, after = self.around or ("", "")
        behind = [("system", f"[Write the next reply only as {speaker}.]")] if self.group else []
        behind += [("system", self.jailbreak)] if self.jailbreak else []
        made = [
            {"role": "system", "content": head},
            {"role": "system", "content": f"{speaker} is a keeper of a light, as cards say."},
            {"role": "system", "content": start},
            *([{"role": "system", "content": before}] if before else []),
            *told,
            *([{"role": "system", "content": after}] if after else []),
            *({"role": role, "content": text} for role, text in (*behind, *self.behind)),
        ]
        if not self.merges:
            return made
        made = joined(made)
        if self.as_user:
            made[1:] = [{**m, "role": "user"} if m["role"] == "system" else m for m in made[1:]]
        return joined(made)

    def _told(self, row: Row, depth: int) -> Raw:
        text = self.shows(row.text, depth)
        prefixed = self.names == "content" or (self.group and row.role == "assistant")
        if prefixed and self.names != "completion" and row.role != "system":
            text = f"{row.name}: {text}"
        made: Raw = {"role": row.role, "content": text}
        if self.names == "completion":
            made["name"] = re.sub(r"[^a-zA-Z0-9_]", "_", row.name)[:64]
        return made

    def _notes(self, rows: list[Row]) -> list[tuple[str, str]]:
        recent = " ".join(row.text for row in rows[-3:])
        found = [(text, role) for word, (text, role) in self.lore.items() if word in recent]
        return found + ([(self.note, "system")] if self.note else [])

    async def post(self, messages: list[Raw], **more: Any) -> str:
        self.last = messages
        body = {"model": "m", "temperature": 1, "stream": self.stream, **more, "messages": messages}
        url = self.door.url(chat=self.chat) if self.chat else self.door.url().replace("/c/demo", "")
        async with self.door.http.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
            self.traces.append(answer.headers["x-previously-trace"])
            self.found = answer.headers.get("x-previously-chat", "")
        return self.traces[-1]

    def _show(self) -> None:
        """What a turn has shown; what was hidden, only if that turn was understood."""
        seen = set(map(id, self.visible()))
        if not self.traces[-1].startswith("pass"):
            self.hid -= seen
        self.hid |= {id(row) for row in self.rows if row.hidden}
        self.shown = (self.shown | seen) - self.hid

    async def reply(self, text: str, speaker: str = "") -> str:
        """A request and its reply, which is kept."""
        speaker = speaker or self.members[0]
        self.door.upstream.says(text)
        trace = await self.post(self.prompt(speaker))
        self._show()
        self.rows.append(Row(speaker, self.keeps(text), "assistant"))
        return trace

    async def say(self, text: str, *replies: str) -> list[str]:
        """The user's words, and a reply of each member in turn."""
        self.rows.append(Row(self.user, text, "user"))
        return [
            await self.reply(said, who) for said, who in zip(replies, self.members, strict=True)
        ]

    async def swipe(self, text: str) -> str:
        """Another reply in the place of the last."""
        last = self.rows.pop()
        return await self.reply(text, last.name)

    async def quiet(self, instruction: str) -> str:
        """A question beside the chat; its answer is not kept."""
        self.door.upstream.says("An answer beside the chat.")
        told = [*self.prompt(self.members[0]), {"role": "system", "content": instruction}]
        return await self.post(told, stream=False)

    async def impersonate(self, text: str) -> str:
        """The user's next words, written by the model; they are not said yet."""
        ask = (
            f"[Write your next reply from the point of view of {self.user}, using the chat so far.]"
        )
        self.door.upstream.says(text)
        return await self.post([*self.prompt(self.members[0]), {"role": "system", "content": ask}])

    async def grow(self, more: str) -> str:
        """Continue: the last reply goes to the end, and grows."""
        last = self.rows[-1]
        told = self.prompt(last.name, without_last=True)
        told.append({"role": "assistant", "content": self._told(last, 0)["content"]})
        nudge = "[Continue your last message without repeating its original content.]"
        self.door.upstream.says(more)
        trace = await self.post([*told, {"role": "system", "content": nudge}])
        last.text += more
        return trace

    def holds(self) -> list[tuple[str, str]]:
        """What the client has, as it would like it to be remembered."""
        return [(row.role, row.text) for row in self.rows if not row.hidden]


def joined(messages: list[Raw]) -> list[Raw]:
    """Neighbours of one role as one message."""
    made: list[Raw] = []
    for one in messages:
        plain = isinstance(one.get("content"), str) and not one.get("tool_calls")
        if made and plain and made[-1]["role"] == one["role"] and one["role"] != "tool":
            made[-1] = {**made[-1], "content": f"{made[-1]['content']}\n\n{one['content']}"}
        else:
            made.append(dict(one))
    return made
