"""`previously demo`: one command, no key, no network, the same answer each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import run

pytestmark = pytest.mark.timeout(180)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_promise_of_floor_twelve_is_in_the_prompt_of_the_last_floor(
    language: str, tmp_path: Path
):
    data = ("--data", str(tmp_path), "--language", language)
    first = run("demo", "--json", *data)
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["floors"] == 416
    assert report["summaries"]["mini"] > 190
    assert report["prompt_tokens"] <= report["budget_tokens"] == 8_000
    assert report["prompt_tokens"] * 4 < report["history_tokens"]
    assert sum(tokens for tokens, _ in report["parts"].values()) == report["prompt_tokens"]
    assert report["found"] in ("fragment", "summary")
    assert report["covers"][0].startswith("mini ")
    assert report["shown_by"] in report["covers"]
    again = json.loads(run("demo", "--json", *data).stdout)  # the story is there already
    assert {**again, "seconds": 0} == {**report, "seconds": 0}
    prompt = json.loads(run("prompt", f"demo-{language}", "--json", *data[:2]).stdout)
    assert any(report["promise"] in str(m["content"]) for m in prompt["messages"])
    text = run("demo", *data).stdout
    assert report["promise"] in text
    assert report["question"] in text


@pytest.mark.slow
def test_a_small_budget_is_kept_and_a_chat_may_have_any_name(tmp_path: Path):
    words = ("--data", str(tmp_path), "--chat", "tide", "--budget-tokens", "2000", "--json")
    report = json.loads(run("demo", *words).stdout)
    assert report["prompt_tokens"] <= report["budget_tokens"] == 2_000
    assert report["chat"] == "tide"


@pytest.mark.slow
def test_a_profile_is_not_asked(tmp_path: Path):
    data = ("--data", str(tmp_path))
    url = ("--base-url", "http://127.0.0.1:9/v1", "--model", "nobody-there")
    run("profile", "add", "main", *url, *data)
    report = json.loads(run("demo", "--json", *data).stdout)
    assert report["summaries"]["mini"] > 190
    assert "No model was asked yet" in run("usage", *data).stdout
