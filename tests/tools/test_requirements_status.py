"""The status file says what the marks say, and the check notices when it no longer does."""

from pathlib import Path

import pytest

from tools.requirements_status import main, status_of

ROWS = """\
id\ttag\ttext
A-01\tcore\tRemembers a | fact.
A-02\tnfr\tNever <blocks>.
G-01\tS1\tMini first.
"""
ONE_CASE = """
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.proves("A-01"))])
def test_a(n): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("docs", "tests/core"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/requirements.tsv").write_text(ROWS, encoding="utf-8")
    decline(tmp_path)
    return tmp_path


def decline(root: Path, *lines: str) -> None:
    text = "".join(f"{line}\n" for line in ("id\treason", *lines))
    (root / "docs/declined.tsv").write_text(text, encoding="utf-8")


def write_test(root: Path, source: str) -> None:
    (root / "tests/core/test_lane.py").write_text(f"import pytest\n{source}\n", encoding="utf-8")


def line_of(root: Path, row_id: str) -> str:
    return next(line for line in status_of(root).splitlines() if line.startswith(f"| {row_id} |"))


def test_rows_that_no_test_names_are_open(root: Path):
    status = status_of(root)
    assert status.splitlines()[0] == "Requirements: 3 rows, 0 proven, 0 declined, 3 open."
    assert "## A: rolling summary" in status
    assert "## G: gaps closed" in status


def test_text_cannot_break_its_table(root: Path):
    assert line_of(root, "A-01") == "| A-01 | open |  | Remembers a \\| fact. |"
    assert line_of(root, "A-02") == "| A-02 | open |  | Never &lt;blocks>. |"


@pytest.mark.parametrize(
    ("source", "test_id"),
    [
        ("@pytest.mark.proves('A-01')\ndef test_a(): ...", "::test_a"),
        ("@pytest.mark.proves('G-01', 'A-01')\nasync def test_a(): ...", "::test_a"),
        ("@pytest.mark.proves('A-01')\nclass TestA: ...", "::TestA"),
        ("class TestA:\n  @pytest.mark.proves('A-01')\n  def test_b(self): ...", "::TestA::test_b"),
        ("class TestA:\n  pytestmark = pytest.mark.proves('A-01')", "::TestA"),
        ("pytestmark = [pytest.mark.slow, pytest.mark.proves('A-01')]", ""),
        ("pytestmark: list[object] = [pytest.mark.proves('A-01')]", ""),
        (ONE_CASE, "::test_a"),
    ],
)
def test_a_mark_is_found_wherever_pytest_accepts_it(root: Path, source: str, test_id: str):
    write_test(root, source)
    expected = f"| A-01 | proven | tests/core/test_lane.py{test_id} | Remembers a \\| fact. |"
    assert line_of(root, "A-01") == expected


def test_several_tests_of_one_row_are_listed_once_each_in_order(root: Path):
    mark = "@pytest.mark.proves('A-02', 'A-02')\n"
    write_test(root, f"{mark}def test_b(): ...\n{mark}def test_a(): ...")
    file = "tests/core/test_lane.py"
    assert f"| {file}::test_a<br>{file}::test_b |" in line_of(root, "A-02")
    assert status_of(root).startswith("Requirements: 3 rows, 1 proven, 0 declined, 2 open.")


def test_a_declined_row_shows_its_reason(root: Path):
    decline(root, "A-02\tnot for this product")
    assert "declined: not for this product" in line_of(root, "A-02")
    assert status_of(root).startswith("Requirements: 3 rows, 0 proven, 1 declined, 2 open.")


def test_the_check_passes_only_while_the_written_file_is_current(
    root: Path, capsys: pytest.CaptureFixture[str]
):
    check = ["--check", "--root", str(root)]
    assert main(check) == 1
    assert main(["--root", str(root)]) == 0
    assert main(check) == 0
    write_test(root, "@pytest.mark.proves('A-01')\ndef test_a(): ...")
    assert main(check) == 1
    assert "run `make status`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@pytest.mark.proves('A-99')\ndef test_a(): ...", "test_lane.py::test_a names A-99"),
        ("@pytest.mark.proves(ROW)\ndef test_a(): ...", "name each proven row as a plain string"),
        ("@pytest.mark.proves('A-01')\ndef helper(): ...", "pytest does not collect it"),
    ],
)
def test_a_wrong_mark_is_refused_by_name(
    root: Path, capsys: pytest.CaptureFixture[str], source: str, message: str
):
    write_test(root, source)
    assert main(["--root", str(root)]) == 1
    assert message in capsys.readouterr().err
    assert not (root / "docs/requirements-status.md").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A-99\tno", "unknown requirement row: A-99"),
        ("A-01\tno", "A-01 is declined, yet a test proves it"),
        ("A-02\t", "A-02 is declined without a reason"),
        ("A-02", "2 columns expected, found 1"),
    ],
)
def test_a_wrong_line_of_the_declined_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
):
    write_test(root, "@pytest.mark.proves('A-01')\ndef test_a(): ...")
    decline(root, line)
    assert main(["--root", str(root)]) == 1
    assert message in capsys.readouterr().err


def test_a_table_without_its_header_is_refused(root: Path, capsys: pytest.CaptureFixture[str]):
    (root / "docs/declined.tsv").write_text("", encoding="utf-8")
    assert main(["--root", str(root)]) == 1
    assert "the first line must be the columns id, reason" in capsys.readouterr().err
