"""List prices of well-known models, for a budget that needs some number.

In US dollars per million tokens, as published when this table was written; a profile's own price
goes before it. What is not listed has no price: it is counted in tokens, never taken for free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# input, output, input that the provider had cached; the first pattern that fits decides
TABLE: tuple[tuple[str, float, float, float | None], ...] = (
    (r"gpt-5(\.\d+)?-nano", 0.05, 0.40, 0.005),
    (r"gpt-5(\.\d+)?-mini", 0.25, 2.00, 0.025),
    (r"gpt-5(\.\d+)?-pro", 15.00, 120.00, None),
    (r"gpt-5(\.\d+)?", 1.25, 10.00, 0.125),
    (r"gpt-4\.1-nano", 0.10, 0.40, 0.025),
    (r"gpt-4\.1-mini", 0.40, 1.60, 0.10),
    (r"gpt-4\.1", 2.00, 8.00, 0.50),
    (r"gpt-4o-mini", 0.15, 0.60, 0.075),
    (r"gpt-4o", 2.50, 10.00, 1.25),
    (r"o4-mini", 1.10, 4.40, 0.275),
    (r"o3-mini", 1.10, 4.40, 0.55),
    (r"o3", 2.00, 8.00, 0.50),
    (r"claude-opus-4-[5-9]", 5.00, 25.00, 0.50),
    (r"claude-opus-4", 15.00, 75.00, 1.50),
    (r"claude-sonnet-4", 3.00, 15.00, 0.30),
    (r"claude-haiku-4", 1.00, 5.00, 0.10),
    (r"claude-3-7-sonnet", 3.00, 15.00, 0.30),
    (r"claude-3-5-sonnet", 3.00, 15.00, 0.30),
    (r"claude-3-5-haiku", 0.80, 4.00, 0.08),
    (r"deepseek-(chat|reasoner)", 0.28, 0.42, 0.028),
    (r"gemini-2\.5-flash-lite", 0.10, 0.40, 0.025),
    (r"gemini-2\.5-flash", 0.30, 2.50, 0.075),
    (r"gemini-2\.5-pro", 1.25, 10.00, 0.31),
    (r"kimi-k2", 0.60, 2.50, 0.15),
    (r"glm-4\.[56]", 0.60, 2.20, 0.11),
)
_COMPILED = tuple((re.compile(rf"(?:^|/){p}(?![\w.])"), prices) for p, *prices in TABLE)


def listed(model: str) -> tuple[int, int, int | None] | None:
    """Micro-dollars per million tokens (input, output, cached input), or None."""
    name = model.lower()
    for pattern, prices in _COMPILED:
        if pattern.search(name):
            given, made, cached = _micros(prices)
            assert given is not None
            assert made is not None
            return given, made, cached
    return None


def _micros(prices: list[float | None]) -> Iterator[int | None]:
    for price in prices:
        yield None if price is None else round(price * 1_000_000)
