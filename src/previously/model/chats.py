"""A conversation, and the right to touch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatRef:
    """The right to read and write one chat; only a look-up that checked the owner makes one."""

    id: int
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation."""

    ref: ChatRef
    title: str
    preset: str
    lane: str
    revision: int
    created_at_ms: int
