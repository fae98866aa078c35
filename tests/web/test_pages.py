"""The page's files as the server hands them out, and what it says where there are none."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from previously.web.pages import is_built, page_routes


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Previously</title>")
    (folder / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "assets" / "main-ABC.js").write_text("export {};\n" * 300)
    return folder


def _client(static: Path) -> httpx2.AsyncClient:
    app = Starlette(routes=page_routes(static))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def test_a_page_that_was_never_built_is_one_sentence(tmp_path: Path) -> None:
    assert not is_built(tmp_path / "nothing")
    async with _client(tmp_path / "nothing") as client:
        for path in ("/", "/icon.svg", "/assets/main-ABC.js"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert "tools/build_web.py" in answer.text


@pytest.mark.proves("G-87")
async def test_nothing_but_our_own_scripts_may_run(static: Path) -> None:
    assert is_built(static)
    async with _client(static) as client:
        for path in ("/", "/index.html", "/icon.svg", "/assets/main-ABC.js"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_files_with_a_hash_are_kept_and_the_document_is_asked_for_again(
    static: Path,
) -> None:
    async with _client(static) as client:
        script = await client.get("/assets/main-ABC.js", headers={"accept-encoding": "gzip"})
        assert "immutable" in script.headers["cache-control"]
        assert script.headers["content-encoding"] == "gzip"
        assert (await client.get("/")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/assets/../index.html", "/assets/%2e%2e/index.html", "/other"])
async def test_nothing_else_is_handed_out(static: Path, path: str) -> None:
    async with _client(static) as client:
        answer = await client.get(path)
        assert answer.status_code == 404 or answer.url.path == "/index.html"
