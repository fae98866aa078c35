"""`previously profile`, `summarize` and `usage`, as somebody types them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from previously.cli import main
from tests.cli.serving import Served, served

KEY = "sk-typed-by-nobody-77"


@pytest.fixture
def upstream() -> Iterator[Served]:
    with served() as made:
        yield made


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", KEY)


def run(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str, str]:
    code = main([*words, "--data", str(folder)])
    said = capsys.readouterr()
    assert KEY not in said.out + said.err
    return code, said.out, said.err


def add(capsys: pytest.CaptureFixture[str], folder: Path, url: str, *more: str) -> None:
    words = ("--base-url", url, "--model", "small", "--secret", "env:MODEL_KEY", *more)
    assert run(capsys, folder, "profile", "add", "cheap", *words)[0] == 0


def test_a_profile_is_made_listed_tried_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], upstream: Served
):
    add(capsys, tmp_path, upstream.url, "--price", "1,2", "--window-tokens", "8000")
    code, out, _ = run(capsys, tmp_path, "profile", "list")
    assert code == 0
    assert f"cheap: small at {upstream.url} (openai, key in env:MODEL_KEY, window 8000)" in out
    code, out, _ = run(capsys, tmp_path, "profile", "list", "--json")
    assert json.loads(out)[0]["price"]["input_micro"] == 1_000_000
    code, out, _ = run(capsys, tmp_path, "profile", "test", "cheap")
    assert code == 0
    assert "answers after" in out
    assert "$1 per million" in out
    assert run(capsys, tmp_path, "profile", "rm", "cheap")[0] == 0
    code, _, err = run(capsys, tmp_path, "profile", "test", "cheap")
    assert code == 1
    assert "no profile named 'cheap'" in err


def test_a_profile_that_does_not_work_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    add(capsys, tmp_path, "http://127.0.0.1:9/v1", "--timeout-s", "2")
    code, out, _ = run(capsys, tmp_path, "profile", "test", "cheap")
    assert code == 1
    assert "is the server running?" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--base-url", "ftp://x/v1", "--model", "m"), "https://"),
        (("--base-url", "http://example.com/v1", "--model", "m"), "use https://"),
        (("--base-url", "http://127.0.0.1/v1", "--model", ""), "model"),
        (("--base-url", "http://127.0.0.1/v1", "--model", "m", "--secret", "sk-1"), "env:NAME"),
        (("--base-url", "http://127.0.0.1/v1", "--model", "m", "--price", "1"), "--price"),
        (("--base-url", "http://127.0.0.1/v1", "--model", "m", "--params", "[]"), "--params"),
    ],
)
def test_a_bad_profile_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
):
    code, _, err = run(capsys, tmp_path, "profile", "add", "bad", *words)
    assert code == 2
    assert said in err


def test_a_file_is_summarised_by_extracts_without_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "Mara promised to bring 17 candles on Thursday. " * 3 + "It rained. " * 400
    (tmp_path / "story.txt").write_text(text, encoding="utf-8")
    words = ("summarize", str(tmp_path / "story.txt"), "--budget-tokens", "60")
    code, out, err = run(capsys, tmp_path, *words)
    assert code == 0
    assert "17 candles" in out
    assert "tokens became" in err
    code, out, _ = run(capsys, tmp_path, *words, "--json")
    told = json.loads(out)
    assert told["tokens_after"] <= 60 < told["tokens_before"]
    assert told["cost_usd"] == 0


def test_a_file_larger_than_the_window_is_summarised_in_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], upstream: Served
):
    upstream.fake.window_tokens = 2_000
    upstream.fake.answer = lambda _: "Ada keeps the seventeen keys of the house."
    add(capsys, tmp_path, upstream.url, "--window-tokens", "2000", "--output-tokens", "100")
    text = "\n\n".join(f"Ada hangs key {n} on its nail and tells nobody." for n in range(400))
    (tmp_path / "long.txt").write_text(text, encoding="utf-8")
    words = ("summarize", str(tmp_path / "long.txt"), "--profile", "cheap", "--json")
    code, out, err = run(capsys, tmp_path, *words)
    assert code == 0
    told = json.loads(out)
    assert told["summary"] == "Ada keeps the seventeen keys of the house."
    assert told["stats"]["chunk_count"] > 2
    assert told["stats"]["truncated"] is False
    assert told["cost_usd"] is None  # nobody knows its price
    assert "answers" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.txt",), "cannot be read"),
        (("empty.txt",), "nothing to summarise"),
        (("story.txt", "--preset", "odd"), "unknown preset"),
    ],
)
def test_what_cannot_be_summarised_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "story.txt").write_text("A story.")
    code, _, err = run(capsys, tmp_path, "summarize", *words)
    assert code == 2
    assert said in err


def test_usage_of_a_new_memory_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(capsys, tmp_path, "migrate")[0] == 0
    code, out, _ = run(capsys, tmp_path, "usage")
    assert code == 0
    assert "extracts cost nothing" in out
    assert json.loads(run(capsys, tmp_path, "usage", "--by", "profile", "--json")[1]) == []


def test_threads_are_gone_when_a_command_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = threading.active_count()
    run(capsys, tmp_path, "migrate")
    run(capsys, tmp_path, "profile", "list")
    assert threading.active_count() == before
