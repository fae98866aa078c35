"""Limits: how far one run may go, and the account of how far it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from previously.model import Reply, Usage

ALGORITHM = "bisect_v1"
SAFETY_RATIO = 1.15  # another vocabulary may count more than ours


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go."""

    calls_max: int = 512
    depth_max: int = 24  # of cuts upon cuts
    messages_min: int = 2  # in a stretch that may still be cut between messages
    tokens_min: int = 64  # in a stretch that may still be cut at all
    note_tokens_max: int = 400  # of a note inside the tree, unless the summary itself is larger
    fan_in: int = (
        8  # notes made into one at a time: every hand that a fact passes through loses some
    )
    at_once: int = 4  # calls
    deadline_s: float = 1_800.0
    bisect: bool = True
    split_inside_message: bool = True


@dataclass(slots=True)
class Tally:
    """What a run did."""

    calls: int = 0
    asked: list[str] = field(default_factory=list[str])  # hashes of all that was answered
    usage: Usage = field(default_factory=Usage)
    chunks: int = 0
    merges: int = 0
    depth: int = 0
    asked_again: int = 0
    shortened: int = 0
    too_long: int = 0
    hurt: dict[int, None] = field(default_factory=dict[int, None])  # messages that lost words
    flags: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, request: str, reply: Reply) -> None:
        """One more answer, new or kept."""
        self.asked.append(request)
        so_far, more = self.usage, reply.usage
        self.usage = Usage(
            so_far.input_tokens + more.input_tokens,
            so_far.output_tokens + more.output_tokens,
            so_far.cached_tokens + more.cached_tokens,
            so_far.reasoning_tokens + more.reasoning_tokens,
        )

    def stats(self, input_tokens: int, output_tokens: int, duration_ms: int) -> dict[str, Any]:
        """As it is stored beside a summary."""
        ratio = output_tokens / input_tokens if input_tokens else 0.0
        return {
            "algorithm": ALGORITHM,
            "calls": self.calls,
            "answers": len(self.asked),
            "chunk_count": self.chunks,
            "merges": self.merges,
            "max_depth": self.depth,
            "asked_again": self.asked_again,
            "shortened": self.shortened,
            "too_long": self.too_long,
            "truncated": bool(self.hurt),
            "truncated_messages": list(self.hurt),
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "compression_ratio": round(ratio, 4),
            "duration_ms": duration_ms,
            "flags": list(self.flags),
        }
