"""Previously (前情提要): long conversations at a bounded prompt size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from previously.errors import PreviouslyError as PreviouslyError
    from previously.memory import Chat as Chat
    from previously.memory import Memory as Memory
    from previously.model import Prompt as Prompt
    from previously.settings import Settings as Settings

__version__ = "0.1.0"
__all__ = ["Chat", "Memory", "PreviouslyError", "Prompt", "Settings", "__version__"]

_HOMES = {
    "Chat": "previously.memory",
    "Memory": "previously.memory",
    "PreviouslyError": "previously.errors",
    "Prompt": "previously.model",
    "Settings": "previously.settings",
}


def __getattr__(name: str) -> Any:
    """Loaded on first use, so that `previously --help` does not wait for a database driver."""
    from importlib import import_module  # noqa: PLC0415

    if name not in _HOMES:
        raise AttributeError(f"module 'previously' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
