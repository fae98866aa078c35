"""The settings form, whose they may be, and a user's own words for a template."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel

from previously.web.rest.shapes.common import Asked, Told


class Character(Told):
    name: str
    chats: int


class CharacterList(Told):
    items: list[Character]


class Words(Told):
    zh: str
    en: str


class Group(Told):
    id: str
    title: Words


SettingValue = bool | int | float | str | None


class SettingField(Told):
    name: str
    group: str
    type: Literal["flag", "whole", "amount", "choice", "text", "template", "rules"]
    title: Words
    help: Words
    value: SettingValue = Field(description="What holds now.")
    own: SettingValue = Field(description="What is set here; none: nothing.")
    inherited: SettingValue = Field(description="What would hold without it.")
    inherited_from: Literal["default", "environment", "global", "character"]
    default: SettingValue
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] | None = None
    max_chars: int | None = None


class SettingsForm(Told):
    scope: Literal["global", "character", "chat"]
    character: str | None = Field(description="Whose these are, or whose the chat is.")
    revision: int
    groups: list[Group]
    fields: list[SettingField]


class SettingsChange(RootModel[dict[str, bool | int | float | str | None]]):
    """New values by name; null takes one back to what stands below."""

    model_config = ConfigDict(
        frozen=True, json_schema_extra={"examples": [{"visible_floors": 30, "fold_every": None}]}
    )


class Template(Told):
    """A text that asks a model for something, and that a user may put in their own words."""

    setting: str
    kind: str
    required: list[str] = Field(description="Names that it must have, as {{NAME}}.")
    optional: list[str]
    ours: Words


class Templates(Told):
    items: list[Template]


class Trying(Asked):
    setting: Literal["mini_prompt", "volume_prompt"]
    template: str = Field(default="", max_length=20_000, description="Empty: ours.")
    run: bool = Field(default=False, description="Ask the chat's model too; that may cost.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"setting": "mini_prompt", "template": "In one line: {{NEW_HISTORY}}"}]
        }
    )


class Tried(Told):
    wrong: list[str] = Field(description="What is wrong with the template; none: it will do.")
    messages: list[dict[str, JsonValue]] = Field(description="The very request.")
    tokens_max: int | None
    answer: str | None
    model: str | None
