"""Profiles: the models that write summaries. Keys go in and never come out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from previously.errors import BadInput, Conflict, NotConfigured, ProfileNotFound
from previously.llm.check import check
from previously.llm.metered import price_of
from previously.llm.profile import Profile, from_mapping
from previously.llm.remote import new_session
from previously.llm.secrets import KeyFolder, resolve
from previously.service import OWNER, Service
from previously.web.rest import ids, shapes
from previously.web.rest.context import Context, House, Seen, Use, check_seen, tag

MICROS = 1_000_000

router = APIRouter(prefix="/profiles", tags=["profiles"])

ProfileId = Annotated[str, Path(max_length=200, description="A profile's id.")]


@router.get("")
async def listed(house: House) -> shapes.Profiles:
    """Every profile; `extractive`, which is no model, is built in and not listed."""
    stored = await house.service.store.profiles(OWNER)
    return shapes.Profiles(
        items=[await _told(house, from_mapping(values), version) for values, version in stored]
    )


@router.post("", status_code=201)
async def made(house: House, asked: shapes.NewProfile, response: Response) -> shapes.Profile:
    """A profile of a name that none has yet."""
    store = house.service.store
    if await store.find_profile(OWNER, asked.name) is not None:
        raise BadInput(f"there is a profile named {asked.name!r} already", field="name")
    profile = _profile(asked.name, asked, None)
    await store.put_profile(OWNER, profile.as_mapping())
    if asked.api_key:
        await _keep_key(house, profile, asked.api_key)
    return await _shown(house, asked.name, response)


@router.get("/{profile}")
async def shown(house: House, profile: ProfileId, response: Response) -> shapes.Profile:
    """One profile."""
    return await _shown(house, ids.profile_name(profile), response)


@router.patch("/{profile}")
async def changed(
    house: House, profile: ProfileId, asked: shapes.ProfileChange, seen: Seen, response: Response
) -> shapes.Profile:
    """Other values; fields that are not sent stay, and so does the key."""
    found, version = await _find(house.service, ids.profile_name(profile))
    check_seen(seen, version, "the profile")
    altered = _profile(found.name, asked, found)
    if "api_key" in asked.model_fields_set and asked.api_key is None:
        _folder(house).forget(found.name)
        altered = from_mapping({**altered.as_mapping(), "secret": None})
    await house.service.store.alter_profile(OWNER, altered.as_mapping(), version)
    if asked.api_key:
        await _keep_key(house, altered, asked.api_key)
    return await _shown(house, found.name, response)


@router.delete("/{profile}", status_code=204)
async def removed(
    house: House,
    *,
    profile: ProfileId,
    force: Annotated[bool, Query(description="Although chats use it.")] = False,
) -> None:
    """Forget a profile and its key; what it wrote stays."""
    found, _ = await _find(house.service, ids.profile_name(profile))
    users = await _used_by(house.service, found.name)
    if users and not force:
        named = ", ".join("all chats" if user == "*" else user for user in users[:5])
        raise Conflict(f"{found.name!r} is used by {named}; add ?force=true to remove it anyway")
    await house.service.store.remove_profile(OWNER, found.name)
    if house.keys is not None:
        KeyFolder(house.keys).forget(found.name)


@router.post("/{profile}/test")
async def tested(house: House, profile: ProfileId) -> shapes.Finding:
    """Ask one short question, and say in words what came of it. Costs a few tokens."""
    found, _ = await _find(house.service, ids.profile_name(profile))
    try:
        secret = resolve(found.secret, house.environment)
    except NotConfigured as error:
        return shapes.Finding(ok=False, says=[str(error)], answer="")
    async with new_session() as session:
        finding = await check(found, session, secret)
    return shapes.Finding(ok=finding.ok, says=list(finding.lines), answer=finding.answer)


def _profile(name: str, asked: shapes.ProfileFields, before: Profile | None) -> Profile:
    """What was sent, over what there was."""
    sent = asked.model_dump(exclude={"api_key", "name"}, exclude_unset=before is not None)
    if sent.get("price") is not None:
        sent["price"] = _micros(shapes.Price(**sent["price"]))
    values = before.as_mapping() if before is not None else {}
    return from_mapping({**values, **sent, "name": name})


def _micros(price: shapes.Price) -> dict[str, int | None]:
    cached = price.cached_usd
    return {
        "input_micro": round(price.input_usd * MICROS),
        "output_micro": round(price.output_usd * MICROS),
        "cached_input_micro": None if cached is None else round(cached * MICROS),
    }


def _folder(house: Context) -> KeyFolder:
    if house.keys is None:
        raise NotConfigured(
            "this server has no folder for keys; keep the key in the environment and name it "
            "with `previously profile add NAME --secret env:VARIABLE`"
        )
    return KeyFolder(house.keys)


async def _keep_key(house: Context, profile: Profile, key: str) -> None:
    reference = _folder(house).keep(profile.name, key)
    kept = from_mapping({**profile.as_mapping(), "secret": reference})
    await house.service.store.put_profile(OWNER, kept.as_mapping())


async def _find(use: Service, name: str) -> tuple[Profile, int]:
    found = await use.store.find_profile(OWNER, name)
    if found is None:
        raise ProfileNotFound(f"no profile is named {name!r}")
    return from_mapping(found[0]), found[1]


async def _shown(house: Context, name: str, response: Response) -> shapes.Profile:
    found, version = await _find(house.service, name)
    tag(response, version)
    return await _told(house, found, version)


async def _used_by(use: Use, name: str) -> list[str]:
    """Chats and characters whose settings name a profile; `*` stands for the settings of all."""
    users = await use.store.naming(OWNER, name)
    refs = await use.store.refs([user for user in users if isinstance(user, int)])
    characters = [user for user in users if isinstance(user, str)]
    return [*(["*"] if None in users else []), *characters, *(ref.name for ref in refs)]


async def _told(house: Context, found: Profile, version: int) -> shapes.Profile:
    plain: dict[str, Any] = found.as_mapping()
    secret = plain.pop("secret")
    price = found.price
    plain["price"] = None
    if price is not None:
        cached = price.cached_input_micro
        plain["price"] = shapes.Price(
            input_usd=price.input_micro / MICROS,
            output_usd=price.output_micro / MICROS,
            cached_usd=None if cached is None else cached / MICROS,
        )
    return shapes.Profile(
        id=ids.profile_id(found.name),
        **plain,
        price_known=price_of(found) is not None,
        has_key=secret is not None,
        key_kept=_kept(house, secret, found.name),
        used_by=await _used_by(house.service, found.name),
        trouble=(await house.service.store.troubles(OWNER)).get(found.name),
        version=version,
    )


def _kept(house: Context, secret: str | None, name: str) -> Any:
    if secret is None:
        return None
    if house.keys is not None and secret == KeyFolder(house.keys).reference(name):
        return "here"
    return "environment" if secret.startswith("env:") else "file"
