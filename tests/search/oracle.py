"""The ranking once more, slow and by itself: over all messages, from the formula alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from previously.model import Message
from previously.search import (
    LENGTH_SHARE,
    LONE_WEIGHT,
    PHRASE_SHARE,
    SATURATION,
    STOP_TERMS,
    TERMS_MAX,
)
from previously.text.terms import is_sign, normal, spans, terms


def best(messages: Sequence[Message], query: str) -> list[tuple[int, float]]:
    """Keys and scores, best first."""
    shown = [m for m in messages if m.shown]
    holding = Counter(t for m in shown for t in terms(m.body))
    asked = terms(query) - STOP_TERMS or terms(query)
    known = sorted(asked, key=lambda t: (holding[t] or math.inf, -len(t), t))[:TERMS_MAX]
    average = sum(m.tokens for m in shown) / len(shown) if shown else 0
    weights = {
        t: math.log(1 + (len(shown) - holding[t] + 0.5) / (holding[t] + 0.5))
        * (LONE_WEIGHT if is_sign(t) and any(t in u and t != u for u in known) else 1)
        for t in known
    }
    phrase = normal(query).strip()
    scored: list[tuple[float, int, int]] = []
    for m in shown:
        text = normal(m.body)
        score = 0.0
        for t in known:
            n = len(list(spans(text, t)))
            damp = 1 - LENGTH_SHARE + LENGTH_SHARE * m.tokens / average
            score += weights[t] * n * (SATURATION + 1) / (n + SATURATION * damp)
        if not score:
            continue
        if len(known) > 1 and phrase in text:
            score += PHRASE_SHARE * max(weights.values())
        scored.append((-score, -m.created_at_ms, -m.id))
    return [(-i, -score) for score, _, i in sorted(scored)]
