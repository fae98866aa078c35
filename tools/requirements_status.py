"""Says which requirement rows a test proves: docs/requirements-status.md, made from the marks.

Reads docs/requirements.tsv (every row), docs/declined.tsv (rows that are left out, with a reason)
and the `pytest.mark.proves("A-13", ...)` marks of tests/. `--check` writes nothing and fails when
the written file is out of date, or when a mark names a row that does not exist.
"""

from __future__ import annotations

import argparse
import ast
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

FAMILIES = {
    "A": "rolling summary",
    "B": "mini and volume summaries",
    "C": "plot summary and character sheet",
    "D": "history and recap",
    "E": "summary engine",
    "G": "gaps closed",
    "I": "invariants",
    "S": "scenarios",
}


class WrongInput(Exception):
    """The marks or the tables contradict each other; the message says where."""


@dataclass(frozen=True)
class Row:
    id: str
    tag: str
    text: str


@dataclass(frozen=True)
class Mark:
    test: str
    row_id: str


def read_table(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The lines of a tab-separated file below its header."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not lines or lines[0] != list(columns):
        raise WrongInput(f"{path}: the first line must be the columns {', '.join(columns)}")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(columns):
            raise WrongInput(f"{path}:{number}: {len(columns)} columns expected, found {len(line)}")
    return lines[1:]


def marks_of_file(path: Path, name: str) -> Iterator[Mark]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    yield from _marks_of_body(tree.body, name)


def _marks_of_body(body: Sequence[ast.stmt], owner: str) -> Iterator[Mark]:
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _marks_of_decorators(statement, owner)
            case ast.ClassDef():
                yield from _marks_of_decorators(statement, owner)
                yield from _marks_of_body(statement.body, f"{owner}::{statement.name}")
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield from _marks_in(value, owner)
            case ast.AnnAssign(target=ast.Name(id="pytestmark"), value=ast.expr() as value):
                yield from _marks_in(value, owner)
            case _:
                pass


def _marks_of_decorators(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, owner: str
) -> Iterator[Mark]:
    test = f"{owner}::{node.name}"
    for decorator in node.decorator_list:
        for mark in _marks_in(decorator, test):
            if not node.name.lower().startswith("test"):
                raise WrongInput(f"{test}: marked as a proof, but pytest does not collect it")
            yield mark


def _marks_in(expression: ast.expr, test: str) -> Iterator[Mark]:
    """Every proof mark inside an expression, so also those of single `pytest.param` cases."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and _is_proves(node.func):
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise WrongInput(f"{test}: name each proven row as a plain string")
                yield Mark(test, argument.value)


def _is_proves(function: ast.expr) -> bool:
    return ast.unparse(function) in {"pytest.mark.proves", "mark.proves"}


def find_marks(root: Path) -> list[Mark]:
    files = sorted((root / "tests").rglob("test_*.py"))
    return [
        mark for path in files for mark in marks_of_file(path, path.relative_to(root).as_posix())
    ]


def tests_by_row(marks: Sequence[Mark], known: set[str]) -> dict[str, list[str]]:
    unknown = sorted(
        f"{mark.test} names {mark.row_id}" for mark in marks if mark.row_id not in known
    )
    if unknown:
        raise WrongInput("unknown requirement row: " + "; ".join(unknown))
    found: dict[str, set[str]] = {}
    for mark in marks:
        found.setdefault(mark.row_id, set()).add(mark.test)
    return {row_id: sorted(tests) for row_id, tests in found.items()}


def read_declined(path: Path, rows: Sequence[Row], proven: Mapping[str, object]) -> dict[str, str]:
    declined = {line[0]: line[1] for line in read_table(path, ["id", "reason"])}
    known = {row.id for row in rows}
    for row_id, reason in declined.items():
        if row_id not in known:
            raise WrongInput(f"{path}: unknown requirement row: {row_id}")
        if row_id in proven:
            raise WrongInput(f"{path}: {row_id} is declined, yet a test proves it")
        if not reason.strip():
            raise WrongInput(f"{path}: {row_id} is declined without a reason")
    return declined


def render(
    rows: Sequence[Row], proven: Mapping[str, Sequence[str]], declined: Mapping[str, str]
) -> str:
    counts = (len(rows), len(proven), len(declined), len(rows) - len(proven) - len(declined))
    lines = [
        "Requirements: {} rows, {} proven, {} declined, {} open.".format(*counts),
        "",
        "Made by `make status` from the marks in `tests/`; not edited by hand.",
    ]
    for family, members in groupby(rows, key=lambda row: row.id[0]):
        lines += ["", f"## {family}: {FAMILIES.get(family, 'other')}", ""]
        lines += ["| id | status | proven by | text |", "|---|---|---|---|"]
        lines += [_table_line(row, proven.get(row.id, ()), declined.get(row.id)) for row in members]
    return "\n".join(lines) + "\n"


def _table_line(row: Row, tests: Sequence[str], declined_for: str | None) -> str:
    status = "proven" if tests else "open"
    if declined_for is not None:
        status = f"declined: {_cell(declined_for)}"
    return f"| {row.id} | {status} | {_cell('<br>'.join(tests), html=True)} | {_cell(row.text)} |"


def _cell(text: str, *, html: bool = False) -> str:
    """Text that can't end its cell; angle brackets of a requirement are not tags."""
    text = text.replace("|", "\\|")
    return text if html else text.replace("<", "&lt;")


def status_of(root: Path) -> str:
    """The status file as it should be now."""
    rows = [
        Row(*line) for line in read_table(root / "docs/requirements.tsv", ["id", "tag", "text"])
    ]
    proven = tests_by_row(find_marks(root), {row.id for row in rows})
    declined = read_declined(root / "docs/declined.tsv", rows, proven)
    return render(rows, proven, declined)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which requirement rows do the tests prove?")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args(argv)
    target: Path = options.root / "docs/requirements-status.md"
    try:
        wanted = status_of(options.root)
    except WrongInput as wrong:
        print(f"requirements: {wrong}", file=sys.stderr)
        return 1
    if not options.check:
        target.write_text(wanted, encoding="utf-8")
    elif not target.is_file() or target.read_text(encoding="utf-8") != wanted:
        print("docs/requirements-status.md is out of date: run `make status`", file=sys.stderr)
        return 1
    print(wanted.splitlines()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
