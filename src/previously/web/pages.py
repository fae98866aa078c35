"""The built page: its files, one document for every address, and headers that keep it to itself.

Nothing but this server's own scripts and styles may run, whatever a chat's text holds.
"""

from __future__ import annotations

from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
NOT_BUILT = (
    "The page is not built in this source tree: run `python tools/build_web.py`. "
    "The API under /api and the proxy work without it.\n"
)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
A_YEAR = "public, max-age=31536000, immutable"  # a name with a hash never changes its content


def page_routes(static: Path = STATIC) -> list[Route | Mount]:
    """Routes of the page; the address part after `#` is its own affair."""

    async def index(_: Request) -> Response:
        return _document(static)

    async def icon(_: Request) -> Response:
        return _file(static / "icon.svg")

    async def licences(_: Request) -> Response:
        return _file(static / "THIRD_PARTY_LICENSES.txt")

    assets = StaticFiles(directory=static / "assets", check_dir=False)
    return [
        Route("/", index, methods=["GET"]),
        Route("/index.html", index, methods=["GET"]),
        Route("/icon.svg", icon, methods=["GET"]),
        Route("/licences", licences, methods=["GET"]),
        Mount("/assets", _Kept(GZipMiddleware(assets, minimum_size=1_000), static)),
    ]


def is_built(static: Path = STATIC) -> bool:
    """Whether there is a page to serve."""
    return (static / INDEX).is_file()


def _document(static: Path) -> Response:
    if not is_built(static):
        return PlainTextResponse(NOT_BUILT, 503)
    return FileResponse(static / INDEX, headers={**HEADERS, "Cache-Control": "no-cache"})


def _file(path: Path) -> Response:
    if not path.is_file():
        return PlainTextResponse(NOT_BUILT, 503)
    return FileResponse(path, headers={**HEADERS, "Cache-Control": "no-cache"})


class _Kept:
    """Lets a browser keep what it has, and adds the page's headers."""

    def __init__(self, app: ASGIApp, static: Path) -> None:
        self._app = app
        self._static = static

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_built(self._static):
            await PlainTextResponse(NOT_BUILT, 503)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if message["status"] == 200:
                    headers["Cache-Control"] = A_YEAR
            await send(message)

        await self._app(scope, receive, with_headers)
