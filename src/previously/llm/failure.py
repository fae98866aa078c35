"""Failures: what an upstream's refusal means for whoever asked, as one of our own errors.

A pure function of the answer. What providers say is data: names of errors first, then words, then
the status. What the user reads names the profile, what to check, and what the upstream said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from previously.errors import (
    BadInput,
    DraftRejected,
    ModelUnavailable,
    NotConfigured,
    PreviouslyError,
    TooLong,
)
from previously.llm.body import NAME_KEYS, leaves, said
from previously.llm.overflow import overflow
from previously.llm.patience import retry_after_s
from previously.llm.profile import Profile

FULL_PERCENT = 80  # of the window: a refusal without a reason is then put down to the size
SIZE_STATUSES = frozenset({400, 413, 422})
ERROR_INSIDE = 200  # an error that came inside an answer

FILTERED = 451
_UNKNOWN_ERROR = 502

# Names of errors and the status that each stands for.
_NAMES: Mapping[str, int] = {
    "authentication_error": 401,
    "incorrect_api_key": 401,
    "invalid_api_key": 401,
    "invalid_authentication_error": 401,
    "invalidapikey": 401,
    "unauthorized": 401,
    "permission_error": 403,
    "access_denied": 403,
    "arrearage": 402,
    "billing_error": 402,
    "billing_hard_limit_reached": 402,
    "exceeded_current_quota_error": 402,
    "insufficient_balance": 402,
    "insufficient_quota": 402,
    "insufficient_user_quota": 402,
    "payment_required": 402,
    "1113": 402,  # Zhipu
    "model_not_found": 404,
    "modelnotfound": 404,
    "not_found_error": 404,
    "content_filter": FILTERED,
    "content_policy_violation": FILTERED,
    "data_inspection_failed": FILTERED,
    "datainspectionfailed": FILTERED,
    "responsibleaipolicyviolation": FILTERED,
    "1301": FILTERED,  # Zhipu
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_reached_error": 429,
    "resource_exhausted": 429,
    "throttling": 429,
    "engine_overloaded_error": 503,
    "service_unavailable": 503,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "request_too_large": 413,
}
# Some say 400 to everything. Only these say more than the status does.
_TELLING = frozenset({401, 402, 404, 429, FILTERED})

_WORDS: tuple[tuple[int, re.Pattern[str]], ...] = tuple(
    (status, re.compile(words, re.I | re.S))
    for status, words in (
        (
            402,
            (
                r"credit balance is too low|insufficient (?:account )?(?:balance|credits?|funds"
                r"|quota)|exceeded your current quota|out of credits|payment required|余额不足|欠费"
            ),
        ),
        (
            401,
            (
                r"(?:incorrect|invalid|missing) api[ _-]?key"
                r"|api[ _-]?key (?:is )?(?:not valid|invalid|expired|missing)"
            ),
        ),
        (
            404,
            (
                r"model.{0,80}?(?:does not exist|not exist|not found|decommissioned)"
                r"|(?:unknown|no such|not a valid|invalid) model|模型不存在"
            ),
        ),
        (
            FILTERED,
            (
                r"content (?:management )?polic|content[ _-]?filter|safety (?:system|filter|polic)"
                r"|(?:was|were|been|input) flagged|敏感|不安全"
            ),
        ),
    )
)


class Answer(NamedTuple):
    """What came back, less the key wherever it was quoted."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def failure(
    profile: Profile, answer: Answer, prompt_tokens: Callable[[], int] = lambda: 0
) -> PreviouslyError:
    """The error that a refusal is for us; `prompt_tokens` is our own count of what we sent."""
    found = overflow(answer.status, answer.body)
    if found is not None:
        return TooLong(
            _sentence(profile, "the prompt does not fit the model's window", answer),
            window_tokens=found.window_tokens,
        )
    status = _meant(answer)
    if status in _TRANSIENT or status >= 500:
        return _unavailable(profile, status, answer)
    if status == FILTERED:
        return DraftRejected(_sentence(profile, "the provider's filter refused the text", answer))
    advice = _advice(profile, status, answer)
    if advice is not None:
        return NotConfigured(_sentence(profile, advice, answer))
    return _refused(profile, status, answer, prompt_tokens)


