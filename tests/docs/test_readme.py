"""What the documentation promises: its snippets run as they stand, and it leaves nothing out."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.zh.md")
BIN = Path(sys.executable).parent

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HOW = re.compile(r"#\d+ +(?:user|assistant) +(?P<how>verbatim|summary s\d+) ")


def fenced(readme: Path, language: str) -> list[str]:
    found = _FENCED.findall(readme.read_text(encoding="utf-8"))
    return [body for kind, body in found if kind == language]


def command(readme: Path, containing: str) -> list[str]:
    """A command of the README, with the programs of this environment."""
    line = next(body for body in fenced(readme, "sh") if containing in body)
    words = shlex.split(line)
    return [str(BIN / words[0].removeprefix(".venv/bin/")), *words[1:]]


def environment(folder: Path, **more: str) -> dict[str, str]:
    inherited = os.environ.items()  # noqa: TID251 - a child needs PATH and the like
    kept = {k: v for k, v in inherited if not k.startswith("PREVIOUSLY_")}
    return {**kept, "PREVIOUSLY_DATA": str(folder), "PYTHONIOENCODING": "utf-8", **more}


def run(words: Sequence[str], folder: Path, timeout_s: float = 45, **more: str) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script(text: str, folder: Path, timeout_s: float = 45) -> str:
    (folder / "script.py").write_text(text, encoding="utf-8")
    return run([sys.executable, "script.py"], folder, timeout_s)


@contextmanager
def started(words: Sequence[str], folder: Path, **more: str) -> Generator[str]:
    """The address that a server prints; it is gone when the block ends."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            addresses = (re.search(r"http://(127\.0\.0\.1:\d+)", line) for line in process.stdout)
            yield next(found[1] for found in addresses if found)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_library_snippet_runs_as_it_stands(readme: Path, tmp_path: Path):
    snippet = next(body for body in fenced(readme, "python") if "Memory.open" in body)
    said = run_script(snippet, tmp_path).splitlines()
    tokens = int(re.findall(r"\d+", said[0])[1])
    assert 0 < tokens <= 1000
    minis = [line for line in said if line.startswith("mini ready 2 ")]
    assert len(minis) >= 80
    assert any("89" in line for line in minis)
    assert (tmp_path / "story.db").exists()


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_snippet_about_changes_runs_as_it_stands(readme: Path, tmp_path: Path):
    snippet = next(body for body in fenced(readme, "python") if "edit_summary" in body)
    said = run_script(snippet, tmp_path).splitlines()
    assert any(word in "".join(said[:-1]) for word in ("lantern", "灯笼"))
    assert said[-1].startswith("1 ")


@dataclass(frozen=True)
class Demo:
    """What the three terminals of the demonstration showed."""

    largest_tokens: int
    client_tokens: int
    trace: list[str]


def demonstrate(folder: Path, turns: int, budget_tokens: int, timeout_s: float) -> Demo:
    readme = READMES[0]

    def at_budget(words: list[str]) -> list[str]:
        return [str(budget_tokens) if word == "4000" else word for word in words]

    with ExitStack() as stack:
        fake = [("0" if word == "8378" else word) for word in command(readme, "previously.testing")]
        upstream = stack.enter_context(started(fake, folder))
        serve = [
            word.replace("127.0.0.1:8378", upstream)
            for word in at_budget(command(readme, "previously serve"))
        ]
        address = stack.enter_context(started(serve, folder, PREVIOUSLY_PORT="0"))
        script = next(body for body in fenced(readme, "python") if "OpenAI(" in body)
        script = script.replace("127.0.0.1:8377", address).replace("range(300)", f"range({turns})")
        said = run_script(script, folder, timeout_s)
        largest, client = (int(re.findall(r"\d+", line)[0]) for line in said.splitlines())
        trace = settled_trace(at_budget(command(readme, "previously prompt")), folder)
    return Demo(largest, client, trace)


def settled_trace(words: list[str], folder: Path) -> list[str]:
    """The trace, once the background has caught up."""
    deadline = time.monotonic() + 15
    while True:
        trace = run(words, folder).splitlines()
        late = [line for line in trace if line.startswith("#") and not _HOW.match(line)]
        if not late or time.monotonic() > deadline:
            return trace
        time.sleep(0.2)


def check(demo: Demo, turns: int, budget_tokens: int) -> None:
    assert demo.largest_tokens <= budget_tokens < demo.client_tokens
    lines = [line for line in demo.trace if line.startswith("#")]
    assert len(lines) == 2 * turns
    hows = [found["how"].split(" s")[0] for line in lines if (found := _HOW.match(line))]
    assert len(hows) == len(lines), [line for line in lines if not _HOW.match(line)][:3]
    assert set(hows) == {"verbatim", "summary"}
    assert hows == sorted(hows), "summaries first, then the tail"


