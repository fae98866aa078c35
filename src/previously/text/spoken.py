"""Spoken: who said a thing and what, in the words that a reader is shown in either language."""

from __future__ import annotations

import re
from types import MappingProxyType

from previously.model import Message
from previously.text.wire import told_calls

# What stands for somebody who has no name.
ROLE_WORDS = MappingProxyType(
    {
        "en": MappingProxyType({}),
        "zh": MappingProxyType(
            {"user": "用户", "assistant": "助手", "tool": "工具", "system": "系统"}
        ),
    }
)
TOOLS = frozenset({"tool", ROLE_WORDS["zh"]["tool"]})
NOBODY = frozenset({"system", "user", "assistant", *TOOLS, *ROLE_WORDS["zh"].values()})

_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad"
_REASONING = re.compile(rf"<({_TAGS})\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_UNCLOSED = re.compile(rf"<({_TAGS})\b[^>]*>.*\Z", re.DOTALL | re.IGNORECASE)
_UNOPENED = re.compile(rf"\A.*</({_TAGS})\s*>", re.DOTALL | re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """What a model said, without what it said to itself before."""
    if "<" not in text:
        return text
    return _UNOPENED.sub("", _UNCLOSED.sub("", _REASONING.sub("", text)))


def speaker_of(message: Message, language: str) -> str:
    """The name a reader sees in front of the text; a tool is called one, whatever its name."""
    words = ROLE_WORDS[language]
    if message.role == "tool":
        return words.get("tool", "tool")
    return message.name or words.get(message.role, message.role)


def body_of(message: Message) -> str:
    """What was said. A model's thinking is no part of it, unless there is nothing else."""
    if message.role != "assistant":
        return message.body
    said = without_reasoning(message.body)
    return message.body if said == message.body else said.strip() or message.body


def spoken_text(message: Message, language: str) -> str:
    """What was said, with tool calls told in words."""
    if message.tool_calls is None:
        return body_of(message)
    return f"{body_of(message)}\n{told_calls(message.tool_calls, language)}".strip()
