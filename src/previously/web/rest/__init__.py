"""The REST door: one thin router per noun under /api, described by /api/openapi.json."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from previously.errors import PreviouslyError
from previously.service import OWNER, Service
from previously.web.metrics import Meter, exposed
from previously.web.rest import (
    about,
    carried,
    chats,
    events,
    messages,
    problems,
    profiles,
    prompts,
    search,
    settings,
    summaries,
    tasks,
    transfers,
    usage,
)
from previously.web.rest.context import Context
from previously.web.rest.door import Doorkeeper
from previously.web.rest.once import OnlyOnce
from previously.web.rest.shapes import Problem

ROUTERS = (
    about.router,
    chats.router,
    carried.router,
    messages.router,
    summaries.router,
    prompts.router,
    tasks.router,
    settings.router,
    profiles.router,
    search.router,
    usage.router,
    transfers.router,
    events.router,
)
_WRONG = {
    status: {
        "description": words,
        "content": {
            problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }
    for status, words in (
        ("4XX", "What is wrong, and what to do about it."),
        ("5XX", "What failed, and what to do about it."),
    )
}


def rest_routes(context: Context, meter: Meter) -> list[Mount | Route]:
    """Everything under /api, and what a monitor asks."""
    return [
        Mount("/api", app=Doorkeeper(OnlyOnce(rest_app(context), context), context)),
        Route("/readyz", _readiness(context), methods=["GET"]),
        Route("/metrics", Doorkeeper(_figures(context, meter), context), methods=["GET"]),
    ]


def rest_app(context: Context) -> FastAPI:
    """The application behind /api."""
    app = _Described(
        title="Previously",
        summary="See and steer the memory of long chats.",
        version=version("previously"),
        openapi_url=None,  # told by a route of our own
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,  # one name for one shape
        servers=[{"url": "/api"}],
        root_path_in_servers=False,
        responses=_WRONG,  # pyright: ignore[reportArgumentType]
    )
    app.state.context = context
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_route("/openapi.json", _description, methods=["GET"])
    return app


def described() -> dict[str, Any]:
    """The interface in OpenAPI's form, without any house behind it."""
    return rest_app(Context(cast(Service, None))).openapi()


class _Described(FastAPI):
    """Described when somebody asks: that takes longer than all the rest of a start."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _describe_problems(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema


async def _description(request: Request) -> Response:
    """Made beside the loop, so that no turn waits for it."""
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


def _describe_problems(described: dict[str, Any]) -> None:
    """One shape for every error, in the place of the framework's own."""
    schemas = described["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    own = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(own.pop("$defs", {}))
    schemas["Problem"] = own
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # 4XX says it


def _readiness(context: Context) -> ASGIApp:
    async def ready(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await context.service.store.chats(OWNER, 1)
            answer = Response('{"status": "ready"}', media_type="application/json")
        except PreviouslyError as error:
            told = json.dumps({"status": "not ready", "reason": str(error)})
            answer = Response(told, 503, media_type="application/json")
        await answer(scope, receive, send)

    return _Endpoint(ready)


def _figures(context: Context, meter: Meter) -> ASGIApp:
    async def figures(scope: Scope, receive: Receive, send: Send) -> None:
        text = await exposed(context.service, meter)
        answer = PlainTextResponse(text, media_type="text/plain; version=0.0.4")
        await answer(scope, receive, send)

    return _Endpoint(figures)


class _Endpoint:
    """An ASGI application that a route takes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
