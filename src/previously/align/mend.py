"""What has changed between messages that are still there: edited, hidden, shown again, revealed.

Only what stands between two known messages, or is settled, is concluded from. Nothing is ever
concluded to be deleted from the middle of a history: what is missing there is hidden.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from previously.align import normal
from previously.align.pieces import Piece
from previously.align.scene import Scene
from previously.model import CLIENT, Message, NewMessage, State

EDITS_MAX = 4  # more at once are not a user's: some script shows old messages in other words
HIDES_MAX = 8  # a longer gap after a short beginning is what a client cut off
STORY_MIN = 2
FIRST_MAX = 4  # messages at the start of a chat among which an instruction may have been taken in

MIXED = "a stretch of the history has changed in more ways than one"


@dataclass
class Mending:
    """How the stored history has to change to be what the client shows."""

    ids: dict[int, int] = field(default_factory=dict[int, int])  # piece → message that it shows
    texts: dict[int, NewMessage] = field(default_factory=dict[int, NewMessage])  # of candidates
    edits: dict[int, NewMessage] = field(default_factory=dict[int, NewMessage])
    hides: list[int] = field(default_factory=list[int])
    shows: list[int] = field(default_factory=list[int])
    drops: list[int] = field(default_factory=list[int])
    inserts: list[tuple[int, list[int]]] = field(default_factory=list[tuple[int, list[int]]])
    doubt: str = ""  # why it is not certain

    def take(self, scene: Scene, i: int, m: Message) -> None:
        """The piece is this message, perhaps in other words."""
        self.ids[i] = m.id
        if m.hidden_by == CLIENT and m.id not in self.shows:
            self.shows.append(m.id)
        text = worded(scene, i, m)
        if (text.body, text.tool_calls, text.parts) != (m.body, m.tool_calls, m.parts):
            (self.texts if m.state == State.CANDIDATE else self.edits)[m.id] = text


def mend(scene: Scene) -> Mending:
    """Read everything up to the last message that both sides have."""
    out = Mending()
    for i, j in scene.pairs:
        _same(scene, out, i, j)
    for (i, j), (k, m) in pairwise(scene.pairs):
        if k - i > 1 or m - j > 1:  # mostly they are neighbours on both sides
            _gap(scene, out, scene.unknown(i + 1, k), (j + 1, m))
    _front(scene, out)
    _strayed(scene, out)
    if len(out.edits) > EDITS_MAX:
        out.edits.clear()
    return out


def _same(scene: Scene, out: Mending, i: int, j: int) -> None:
    piece, m = scene.pieces[i], scene.stored[j]
    out.ids[i] = m.id
    if m.hidden_by == CLIENT:
        out.shows.append(m.id)
    if i in scene.views:
        changed = scene.is_cut(i)
    else:
        joined = normal.was_joined_to(piece.said, m)
        changed = m.state == State.CANDIDATE or joined or not normal.same_name(m, piece.said)
    if changed:
        out.take(scene, i, m)


def _gap(scene: Scene, out: Mending, theirs: list[int], span: tuple[int, int]) -> None:
    """What both sides have between two messages that are the same."""
    between = scene.stored[span[0] : span[1]]
    ours = [m for m in between if m.shown or (theirs and scene.was_shown_again(m))]
    if not theirs:
        if ours:
            _missing(scene, out, ours, span[0])
    elif not ours:
        if all(map(scene.has_stayed, theirs)):
            out.inserts.append((scene.stored[span[1]].id, theirs))
    elif any(map(scene.is_doubtful, theirs)):
        out.doubt = MIXED
    elif [scene.pieces[i].role for i in theirs] == [m.role for m in ours]:
        if any(map(scene.stood_beside, theirs, ours)):
            out.doubt = MIXED
        for i, m in zip(theirs, ours, strict=True):
            out.take(scene, i, m)
    elif all(map(scene.is_settled, theirs)):
        _rewritten(scene, out, theirs, ours, before=scene.stored[span[1]].id)
    else:
        out.doubt = MIXED


def _rewritten(
    scene: Scene, out: Mending, theirs: Sequence[int], ours: Sequence[Message], before: int
) -> None:
    """Where there are fewer than there were and the roles can only stand in one way, those are
    edited and the others hidden; else they are new, and all that was there is hidden."""
    roles = [m.role for m in ours]
    places = _only_places([scene.pieces[i].role for i in theirs], roles)
    kept = {ours[n].id for n in places}
    for i, n in zip(theirs, places, strict=False):
        out.take(scene, i, ours[n])
    out.hides += [m.id for m in ours if m.id not in kept and m.shown]
    if not places:
        out.inserts.append((before, list(theirs)))


def _only_places(some: Sequence[str], roles: Sequence[str]) -> list[int]:
    """Where some of these roles stand in order; empty if that is nowhere, or can be elsewhere."""
    first = _places_in(some, roles)
    last = [len(roles) - 1 - n for n in _places_in(some[::-1], roles[::-1])][::-1]
    return first if first == last else []


def _places_in(some: Sequence[str], roles: Sequence[str]) -> list[int]:
    """The earliest places; empty if there are not enough."""
    places: list[int] = []
    for role in some:
        start = places[-1] + 1 if places else 0
        if role not in roles[start:]:
            return []
        places.append(roles.index(role, start))
    return places


def _missing(scene: Scene, out: Mending, ours: Sequence[Message], first: int) -> None:
    """Messages that the client shows no longer, between two that it does."""
    beginning = bisect_left(scene.pairs, first, key=itemgetter(1))
    if len(ours) > max(HIDES_MAX, beginning):
        # It keeps its first messages and cuts off what follows; or all that is gone, and somebody
        # says again what he said last.
        after = [scene.pieces[i].said for i, _ in scene.pairs[beginning:]]
        if len(after) == 1 and not normal.is_telling(after[0]):
            out.doubt = MIXED
        return
    for m in ours:
        moved = [i for i in scene.saying(m) if scene.pieces[i].role != "system"]
        if moved and m.state == State.CANDIDATE:
            out.drops.append(m.id)  # it was an instruction, and taken for something said
        elif not moved or any(map(scene.is_settled, moved)):
            out.hides.append(m.id)
        else:
            out.doubt = MIXED


def _front(scene: Scene, out: Mending) -> None:
    """Older messages than were ever sent: a client that shows more of its history than before."""
    if not scene.pairs or not scene.complete:
        return
    first, j = scene.pairs[0]
    theirs = scene.unknown(scene.start, first)
    if any(m.shown and not m.pinned for m in scene.stored[:j]):
        return
    if _is_story(scene, theirs, before=j):
        out.inserts.append((scene.stored[j].id, theirs))


def _strayed(scene: Scene, out: Mending) -> None:
    """What stood before the first messages ever shown, and now stands between others that were
    there then, or has wandered since: an instruction, as nobody could tell at first sight."""
    if not scene.pairs or not scene.complete:
        return
    (first, j), last = scene.pairs[0], scene.pairs[-1][0]
    behind = (i for i in scene.spots if first < i)
    strange = (scene.pieces[i].said.body for i in behind if i < last or i in scene.floating)
    between = {normal.bare(part) for text in strange for part in normal.paragraphs(text)}
    ahead = (m for m in scene.stored[: min(j, FIRST_MAX)] if m.shown and not m.pinned)
    out.hides += [m.id for m in ahead if between and _is_made_of(m.body, between)]


def _is_made_of(text: str, parts: Collection[str]) -> bool:
    """Whether each paragraph is among these."""
    own = normal.paragraphs(text)
    return bool(own) and all(normal.bare(part) in parts for part in own)


def _is_story(scene: Scene, theirs: Sequence[int], before: int) -> bool:
    """Whether these belong to the history: they stay where they are, and take turns."""
    roles = [scene.pieces[i].role for i in theirs] + [scene.stored[before].role]
    alternate = all(a != b for a, b in pairwise(roles))
    return len(theirs) >= STORY_MIN and alternate and all(map(scene.is_settled, theirs))


def worded(scene: Scene, i: int, m: Message) -> NewMessage:
    """A piece as this message's text, under the identity that the message has."""
    said = scene.pieces[i].said
    body = without_name(scene, scene.pieces[i])
    if m.role == "user" and m.state == State.CANDIDATE:
        body = _shared_words(m.body, body)
    return NewMessage(
        m.role,
        body,
        m.name,
        tool_calls=said.tool_calls,
        tool_call_id=m.tool_call_id,
        parts=said.parts,
        extra=said.extra,
    )


def _shared_words(ours: str, theirs: str) -> str:
    """Where both have paragraphs of their own, those were joined to the words that both have."""
    mine, yours = normal.paragraphs(ours), normal.paragraphs(theirs)
    shared = [part for part in yours if part in mine]
    begins = mine[:1] == yours[:1]
    if begins and len(shared) < min(len(mine), len(yours)):
        return normal.PARAGRAPH.join(shared)
    return theirs


def without_name(scene: Scene, piece: Piece) -> str:
    """Its text; without the name in front, if this request puts one where none is stored."""
    body = piece.said.body
    if not normal.prefix(body) or piece.role not in scene.named:
        return body
    return body.lstrip()[len(normal.prefix(body)) :].lstrip()
