"""Words for an upstream that cannot be reached or goes away: what happened, and what to do."""

from __future__ import annotations

import logging

import aiohttp
from starlette.responses import Response

from previously.web.guard import error_body, refusal

log = logging.getLogger(__name__)

LOST = "upstream_lost"
UNREACHABLE = "upstream_unreachable"

_ADDRESS = "Check the address that `previously serve --upstream` or the profile gives"


def failed(error: Exception) -> Response:
    """No answer came, or not all of it, and nothing of it has gone out yet."""
    status, code, happened, advice = _told(error)
    log.warning("the upstream failed: %s", type(error).__name__)
    return refusal(status, f"{happened} Nothing was stored. {advice}", code)


def broke(error: Exception) -> bytes:
    """An event for a stream that has begun: the rest of the reply will not come."""
    what = "stalled" if isinstance(error, TimeoutError) else "was lost"
    message = (
        f"The connection to the upstream {what} before the reply was complete"
        f" ({type(error).__name__}). What had come is kept as a draft until the next request shows"
        " what became of it. Ask for the reply again, or go on from here."
    )
    return b"data: " + error_body(502, message, LOST) + b"\n\n"


def _told(error: Exception) -> tuple[int, str, str, str]:
    """Status, code, what happened, what to do."""
    if isinstance(error, TimeoutError):
        advice = "Send it again; if this goes on, the model may need longer than the server waits."
        return 504, "upstream_timeout", "The upstream did not answer in time.", advice
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return 502, UNREACHABLE, f"The upstream's name {error.host!r} is not known.", f"{_ADDRESS}."
    if isinstance(error, aiohttp.ClientSSLError):
        advice = f"{_ADDRESS}: `http://` or `https://`, and whose certificate it shows."
        return 502, UNREACHABLE, f"No safe connection to the upstream: {error}.", advice
    if isinstance(error, aiohttp.ClientConnectorError):
        where = f"{error.host}:{error.port}"
        happened = f"The upstream at {where} cannot be reached ({error.strerror or error})."
        return 502, UNREACHABLE, happened, f"Start it, or: {_ADDRESS}."
    happened = f"The connection to the upstream was lost before it had answered ({error})."
    return 502, LOST, happened, "Send it again; if this goes on, look at the upstream's own log."
