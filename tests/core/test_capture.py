"""Of a message only what stands between the tags."""

from __future__ import annotations

import pytest

from previously.text.capture import captured

TEXT = "think <正文>one</正文> noise <正文>two"


@pytest.mark.proves("B-82")
@pytest.mark.parametrize(
    ("text", "start", "end", "found"),
    [
        (TEXT, "", "", TEXT),
        ("a<x>b<x>c", "<x>", "", "b<x>c"),
        ("a</x>b", "", "</x>", "a"),
        ("no tag", "", "</x>", "no tag"),
        (TEXT, "<正文>", "</正文>", "one\ntwo"),
        ("no tag", "<x>", "</x>", "no tag"),
        ("a<x></x>b", "<x>", "</x>", ""),
        ("a.*b.*c", ".*", "", "b.*c"),
        ("a(1)b", "(", ")", "1"),
    ],
)
def test_what_stands_between_the_tags(text: str, start: str, end: str, found: str):
    assert captured(text, start, end) == found
