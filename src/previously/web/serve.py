"""The server: routes, guard and life cycle, on a loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from previously.errors import BadInput
from previously.service import Service
from previously.web.connection import Connection
from previously.web.events import Streams
from previously.web.guard import Guard, is_loopback, refusal
from previously.web.metrics import Measured, Meter
from previously.web.pages import page_routes
from previously.web.proxy import Proxy
from previously.web.rest import rest_routes
from previously.web.rest.context import Context
from previously.web.rest.problems import problem
from previously.web.routing import Routing
from previously.web.upstream import Pool, Upstream

GRACE_S = 10  # for streams that are under way when the server is told to stop
BACKLOG = 512
OBJECTS_BETWEEN_LOOKS = 20_000  # made and not let go of, before cycles are looked for
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

T = TypeVar("T")


def create_app(
    service: Service,
    upstream_url: str | None,
    upstream_key: str | None = None,
    *,
    default_budget: int | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    keys: Path | None = None,
) -> Starlette:
    """The application. Without an upstream it runs, and says how to give it one.

    With a `token` every request has to show it, and it goes nowhere else. `environment` is where
    the keys of profiles are looked up, `keys` the folder for those that are typed in.
    """
    upstream = None
    if upstream_url:
        upstream = Upstream(upstream_url, upstream_key, takes_clients_key=token is None)
    pool = Pool()
    proxy = Proxy(service, Routing(service, upstream, environment), pool, default_budget)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await pool.open()
        try:
            yield
        finally:
            await proxy.sending.close()
            await pool.close()

    context = Context(service, upstream_url, token, environment, keys)
    meter = Meter()
    application = Starlette(
        routes=[
            Route("/c/{chat:path}/v1/chat/completions", proxy.completions, methods=["POST"]),
            Route("/v1/chat/completions", proxy.completions, methods=["POST"]),
            Route("/c/{chat:path}/v1/responses", proxy.responses, methods=["POST"]),
            Route("/v1/responses", proxy.responses, methods=["POST"]),
            Route(
                "/c/{chat:path}/v1/responses/{response}", proxy.response, methods=["GET", "DELETE"]
            ),
            Route("/v1/responses/{response}", proxy.response, methods=["GET", "DELETE"]),
            Route("/c/{chat:path}/v1/{rest:path}", proxy.passed, methods=METHODS),
            Route("/v1/{rest:path}", proxy.passed, methods=METHODS),
            Route("/healthz", _healthz, methods=["GET"]),
            *rest_routes(context, meter),
            *page_routes(),
            Route("/{path:path}", _nowhere, methods=["GET", "POST"]),
        ],
        middleware=[Middleware(Measured, meter=meter), Middleware(Guard, token=token)],
        lifespan=lifespan,
        exception_handlers={404: _unrouted, 405: _unrouted},
    )
    application.state.streams = context.streams  # ended when the server stops
    application.state.guarded = token is not None
    return application


async def _nowhere(request: Request) -> Response:
    return refusal(
        404,
        f"there is nothing at {request.url.path}. The base URL is /v1, or /c/NAME/v1 for a chat",
        "not_found",
    )


async def _unrouted(request: Request, error: Exception) -> Response:
    """What no route takes, such as a path with a line break in it."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    if request.url.path.startswith("/api"):
        return problem(
            status, HTTPStatus(status).phrase, "no route takes this", "See /api/openapi.json."
        )
    return refusal(status, f"nothing takes a {request.method} here", "not_found")


async def _healthz(_: Request) -> Response:
    body = json.dumps({"status": "ok", "version": version("previously")})
    return Response(body, media_type="application/json")


async def serve(
    app: Starlette,
    host: str,
    port: int,
    *,
    ready: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until a signal or a cancellation; `ready` learns the address once it is open."""
    with listen(host, port, guarded=getattr(app.state, "guarded", False)) as listener:
        address = listener.getsockname()
        server = _Server(_config(app), (lambda: ready(host, address[1])) if ready else None)
        server.streams = getattr(app.state, "streams", None)
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(running)
        finally:
            server.stop()
            await running


def listen(host: str, port: int, *, guarded: bool = False) -> socket.socket:
    """An open listener; port 0 takes a free one. Only who asks for a token may leave loopback."""
    if not (guarded or is_loopback(host)):
        raise BadInput(
            f"cannot listen on {host}: whoever reaches this server may read every chat. "
            "Set PREVIOUSLY_TOKEN to a long random text first, or use 127.0.0.1",
            field="host",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}:{port}: {error.strerror}", field="port") from error


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program on the fastest event loop there is."""
    try:
        import uvloop  # noqa: PLC0415 - not made for every platform
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def only_serves() -> None:
    """For a process that does nothing else from now on: it seldom looks for cycles of objects.

    A turn makes thousands of objects and no cycle; and what stands by now, modules, routes and
    statements, stays as long as the process.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS, *gc.get_threshold()[1:])


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,  # the upstream's own is passed on
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )


class _Server(uvicorn.Server):
    """Returns when it is told to stop, so that the caller can close what it opened.

    Uvicorn's own would raise the signal again, and end the process there and then.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._tell = started
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.streams: Streams | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._tell is not None:
            self._tell()

    async def main_loop(self) -> None:
        """Asleep until it is told to stop; uvicorn's own looks ten times a second."""
        if not await self.on_tick(0):
            await self._told.wait()

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self.should_exit = True
        self._told.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:  # a signal alone does not wake every kind of loop
            self._loop.call_soon_threadsafe(self._told.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Live events never end by themselves: whoever waits for open streams waits for ever.
        if self.streams is not None:
            self.streams.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        taken: list[int] = []
        # Neither Windows nor a thread that is not the main one can take signals this way.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.handle_exit, number, None)
                taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)
