"""How large a prompt a model takes, in our tokens: declared by its profile or learnt from refusals.

Models count in vocabularies of their own. How a refusal counts the prompt that it refuses tells the
ratio; without any figure, the size that was taken in the end is remembered.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from previously.llm.overflow import Overflow
from previously.measure import count_tokens
from previously.settings import BUDGET_MIN
from previously.web.routing import Target

LEARNT_MAX = 256  # models
LEARNT_S = 3_600.0  # a local server may be started anew with another window
STEP_TOKENS = 64  # every budget has a fold of its own: a little more or less must not make another
RATIO_MAX = 3.0
RESERVE_SHARE = 4  # of a window that is not declared, a quarter is left to the answer…
RESERVE_MAX = 1_024  # …up to this

# What a model reads beside the messages.
_COUNTED = ("tools", "functions", "response_format", "text")


@dataclass(frozen=True, slots=True)
class _Learnt:
    until_s: float
    window_tokens: int | None = None
    ratio: float = 1.0  # the model's tokens to ours
    most_tokens: int | None = None  # ours; for a model that names no figure


class Ceilings:
    """What is known of each model."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._learnt: OrderedDict[tuple[str, str], _Learnt] = OrderedDict()

    def of(self, target: Target, body: Mapping[str, Any]) -> int | None:
        """The largest prompt, in our tokens; None if nobody knows."""
        known = self._known(target)
        window = known.window_tokens
        if target.profile is not None and target.profile.window_tokens is not None:
            window = min(window or target.profile.window_tokens, target.profile.window_tokens)
        if window is None:
            return known.most_tokens
        free = window - _answer(target, body, window)
        room = int(free / known.ratio) - _beside(body)
        if known.most_tokens is not None:
            room = min(room, known.most_tokens)
        return max(BUDGET_MIN, room // STEP_TOKENS * STEP_TOKENS)

    def refused(self, target: Target, said: Overflow, sent_tokens: int) -> None:
        """A prompt of this size was too long."""
        known = self._known(target)
        ratio = known.ratio
        if said.requested_tokens and sent_tokens:
            ratio = min(RATIO_MAX, max(ratio, said.requested_tokens / sent_tokens))
        window = said.window_tokens or known.window_tokens
        self._keep(target, replace(known, window_tokens=window, ratio=ratio))

    def accepted(self, target: Target, sent_tokens: int) -> None:
        """After refusals, this one was taken."""
        known = self._known(target)
        if known.window_tokens is None:
            self._keep(target, replace(known, most_tokens=max(BUDGET_MIN, sent_tokens)))

    def _known(self, target: Target) -> _Learnt:
        found = self._learnt.get((target.upstream.base_url, target.model))
        fresh = found is not None and found.until_s > self._clock_s()
        return found if found is not None and fresh else _Learnt(0)

    def _keep(self, target: Target, learnt: _Learnt) -> None:
        key = (target.upstream.base_url, target.model)
        self._learnt[key] = replace(learnt, until_s=self._clock_s() + LEARNT_S)
        self._learnt.move_to_end(key)
        if len(self._learnt) > LEARNT_MAX:
            self._learnt.popitem(last=False)


def _answer(target: Target, body: Mapping[str, Any], window: int) -> int:
    """Room for the answer: what the client asks for, else what the profile says."""
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        asked = body.get(name)
        if isinstance(asked, int) and 0 < asked < window:
            return asked
    if target.profile is not None and target.profile.output_tokens < window:
        return target.profile.output_tokens
    return min(RESERVE_MAX, window // RESERVE_SHARE)


def _beside(body: Mapping[str, Any]) -> int:
    held = {name: body[name] for name in _COUNTED if body.get(name)}
    return count_tokens(json.dumps(held, ensure_ascii=False)) if held else 0
