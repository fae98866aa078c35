"""Layered settings: what a chat uses, coerced and clamped, never a crash for a bad value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import isnan
from typing import Any, NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from previously.errors import BadInput

# Shares of the budget that is left after fixed blocks.
TAIL_SHARE = 0.35  # the tail at its low mark
TAIL_SHARE_MAX = 0.60  # what it may grow to: its own share and those that nothing else uses
COVERS_SHARE = 0.40
FRAGMENTS_SHARE = 0.15

COVERS_LOADED_MAX = 400  # summaries; a fold shows fewer
BUDGET_MIN = 256
TAIL_LOADED_MAX = 600  # messages of a tail that waits for its summaries; no budget holds more

RULES_MAX = 50
PATTERN_BYTES_MAX = 4_096
JS_FLAGS = frozenset("dgimsuvy")

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})


class Rule(Protocol):
    """Turns what somebody wrote into a value, or raises; says what it takes."""

    @property
    def type(self) -> str: ...

    def __call__(self, value: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Whole:
    """A whole number, brought to the nearest end of its range."""

    minimum: int
    maximum: int
    type: str = "whole"

    def __call__(self, value: Any) -> int:
        return max(self.minimum, min(self.maximum, int(float(value))))


def _whole(low: int, high: int) -> Rule:
    return _Whole(low, high)


@dataclass(frozen=True, slots=True)
class _Flag:
    """On or off."""

    type: str = "flag"

    def __call__(self, value: Any) -> bool:
        if isinstance(value, str):
            word = value.strip().lower()
            if word in TRUE_WORDS or word in FALSE_WORDS:
                return word in TRUE_WORDS
            raise ValueError(value)
        return bool(value)


_flag = _Flag()


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number, brought to the nearest end of its range."""

    minimum: float
    maximum: float
    type: str = "amount"

    def __call__(self, value: Any) -> float:
        number = float(value)
        if isnan(number):
            raise ValueError(value)
        return max(self.minimum, min(self.maximum, number))


def _amount(low: float, high: float) -> Rule:
    return _Amount(low, high)


@dataclass(frozen=True, slots=True)
class _Text:
    """One line of text."""

    max_chars: int
    type: str = "text"

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.max_chars or not value.isprintable():
            raise ValueError(value)
        return value.strip()


def _text(chars_max: int) -> Rule:
    return _Text(chars_max)


@dataclass(frozen=True, slots=True)
class _Template:
    """Lines of text with names for what is filled in; empty: our own."""

    max_chars: int
    type: str = "template"

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.max_chars:
            raise ValueError(value)
        plain = value.replace("\r\n", "\n").replace("\n", "").replace("\t", "")
        if not plain.isprintable():
            raise ValueError(value)
        return value.replace("\r\n", "\n").strip()


_template = _Template(20_000)


@dataclass(frozen=True, slots=True)
class _Zone:
    """A time zone by its name."""

    max_chars: int = 80
    type: str = "text"

    def __call__(self, value: Any) -> str:
        if value == "UTC":  # known everywhere, also where no table of zones is installed
            return "UTC"
        try:
            return ZoneInfo(str(value)[: self.max_chars]).key
        except (ZoneInfoNotFoundError, OSError) as error:
            raise ValueError(value) from error


