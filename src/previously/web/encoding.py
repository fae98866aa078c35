"""An encoded answer, read beside its way: its bytes pass as they came, a copy is decoded."""

from __future__ import annotations

import zlib
from collections.abc import Callable

DECODED_BYTES_MAX = 64 * 1024 * 1024  # a few bytes may unfold to anything

Decode = Callable[[bytes], bytes]

_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Undecodable(Exception):
    """It is not what its header says, or too much."""


def decoder(encoding: str) -> Decode | None:
    """What decodes an answer piece by piece; None if nothing here can."""
    wbits = _WBITS.get(encoding.strip().lower())
    if wbits is None:
        return None
    inflating = zlib.decompressobj(wbits)
    left = DECODED_BYTES_MAX

    def decode(piece: bytes) -> bytes:
        nonlocal left
        try:
            plain = inflating.decompress(piece, left)
        except zlib.error as error:
            raise Undecodable(str(error)) from error
        left -= len(plain)
        if left <= 0:
            raise Undecodable(f"more than {DECODED_BYTES_MAX} bytes")
        return plain

    return decode


def is_plain(encoding: str) -> bool:
    """Whether an answer can be read as it is."""
    return encoding.strip().lower() in ("", "identity")
