"""From a clean clone to a folded story on the page and a first proxied answer, as the README says.

`make test-newcomer` runs it and prints how long each step took. Of this working tree nothing is
used but its last commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.browser import found as browser_path  # noqa: E402 - a tool may be run by its path

SETUP_S = 900.0
FOLD_S = 180.0


def main() -> int:
    """1 if a step fails; its error says which."""
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    began = time.monotonic()
    try:
        clone = folder / "previously"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)  # noqa: S607
        readme = (clone / "README.md").read_text(encoding="utf-8")
        _check_promises(readme)
        _walk(clone, folder, began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"All of it took {time.monotonic() - began:.0f} s.")
    return 0


def _check_promises(readme: str) -> None:
    """The README says what is done here; if its words change, this must change with them."""
    for words in ("make run", "Open the sample story", "-m previously.testing --port"):
        assert words in readme, f"README.md no longer says {words!r}"


def _walk(clone: Path, folder: Path, began: float) -> None:
    fake_port, port = _free_port(), _free_port()
    upstream = f"http://127.0.0.1:{fake_port}/v1"
    options = f"--port {port} --data {folder / 'data'} --upstream {upstream}"
    with _running(["make", "run", f"ARGS={options}"], clone) as lines:
        for line in lines:
            if re.search(r"health +http", line):
                break
        _told("the server runs", began)
        with _fake(clone, fake_port):
            _fold_on_the_page(f"http://127.0.0.1:{port}", began)
            _first_answer(f"http://127.0.0.1:{port}", began)


def _fold_on_the_page(address: str, began: float) -> None:
    path = browser_path()
    assert path, "there is no browser: python tools/browser.py"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(locale="en-US")
        page.goto(address)
        page.get_by_role("button", name="Open the sample story").click()
        expect(page.locator('[data-floor="415"]')).to_be_visible(timeout=60_000)
        _told("the sample story is on the page", began)
        page.get_by_role("link", name="Summaries").click()
        expect(page.get_by_role("heading", name="Era 1")).to_be_visible(timeout=FOLD_S * 1000)
        _told("it is folded", began)
        browser.close()


def _first_answer(address: str, began: float) -> None:
    body = {"model": "any", "messages": [{"role": "user", "content": "Hello!"}]}
    request = urllib.request.Request(  # noqa: S310 - our own address
        f"{address}/c/first/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer any"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        said = json.load(answer)["choices"][0]["message"]["content"]
    assert said, "the first answer is empty"
    _told("the first proxied answer is there", began)


@contextmanager
def _running(command: list[str], folder: Path) -> Generator[Generator[str]]:
    """A program and the lines it prints; ended with everything it has started."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("PREVIOUSLY_", "MAKE", "MFLAGS"))
    }
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )

    def lines() -> Generator[str]:
        assert process.stdout is not None
        end = time.monotonic() + SETUP_S
        for line in process.stdout:
            yield line
            assert time.monotonic() < end, f"{command[:2]} takes longer than {SETUP_S:.0f} s"
        raise AssertionError(f"{command[:2]} ended with {process.wait()}")

    try:
        yield lines()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@contextmanager
def _fake(clone: Path, port: int) -> Generator[None]:
    command = [str(clone / ".venv/bin/python"), "-m", "previously.testing", "--port", str(port)]
    with _running(command, clone) as lines:
        next(lines)
        yield


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _told(what: str, began: float) -> None:
    print(f"{time.monotonic() - began:6.0f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
