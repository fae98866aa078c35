"""A model with something around it."""

from __future__ import annotations

from previously.llm import Llm


class Around:
    """What is known of it is what is known of the model inside."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def identity(self) -> str:
        return getattr(self._llm, "identity", self._llm.name)

    @property
    def costs(self) -> bool:
        return self._llm.costs

    @property
    def window_tokens(self) -> int | None:
        return self._llm.window_tokens
