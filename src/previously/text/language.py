"""Language: whether a text is to be answered in Chinese or in English."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["zh", "en"]

# A Chinese sentence full of Latin names still has a third of its letters in Han; an English one
# that quotes a Chinese word has not. One character says more than one letter, hence below a half.
HAN_SHARE_MIN = 0.3

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_LETTER = re.compile(r"[^\W\d_]")
# Japanese is written with Han too, but never for long without kana.
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
KANA_SHARE_MAX = 0.1


def language_of(text: str) -> Language:
    """Chinese if enough of the letters are Han; everything else, and nothing, is English."""
    if text.isascii():
        return "en"
    letters = len(_LETTER.findall(text))
    if not letters:
        return "en"
    if len(_KANA.findall(text)) > letters * KANA_SHARE_MAX:
        return "en"
    return "zh" if len(_HAN.findall(text)) >= letters * HAN_SHARE_MIN else "en"
