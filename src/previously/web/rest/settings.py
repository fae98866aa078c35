"""Settings as forms: every field with its group, words, limits, and where its value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from previously.model import EXTRACTIVE, ChatRef
from previously.prompts import KINDS, Instruction, texts
from previously.service import NAME_CHARS_MAX, OWNER, Service
from previously.service.chats import TEMPLATES, check_character
from previously.settings import Field, Settings, layered, schema
from previously.store import Scope
from previously.web.rest import shapes
from previously.web.rest.context import Seen, TheChat, Use, tag
from previously.web.rest.wording import GROUPS, OTHER, field_words

router = APIRouter(tags=["settings"])


Character = Annotated[
    str | None,
    Query(min_length=1, max_length=NAME_CHARS_MAX, description="Of this character's chats only."),
]


@router.get("/settings")
async def shown(use: Use, response: Response, character: Character = None) -> shapes.SettingsForm:
    """What holds for every chat that has nothing of its own, or for a character's chats."""
    return await form(use, _line(character), response)


@router.patch("/settings")
async def changed(
    use: Use,
    asked: shapes.SettingsChange,
    seen: Seen,
    response: Response,
    character: Character = None,
) -> shapes.SettingsForm:
    """New values for all chats, or a character's; null takes one back. They hold at once."""
    await use.change_settings(_line(character), asked.root, seen)
    return await form(use, _line(character), response)


def _line(character: str | None) -> str | None:
    if character is not None:
        check_character(character)
    return character


@router.get("/characters")
async def characters(use: Use) -> shapes.CharacterList:
    """Every character that a chat or a setting names."""
    found = await use.store.characters(OWNER)
    return shapes.CharacterList(
        items=[shapes.Character(name=name, chats=chats) for name, chats in found.items()]
    )


@router.get("/chats/{chat}/settings", tags=["chats"])
async def shown_of_chat(use: Use, ref: TheChat, response: Response) -> shapes.SettingsForm:
    """What holds for one chat, and where that comes from."""
    return await form(use, ref, response)


@router.patch("/chats/{chat}/settings", tags=["chats"])
async def changed_of_chat(
    use: Use, ref: TheChat, asked: shapes.SettingsChange, seen: Seen, response: Response
) -> shapes.SettingsForm:
    """New values for one chat; null takes one back."""
    await use.change_settings(ref, asked.root, seen)
    return await form(use, ref, response)


@router.get("/templates")
async def templates() -> shapes.Templates:
    """The texts that ask for summaries, with the names that each may use."""
    return shapes.Templates(
        items=[
            shapes.Template(
                setting=name,
                kind=kind,
                required=list(KINDS[kind].required),
                optional=list(KINDS[kind].optional),
                ours=shapes.Words(zh=_ours("zh", kind), en=_ours("en", kind)),
            )
            for name, kind in TEMPLATES.items()
        ]
    )


def _ours(language: str, kind: str) -> str:
    said: Instruction = getattr(texts(language), kind)
    return f"{said.system}\n\n{said.user}"


@router.post("/chats/{chat}/templates/try", tags=["chats"])
async def tried(use: Use, ref: TheChat, asked: shapes.Trying) -> shapes.Tried:
    """Your words on the newest thing of their kind in a chat. Nothing of it is stored."""
    made = await use.try_template(ref, asked.setting, asked.template.strip(), run=asked.run)
    return shapes.Tried(
        wrong=list(made.wrong),
        messages=[dict(message) for message in made.ask.messages] if made.ask else [],
        tokens_max=made.task.tokens_max if made.task else None,
        answer=made.draft.text if made.draft else None,
        model=str(made.draft.provenance["model"]) if made.draft else None,
    )


async def form(
    use: Service, whose: ChatRef | str | None, response: Response
) -> shapes.SettingsForm:
    """All fields of one scope."""
    key = whose.id if isinstance(whose, ChatRef) else whose
    layers = await use.store.setting_layers(OWNER, key)
    scope, own = layers.popitem()  # the topmost is the one that is asked for
    inherited = asdict(layered(*(layer.values for layer in layers.values()))[0])
    values = asdict(layered(*(layer.values for layer in layers.values()), own.values)[0])
    if isinstance(whose, ChatRef):
        character = (await use.store.chat_card(whose)).character
    else:
        character = whose
    tag(response, own.revision)
    profiles = [str(one["name"]) for one, _ in await use.store.profiles(OWNER)]
    choices = {"summary_profile": ["", EXTRACTIVE, *profiles]}
    return shapes.SettingsForm(
        scope=scope,  # pyright: ignore[reportArgumentType] - a scope's name
        character=character,
        revision=own.revision,
        groups=[shapes.Group(id=g, title=shapes.Words(**w)) for g, w in GROUPS.items()],
        fields=[
            _field(
                spec._replace(choices=choices.get(spec.name, spec.choices)),
                values,
                inherited,
                own.values.get(spec.name),
                _origin(spec.name, layers),
            )
            for spec in schema()
        ],
    )


def _origin(name: str, below: Mapping[str, Scope]) -> Any:
    """Which layer a value would come from if nothing were set here."""
    having = [place for place, layer in below.items() if name in layer.values]
    return having[-1] if having else "default"


def _field(
    spec: Field, values: dict[str, Any], inherited: dict[str, Any], own: Any, origin: Any
) -> shapes.SettingField:
    words = field_words(spec.name, spec.help)
    return shapes.SettingField(
        name=spec.name,
        group=words.group if words.group in GROUPS else OTHER,
        type=spec.type,
        title=shapes.Words(zh=words.title_zh, en=words.title_en),
        help=shapes.Words(zh=words.help_zh, en=spec.help),
        value=values[spec.name],
        own=own,
        inherited=inherited[spec.name],
        inherited_from=origin,
        default=getattr(Settings(), spec.name),
        minimum=spec.minimum,
        maximum=spec.maximum,
        choices=None if spec.choices is None else list(spec.choices),
        max_chars=spec.max_chars,
    )
