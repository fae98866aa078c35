"""Models that summarise. An adapter turns one `Ask` into one `Reply` and decides nothing else."""

from __future__ import annotations

from typing import Protocol

from previously.model import Ask, Reply


class Llm(Protocol):
    """Raises `ModelUnavailable` when asking again later may help, `NotConfigured` when not."""

    @property
    def name(self) -> str:
        """What a summary's provenance says."""
        ...

    @property
    def costs(self) -> bool:
        """Whether an answer is worth keeping until it is used."""
        ...

    async def complete(self, ask: Ask) -> Reply: ...
