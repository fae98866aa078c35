"""The proxy door: OpenAI's chat interface, with the chat's memory put in its place.

A turn is on disk before the client sees its last event. A fault in memory never breaks the chat; a
fault of the upstream is passed on as it came.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from previously.errors import NotConfigured
from previously.model import NewMessage
from previously.service import Service
from previously.text.wire import as_object
from previously.web import contact, overflow
from previously.web.ceiling import Ceilings
from previously.web.characters import Characters, character_of
from previously.web.chat import ChatCompletions
from previously.web.dialect import Dialect, Hearing
from previously.web.encoding import Decode, Undecodable, decoder, is_plain
from previously.web.exchange import Exchange
from previously.web.finding import Finder
from previously.web.guard import BodyRefused, refusal
from previously.web.identity import named, recording_is_off
from previously.web.managed import Managed
from previously.web.opening import STREAM, Opened, opened
from previously.web.outgoing import ROOM, Outgoing, Raw, Room, Turn
from previously.web.overflow import Refusal, foreseen, refusal_in, smaller
from previously.web.relay import Passage, Record, Relay
from previously.web.responses.dialect import Responses
from previously.web.responses.ids import chat_of
from previously.web.responses.past import (
    Past,
    cannot_be,
    cannot_delete,
    cannot_go_on,
    not_found,
    told,
)
from previously.web.routing import NOT_CONFIGURED, Routing
from previously.web.sending import Note, Sending
from previously.web.turns import Turns
from previously.web.upstream import Header, Pool, returned
from previously.web.waiting import kept_alive

log = logging.getLogger(__name__)

MEMORY_DEADLINE_S = 10.0
PREPARED_MAX = 16  # requests that are read and answered from memory at the same time
SLIM_AFTER_S = 0.2  # a reply that takes longer is not waited for with the whole prompt in hand

CHAT = ChatCompletions()
RESPONSES = Responses()

FAILED = "the memory failed; the server's log says why"

T = TypeVar("T")


class Proxy:
    """Every request to every upstream."""

    def __init__(
        self, service: Service, routing: Routing, pool: Pool, budget_tokens: int | None
    ) -> None:
        self.sending = Sending(service)
        self._service = service
        self._routing = routing
        self._pool = pool
        self._turns = Turns(service, budget_tokens, self.sending.doubt, self.sending.is_behind)
        self._managed = Managed(service, budget_tokens)
        self._past = Past(service, self._managed)
        self._characters = Characters(service)
        self._finder = Finder(service, self.sending, self._turns)
        self._places = asyncio.Semaphore(PREPARED_MAX)
        self._ceilings = Ceilings(lambda: asyncio.get_running_loop().time())

    async def completions(self, request: Request) -> Response:
        """One turn."""
        given = await self._given(request, CHAT)
        return await self._turn(given) if isinstance(given, Exchange) else given

    async def responses(self, request: Request) -> Response:
        """One turn in items. A response that it goes on from has to be one of ours."""
        given = await self._given(request, RESPONSES)
        if not isinstance(given, Exchange):
            return given
        refused = cannot_be(given.request, given.fields, given.ours or {})
        after = given.fields.get("previous_response_id")
        if refused is not None or after is None:
            return refused or await self._turn(given)
        found = await self._safely(self._past.find(after), FAILED)
        if isinstance(found, str):
            return cannot_go_on(replace(Outgoing.unchanged(found), failed=True))
        if found is None:
            return not_found(after)
        return await self._turn(replace(given, name=found.ref.name, after=after))

    async def response(self, request: Request) -> Response:
        """A response by its name, from what is recorded; those of the upstream are asked there."""
        name = request.path_params["response"]
        if chat_of(name) is None:
            return await self.passed(request)
        if request.method == "DELETE":
            return cannot_delete()
        found = await self._past.find(name)
        return not_found(name) if found is None else told(found)

    async def _given(self, request: Request, dialect: Dialect) -> Exchange | Response:
        raw = await request.body()
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError) as error:
            return refusal(400, f"the body is not valid JSON: {error}", "invalid_json")
        if not isinstance(body, dict):
            return refusal(400, "the body is not a JSON object", "invalid_json")
        fields = cast(Raw, body)
        ours = as_object(fields.pop("previously")) if "previously" in fields else None
        try:
            target = await self._routing.target(fields.get("model"))
        except NotConfigured as error:
            return refusal(503, str(error), "upstream_not_configured")
        name = named(request, fields, ours or {})
        said = dialect.messages(fields)
        return Exchange(request, raw, fields, ours, target, dialect, said, name)

    async def passed(self, request: Request) -> Response:
        """Everything else of the interface, byte for byte."""
        upstream = self._routing.default
        if upstream is None:
            return refusal(503, NOT_CONFIGURED, "upstream_not_configured")
        path = _path(request)
        if path is None:
            return refusal(400, "the path leads out of the interface", "invalid_path")
        trouble: list[BodyRefused] = []
        body = _pieces(request, trouble) if _has_body(request) else None
        headers = request.headers.raw
        try:
            answer = await upstream.request(
                self._pool, request.method, path, headers, body, exact=True
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            if trouble:
                raise trouble[0] from error  # it was the client's body that went wrong
            return contact.failed(error)
        return Passage(answer, returned(answer, length=True))

    async def _turn(self, given: Exchange) -> Response:
        ceiling = self._ceilings.of(given.target, given.fields)
        exchange, outgoing = await self._outgoing(given, Room(most=ceiling))
        if exchange.after is not None and outgoing.turn is None:
            return cannot_go_on(outgoing)  # without what was before it is another question
        try:
            refused = foreseen(outgoing, ceiling)
            if refused is None or not await self._retries(outgoing):
                sent = await self._send(exchange, outgoing)
                answer = Opened(sent) if outgoing.turn is None else await opened(sent)
                refused = refusal_in(answer)
                if refused is None or not await self._retries(outgoing):
                    return await self._answer(exchange, outgoing, answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            return contact.failed(error)
        work = self._less(exchange, outgoing, refused)
        return await (kept_alive(work) if exchange.streams else work)

    async def _outgoing(self, given: Exchange, room: Room) -> tuple[Exchange, Outgoing]:
        if recording_is_off(given.request, given.ours or {}):
            return given, Outgoing.unchanged("recording is off")
        if given.messages is None:
            return given, Outgoing.unchanged("the request has no list of messages")
        if given.name is None:
            return self._fresh(given) or await self._found(given, given.messages, room)
        made = await self._prepared(given, room)
        return (self._fresh(given) if made.doubt else None) or (given, made)

    def _fresh(self, given: Exchange) -> tuple[Exchange, Outgoing] | None:
        """For a first message that starts a chat of its own: made once there is an answer."""
        if given.after is not None or not given.dialect.starts(given.fields):
            return None
        name = Finder.fresh_name(given.messages or [], given.name)
        made = Outgoing("append; a new chat", fresh=True)
        return (replace(given, name=name), made) if name else None

    async def _found(
        self, given: Exchange, messages: list[Any], room: Room
    ) -> tuple[Exchange, Outgoing]:
        """For a request that names no chat."""
        failed = (None, FAILED)
        name, reason = await self._safely(self._finder.name_for(messages), failed)
        if name is None:
            return given, Outgoing.unchanged(reason)
        found = replace(given, name=name)
        return found, await self._prepared(found, room)

    async def _prepared(self, exchange: Exchange, room: Room) -> Outgoing:
        managed = (exchange.ours or {}).get("managed") is True or exchange.after is not None
        misses = not managed or exchange.after is not None
        failed = replace(Outgoing.unchanged(FAILED), failed=misses)
        made = await self._safely(self._remembered(exchange, room, managed=managed), failed)
        if made.turn is not None:
            name = character_of(exchange.request, exchange.ours or {})
            if name is not None:
                await self._safely(self._characters.meet(made.turn.ref, name), None)
        return made

    async def _remembered(self, exchange: Exchange, room: Room, *, managed: bool) -> Outgoing:
        """A few at a time: all of them share one processor, and whoever waits holds little."""
        assert exchange.name is not None
        assert exchange.messages is not None
        async with self._places:
            if managed:
                given = (exchange.name, exchange.messages, room, exchange.after)
                return await self._managed.prepare(*given)
            return await self._turns.prepare(exchange.name, exchange.messages, room, exchange.hints)

    async def _safely(self, work: Awaitable[T], otherwise: T, more_s: float = 0.0) -> T:
        """The one edge where everything is caught: no fault in memory may break the chat."""
        try:
            async with asyncio.timeout(MEMORY_DEADLINE_S + more_s):
                return await work
        except Exception as error:
            log.warning("the memory failed: %s: %s", type(error).__name__, error, exc_info=True)
            return otherwise

    async def _retries(self, outgoing: Outgoing) -> bool:
        """Whether this chat wants a request that is too long to be made shorter."""
        if outgoing.turn is None:
            return False
        settings = await self._safely(self._service.settings(outgoing.turn.ref), None)
        return settings is not None and settings.retry_on_overflow

    async def _send(self, exchange: Exchange, outgoing: Outgoing) -> aiohttp.ClientResponse:
        query = exchange.request.scope["query_string"].decode("latin-1")
        path = f"{exchange.dialect.path}?{query}" if query else exchange.dialect.path
        headers = exchange.request.headers.raw
        body = exchange.body(outgoing)
        return await exchange.target.upstream.request(self._pool, "POST", path, headers, body)

    async def _less(self, exchange: Exchange, outgoing: Outgoing, refused: Refusal) -> Response:
        """Send ever less until the upstream takes it, or nothing is left to leave out."""
        target, last = exchange.target, outgoing

        def ceiling() -> int | None:
            return self._ceilings.of(target, exchange.fields)

        self._learn(exchange, outgoing, refused)
        tries = smaller(self._service, outgoing, lambda r: self._prepared(exchange, r), ceiling)
        while (less := await self._next(tries)) is not None:
            last = less
            if refused.answer is None and (less.prompt_tokens or 0) > (ceiling() or 0):
                continue  # this one would not fit either
            try:
                answer = await opened(await self._send(exchange, less))
            except (aiohttp.ClientError, TimeoutError) as error:
                return contact.failed(error)
            again = refusal_in(answer)
            if again is None:
                self._ceilings.accepted(target, less.prompt_tokens or 0)
                return await self._answer(exchange, less, answer)
            refused = again
            self._learn(exchange, less, refused)
        if last is outgoing and refused.answer is not None:
            return await self._answer(exchange, outgoing, refused.answer)
        told = refusal(400, overflow.advice(last, refused.said), "context_length_exceeded")
        told.raw_headers += last.headers(exchange.name)
        return told

    def _learn(self, exchange: Exchange, outgoing: Outgoing, refused: Refusal) -> None:
        if refused.answer is not None:
            self._ceilings.refused(exchange.target, refused.said, outgoing.prompt_tokens or 0)

    async def _next(self, tries: AsyncIterator[Outgoing]) -> Outgoing | None:
        nothing: Outgoing | None = None
        return await self._safely(anext(tries, None), nothing, overflow.COMPACT_DEADLINE_S)

    async def _answer(self, exchange: Exchange, outgoing: Outgoing, given: Opened) -> Response:
        """The upstream's answer as it came; kept only if it is one and can be read."""
        answer = given.answer
        encoding = answer.headers.get("content-encoding", "")
        decode = None if is_plain(encoding) else decoder(encoding)
        readable = decode is not None or is_plain(encoding)
        if outgoing.turn is not None and not readable:
            log.warning("chat %s: a reply in %s cannot be read", outgoing.turn.ref.id, encoding)
        keeps = answer.status == 200 and readable
        if outgoing.fresh and keeps:
            outgoing = await self._prepared(exchange, ROOM)
        turn, model = outgoing.turn, exchange.target.model
        hearing = exchange.dialect.hearing(exchange.fields, turn if keeps else None)
        # All that a reply on its way holds on to: neither the prompt nor the request.
        note = Note(outgoing, model) if keeps and turn is not None else None
        missed = exchange if outgoing.failed else None
        doubted, doubt = (exchange.name if outgoing.doubt else None), outgoing.doubt

        async def record(replies: tuple[NewMessage, ...]) -> None:
            if keeps and replies and missed is not None:
                await self._catch_up(missed, replies)
            if keeps and replies and doubted is not None:
                await self._safely(self._turns.heard(doubted, doubt, replies), None)
            if replies and turn is not None and note is not None:
                await self._record(hearing.signed(turn), note, replies)

        headers = [*returned(answer), *outgoing.headers(exchange.name)]
        if answer.content_type != STREAM:
            heard = hearing if keeps and (turn or missed or doubted) else None
            return await _in_one_piece(answer, headers, record, heard, decode)
        if note is not None:
            asyncio.get_running_loop().call_later(SLIM_AFTER_S, note.slim)
        relay = Relay(answer, headers, record, hearing, decode, begun=given.begun)
        return relay if readable else Passage(answer, headers)

    async def _catch_up(self, exchange: Exchange, replies: Sequence[NewMessage]) -> None:
        if exchange.name is not None and exchange.messages is not None:
            given = (exchange.name, exchange.messages, exchange.hints)
            await self._safely(self._turns.catch_up(*given, replies), None)

    async def _record(self, turn: Turn, note: Note, replies: Sequence[NewMessage]) -> None:
        way = self._managed if turn.managed else self._turns
        await self._safely(way.record(turn, replies), None)
        self.sending.note(note)