def test_a_short_demonstration_stays_within_its_budget(tmp_path: Path):
    check(demonstrate(tmp_path, 60, 1000, timeout_s=45), 60, 1000)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_whole_demonstration_shows_what_the_readme_says(tmp_path: Path):
    demo = demonstrate(tmp_path, 300, 4000, timeout_s=200)
    check(demo, 300, 4000)
    for readme in READMES:
        sample = next(body for body in fenced(readme, "text") if "\nFold " in body).splitlines()
        shapes = {shape(line) for line in demo.trace}
        shown = [line for line in sample if line.strip() != "…"]
        assert len(shown) >= 8
        assert [line for line in shown if shape(line) not in shapes] == []


def shape(line: str) -> str:
    """A line but for its numbers and how many blanks make room for them."""
    return " ".join(re.sub(r"\d[\d,.]*", "0", line).split())[:60]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
@pytest.mark.timeout(120)
def test_the_first_demonstration_shows_what_the_readme_says(readme: Path, tmp_path: Path):
    said = run(command(readme, "previously demo"), tmp_path, timeout_s=100).splitlines()
    sample = demo_sample(readme).splitlines()
    assert [demo_shape(line) for line in sample] == [demo_shape(line) for line in said]
    assert any(word in sample[-4] for word in ("yes, word for word", "一字不差"))


def demo_shape(line: str) -> str:
    """The same however many levels of summaries stand above a floor."""
    return shape(re.sub(r"(?:(?: in | ⊂ )(?:volume|era) s\d+)+", "", line))


def demo_sample(readme: Path) -> str:
    return next(body for body in fenced(readme, "text") if "#12" in body)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_rest_commands_answer(readme: Path, tmp_path: Path):
    lines = next(body for body in fenced(readme, "sh") if "/api/chats" in body).splitlines()
    (tmp_path / "chat.jsonl").write_text('{"role": "user", "content": "Meet me."}\n', "utf-8")
    serve = [str(BIN / "previously"), "serve"]
    with started(serve, tmp_path, PREVIOUSLY_PORT="0") as address:
        told = [
            json.loads(run(shlex.split(line.replace("127.0.0.1:8377", address)), tmp_path))
            for line in lines
        ]
    assert told[0]["messages"] == 1
    assert [chat["name"] for chat in told[1]["items"]] == ["harbour"]
    assert told[2]["messages"] == [{"role": "user", "content": "Meet me."}]


def test_the_responses_command_answers(tmp_path: Path):
    (command,) = [body for body in fenced(READMES[0], "sh") if "/v1/responses" in body]
    fake = [sys.executable, "-m", "previously.testing", "--port", "0"]
    with started(fake, tmp_path) as upstream:
        serve = [str(BIN / "previously"), "serve", "--upstream", f"http://{upstream}/v1"]
        with started(serve, tmp_path, PREVIOUSLY_PORT="0") as address:
            words = shlex.split(command.replace("127.0.0.1:8377", address).replace("\\\n", " "))
            told = json.loads(run(words, tmp_path))
    assert told["output"][0]["content"][0]["text"] == "I have read 1 messages."
    assert told["id"].startswith("resp_0")


def said_in(readme: Path, language: str) -> list[str]:
    """The snippets without comments and without the story that each language tells by itself."""
    others = [body for body in fenced(readme, language) if body != demo_sample(readme)]
    return [re.sub(r" +#.*| --language zh", "", body) for body in others]


def test_both_readmes_show_the_same_commands_and_outputs():
    english, chinese = READMES
    for language in ("sh", "text"):
        assert said_in(english, language) == said_in(chinese, language)
    assert fenced(english, "python")[0] == fenced(chinese, "python")[0]
    commands = re.compile(r"make run ARGS=\"[^\"]+\"")
    assert commands.findall(english.read_text("utf-8")) == commands.findall(
        chinese.read_text("utf-8")
    )


def test_every_fenced_snippet_is_run_by_a_test():
    for readme in READMES:
        assert len(fenced(readme, "python")) == 3
        known = ("make run", "previously.testing", "previously serve", "previously prompt")
        known += ("previously demo", "previously profile", "previously explain")  # in tests/cli
        known += ("/api/chats", "/v1/responses")
        assert all(any(word in body for word in known) for body in fenced(readme, "sh"))
