"""A model behind HTTP: asked until it answers, refuses, or its time is up.

What a provider's requests and answers look like is in the file of that provider; this one has what
all of them share: one deadline over all tries, short waits between them, and errors that say what
to do next. A key leaves here only in a request's header: what comes back is cleared of it at once,
and errors of the HTTP library, which hold the request, go no further than this file.
"""

from __future__ import annotations

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from previously.errors import (
    DraftRejected,
    ModelUnavailable,
    NotConfigured,
    PreviouslyError,
    TooLong,
)
from previously.llm.failure import Answer, failure
from previously.llm.profile import Profile
from previously.llm.secrets import Secret
from previously.measure import counts_are_exact, message_tokens
from previously.model import Ask, Reply, Usage

TRIES_MAX = 3  # the first one and two quick ones
QUICK_WAIT_S = 0.5  # before the second try, twice that before the third; half to one and a half
QUICK_WAIT_S_MAX = 5.0  # who asks for more gets it from whoever plans the work
CONNECT_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 64
ANSWER_BYTES_MAX = 32 * 1024 * 1024
ERROR_BYTES_MAX = 256 * 1024
CHUNK_BYTES = 64 * 1024
HEADER_BYTES_MAX = 64 * 1024
MODEL_CHARS_MAX = 200

# A server that cuts a prompt to its window says how much of it was left. Below the least of these
# no window lies: a figure that small is wrong.
SURE_TOKENS_MIN = 512
TRUNCATED_PERCENT = 60
TRUNCATED_TOKENS_MIN = 128

PROMPT_SLACK_PERCENT = 10  # other vocabularies count otherwise
PROMPT_SLACK_TOKENS = 32

# Waiting for a place in the pool is no fault of the server: only the deadline limits that.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)

FINISHES: Mapping[str, str] = {
    "": "stop",
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "tool_calls": "tool",
    "tool_use": "tool",
    "function_call": "tool",
}
_CUT_BY_WINDOW = "model_context_window_exceeded"
_GAVE_UP = frozenset({"error", "network_error", "insufficient_system_resource"})


def new_session() -> aiohttp.ClientSession:
    """The session that all adapters share; it belongs to the running loop and keeps no cookies."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )


class Said(NamedTuple):
    """One answer, as its provider's file reads it."""

    text: str
    model: str
    finish: str  # the provider's own word
    usage: Usage
    reasoning: str = ""
    refusal: str = ""


