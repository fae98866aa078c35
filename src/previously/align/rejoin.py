"""A client that has gone on while nothing was understood, until its window shows too little of what
is stored: it is known by the replies that it got meanwhile.

What it has said since is new for certain. What has become of the last stored messages mostly is not
known; they stay, and a later request that shows what stands around them may tell.
"""

from __future__ import annotations

from previously.align import certainty
from previously.align.ending import Ending
from previously.align.hints import Hints
from previously.align.mend import Mending, mend
from previously.align.scene import Scene

DOUBTS_MIN = 4  # requests that were not understood before it: others may tell more
HEARD_MIN = 2  # replies of ours
SHOWN_MIN = 2  # stored messages: one may be said again


def rejoined(scene: Scene, hints: Hints) -> Ending | None:
    """The turn that goes on from our own replies, if there is one."""
    heard = [i for i in scene.history if i in scene.spots and scene.is_heard(i)]
    if len(heard) < HEARD_MIN:
        return None
    first = min([_asked_before(scene, heard[0]), *_settled_before(scene, heard[0])])
    news = _up_to_question(scene, scene.unknown(first, len(scene.pieces)))
    if not news or not certainty.are_said(scene, hints, -1, news):
        return None
    return Ending("append", f"it goes on from our own replies, {len(news)} new", news)


def taken_back(scene: Scene, end: Ending) -> Mending | None:
    """What has changed before that, if it can be told: what is new stands right behind stored
    messages that are shown one after the other, or behind a reply, which nobody says again; and
    those that came after them are not shown."""
    if not scene.pairs:
        return None
    *before, (last, j) = scene.pairs[-SHOWN_MIN:]
    telling = certainty.is_telling(scene.stored[j])
    if not telling and not certainty.is_solid(scene):
        return None
    first = before[0][0] + 1 if before else last
    if scene.unknown(first, end.news[0]) or not (before or scene.stored[j].role == "assistant"):
        return None
    changes = mend(scene)
    changes.drops += [m.id for m in scene.stored[j + 1 :] if m.shown]
    return None if changes.doubt else changes


def _asked_before(scene: Scene, reply: int) -> int:
    """Where that begins which a reply answers."""
    first = reply
    for i in range(reply - 1, scene.start - 1, -1):
        if i in scene.said or scene.pieces[i].role == "assistant":
            break
        first = i if scene.is_unknown(i) else first
    return first


def _settled_before(scene: Scene, reply: int) -> list[int]:
    """All that stands between the last stored message and a reply, if it has stayed there."""
    after = max((i for i in scene.said if i < reply), default=-1)
    between = scene.unknown(after + 1, reply) if after >= 0 else []
    return between if all(map(scene.has_stayed, between)) else []


def _up_to_question(scene: Scene, after: list[int]) -> list[int]:
    """Without what is to begin the next reply; none, if nothing is asked."""
    asked = [i for i in after if scene.pieces[i].role in ("user", "tool")]
    last = max(asked, default=-1)
    if any(scene.is_heard(i) for i in after if i > last):
        return []  # another reply, or more of the last one
    return [i for i in after if i <= last]
