"""A browser, a server with the sample stories, and a page that reports its own faults."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.ui.serving import Server, Upstream
from tools.browser import found as browser_path

STATIC = Path(__file__).parents[2] / "src/previously/web/static"
LOCALES = {"zh": "zh-CN", "en": "en-US"}
TALK = {
    "en": ["Who keeps the lamp tonight?", "Tell me of the harbour.", "And the letters?"] * 4,
    "zh": ["今晚谁守灯？", "说说港口的事。", "那些信呢？"] * 4,
}
CONTINUED = {"c1": "After the storm", "c2": "风暴之后"}  # become `c3` and `c4`
SIZES = {"phone": (360, 780), "tablet": (768, 1024), "desktop": (1440, 900)}

# What a browser logs by itself when a server goes away or refuses; the page shows it in words.
EXPECTED = (
    "ERR_CONNECTION",
    "ERR_INCOMPLETE",
    "ERR_EMPTY_RESPONSE",
    "status of 4",
    "status of 503",
)

expect.set_options(timeout=20_000)

Open = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A real browser on a busy machine may take its time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the sample story in both languages, folded; made once for all workers."""
    assert (STATIC / "index.html").is_file(), "the page is not built: make page"
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # a worker's own is inside
    data = shared / "stories"
    with (shared / "stories.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not data.exists():
            upstream = Upstream()
            server = Server(shared / "stories-new", upstream.url)
            for language in ("en", "zh"):
                made = server.api("POST", "sample", {"language": language})
                server.settle(made["chat"]["id"])
                server.talk(made["chat"]["name"], TALK[language])
                server.sent(made["chat"]["id"], len(TALK[language]))
                server.settle(made["chat"]["id"])
            for source, name in CONTINUED.items():
                server.api("POST", "chats", {"name": name, "continue_from": source})
            server.stop()
            upstream.stop()
            (shared / "stories-new").rename(data)
    return data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server with nothing in it; each test of a file makes a chat of its own."""
    running = Server(tmp_path_factory.mktemp("server") / "data")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def told(stories: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server with the stories: `c1` in English, `c2` in Chinese, and
    `c3` and `c4`, which continue them. Tests leave them as they are."""
    data = tmp_path_factory.mktemp("told") / "data"
    shutil.copytree(stories, data)
    running = Server(data)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream]:
    """A model behind the proxy."""
    running = Upstream()
    yield running
    running.stop()


# Not of the session: while Playwright's own loop is there, no asynchronous test can run.
@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Chromium."""
    path = browser_path()
    assert path, "there is no browser: python tools/browser.py"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
        )
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Generator[BrowserContext]:
    """A window of a reader of English, by day, at a desk."""
    made = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-US")
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def chinese(browser: Browser) -> Generator[Page]:
    """A page of a reader of Chinese."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="zh-CN")
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def open_page(context: BrowserContext) -> Generator[Open]:
    """Opens an address; at the end no page may have logged a fault."""
    faults: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(part in message.text for part in EXPECTED):
            faults.append(message.text)

    def opened(url: str) -> Page:
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        return page

    yield opened
    assert faults == []
