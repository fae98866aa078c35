"""About this server; logging in and out; and the tokens that others may use."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from previously import formats
from previously.errors import BadInput
from previously.lanes.registry import DEFAULT_PRESET, PRESETS
from previously.service import OWNER
from previously.web.auth import SCOPES, Keyring, new_token
from previously.web.rest import shapes
from previously.web.rest.context import House

router = APIRouter(tags=["server"])


@router.get("/about")
async def about(house: House) -> shapes.About:
    """What a page needs to know before anything else."""
    return shapes.About(
        version=version("previously"),
        upstream=house.upstream,
        token_needed=house.token is not None,
        may_keep_keys=house.keys is not None,
        presets=[
            shapes.Preset(name=name, lane=lane, is_default=name == DEFAULT_PRESET)
            for name, lane in PRESETS.items()
        ],
        formats_in=[reader.NAME for reader in formats.READERS],
        formats_out=["openai"],
    )


@router.post("/login")
async def login(
    house: House, asked: shapes.Login, request: Request, response: Response
) -> shapes.LoggedIn:
    """Trade a token for a cookie that this browser keeps for a month."""
    ring = Keyring(house.service, house.token)
    found = await ring.scopes_of(asked.token)
    if found is None:
        raise BadInput("this is not the server's token", field="token")
    cookie = await ring.cookie_for(asked.token)
    response.set_cookie(
        cookie.name,
        cookie.value,
        max_age=cookie.max_age_s,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return shapes.LoggedIn(scopes=sorted(found))


@router.post("/logout", status_code=204)
async def logout(response: Response) -> None:
    """Forget the cookie."""
    response.delete_cookie(Keyring.COOKIE, httponly=True, samesite="strict")


@router.get("/tokens")
async def tokens(house: House) -> shapes.Tokens:
    """The tokens that were given out: their names and scopes, never what they are."""
    found = await house.service.store.tokens(OWNER)
    return shapes.Tokens(
        items=[
            shapes.Token(
                id=f"k{one.id}",
                name=one.name,
                scopes=sorted(one.scopes),
                created_at_ms=one.created_at_ms,
            )
            for one in found
        ]
    )


@router.post("/tokens", status_code=201)
async def token_made(house: House, asked: shapes.NewToken) -> shapes.TokenMade:
    """A token for another program; it is shown this once."""
    token, digest = new_token()
    scopes = frozenset[str](asked.scopes)
    assert scopes <= SCOPES
    made = await house.service.store.add_token(OWNER, asked.name, digest, scopes)
    return shapes.TokenMade(
        id=f"k{made.id}",
        name=made.name,
        scopes=sorted(made.scopes),
        created_at_ms=made.created_at_ms,
        token=token,
    )


@router.delete("/tokens/{token}", status_code=204)
async def token_removed(
    house: House, token: Annotated[str, Path(pattern=r"^k[1-9]\d{0,8}$")]
) -> None:
    """Take a token back; whoever uses it is refused from now on."""
    if not await house.service.store.remove_token(OWNER, int(token[1:])):
        raise BadInput("there is no such token; it may have been removed", field="token")
