"""Keys: where they are kept, and that nobody sees them on their way to the provider.

A `Secret` shows itself as `***`. `reveal` is for whoever puts it into a request's header.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from previously.errors import BadInput, NotConfigured

HIDDEN = "***"
FILE_BYTES_MAX = 64 * 1024
REDACTED_CHARS_MIN = 4  # a shorter "key" is a placeholder like `x`; hiding it would garble texts

_ENV = "env:"
_FILE = "file:"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Hidden(str):
    """A header's value that no `repr` shows: not of the headers, not of a frame's variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


class Secret:
    """A key. It prints as `***`, cannot be pickled, and takes itself out of texts."""

    __slots__ = ("_forms", "_value")

    def __init__(self, value: str) -> None:
        self._value = Hidden(value)
        # As the key itself, in a URL, or in JSON: an upstream may quote it any of these ways.
        forms = {value, quote(value, safe=""), json.dumps(value)[1:-1]}
        long = (form for form in forms if len(form) >= REDACTED_CHARS_MIN)
        self._forms = tuple(Hidden(form) for form in sorted(long, key=len, reverse=True))

    def reveal(self, prefix: str = "") -> Hidden:
        """The key for a request's header, behind a prefix such as `Bearer `."""
        return Hidden(prefix + self._value)

    def redact(self, text: str) -> str:
        """The text without the key."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def redact_bytes(self, raw: bytes) -> bytes:
        """The bytes without the key."""
        for form in self._forms:
            raw = raw.replace(form.encode(), HIDDEN.encode())
        return raw

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written down")


class KeyFolder:
    """Keys that were typed in: one file for each profile, for nobody's eyes but this user's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, profile: str) -> Path:
        # Hashed: a profile may have any name, a file may not.
        return self._folder / f"{sha256(profile.encode()).hexdigest()[:32]}.key"

    def reference(self, profile: str) -> str:
        """What a profile says about where its key is kept."""
        return f"{_FILE}{self._path(profile)}"

    def keep(self, profile: str, key: str) -> str:
        """Write a key down in one step; the reference to it."""
        value = Hidden(key.strip())
        if not value or not (value.isascii() and value.isprintable()):
            raise BadInput("a key is one line of plain letters", field="api_key")
        path = self._path(profile)
        fresh = path.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "w", encoding="ascii") as file:
                file.write(value)
            fresh.replace(path)
        except OSError as error:
            raise NotConfigured(f"the key cannot be kept in {path}: {error.strerror}") from None
        return self.reference(profile)

    def forget(self, profile: str) -> None:
        """Remove a key; nothing if there is none."""
        self._path(profile).unlink(missing_ok=True)


def check_reference(reference: str) -> None:
    """`BadInput` for anything that does not say where a key is kept; it may be the key itself."""
    if reference.startswith(_FILE) and len(reference) > len(_FILE):
        return
    if reference.startswith(_ENV) and _ENV_NAME.fullmatch(reference[len(_ENV) :]):
        return
    raise BadInput(
        "secret says where the key is kept, env:NAME or file:PATH; it is not the key itself",
        field="secret",
    )


def resolve(reference: str | None, environment: Mapping[str, str]) -> Secret | None:
    """The key behind a reference; `NotConfigured` says what to do if it cannot be had."""
    if reference is None:
        return None
    check_reference(reference)
    if reference.startswith(_ENV):
        name = reference[len(_ENV) :]
        found = Hidden(environment.get(name, "").strip())
        missing = f"the key is kept in the environment variable {name}, which is not set"
    else:
        path = Path(reference[len(_FILE) :]).expanduser()
        found = Hidden(_read(path).strip())
        missing = f"the key is kept in {path}, which is empty"
    del environment  # a traceback may show what its frames hold
    if not found:
        raise NotConfigured(missing)
    if not (found.isascii() and found.isprintable()):
        raise NotConfigured(f"what {reference} holds is no key: a key is one line of plain letters")
    return Secret(found)


def _read(path: Path) -> str:
    try:
        # Asked of the open file, so that nobody can swap it between the look and the reading.
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise NotConfigured(f"others can read the key in {path}; run: chmod 600 {path}")
            raw = file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise NotConfigured(f"the key is kept in {path}: {error.strerror}") from None
    return raw.decode("utf-8", "replace")
