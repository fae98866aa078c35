"""Template: named values take their places in one pass; whatever they contain stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The specifications name one thing differently: A writes summary and history, C sheet and dialogue.
# A template written for one must work in every lane, so each name on the left reads as the right.
ALIASES: Mapping[str, str] = {
    "previous_sheet": "previous_summary",
    "new_dialogue": "new_history",
    "sheet": "summary",
}

_PLACEHOLDER = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with every known placeholder replaced; an unknown one stays as written.

    A value given under the very name wins over one given under its alias.
    """
    by_alias = {_own_name(name): value for name, value in values.items()}
    by_name = {name.lower(): value for name, value in values.items()}

    # A function, not a replacement string: a value's backslashes and group marks mean nothing.
    def value_of(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        value = by_name.get(name.lower())
        return by_alias.get(_own_name(name), placeholder[0]) if value is None else value

    return _PLACEHOLDER.sub(value_of, template)


def missing(template: str, required: Iterable[str]) -> tuple[str, ...]:
    """The required names, as given and in that order, that the template has no placeholder for."""
    present = {_own_name(name) for name in _PLACEHOLDER.findall(template)}
    return tuple(name for name in required if _own_name(name) not in present)


def unknown(template: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names, as written and once each, that a template asks for and nobody will give."""
    given = {_own_name(name) for name in known}
    asked = dict.fromkeys(_PLACEHOLDER.findall(template))
    return tuple(name for name in asked if _own_name(name) not in given)


def _own_name(name: str) -> str:
    lowered = name.lower()
    return ALIASES.get(lowered, lowered)
