"""Capture: of a message only what stands between two tags, where it has them."""

from __future__ import annotations


def captured(text: str, start: str, end: str) -> str:
    """What stands between the tags, every pair of them on lines of its own; tags are literal.

    Without a start tag it begins where the text does, without an end tag it ends where the text
    does. A text that has no start tag is wanted whole.
    """
    if not start:
        return text.partition(end)[0] if end else text
    if start not in text:
        return text
    if not end:
        return text.partition(start)[2].strip()
    pieces = (piece.partition(end)[0] for piece in text.split(start)[1:])
    return "\n".join(piece.strip() for piece in pieces if piece.strip())
