"""Errors as the REST interface tells them (RFC 9457): what is wrong, with which field, what next.

One table from the tree of errors to statuses. What is not in the tree is our own fault: it is
logged, and the answer says so without quoting it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import Response

from previously import errors
from previously.errors import BadInput, ModelUnavailable, PreviouslyError
from previously.web.rest.shapes import FieldError, Problem

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
DETAIL_CHARS_MAX = 1_000

_LOOK_AGAIN = "Read it again, then decide whether to write over it."
_LIST_CHATS = "List the chats with GET /api/chats."

# By class: status, title, next step. The nearest ancestor decides.
KINDS: Mapping[type[PreviouslyError], tuple[int, str, str]] = {
    errors.BadInput: (422, "The request cannot be used", "Correct the field and send it again."),
    errors.ChatNotFound: (404, "There is no such chat", _LIST_CHATS),
    errors.MessageNotFound: (404, "There is no such message", "Read the chat's messages again."),
    errors.SummaryNotFound: (404, "There is no such summary", "Read the chat's summaries again."),
    errors.TaskNotFound: (
        404,
        "There is no such task",
        "List the tasks again with GET /api/tasks.",
    ),
    errors.ProfileNotFound: (404, "There is no such profile", "List them with GET /api/profiles."),
    errors.Conflict: (409, "It was changed meanwhile", _LOOK_AGAIN),
    errors.AskFirst: (
        402,
        "This goes beyond the month's budget",
        "Send it again with `beyond_budget: true` if it is wanted anyway.",
    ),
    errors.ReadOnly: (403, "This memory is open for reading", "Start the server for writing."),
    errors.NotConfigured: (424, "Something is not set up yet", "Set it up, then try again."),
    errors.UserError: (422, "The request cannot be used", "Correct it and send it again."),
    errors.OverBudget: (503, "The month's money is used up", "Raise monthly_budget_usd, or wait."),
    errors.RetryError: (503, "This may pass", "Try the same thing again later."),
    errors.AnswerError: (502, "The model did not answer with a summary", "Try another model."),
    errors.PlanAnewError: (409, "It was changed meanwhile", _LOOK_AGAIN),
}


def problem(
    status: int,
    title: str,
    detail: str,
    next_step: str,
    *,
    kind: str | None = None,
    wrong: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that is an error; the first wrong field is named at the top as well."""
    told = Problem(
        type=f"urn:previously:{kind or _slug(title)}",
        title=title,
        status=status,
        detail=detail[:DETAIL_CHARS_MAX],
        field=wrong[0].field if wrong else None,
        next=next_step,
        errors=list(wrong),
    )
    return Response(told.model_dump_json(), status, dict(headers or {}), media_type=MEDIA_TYPE)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _name(kind: type[Exception]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def told(error: PreviouslyError) -> Response:
    """An error of ours."""
    known = next(KINDS[kind] for kind in type(error).__mro__ if kind in KINDS)
    status, title, next_step = known
    wrong: list[FieldError] = []
    if isinstance(error, BadInput) and error.field is not None:
        wrong = [FieldError(field=error.field, type="bad_input", detail=str(error))]
    headers: dict[str, str] = {}
    if isinstance(error, ModelUnavailable) and error.retry_after_s is not None:
        headers["Retry-After"] = str(int(error.retry_after_s) + 1)
    return problem(
        status, title, str(error), next_step, kind=_name(type(error)), wrong=wrong, headers=headers
    )


def install(app: FastAPI) -> None:
    """Let every error leave in one form."""
    app.add_exception_handler(PreviouslyError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(Exception, _fault)


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, PreviouslyError)
    return told(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [_field_error(found) for found in error.errors()]
    first = wrong[0]
    return problem(
        422,
        "The request cannot be used",
        f"{first.field}: {first.detail}",
        "Correct the fields under `errors` and send it again.",
        kind="bad-input",
        wrong=wrong,
    )


def _field_error(found: Mapping[str, Any]) -> FieldError:
    where = [str(part) for part in found["loc"]]
    ctx: dict[str, JsonValue] = {
        k: v if isinstance(v, int | float | str | bool) else str(v)
        for k, v in found.get("ctx", {}).items()
    }
    return FieldError(
        field=".".join(where[1:] or where), type=found["type"], detail=found["msg"], ctx=ctx
    )


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    next_step = "See /api/openapi.json for what there is."
    return problem(
        error.status_code, title, str(error.detail), next_step, headers=error.headers or {}
    )


async def _fault(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(
        500,
        "This is a fault of the server",
        f"{type(error).__name__}; the server's log has the whole of it",
        "Try again; if it stays, report it with the log.",
        kind="fault",
    )
