"""Every sentence that this program says to a model, Chinese and English, as data."""

from __future__ import annotations

from previously.prompts.chinese import CHINESE
from previously.prompts.english import ENGLISH
from previously.prompts.shape import KINDS as KINDS
from previously.prompts.shape import Instruction as Instruction
from previously.prompts.shape import Texts as Texts
from previously.prompts.shape import Variables as Variables


def texts(language: str) -> Texts:
    """The texts in that language."""
    return CHINESE if language == "zh" else ENGLISH
