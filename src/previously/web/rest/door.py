"""Before any route: who asks. ASGI middleware, so that no route can forget it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from previously.web.auth import Keyring, needed
from previously.web.rest.context import Context
from previously.web.rest.problems import problem


class Doorkeeper:
    """Lets in who shows a token that is good for the request."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._ring = Keyring(context.service, context.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = await self._refused(HTTPConnection(scope), scope["method"], scope["path"])
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _refused(self, request: HTTPConnection, method: str, path: str) -> Response | None:
        if method not in ("GET", "HEAD") and not _is_own_page(request.headers):
            return problem(
                403,
                "Another page may not write here",
                "the request comes from a page of another address",
                "Use the page that this server serves itself.",
            )
        wanted = needed(method, path)
        if wanted is None or self._ring.is_open:
            return None
        held = await self._ring.scopes(request)
        if held is None:
            return problem(
                401,
                "This server asks for its token",
                "the request shows no token that is known here",
                "Send it as `Authorization: Bearer TOKEN`, or log in with POST /api/login. It is "
                "what PREVIOUSLY_TOKEN was set to when the server was started.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if wanted not in held:
            return problem(
                403,
                "This token is not good for that",
                f"it takes the scope {wanted!r}; this one has {', '.join(sorted(held))}",
                "Use another token, or make one with POST /api/tokens.",
            )
        return None


def _is_own_page(headers: Headers) -> bool:
    """Whether a write comes from a program, or from the page that is served here."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