def _advice(profile: Profile, status: int, answer: Answer) -> str | None:
    """What the user should look at, where asking again changes nothing."""
    if 300 <= status < 400:
        return _redirected(profile, answer)
    if status == 402:
        return "the account has no credit or quota left; top it up or use another profile"
    make = _ADVICE.get(status)
    return None if make is None else make(profile)


def _refused(
    profile: Profile, status: int, answer: Answer, prompt_tokens: Callable[[], int]
) -> PreviouslyError:
    """A refusal for no reason that we know: too long, if it was nearly as long as it may be."""
    if status in SIZE_STATUSES and is_nearly_full(profile, prompt_tokens):
        problem = "the request was refused and nearly fills the window, so it counts as too long"
        return TooLong(_sentence(profile, problem, answer))
    return BadInput(_sentence(profile, f"the request was refused ({status})", answer))


def is_nearly_full(profile: Profile, prompt_tokens: Callable[[], int]) -> bool:
    """Whether what we sent takes up so much of a known window that its size is the likely fault."""
    window = profile.window_tokens
    return window is not None and prompt_tokens() * 100 >= window * FULL_PERCENT


def _meant(answer: Answer) -> int:
    """The status that an answer should have had."""
    found = leaves(answer.body)
    names = [_NAMES.get(str(value).casefold(), 0) for key, value in found if key in NAME_KEYS]
    telling = next((status for status in names if status in _TELLING), None)
    if telling is not None:
        return telling
    if answer.status == ERROR_INSIDE:
        return _inside(found, names)
    if 400 <= answer.status < 500:
        return _in_words(answer) or answer.status
    return answer.status


def _inside(found: list[tuple[str, str | int]], names: list[int]) -> int:
    """Of an error inside an answer only its own words say what it is."""
    codes = (value for key, value in found if key in NAME_KEYS and isinstance(value, int))
    code = next((code for code in codes if 400 <= code < 600), 0)
    return code or next(filter(None, names), 0) or _UNKNOWN_ERROR


def _in_words(answer: Answer) -> int | None:
    text = said(answer.body)
    for status, words in _WORDS:
        if words.search(text):
            # Where a new try is promised, the quota is one per minute and not used up for good.
            waits = status == 402 and retry_after_s(answer.headers, text) is not None
            return None if waits else status
    return None


def _unavailable(profile: Profile, status: int, answer: Answer) -> ModelUnavailable:
    problem = (
        "the provider asks for fewer requests" if status == 429 else f"no answer now ({status})"
    )
    after_s = retry_after_s(answer.headers, said(answer.body))
    return ModelUnavailable(_sentence(profile, problem, answer), retry_after_s=after_s)


def _redirected(profile: Profile, answer: Answer) -> str:
    host = urlsplit(answer.headers.get("location", "")).hostname
    to = f" to {host}" if host else ""
    return (
        f"{_host(profile)} redirects{to}, and a key follows no redirect; put the final address "
        "into base_url"
    )


def _bad_key(profile: Profile) -> str:
    if profile.secret is None:
        return "the server wants a key; name the place where it is kept (secret)"
    return f"the key was refused; check {profile.secret} and that it belongs to {_host(profile)}"


def _not_allowed(profile: Profile) -> str:
    return f"the key may not use {profile.model} at {_host(profile)}; check its permissions"


def _not_there(profile: Profile) -> str:
    return (
        f"there is no model {profile.model} at {profile.base_url}; check the model's name and "
        "base_url (for most servers it ends in /v1)"
    )


_ADVICE: Mapping[int, Callable[[Profile], str]] = {
    401: _bad_key,
    403: _not_allowed,
    404: _not_there,
    405: _not_there,
}
_TRANSIENT = frozenset({408, 409, 425, 429})


def _host(profile: Profile) -> str:
    return urlsplit(profile.base_url).netloc


def _sentence(profile: Profile, problem: str, answer: Answer) -> str:
    words = said(answer.body)
    return f"profile {profile.name}: {problem}" + (f". It said: {words}" if words else "")
