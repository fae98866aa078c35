from __future__ import annotations

import pytest

from previously.llm.patience import retry_after_s

DATE = "Sun, 15 Jun 2025 15:06:40 GMT"  # 1750000000


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "0.25"}, "", 0.25),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after": "Sun, 15 Jun 2025 15:07:10 GMT", "date": DATE}, "", 30),
        ({"retry-after": "Sun, 15 Jun 2025 15:06:10 GMT", "date": DATE}, "", 0),
        ({"retry-after": "Sun, 15 Jun 2025 15:07:10 GMT"}, "", None),  # no clock to compare with
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-3"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "999999"}, "", 86_400),
        ({"x-ratelimit-reset-requests": "6m0s"}, "", 360),
        ({"x-ratelimit-reset-tokens": "20ms"}, "", 0.02),
        ({"x-ratelimit-reset-tokens": "7.66s", "x-ratelimit-reset-requests": "2s"}, "", 7.66),
        (
            {
                "x-ratelimit-reset-tokens": "60s",
                "x-ratelimit-remaining-tokens": "100",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-requests": "0",
            },
            "",
            2,
        ),
        ({"x-ratelimit-reset": "1750000045", "date": DATE}, "", 45),
        ({"x-ratelimit-reset": "1750000045000", "date": DATE}, "", 45),
        ({"x-ratelimit-reset": "1750000045000"}, "", None),
        ({"anthropic-ratelimit-tokens-reset": "2025-06-15T15:06:50Z", "date": DATE}, "", 10),
        ({"retry-after": "3", "x-ratelimit-reset-tokens": "60s"}, "", 3),
        ({}, "Rate limit reached. Please try again in 6.5s. Visit x", 6.5),
        ({}, "Please try again in 1m30s.", 90),
        ({}, "Please try again in 20ms.", 0.02),
        ({}, "Please retry in 34.07 seconds", 34.07),
        ({}, "Please retry after 2 minutes", 120),
        ({}, "Try again later", None),
        ({}, "", None),
    ],
)
def test_the_wait_is_read_however_it_is_said(
    headers: dict[str, str], text: str, seconds: float | None
) -> None:
    found = retry_after_s(headers, text)
    assert found == (None if seconds is None else pytest.approx(seconds))
