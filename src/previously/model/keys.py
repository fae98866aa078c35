"""How a record is told from every other: keys, positions and content hashes."""

from __future__ import annotations

import hashlib

BIRTH_BITS = 32
BIRTH_MASK = (1 << BIRTH_BITS) - 1
POS_GAP = 1 << 32  # room for 32 insertions by halving between any two neighbours
START = -(1 << 62)  # before every message; positions may be negative, insertions go anywhere
DIGEST_BYTES = 16


def key(chat_id: int, n: int) -> int:
    """The key of the n-th record born in a chat."""
    return chat_id << BIRTH_BITS | n


def birth(record_key: int) -> int:
    """The birth number inside a key."""
    return record_key & BIRTH_MASK


def digest(*parts: str | bytes | None) -> bytes:
    """A short content hash; parts are framed by length, so that they cannot run together."""
    h = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        if part is None:
            h.update(b"\xff")
            continue
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "big"))
        h.update(raw)
    return h.digest()
