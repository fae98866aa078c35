"""Chats in and out as files; and the sample story, which needs no file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query
from starlette.responses import Response, StreamingResponse

from previously import formats
from previously.errors import BadInput
from previously.formats import openai
from previously.model import EXTRACTIVE, Chat, ChatRef, NewMessage
from previously.service import NAME_CHARS_MAX, OWNER, Service
from previously.web.rest import shapes, told
from previously.web.rest.context import TheChat, Use

router = APIRouter(tags=["transfer"])

_FILE = {
    200: {
        "description": "One message to a line, as OpenAI's format has them.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "The file as it is: OpenAI messages as a JSON array, or one to a line.",
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": '{"role": "user", "content": "Meet me at the harbour."}\n',
            }
        },
    }
}


@router.post("/import", status_code=201, openapi_extra=_UPLOAD)
async def imported(
    use: Use,
    name: Annotated[str, Query(min_length=1, max_length=NAME_CHARS_MAX, examples=["harbour"])],
    body: Annotated[bytes, Body(media_type="application/octet-stream")],
    preset: Annotated[str | None, Query(max_length=80)] = None,
) -> shapes.Imported:
    """A new chat of a file: whole, or not at all. What is wrong is named by its line."""
    said = await asyncio.to_thread(_read, body, name)
    (made,) = await use.import_chats({name: said}, preset)
    return await _imported(use, made)


def _read(body: bytes, name: str) -> list[NewMessage]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise BadInput(f"line {line} is not UTF-8", field="file") from error
    return list(formats.read(Path(name.replace("/", "_")), text))


@router.post("/sample", status_code=201)
async def sample(use: Use, asked: shapes.Sample | None = None) -> shapes.Imported:
    """A story of 416 floors in a chat of its own, summarised without any model."""
    language = (asked or shapes.Sample()).language
    story = (files("previously") / "samples" / f"{language}.jsonl").read_text(encoding="utf-8")
    taken = {card.chat.ref.name for card in await use.store.chat_cards(OWNER, 1_000)}
    names = (f"demo-{language}{'' if n == 1 else f'-{n}'}" for n in range(1, 1_002))
    name = next(one for one in names if one not in taken)
    said = await asyncio.to_thread(lambda: list(openai.read(story)))
    (made,) = await use.import_chats({name: said})
    await use.change_settings(made.ref, {"summary_profile": EXTRACTIVE})
    return await _imported(use, made)


async def _imported(use: Service, made: Chat) -> shapes.Imported:
    card = await use.store.chat_card(made.ref)
    held = any(task.reason for task in await use.tasks(made.ref))
    return shapes.Imported(chat=told.chat(card), messages=card.messages, held=held)


@router.get(
    "/chats/{chat}/export",
    response_class=StreamingResponse,
    responses=_FILE,  # pyright: ignore[reportArgumentType]
)
async def exported(
    use: Use,
    ref: TheChat,
    format: Annotated[Literal["openai"], Query()] = "openai",  # noqa: A002 - the contract's word
) -> Response:
    """The chat's messages as a file that can be imported again."""
    del format  # there is one so far
    headers = {"Content-Disposition": f'attachment; filename="chat-{ref.id}.jsonl"'}
    return StreamingResponse(_lines(use, ref), media_type="application/x-ndjson", headers=headers)


async def _lines(use: Service, ref: ChatRef) -> AsyncIterator[str]:
    async for message in use.messages(ref):
        yield openai.line_of(message)
