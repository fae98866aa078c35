"""Files that other programs write, read as messages. A reader is one file and one line here.

Which reader a file is for is told by its content, never by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from previously.errors import BadInput
from previously.formats import openai
from previously.model import NewMessage

FILE_BYTES_MAX = 512 * 1024 * 1024


class Reader(Protocol):
    """A module that reads one format."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """As people call the format."""
        ...

    def fits(self, text: str) -> bool:
        """Whether a text is in this format, as far as can be seen without reading all of it."""
        ...

    def read(self, text: str) -> Iterator[NewMessage]:
        """Its messages, oldest first; `BadInput` that begins with the line of what is wrong."""
        ...


READERS: tuple[Reader, ...] = (openai,)


def load(path: Path) -> str:
    """The file's text, or `BadInput` that says why there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", field="file") from error
    if len(raw) > FILE_BYTES_MAX:
        raise BadInput(f"{path} has more than {FILE_BYTES_MAX >> 20} MB", field="file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}: line {line} is not UTF-8", field="file") from error


def reader_for(path: Path, text: str) -> Reader:
    """The reader that knows this text."""
    found = next((reader for reader in READERS if reader.fits(text)), None)
    if found is None:
        known = ", ".join(reader.NAME for reader in READERS)
        raise BadInput(f"{path} is in none of the formats that can be read: {known}", field="file")
    return found


def read(path: Path, text: str) -> Iterator[NewMessage]:
    """The messages of a file that was loaded; what is wrong names the file and the line."""
    try:
        yield from reader_for(path, text).read(text)
    except BadInput as error:
        if str(error).startswith(str(path)):
            raise
        raise BadInput(f"{path}: {error}", field="file") from error