async def _in_one_piece(
    answer: aiohttp.ClientResponse,
    headers: list[Header],
    record: Record,
    hearing: Hearing | None,  # None: nobody listens
    decode: Decode | None,
) -> Response:
    try:
        body = await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        return contact.failed(error)
    if hearing is not None:
        try:
            told, replies = hearing.read(body if decode is None else decode(body))
            await record(replies)
            body = told if decode is None else body
        except Undecodable as error:
            log.warning("an encoded reply cannot be read: %s", error)
    return _exactly(answer.status, headers, body)


def _exactly(status: int, headers: list[Header], body: bytes) -> Response:
    response = Response(body, status)
    response.raw_headers = [*headers, (b"content-length", str(len(body)).encode())]
    return response


def _path(request: Request) -> str | None:
    """What follows the interface's root, in the client's own spelling; None if it leads out."""
    raw: bytes = request.scope["raw_path"]
    rest = raw[raw.rindex(b"/v1/") + 3 :] if request.path_params.get("chat") else raw[3:]
    named = request.path_params
    if ".." in named.get("rest", named.get("response", "")).split("/"):
        return None
    query: bytes = request.scope["query_string"]
    return (rest + b"?" + query if query else rest).decode("latin-1")


def _has_body(request: Request) -> bool:
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def _pieces(request: Request, trouble: list[BodyRefused]) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except BodyRefused as error:
        trouble.append(error)  # the HTTP client has a word of its own for it
        raise