class Remote(ABC):
    """An `Llm` over HTTP. Jitter and sleep are arguments so that tests need not wait."""

    costs = True

    def __init__(
        self,
        profile: Profile,
        session: aiohttp.ClientSession,
        secret: Secret | None = None,
        *,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.profile = profile
        self._session = session
        self._secret = secret
        self._jitter = jitter
        self._sleep = sleep

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.profile.name

    @property
    def identity(self) -> str:
        """What a paid answer belongs to besides its request."""
        return self.profile.identity

    @property
    def window_tokens(self) -> int | None:
        """As the profile says."""
        return self.profile.window_tokens

    async def complete(self, ask: Ask) -> Reply:
        """The model's answer, in one piece or as a stream, as the profile says."""
        return await self._complete(ask, stream=self.profile.stream)

    async def stream(self, ask: Ask) -> Reply:
        """The same through the provider's stream."""
        return await self._complete(ask, stream=True)

    @abstractmethod
    def _url(self) -> str: ...

    @abstractmethod
    def _headers(self) -> dict[str, str]: ...

    @abstractmethod
    def _body(self, ask: Ask, answer_tokens: int, *, stream: bool) -> dict[str, Any]: ...

    @abstractmethod
    def _read(self, raw: bytes) -> Said: ...

    def _learnt(self, answer: Answer) -> bool:
        """Whether a refusal taught us to say the same otherwise; then it is said at once."""
        return False

    async def _complete(self, ask: Ask, *, stream: bool) -> Reply:
        try:
            async with asyncio.timeout(self.profile.timeout_s) as scope:
                return await self._tries(ask, scope, stream=stream)
        except TimeoutError:
            pass  # raised below: out here it does not drag the request along
        raise ModelUnavailable(
            f"profile {self.name}: no answer within {self.profile.timeout_s:g} s (timeout_s)"
        )

    async def _tries(self, ask: Ask, scope: asyncio.Timeout, *, stream: bool) -> Reply:
        tried = 0
        while True:
            tried += 1
            try:
                return await self._once(ask, stream=stream)
            except ModelUnavailable as error:
                fault = error
            wait_s = self._wait_s(fault, tried)
            if wait_s is None or wait_s >= _left_s(scope):
                raise fault
            await self._sleep(wait_s)

    def _wait_s(self, fault: ModelUnavailable, tried: int) -> float | None:
        if tried >= TRIES_MAX:
            return None
        wait_s = QUICK_WAIT_S * 2 ** (tried - 1) * (0.5 + self._jitter())
        if fault.retry_after_s is not None:
            wait_s = max(wait_s, fault.retry_after_s)
        return wait_s if wait_s <= QUICK_WAIT_S_MAX else None

    async def _once(self, ask: Ask, *, stream: bool) -> Reply:
        @cache
        def prompt_tokens() -> int:
            return count_prompt(ask)

        answer_tokens = self._answer_tokens(ask, prompt_tokens)
        answer = await self._send(self._body(ask, answer_tokens, stream=stream))
        if not _is_ok(answer) and self._learnt(answer):
            answer = await self._send(self._body(ask, answer_tokens, stream=stream))
        if not _is_ok(answer):
            raise failure(self.profile, answer, prompt_tokens)
        reply = self._reply(self._read(answer.body))
        self._check_whole(reply, prompt_tokens)
        return reply

    def _answer_tokens(self, ask: Ask, prompt_tokens: Callable[[], int]) -> int:
        """Room for the answer: the profile's reserve as far as the window has it, never less than
        what was asked for."""
        wanted = max(self.profile.output_tokens, ask.tokens_max)
        if self.profile.window_tokens is None:
            return wanted
        prompt = prompt_tokens() * (100 + PROMPT_SLACK_PERCENT) // 100 + PROMPT_SLACK_TOKENS
        return min(wanted, max(ask.tokens_max, self.profile.window_tokens - prompt))

    def _reply(self, said: Said) -> Reply:
        if said.finish == _CUT_BY_WINDOW:
            raise TooLong(f"profile {self.name}: the window was full before the answer was whole")
        if said.finish in _GAVE_UP:
            raise ModelUnavailable(f"profile {self.name}: the provider gave up on the answer")
        finish = FINISHES.get(said.finish.lower(), "other")
        if said.refusal or finish == "content_filter":
            words = f": {' '.join(said.refusal.split())[:200]}" if said.refusal else ""
            raise DraftRejected(f"profile {self.name}: the model refused to answer{words}")
        model = (said.model or self.profile.model)[:MODEL_CHARS_MAX]
        return Reply(said.text, model, finish, said.usage, said.reasoning)

    def _check_whole(self, reply: Reply, prompt_tokens: Callable[[], int]) -> None:
        """Some servers cut a prompt without a word; an answer to half of it is none."""
        reported = reply.usage.input_tokens
        if reported < TRUNCATED_TOKENS_MIN or not counts_are_exact():
            return
        counted = prompt_tokens()
        if counted > SURE_TOKENS_MIN and reported * 100 < counted * TRUNCATED_PERCENT:
            raise TooLong(
                f"profile {self.name}: the model read {reported} tokens of about {counted}; the "
                "server cuts what does not fit its window"
            )

    async def _send(self, body: Mapping[str, Any]) -> Answer:
        """One request; what the HTTP library raises becomes ours, without its traceback."""
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        fault: PreviouslyError
        try:
            return await self._exchange("POST", self._url(), sent)
        except (aiohttp.ClientError, OSError) as error:
            fault = self._fault(error)
        raise fault

    async def _exchange(self, method: str, url: str, sent: bytes | None) -> Answer:
        headers = {**self._headers(), "accept": "application/json, text/event-stream"}
        if sent is not None:
            headers["content-type"] = "application/json"
        async with self._session.request(
            method, url, data=sent, headers=headers, allow_redirects=False, timeout=_TIMEOUT
        ) as response:
            is_ok = 200 <= response.status < 300
            raw = await _read_up_to(response, ANSWER_BYTES_MAX if is_ok else ERROR_BYTES_MAX)
            told = {name.lower(): self._cleared(value) for name, value in response.headers.items()}
            return Answer(response.status, told, self._cleared_bytes(raw))

    def _cleared(self, text: str) -> str:
        return text if self._secret is None else self._secret.redact(text)

    def _cleared_bytes(self, raw: bytes) -> bytes:
        return raw if self._secret is None else self._secret.redact_bytes(raw)

    def _fault(self, error: Exception) -> PreviouslyError:
        host = urlsplit(self.profile.base_url).netloc
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return NotConfigured(
                f"profile {self.name}: the certificate of {host} cannot be trusted; check base_url"
            )
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            words = f"the name {host} cannot be found; check base_url and the network"
        elif isinstance(error, aiohttp.ClientConnectorError | TimeoutError):
            words = f"nothing answers at {host}; is the server running?"
        elif isinstance(error, _TooLarge):
            words = f"the answer has more than {ANSWER_BYTES_MAX} bytes"
        else:
            words = f"the connection to {host} broke off"
        return ModelUnavailable(f"profile {self.name}: {words} ({type(error).__name__})")


def count_prompt(ask: Ask) -> int:
    """Our own count of what is sent."""
    return sum(message_tokens(m["role"], m["content"]) for m in ask.messages)


def no_answer(profile: Profile, problem: str) -> ModelUnavailable:
    """For an answer that says nothing: broken off, or no answer of a model at all."""
    return ModelUnavailable(f"profile {profile.name}: {problem}")


def unreadable(profile: Profile, raw: bytes) -> ModelUnavailable:
    """For an answer that is no JSON; a page is what a wrong path gets from many servers."""
    if raw.lstrip().startswith(b"<"):
        return no_answer(
            profile, "a web page came back; check base_url (for most servers it ends in /v1)"
        )
    return no_answer(profile, "what came back is no JSON")


class _TooLarge(aiohttp.ClientPayloadError):
    """More than anyone may send us."""


async def _read_up_to(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The body; of a refusal only the beginning, if it is endless."""
    raw = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        raw += chunk
        if len(raw) > bytes_max:
            response.close()
            if bytes_max == ANSWER_BYTES_MAX:
                raise _TooLarge
            break
    return bytes(raw[:bytes_max])


def _is_ok(answer: Answer) -> bool:
    return 200 <= answer.status < 300


def _left_s(scope: asyncio.Timeout) -> float:
    deadline_s = scope.when()
    assert deadline_s is not None
    return deadline_s - asyncio.get_running_loop().time()
