"""The reference parts of the documentation leave nothing out: each list is held to its source."""

from __future__ import annotations

import argparse
import inspect
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from previously import cli, errors
from previously.errors import PreviouslyError
from previously.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "previously"
READMES = (ROOT / "README.md", ROOT / "README.zh.md")
PAGES = (*READMES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))

in_both_readmes = pytest.mark.parametrize(
    "readme", [path.read_text(encoding="utf-8") for path in READMES], ids=["en", "zh"]
)


def sources(folder: Path = SOURCE) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def row(page: str, name: str) -> list[str]:
    """The cells of the table row that is about `name`."""
    line = next((line for line in page.splitlines() if line.startswith(f"| `{name}` |")), None)
    assert line is not None, f"no row for {name}"
    return [cell.strip() for cell in line.strip("|").split("|")]


def as_written(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


@in_both_readmes
@pytest.mark.parametrize("name", [f.name for f in fields(Settings)])
def test_every_setting_stands_there_with_its_default_range_and_variable(readme: str, name: str):
    setting = next(f for f in fields(Settings) if f.name == name)
    _, default, limits, variable, meaning = row(readme, name)
    assert default == as_written(setting.default)
    assert variable == f"`PREVIOUSLY_{name.upper()}`"
    assert meaning
    coerce = setting.metadata["coerce"]
    if isinstance(setting.default, int) and not isinstance(setting.default, bool):
        assert limits == f"{coerce(-(10**18)):,}–{coerce(10**18):,}"
    else:
        for word in limits.split(", "):
            coerce(word)


def parsers() -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in cli._parser()._actions:
        if isinstance(action.choices, dict):
            found.update(cast(dict[str, argparse.ArgumentParser], action.choices))
    return found


@in_both_readmes
@pytest.mark.parametrize("name", sorted(parsers()))
def test_every_command_and_option_is_named(readme: str, name: str):
    assert f"`previously {name}" in readme
    for action in parsers()[name]._actions:
        for option in action.option_strings:
            assert option == "-h" or re.search(rf"`{option}[ `]", readme), option


@in_both_readmes
def test_every_variable_of_the_environment_is_named(readme: str):
    read = {f"PREVIOUSLY_{name}" for name in re.findall(r"environment\(\"(\w+)\"\)", sources())}
    read |= set(re.findall(r"PREVIOUSLY_[A-Z_]*[A-Z]", sources()))
    assert {name for name in read if f"`{name}" not in readme} == set()


@in_both_readmes
def test_every_header_and_route_is_named(readme: str):
    web = sources(SOURCE / "web")
    headers = set(re.findall(r"[\"']x-previously-(\w+(?:-\w+)*)[\"']", web, re.IGNORECASE))
    assert len(headers) >= 5
    rows = set(re.findall(r"^\| `X-Previously-([\w-]+)", readme, re.MULTILINE))
    assert {name.lower() for name in rows} == {name.lower() for name in headers}
    page = (SOURCE / "web" / "pages.py").read_text(encoding="utf-8")  # its files are no interface
    routes = re.findall(r"Route\(\s*\"(/[^{][^\"]+)\"", web.replace(page, ""))
    assert len(routes) >= 3
    names = {"{chat:path}": "NAME", "{rest:path}": "…", "{response}": "ID"}
    written = {re.sub(r"\{[^}]+\}", lambda m: names[m[0]], route) for route in routes}
    assert {route for route in written if route not in readme} == set()


def test_every_module_has_its_paragraph():
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = {f"{path.stem}.py" for path in SOURCE.glob("*.py") if path.stem != "__init__"}
    modules |= {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in modules if f"**`{name}`**" not in page} == set()


def test_the_layers_are_those_that_are_checked():
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    assert "\n".join(layers) in page


def test_the_tree_of_errors_is_drawn_as_it_is():
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)( {2}|$)", line)
        if not found:
            continue
        depth, name = len(found[1]), found[2]
        while path and path[-1][0] >= depth:
            path.pop()
        drawn[name] = path[-1][1] if path else "Exception"
        path.append((depth, name))
    real = {
        name: made.__base__.__name__
        for name, made in inspect.getmembers(errors, inspect.isclass)
        if issubclass(made, PreviouslyError) and made.__base__ is not None
    }
    assert drawn == real


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_decisions_are_numbered_without_a_gap_and_say_all_three_things():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]} ")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences"))


def test_the_glossary_has_the_nouns_of_the_model():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = ("chat", "message", "summary", "snapshot", "backlog", "task", "draft", "attempt")
    words += ("block", "prompt", "trace", "lane", "cover", "tail", "fold", "hole", "candidate")
    assert [word for word in words if f"| {word} |" not in page] == []
