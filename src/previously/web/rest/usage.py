"""Usage: what summaries have cost, and what is left of the month."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from previously.service import OWNER, Service
from previously.settings import layered
from previously.store import Spent
from previously.summariser import month_of
from previously.web.rest import ids, shapes
from previously.web.rest.context import Use

MICROS = 1_000_000

router = APIRouter(tags=["usage"])


@router.get("/usage")
async def shown(
    use: Use, by: Annotated[Literal["month", "profile", "chat"], Query()] = "month"
) -> shapes.Usage:
    """Calls, tokens and money, added up; a call whose price nobody knows is counted as such."""
    layers = await use.store.setting_layers(OWNER, None)
    held, _ = layered(layers["environment"].values, layers["global"].values)
    month = month_of(use.now_ms(), held.time_zone)
    spent = await use.store.usage(OWNER, by)
    titles = await _titles(use, spent) if by == "chat" else {}
    return shapes.Usage(
        by=by,
        items=[_told(one, by, titles) for one in spent],
        month=month,
        spent_usd=await use.store.spent(OWNER, month) / MICROS,
        budget_usd=held.monthly_budget_usd,
    )


async def _titles(use: Service, spent: list[Spent]) -> dict[str, str]:
    keys = [int(one.heading) for one in spent if one.heading.isdecimal()]
    return {str(ref.id): ref.name for ref in await use.store.refs(keys)}


def _told(one: Spent, by: str, titles: dict[str, str]) -> shapes.Spent:
    is_chat = by == "chat" and one.heading.isdecimal()
    return shapes.Spent(
        heading=ids.chat_id(int(one.heading)) if is_chat else one.heading,
        label=titles.get(one.heading, one.heading),
        calls=one.calls,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        cost_usd=one.cost_micros / MICROS,
        unpriced_calls=one.unpriced_calls,
    )
