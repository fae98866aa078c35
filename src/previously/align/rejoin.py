"""A client that has gone on while nothing was understood, until its window shows too little of what
is stored: it is known by the replies that it got meanwhile.

What it has said since is new for certain. What has become of the last stored messages is not known;
they stay, and a later request that shows what stands around them may tell.
"""

from __future__ import annotations

from previously.align import certainty
from previously.align.ending import Ending
from previously.align.hints import Hints
from previously.align.scene import Scene

DOUBTS_MIN = 4  # requests that were not understood before it: others may tell more
HEARD_MIN = 2  # replies of ours


def rejoined(scene: Scene, hints: Hints) -> Ending | None:
    """The turn that goes on from our own replies, if there is one."""
    heard = [i for i in scene.history if i in scene.spots and scene.is_heard(i)]
    if len(heard) < HEARD_MIN:
        return None
    first = _asked_before(scene, heard[0])
    news = _up_to_question(scene, scene.unknown(first, len(scene.pieces)))
    if not news or not certainty.are_said(scene, hints, -1, news):
        return None
    return Ending("append", f"it goes on from our own replies, {len(news)} new", news)


def _asked_before(scene: Scene, reply: int) -> int:
    """Where that begins which a reply answers."""
    first = reply
    for i in range(reply - 1, scene.start - 1, -1):
        if i in scene.said or scene.pieces[i].role == "assistant":
            break
        first = i if scene.is_unknown(i) else first
    return first


def _up_to_question(scene: Scene, after: list[int]) -> list[int]:
    """Without what is to begin the next reply; none, if nothing is asked."""
    asked = [i for i in after if scene.pieces[i].role in ("user", "tool")]
    last = max(asked, default=-1)
    if any(scene.is_heard(i) for i in after if i > last):
        return []  # another reply, or more of the last one
    return [i for i in after if i <= last]
