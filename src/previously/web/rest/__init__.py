"""The REST door: one thin router per noun under /api, described by /api/openapi.json."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI
from starlette.routing import Mount, Route

from previously.web.rest import (
    chats,
    events,
    messages,
    problems,
    prompts,
    settings,
    summaries,
    tasks,
)
from previously.web.rest.context import Context
from previously.web.rest.shapes import Problem

ROUTERS = (
    chats.router,
    messages.router,
    summaries.router,
    prompts.router,
    tasks.router,
    settings.router,
    events.router,
)
_WRONG = {
    "4XX": {"model": Problem, "description": "What is wrong, and what to do about it."},
    "5XX": {"model": Problem, "description": "What failed, and what to do about it."},
}


def rest_routes(context: Context) -> list[Mount | Route]:
    """Everything under /api, and what a monitor asks."""
    return [Mount("/api", rest_app(context))]


def rest_app(context: Context) -> FastAPI:
    """The application behind /api."""
    app = FastAPI(
        title="Previously",
        summary="See and steer the memory of long chats.",
        version=version("previously"),
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        responses=_WRONG,  # pyright: ignore[reportArgumentType]
    )
    app.state.context = context
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    return app
