"""Models that summarise. An adapter turns one `Ask` into one `Reply` and decides nothing else."""

from __future__ import annotations

from typing import Protocol

from previously.model import Ask, Reply


class Llm(Protocol):
    """Raises `ModelUnavailable` when asking again later may help, `NotConfigured` when not, and
    `TooLong` when asking about less at once would."""

    @property
    def name(self) -> str:
        """What a summary's provenance says."""
        ...

    @property
    def costs(self) -> bool:
        """Whether an answer is worth keeping until it is used."""
        ...

    @property
    def window_tokens(self) -> int | None:
        """Tokens that request and answer may have together; None if nobody knows or none."""
        ...

    async def complete(self, ask: Ask) -> Reply: ...
