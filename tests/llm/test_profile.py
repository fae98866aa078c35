from __future__ import annotations

from typing import Any

import pytest

from previously.errors import BadInput
from previously.llm.limited import Limits
from previously.llm.profile import Price, Profile, check_url, from_mapping
from previously.model import Usage

GOOD: dict[str, Any] = {
    "name": "cheap",
    "source": "openai",
    "base_url": "https://api.example.com/v1",
    "model": "small-1",
    "secret": "env:CHEAP_KEY",
}


def test_a_profile_survives_the_way_through_json() -> None:
    given = {
        **GOOD,
        "window_tokens": 32_000,
        "output_tokens": 800,
        "temperature": 0.3,
        "timeout_s": 45,
        "price": {"input_micro": 150_000, "output_micro": 600_000, "cached_input_micro": 75_000},
        "limits": {"at_once": 2, "per_minute": 30},
        "stream": True,
        "params": {"top_p": 0.9},
        "cache_marks": "anthropic",
    }
    profile = from_mapping(given)
    assert profile.limits == Limits(2, 30)
    assert from_mapping(profile.as_mapping()) == profile
    assert profile.as_mapping() == {**given}


@pytest.mark.proves("A-24")
def test_a_call_has_two_minutes_unless_the_profile_says_otherwise() -> None:
    assert from_mapping(GOOD).timeout_s == 120


BAD: list[tuple[str, Any]] = [
    ("name", " "),
    ("name", "x" * 81),
    ("name", 5),
    ("source", "gemini2"),
    ("base_url", "ftp://example.com"),
    ("base_url", "api.example.com/v1"),
    ("base_url", 7),
    ("model", ""),
    ("secret", "sk-live-abcdef"),
    ("secret", "env:not a name"),
    ("secret", "file:"),
    ("window_tokens", 100),
    ("window_tokens", 4_096.5),
    ("window_tokens", True),
    ("output_tokens", 0),
    ("temperature", 2.5),
    ("temperature", "warm"),
    ("temperature", True),
    ("timeout_s", 0),
    ("timeout_s", float("nan")),
    ("timeout_s", 3_601),
    ("stream", "yes"),
    ("params", [1]),
    ("params", {"x": object()}),
    ("params", {"x": "y" * 70_000}),
    ("colour", "red"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_cannot_be_used_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadInput) as caught:
        from_mapping({**GOOD, name: value})
    assert caught.value.field == name
    assert "sk-live" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"price": {"input_micro": -1, "output_micro": 1}}, "price.input_micro"),
        ({"price": {"input_micro": 1}}, "price.output_micro"),
        ({"price": {"input_micro": 1, "output_micro": 1, "x": 1}}, "price.x"),
        ({"limits": {"at_once": 0}}, "limits.at_once"),
        ({"limits": {"per_minute": 1.5}}, "limits.per_minute"),
        ({"params": {"max_tokens": 5}}, "params.max_tokens"),
        ({"params": {"messages": []}}, "params.messages"),
        ({"window_tokens": 1_000, "output_tokens": 1_000}, "output_tokens"),
    ],
)
def test_so_is_what_cannot_be_used_inside_a_part(part: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_mapping({**GOOD, **part})
    assert caught.value.field == name


@pytest.mark.parametrize("name", ["name", "model", "base_url"])
def test_so_is_what_is_missing(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_mapping({k: v for k, v in GOOD.items() if k != name})
    assert caught.value.field == name


def test_the_summariser_that_is_no_model_needs_no_address() -> None:
    assert Profile("quotes", "extractive").secret is None


@pytest.mark.proves("G-81")
@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com",
        "https://192.168.1.5:8443/v1",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080",
        "http://[::1]:8080/v1",
        "http://10.0.0.7:1234/v1",
        "http://[fd00::5]/v1",
        "http://ollama:11434/v1",
        "http://box.local/v1",
        "http://host.docker.internal:11434/v1",
    ],
)
def test_plain_http_is_for_this_machine_and_its_network(url: str) -> None:
    check_url(url)


@pytest.mark.proves("G-81")
@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/v1",
        "http://8.8.8.8/v1",
        "http://[2001:4860:4860::8888]/v1",
        "http://localhost.example.com/v1",
        "http://127.0.0.1.example.com/v1",
        "http://134744072/v1",  # 8.8.8.8 to some resolvers
        "http://0x08080808/v1",
        "http://8.8.2056/v1",
        "http://[::ffff:8.8.8.8]/v1",
        "https://169.254.169.254/latest",
        "http://169.254.169.254/latest",
        "https://[::ffff:169.254.169.254]/",
        "https://0.0.0.0/v1",
        "https://user:pass@example.com/v1",
        "https://key@example.com/v1",
        "https://example.com/v1?key=x",
        "https://example.com/v1#x",
        "https://exa mple.com/v1",
        "https://example.com:port/v1",
        "https://example.com/v1\r\nx: y",
        "file:///etc/passwd",
        "gopher://example.com",
        "https://",
        "",
    ],
)
def test_no_request_goes_where_a_key_could_be_read_or_a_cloud_keeps_its_own(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_url(url)
    assert caught.value.field == "base_url"
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.proves("G-81")
@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/", "http://localhost:1/", "https://db.internal/"]
)
def test_an_operator_may_keep_strangers_out_of_the_private_network(url: str) -> None:
    check_url(url)
    with pytest.raises(BadInput, match="private"):
        check_url(url, private=False)
    check_url("https://api.example.com/v1", private=False)


def test_the_identity_is_what_determines_an_answer() -> None:
    one = from_mapping(GOOD)
    same = [
        {"name": "other"},
        {"secret": "env:OTHER"},
        {"timeout_s": 5},
        {"stream": True},
        {"base_url": "https://api.example.com/v1/"},
        {"price": {"input_micro": 1, "output_micro": 1}},
    ]
    others = [
        {"source": "anthropic"},
        {"base_url": "https://api.example.org/v1"},
        {"model": "small-2"},
        {"temperature": 0.0},
        {"params": {"top_p": 0.5}},
    ]
    assert {from_mapping({**GOOD, **more}).identity for more in same} == {one.identity}
    identities = {from_mapping({**GOOD, **more}).identity for more in others}
    assert len(identities | {one.identity}) == len(others) + 1


def test_a_call_costs_what_its_tokens_cost_and_never_nothing() -> None:
    price = Price(150_000, 600_000, 75_000)
    assert price.of(Usage(1_000_000, 1_000_000)) == 750_000
    assert price.of(Usage(1_000_000, 0, cached_tokens=400_000)) == 90_000 + 30_000
    assert price.of(Usage(1, 0)) == 1
    assert Price(100, 0).of(Usage(1_000_000, 5, cached_tokens=999)) == 100
