"""Our names for responses: which chat a response is in, and a word that nobody can guess.

The word is kept with the reply, so that a name outlives the process that gave it and means nothing
once its chat is gone.
"""

from __future__ import annotations

import re
import secrets

_NAME = re.compile(r"resp_([0-9a-f]{12})p([0-9a-f]{32})")


def new_id(chat_id: int) -> str:
    """A name for a response of this chat."""
    return f"resp_{chat_id:012x}p{secrets.token_hex(16)}"


def chat_of(response_id: object) -> int | None:
    """The chat that a response would be in; None if the name is not one of ours."""
    found = _NAME.fullmatch(response_id) if isinstance(response_id, str) else None
    return int(found[1], 16) if found else None
