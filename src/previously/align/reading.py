"""What a request means: which turn it asks for, and what it shows to have changed before that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from previously.align import normal, phrases
from previously.align.certainty import (
    FORK_MAX,
    OVERLAP_MIN,
    Doubt,
    has_others,
    is_in_touch,
    shows_end,
)
from previously.align.ending import Ending, Kind, ending
from previously.align.hints import ASIDE, Habit, Hints
from previously.align.match import Pair
from previously.align.mend import Mending, mend, without_name
from previously.align.rejoin import rejoined, taken_back
from previously.align.scene import Scene
from previously.model import NewMessage, State, TurnRecord

Part = Literal["head", "history", "loose", "tail"]

STAYS_MAX = 16  # instructions and narrator's lines that outlast the messages beside them

UNKNOWN_LAST = "a side request (not streamed, an unknown instruction last)"
LEADS_NOWHERE = "what seems to have changed leads to no certain turn"
TWO_READINGS = "the history can be read as a new turn and as the last one again"


class Place(NamedTuple):  # one for every message of a request: the cheapest that cannot change
    """What one message of a request is."""

    part: Part
    ids: tuple[int, ...] = ()  # the stored messages that it shows
    new: tuple[int, ...] = ()  # which of the turn's appends it holds
    stays: bool = False  # not remembered, and sent also where its neighbours are not


@dataclass(frozen=True, slots=True)
class Alignment:
    """What a request means for a chat, and why."""

    kind: Kind
    reason: str
    confidence: float  # 1: certain. Less: the share of what was said that is known
    places: tuple[Place, ...]
    habit: Habit  # what is known of the client now
    turn: TurnRecord | None = None  # what to record once the reply is there
    complete: bool = True  # all that is stored was looked at: nothing older makes it more certain
    goes_on: bool = False  # in doubt, and still no other chat than this one with more behind it

    @property
    def sure(self) -> bool:
        """Whether the request may be changed and recorded."""
        return self.turn is not None

    @property
    def matched(self) -> tuple[int | None, ...]:
        """For each message of the history the stored one it shows."""
        return tuple(p.ids[0] if p.ids else None for p in self.places if p.part == "history")


def read(scene: Scene, hints: Hints) -> Alignment:
    """The one certain reading of a request, or why there is none."""
    aside = _aside(scene, hints)
    if aside:
        return _unsure(scene, "side", aside)
    try:
        chosen = _chosen(scene, hints)
        changes = mend(chosen)
        end = ending(chosen, hints, changes)
        if changes.doubt:
            raise Doubt(changes.doubt)
    except Doubt as doubt:
        return _unsure(scene, "unsure", str(doubt))
    return _sure(chosen, hints, changes, end)


def _aside(scene: Scene, hints: Hints) -> str:
    """Why this is no turn of the chat; empty if it may be one."""
    if hints.type in ASIDE:
        return f"a side request ({hints.type})"
    last = scene.pieces[-1] if scene.pieces else None
    if last is None or last.role != "system" or hints.type:
        return ""
    if phrases.asks_to_impersonate(last.said.body):
        return "a side request (impersonate)"
    quiet = hints.stream is False and scene.habit.streams is True
    known = scene.mark(len(scene.pieces) - 1) in {*scene.habit.spots, *scene.habit.floating}
    return UNKNOWN_LAST if quiet and not known else ""


# The last turn again, or a new one with the same words


def _chosen(scene: Scene, hints: Hints) -> Scene:
    """The scene; where two readings fit, with the pairs of the one that the hints decide for."""
    again, new = _two_readings(scene)
    if not again:
        return scene
    floors = hints.last_id, scene.habit.last_id
    if hints.type in ("swipe", "regenerate"):
        same = True
    elif floors[0] is not None and floors[1] is not None:
        same = floors[0] <= floors[1]
    elif hints.type == "normal":
        same = False
    elif (hints.swipe or 0) > 1:
        same = True  # of a new turn there is no second reply
    else:
        raise Doubt(TWO_READINGS)
    return replace(scene, pairs=tuple(again if same else new))


def _two_readings(scene: Scene) -> tuple[list[Pair], list[Pair]]:
    """The pairs of both: the last turn again, and a new one. Empty if only one fits."""
    ours = [j for j, m in enumerate(scene.stored) if m.shown]
    asked = [i for i in scene.history if i in scene.said or scene.is_unknown(i)]
    while asked and scene.pieces[asked[-1]].role == "assistant" and asked[-1] not in scene.said:
        asked.pop()
    if len(asked) < 2:
        return [], []
    if _may_be_again(scene, ours):
        again = _run(scene, asked, ours[:-1])
        new = _run(scene, asked[:-1], ours)
        if len(again) == len(asked) and len(new) == len(asked) - 1:
            return again, new
    new = _at_the_end(scene, asked, ours)
    return (list(scene.pairs), new) if new else ([], [])


def _at_the_end(scene: Scene, asked: Sequence[int], ours: Sequence[int]) -> list[Pair]:
    """Where words repeat themselves, what seems to stand further up may as well stand at the end,
    and its last question be new. Empty if it does not, or is read so."""
    *before, last = asked[:-1]
    asks = scene.pieces[asked[-1]].role == "user"
    if not asks or len(before) + 1 < OVERLAP_MIN or len(before) + 1 > len(ours):
        return []
    theirs, mine = scene.pieces[last].said, scene.stored[ours[-1]]
    if theirs.role != mine.role or scene.said.get(before[-1]) == ours[-2]:
        return []  # the last reply may stand there in other words
    same = normal.key(theirs) == normal.key(mine)
    run = _run(scene, before, ours[:-1])
    return [*run, *([(last, ours[-1])] if same else [])] if len(run) == len(before) else []


def _may_be_again(scene: Scene, ours: Sequence[int]) -> bool:
    """Whether the last thing asked is what the newest reply answered; mostly it is new."""
    if len(ours) < 3 or scene.stored[ours[-1]].role != "assistant":
        return False
    for i in reversed(scene.history):
        known = i in scene.said
        if known or (scene.is_unknown(i) and scene.pieces[i].role != "assistant"):
            return normal.key(scene.pieces[i].said) == normal.key(scene.stored[ours[-2]])
    return False


def _run(scene: Scene, theirs: Sequence[int], ours: Sequence[int]) -> list[Pair]:
    """The pairs that are equal one after the other from the end."""
    run: list[Pair] = []
    for i, j in zip(reversed(theirs), reversed(ours), strict=False):
        if normal.key(scene.pieces[i].said) != normal.key(scene.stored[j]):
            break
        run.append((i, j))
    return run[::-1]


def _sure(scene: Scene, hints: Hints, changes: Mending, end: Ending) -> Alignment:
    last = scene.stored[-1] if scene.stored else None
    turn = TurnRecord(
        after_id=last.id if last else None,
        after_hash=last.hash if last else None,
        confirms=_confirms(scene, changes, end),
        appends=_appends(scene, end.news),
        reply=None,
        rerolls=end.rerolls,
        grows=end.grows,
        edits=tuple(changes.edits.items()),
        hides=tuple(changes.hides),
        shows=tuple(changes.shows),
        drops=tuple(changes.drops),
        inserts=tuple(
            (before, tuple(_as_said(scene, i) for i in new)) for before, new in changes.inserts
        ),
    )
    habit = scene.remembered({*changes.ids, *end.news})
    habit = replace(habit.understood(hints), others=has_others(scene, end.news))
    places = _places(scene, changes.ids, end.news)
    return Alignment(end.kind, end.reason, 1.0, places, habit, turn, scene.complete)


def gone_on(scene: Scene, hints: Hints) -> list[Alignment]:
    """The turn of a client that shares too little with what is stored, after a lasting doubt: with
    what it may have taken back before, and without."""
    end = None if _aside(scene, hints) else rejoined(scene, hints)
    if end is None:
        return []
    unchanged = Mending(ids={i: scene.stored[j].id for i, j in scene.pairs})
    both = (taken_back(scene, end), unchanged)
    return [_sure(scene, hints, changes, end) for changes in both if changes is not None]


def doubtful(scene: Scene) -> Alignment:
    """The request as one that is not understood, though it seemed to be."""
    return _unsure(scene, "unsure", LEADS_NOWHERE)


def _unsure(scene: Scene, kind: Kind, reason: str) -> Alignment:
    spoken = [i for i in scene.history if i in scene.said or scene.is_unknown(i)]
    known = sum(i in scene.said for i in spoken)
    share = min(known / len(spoken), 0.99) if spoken else 0.0
    places = _places(scene, {i: scene.stored[j].id for i, j in scene.pairs}, (), spoken)
    habit = scene.habit if kind != "unsure" else _doubted(scene)
    ends = shows_end(scene)
    return Alignment(kind, reason, share, places, habit, complete=scene.complete, goes_on=ends)


def _doubted(scene: Scene) -> Habit:
    """What is known after a request that was not understood. One that has nothing to do with the
    chat, as a question beside it has not, tells nothing of it."""
    in_touch = is_in_touch(scene)
    if not in_touch and not scene.pairs and len(scene.stored) > FORK_MAX:
        return replace(scene.habit, in_touch=False)
    habit, doubts = scene.remembered(set()), scene.habit.doubts + 1
    return replace(habit, asked=scene.asked(), in_touch=in_touch, doubts=doubts)


def _confirms(
    scene: Scene, changes: Mending, end: Ending
) -> tuple[tuple[int, NewMessage | None], ...]:
    """What stands before a reply that the client shows is kept by it, also what it cut off."""
    shown = set(changes.ids.values())
    taken = {*changes.drops, *changes.hides, end.rerolls, end.grows}
    left = shown - taken
    echoed = [j for j, m in enumerate(scene.stored) if m.role == "assistant" and m.id in left]
    before = scene.stored[: max(echoed, default=-1) + 1]
    kept = [m for m in before if m.state == State.CANDIDATE and m.id not in taken]
    later = [m for m in scene.stored[len(before) :] if m.id in changes.texts]
    return tuple((m.id, changes.texts.get(m.id)) for m in (*kept, *later))


def _appends(scene: Scene, news: Sequence[int]) -> tuple[NewMessage, ...]:
    """Before a reply that the client sends back everything is kept; the rest is yet to be seen."""
    said = [_as_said(scene, i) for i in news]
    pending = len(said)
    while pending and (said[pending - 1].role != "assistant" or said[pending - 1].tool_calls):
        pending -= 1
    return tuple(
        replace(one, state=State.CONFIRMED if k < pending else State.CANDIDATE)
        for k, one in enumerate(said)
    )


def _as_said(scene: Scene, i: int) -> NewMessage:
    piece = scene.pieces[i]
    body = without_name(scene, piece)
    return piece.said if body == piece.said.body else replace(piece.said, body=body)


def _places(
    scene: Scene, shown: Mapping[int, int], news: Sequence[int], doubtful: Sequence[int] = ()
) -> tuple[Place, ...]:
    """What each message is: it shows stored ones, holds something new, or may have been said; else
    it is an instruction."""
    ids: dict[int, list[int]] = {scene.pieces[i].source: [] for i in doubtful}
    new: dict[int, list[int]] = {}
    for i, message_id in shown.items():
        ids.setdefault(scene.pieces[i].source, []).append(message_id)
    for k, i in enumerate(news):
        new.setdefault(scene.pieces[i].source, []).append(k)
    spoken = [*ids, *new]
    first, last = min(spoken, default=0), max(spoken, default=-1)
    told = [i for i in scene.history if scene.pieces[i].role == "system"]
    stays = {scene.pieces[i].source for i in (*scene.floating, *told[-STAYS_MAX:])}
    return tuple(
        Place("history", tuple(ids.get(i, ())), tuple(new.get(i, ())))
        if i in ids or i in new
        else Place("head" if i < first else "tail" if i > last else "loose", stays=i in stays)
        for i in range(scene.messages)
    )