_zone = _Zone()


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One of some words."""

    choices: tuple[str, ...]
    type: str = "choice"

    def __call__(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return str(value)


def _one_of(*words: str) -> Rule:
    return _OneOf(words)


class CleanupRule(NamedTuple):
    """What is to be replaced in a message before it is summarised, as JavaScript has it."""

    pattern: str
    flags: str = "g"
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class _Rules:
    """Clean-up rules as a JSON list; kept as the text that says the same shortest."""

    max_chars: int = 20_000
    type: str = "rules"

    def __call__(self, value: Any) -> str:
        found = json.loads(value or "[]") if isinstance(value, str) else value
        if not isinstance(found, list) or len(cast(list[Any], found)) > RULES_MAX:
            raise ValueError(value)
        rules = [_rule(one) for one in cast(list[Any], found)]
        text = json.dumps([rule._asdict() for rule in rules], ensure_ascii=False)
        if len(text) > self.max_chars:
            raise ValueError(value)
        return text


def _rule(said: Any) -> CleanupRule:
    rule = CleanupRule(**said)
    parts = cast("tuple[object, ...]", rule)
    if (
        not all(isinstance(part, str) for part in parts)
        or not 0 < len(rule.pattern.encode()) <= PATTERN_BYTES_MAX
    ):
        raise ValueError(said)
    if set(rule.flags) - JS_FLAGS or len(set(rule.flags)) < len(rule.flags):
        raise ValueError(said)
    return rule


def cleanup_rules(text: str) -> tuple[CleanupRule, ...]:
    """The rules that a setting holds."""
    return tuple(CleanupRule(**one) for one in json.loads(text))


_rules = _Rules()


def _setting(default: Any, coerce: Callable[[Any], Any], help_text: str) -> Any:
    return field(default=default, metadata={"coerce": coerce, "help": help_text})


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of one chat."""

    budget_tokens: int = _setting(
        8_000, _whole(BUDGET_MIN, 10_000_000), "largest prompt to build, in tokens"
    )
    visible_floors: int = _setting(
        20, _whole(1, 100), "newest messages always kept verbatim (low mark)"
    )
    fold_every: int = _setting(
        20, _whole(1, 1_000), "messages the tail may grow beyond that before it is folded"
    )
    enabled: bool = _setting(
        default=True, coerce=_flag, help_text="let summaries stand for old messages at all"
    )
    auto_mini_summary: bool = _setting(
        default=True, coerce=_flag, help_text="write mini summaries in the background"
    )
    mini_tokens: int = _setting(120, _whole(24, 2_000), "largest mini summary, in tokens")
    minis_per_call: int = _setting(
        4, _whole(1, 16), "mini summaries asked for in one call where several wait"
    )
    language: str = _setting(
        "auto", _one_of("auto", "zh", "en"), "language of summaries and labels"
    )

    auto_volume_summary: bool = _setting(
        default=True, coerce=_flag, help_text="make volumes of mini summaries in the background"
    )
    check_interval: int = _setting(
        20, _whole(5, 100), "mini summaries between two looks whether a volume is finished"
    )
    volume_token_threshold: int = _setting(
        8_000, _whole(1_000, 50_000), "tokens of mini summaries that make a volume by themselves"
    )
    max_unarchived_minis: int = _setting(
        60, _whole(10, 1_000), "mini summaries that may stand without a volume"
    )
    volume_tokens: int = _setting(300, _whole(64, 8_000), "largest volume, in tokens")
    era_tokens: int = _setting(600, _whole(64, 16_000), "largest summary of volumes, in tokens")
    related: bool = _setting(
        default=True, coerce=_flag, help_text="quote old messages that the newest turn calls up"
    )
    retry_on_overflow: bool = _setting(
        default=True, coerce=_flag, help_text="send less when the model's window is too small"
    )
    summary_profile: str = _setting(
        "", _text(80), "profile of the model that writes summaries (empty: main, else extracts)"
    )
    fallback_to_main: bool = _setting(
        default=True, coerce=_flag, help_text="ask profile main when summary_profile cannot answer"
    )
    max_latency_ms: int = _setting(
        0, _whole(0, 3_600_000), "longest wait for one answer (0: as the profile says)"
    )
    monthly_budget_usd: float = _setting(
        5.0, _amount(0, 1_000_000), "what summaries may cost in a month, in US dollars"
    )
    time_zone: str = _setting("UTC", _zone, "time zone in which a month begins")
    mini_prompt: str = _setting(
        "", _template, "your own words that ask for a mini summary (empty: ours)"
    )
    volume_prompt: str = _setting(
        "", _template, "your own words that ask for a volume (empty: ours)"
    )
    capture_start_tag: str = _setting(
        "", _text(200), "summarise only what follows this tag in a message (empty: all)"
    )
    capture_end_tag: str = _setting(
        "", _text(200), "summarise a message only up to this tag (empty: to its end)"
    )
    message_cleanup_regex: str = _setting(
        "[]", _rules, "what is replaced in messages before they are summarised, as a JSON list"
    )
    history_page_size: int = _setting(100, _whole(10, 500), "floors on one page of the history")

    @property
    def covers_share(self) -> float:
        """Of the room, for summaries; where nothing is recalled they may have that share too."""
        return COVERS_SHARE + (0 if self.related else FRAGMENTS_SHARE)

    @property
    def high_mark(self) -> int:
        """The number of verbatim messages at which the tail is folded."""
        return self.visible_floors + self.fold_every


class Field(NamedTuple):
    """What a form needs to know about one setting."""

    name: str
    type: Any  # whole | flag | amount | text | template | choice | rules
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...] | None
    max_chars: int | None


def schema() -> tuple[Field, ...]:
    """Every setting, in the order in which they are written down."""
    return tuple(
        _described(f.name, f.metadata["coerce"], f.metadata["help"]) for f in fields(Settings)
    )


def _described(name: str, rule: Rule, help_text: str) -> Field:
    limits = ("minimum", "maximum", "choices", "max_chars")
    return Field(name, rule.type, help_text, *(getattr(rule, limit, None) for limit in limits))


def layered(*layers: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
    """Defaults under each layer in turn; the names of values that could not be used."""
    known = {f.name: f.metadata["coerce"] for f in fields(Settings)}
    values: dict[str, Any] = {}
    refused: list[str] = []
    for layer in layers:
        for name, raw in layer.items():
            try:
                values[name] = known[name](raw)
            except (KeyError, TypeError, ValueError, OverflowError):
                refused.append(name)
    return replace(Settings(), **values), tuple(refused)


def checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes coerced and clamped, or `BadInput` that names the first bad one."""
    known = {f.name: f.metadata for f in fields(Settings)}
    result: dict[str, Any] = {}
    for name, raw in changes.items():
        if name not in known:
            raise BadInput(f"unknown setting {name!r}; known: {', '.join(known)}", field=name)
        if raw is None:  # back to what stands below
            result[name] = None
            continue
        try:
            result[name] = known[name]["coerce"](raw)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadInput(
                f"{name}: cannot use {raw!r} ({known[name]['help']})", field=name
            ) from error
    return result


# Names that other programs' settings have for the same thing.
ALSO_NAMED = {"SUMMARY_RETRY_ON_CONTEXT_OVERFLOW": "retry_on_overflow"}


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings named PREVIOUSLY_<NAME> in the environment, or as other programs name them."""
    prefix = "PREVIOUSLY_"
    found = {name: environ[other] for other, name in ALSO_NAMED.items() if other in environ}
    return found | {
        f.name: environ[prefix + f.name.upper()]
        for f in fields(Settings)
        if prefix + f.name.upper() in environ
    }
