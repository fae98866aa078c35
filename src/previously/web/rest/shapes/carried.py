"""What a chat was handed by the one that it continues."""

from __future__ import annotations

from pydantic import Field

from previously.web.rest.shapes.common import Id, Told


class Carried(Told):
    """Something that the chat which this one continues has handed on."""

    id: Id
    text: str
    tokens: int
    kind: str = Field(examples=["mini", "volume", "pinned", "rest"])
    is_extract: bool
    from_chat: Id
    from_title: str
    shown: bool = Field(description="It stands in the next prompt.")


class CarriedList(Told):
    items: list[Carried]
