"""What was used."""

from __future__ import annotations

from typing import Literal

from previously.web.rest.shapes.common import Told


class Spent(Told):
    heading: str
    label: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: int


class Usage(Told):
    by: Literal["month", "profile", "chat"]
    items: list[Spent]
    month: str
    spent_usd: float
    budget_usd: float
