"""Text as every database can hold it."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Lone surrogates and NUL become the replacement character; nothing else is touched."""
    return _UNSTORABLE.sub(REPLACEMENT, text)
