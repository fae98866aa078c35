"""A profile: which model is asked, where, and within which limits. It never holds a key.

It says where the key is kept: `env:NAME` or `file:PATH` (`llm.secrets`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit

from previously.errors import BadInput
from previously.llm.limited import Limits
from previously.llm.secrets import check_reference
from previously.model import EXTRACTIVE, Usage, digest
from previously.text.wire import as_object

OPENAI = "openai"
ANTHROPIC = "anthropic"
SOURCES = (OPENAI, ANTHROPIC, EXTRACTIVE)
CACHE_MARKS = ("", ANTHROPIC, OPENAI)

TIMEOUT_S_DEFAULT = 120.0
TIMEOUT_S_MAX = 3_600.0
OUTPUT_TOKENS_DEFAULT = 1_024
WINDOW_TOKENS_MIN = 256
TOKENS_MAX = 100_000_000
NAME_CHARS_MAX = 80
MICRO_MAX = 10**12
CALLS_MAX = 1_000_000
PARAMS_BYTES_MAX = 64 * 1024

# What a request says is ours to decide; a profile's own parameters must not overrule it.
OUR_PARAMS = frozenset(
    {
        "model",
        "messages",
        "system",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "functions",
    }
)

# Names that no public DNS hands out: a plain http request to them stays in the house.
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".localdomain")
_NUMBER_LIKE = re.compile(r"(?:0x[0-9a-f]*|\d+)\.?")


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-units of some currency per million tokens."""

    input_micro: int
    output_micro: int
    cached_input_micro: int | None = None  # None: a cached token costs what any other does

    def __post_init__(self) -> None:
        for name, value in _values(self):
            if value is not None and not _is_whole(value, 0, MICRO_MAX):
                raise BadInput(f"price.{name} is a whole number from 0", field=f"price.{name}")

    def of(self, usage: Usage) -> int:
        """Micro-units for one call, rounded up: a call is never free because it was small."""
        cached_price = self.cached_input_micro
        cached = min(usage.cached_tokens, usage.input_tokens)
        total = (
            (usage.input_tokens - cached) * self.input_micro
            + cached * (self.input_micro if cached_price is None else cached_price)
            + usage.output_tokens * self.output_micro
        )
        return -(-total // 1_000_000)


@dataclass(frozen=True, slots=True)
class Profile:
    """One model behind one address. `BadInput` names the field that cannot be used."""

    name: str
    source: str = OPENAI
    base_url: str = ""
    model: str = ""
    secret: str | None = None  # where the key is kept; None: the server asks for none
    window_tokens: int | None = None  # prompt and answer together; None: not known
    output_tokens: int = OUTPUT_TOKENS_DEFAULT  # room for the answer and the thinking before it
    temperature: float | None = None
    timeout_s: float = TIMEOUT_S_DEFAULT  # one deadline over all tries of a call
    price: Price | None = None  # None: nobody knows, which is not the same as free
    limits: Limits = field(default_factory=Limits)  # `llm.limited` holds calls to them
    stream: bool = False  # for gateways that give up on an answer that is long in coming
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])  # sent with every request
    cache_marks: str = ""  # whose marks the proxy sets in prompts: "", anthropic, openai

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        _check_name(self.name)
        if self.source not in SOURCES:
            known = ", ".join(SOURCES)
            raise BadInput(f"source {self.source!r} is none of {known}", field="source")
        if self.cache_marks not in CACHE_MARKS:
            known = ", ".join(filter(None, CACHE_MARKS))
            raise BadInput(f"cache_marks is one of {known}, or empty", field="cache_marks")
        self._check_sizes()
        _check_limits(self.limits)
        _check_params(self.params)
        if self.source == EXTRACTIVE:
            return
        check_url(self.base_url)
        if not self.model.strip():
            raise BadInput("the model's name is missing", field="model")
        if self.secret is not None:
            check_reference(self.secret)

    def _check_sizes(self) -> None:
        window = self.window_tokens
        if window is not None and not _is_whole(window, WINDOW_TOKENS_MIN, TOKENS_MAX):
            raise BadInput(
                f"window_tokens is a whole number from {WINDOW_TOKENS_MIN}", field="window_tokens"
            )
        output_max = TOKENS_MAX if window is None else window - 1
        if not _is_whole(self.output_tokens, 1, output_max):
            raise BadInput(
                "output_tokens is a whole number from 1, smaller than window_tokens",
                field="output_tokens",
            )
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise BadInput("temperature is a number from 0 to 2", field="temperature")
        if not 0 < self.timeout_s <= TIMEOUT_S_MAX:
            raise BadInput(
                f"timeout_s is a number of seconds up to {TIMEOUT_S_MAX:g}", field="timeout_s"
            )

    @property
    def identity(self) -> str:
        """Digest of everything that determines an answer to one and the same request."""
        sampled = json.dumps([self.temperature, dict(self.params)], sort_keys=True)
        return digest(self.source, self.base_url.rstrip("/"), self.model, sampled).hex()

    def as_mapping(self) -> dict[str, Any]:
        """Plain values, as `from_mapping` reads them."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["params"] = dict(self.params)
        plain["limits"] = dict(_values(self.limits))
        plain["price"] = None if self.price is None else dict(_values(self.price))
        return plain


def from_mapping(given: Mapping[str, Any]) -> Profile:
    """A profile from JSON; `BadInput` for a field that does not exist or cannot be used."""
    _check_fields(Profile, given, "")
    values = dict(given)
    for name, kind in (("price", Price), ("limits", Limits)):
        if values.get(name) is None:
            values.pop(name, None)
        elif not isinstance(values[name], kind):
            part = as_object(values[name])
            _check_fields(kind, part, f"{name}.")
            values[name] = kind(**part)
    _check_types(values)
    return Profile(**values)


def check_url(base_url: str, *, private: bool = True) -> None:
    """`BadInput` for an address that a request must not go to.

    Plain http is for this machine and its own network: elsewhere a key could be read on the way.
    `private=False` is for a server with strangers among its users: they may name public hosts only.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        raise BadInput("base_url is no URL", field="base_url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput("base_url starts with https:// or http://", field="base_url")
    if parts.username is not None or parts.password is not None:
        # Not quoted: what stands there may be a password.
        raise BadInput("base_url holds no user name and no password", field="base_url")
    if parts.query or parts.fragment or any(c <= " " or c == "\x7f" for c in base_url):
        raise BadInput("base_url ends with a path: no ?query, no #fragment", field="base_url")
    _check_host(parts, private=private)


def _check_host(parts: SplitResult, *, private: bool) -> None:
    host = (parts.hostname or "").rstrip(".").lower()
    at_home = _is_at_home(host)
    if at_home is None:
        raise BadInput(f"no model answers at {host}", field="base_url")
    if at_home and not private:
        raise BadInput(f"{host} is a private address, which is not allowed here", field="base_url")
    if parts.scheme == "http" and not at_home:
        raise BadInput(
            f"{host} is not on this machine or its own network: use https://", field="base_url"
        )


def _is_at_home(host: str) -> bool | None:
    """Whether a host is on this machine or its network; None if no server can be meant."""
    try:
        address = ip_address(host)
    except ValueError:
        if _NUMBER_LIKE.fullmatch(host.rsplit(".", 1)[-1]):
            return None  # `134744072` is 8.8.8.8 to some resolvers
        return "." not in host or host.endswith(_PRIVATE_SUFFIXES)
    return _is_private(address)


def _is_private(address: IPv4Address | IPv6Address) -> bool | None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    # Link-local addresses are where clouds keep their own keys.
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return None
    return address.is_loopback or address.is_private


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise BadInput(f"a profile's name has 1 to {NAME_CHARS_MAX} characters", field="name")


def _check_limits(limits: Limits) -> None:
    for name, value in _values(limits):
        if value is not None and not _is_whole(value, 1, CALLS_MAX):
            raise BadInput(f"limits.{name} is a whole number from 1", field=f"limits.{name}")


def _check_params(params: Mapping[str, Any]) -> None:
    ours = sorted(OUR_PARAMS.intersection(params))
    if ours:
        raise BadInput(f"params.{ours[0]} is set elsewhere", field=f"params.{ours[0]}")
    try:
        size = len(json.dumps(dict(params)))
    except (TypeError, ValueError):
        raise BadInput("params is a JSON object", field="params") from None
    if size > PARAMS_BYTES_MAX:
        raise BadInput(f"params has at most {PARAMS_BYTES_MAX} bytes", field="params")


def _check_fields(kind: type[Any], given: Mapping[str, Any], prefix: str) -> None:
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadInput(f"a profile has no {prefix}{unknown[0]}", field=f"{prefix}{unknown[0]}")
    for f in fields(kind):
        needed = f.default is MISSING and f.default_factory is MISSING
        if needed and given.get(f.name) is None:
            raise BadInput(f"{prefix}{f.name} is missing", field=f"{prefix}{f.name}")


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "a text"),
    "source": ((str,), "a text"),
    "base_url": ((str,), "a text"),
    "model": ((str,), "a text"),
    "secret": ((str, type(None)), "env:NAME or file:PATH"),
    "temperature": ((int, float, type(None)), "a number"),
    "timeout_s": ((int, float), "a number of seconds"),
    "stream": ((bool,), "true or false"),
    "cache_marks": ((str,), "a text"),
    "params": ((Mapping,), "a JSON object"),
}


def _check_types(values: Mapping[str, Any]) -> None:
    """What arrives from outside may be of any type; whole numbers are checked with their range."""
    for name, (kinds, words) in _TYPES.items():
        value = values.get(name)
        misread = isinstance(value, bool) and bool not in kinds  # to Python, true is a number
        if name in values and (misread or not isinstance(value, kinds)):
            raise BadInput(f"{name} is {words}", field=name)


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _values(part: Price | Limits) -> Iterator[tuple[str, int | None]]:
    for f in fields(part):
        yield f.name, getattr(part, f.name)
