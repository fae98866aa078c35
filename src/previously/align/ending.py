"""How a request ends: which turn it asks for, compared with the end of what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from previously.align import certainty, normal, phrases
from previously.align.certainty import FORK_MAX, Doubt
from previously.align.hints import Hints
from previously.align.mend import MIXED, Mending
from previously.align.scene import Scene
from previously.model import Message, State

Kind = Literal["first", "append", "reroll", "continue", "side", "unsure"]

ASKS_NOTHING = "the last message is neither the user's nor a tool's"
NOTHING_SAID = "the request holds no conversation"
NO_MATCH = "the history does not continue what is stored"
TOO_LITTLE = "the history shares too little with what is stored"
NOT_SETTLED = "a new message may be an instruction; the next request will show"
DEEP_FORK = "the history ends earlier than what is stored; the next request will show"
VERSION = "the last message may be the beginning of a reply, or the whole of one"


@dataclass(frozen=True, slots=True)
class Ending:
    """The turn that is asked for."""

    kind: Kind
    reason: str
    news: Sequence[int] = field(default_factory=list[int])  # pieces to append
    rerolls: int | None = None
    grows: int | None = None


@dataclass(frozen=True, slots=True)
class _End:
    """What stands behind the last message that both sides have."""

    scene: Scene
    hints: Hints
    changes: Mending
    news: list[int]  # what is new, up to the last question
    begun: list[int]  # replies behind it: they begin the next one, or are one
    gone: list[Message]  # stored, and not in the request


def ending(scene: Scene, hints: Hints, changes: Mending) -> Ending:
    """The one turn that the request can ask for; `Doubt` if there is none."""
    end = _end(scene, hints, changes)
    if scene.stored and not scene.pairs:
        return _begun_anew(end)
    if end.news:
        return _new_turn(end)
    if not scene.stored:
        raise Doubt(ASKS_NOTHING if end.begun else NOTHING_SAID)
    if scene.stored[scene.pairs[-1][1]].role == "assistant":
        return _after_reply(end)
    _check_begun(end)
    return _asked_again(end)


def _end(scene: Scene, hints: Hints, changes: Mending) -> _End:
    last, j = scene.pairs[-1] if scene.pairs else (scene.start - 1, -1)
    after = scene.unknown(last + 1, len(scene.pieces))
    asked = max((i for i in after if scene.pieces[i].role in ("user", "tool")), default=-1)
    asked = max([asked, *_spoken_before(scene, hints, after), *filter(scene.is_heard, after)])
    return _End(
        scene,
        hints,
        changes,
        news=[i for i in after if i <= asked],
        begun=[i for i in after if i > asked],
        gone=[m for m in scene.stored[j + 1 :] if m.shown],
    )


def _spoken_before(scene: Scene, hints: Hints, after: Sequence[int]) -> list[int]:
    """Replies of members of a group, where another one is asked to speak after them: they are
    whole, since what is to begin a reply stands behind that sentence."""
    asks = (i for i in range(scene.start, len(scene.pieces)) if _asks_next_speaker(scene, i))
    nudge = max(asks, default=-1)
    return certainty.replies_of_known(scene, hints, [i for i in after if i < nudge])


def _asks_next_speaker(scene: Scene, i: int) -> bool:
    piece = scene.pieces[i]
    return piece.role == "system" and phrases.asks_next_speaker(piece.said.body)


def continued(count: int, *, whole: bool) -> str:
    """Why it is the next turn."""
    shortened = "" if whole else "shortened "
    return f"the {shortened}history continues what is stored, {count} new"


def _begun_anew(end: _End) -> Ending:
    """Nothing that is stored is shown. If it was the first turn alone and nobody ever kept it, and
    what an earlier request asked instead has gone on since, the client has dropped it."""
    scene, news = end.scene, end.news
    first = scene.complete and len(end.gone) <= FORK_MAX
    unkept = first and all(m.state == State.CANDIDATE for m in end.gone)
    if not (unkept and end.gone and len(news) > 1 and scene.is_settled(news[0])):
        raise Doubt(NO_MATCH if news or end.begun else NOTHING_SAID)
    if not certainty.are_said(scene, end.hints, -1, news):
        raise Doubt(NOT_SETTLED)
    end.changes.drops += [m.id for m in end.gone]
    return Ending("append", "the first turn is gone, another one has begun", news)


def _check_begun(end: _End) -> None:
    """Replies at the very end only begin the next one if they did so before; not a version of the
    stored one that was not seen before that was there."""
    scene = end.scene
    for i in end.begun:
        old = scene.before.get(i)
        if old is None or any(_shows(scene, i, m) and old.newest >= m.id for m in end.gone):
            raise Doubt(VERSION)


def _shows(scene: Scene, i: int, m: Message) -> bool:
    return m.role == scene.pieces[i].role and normal.reworded(m, scene.pieces[i].said)


def _new_turn(end: _End) -> Ending:
    """Something new is asked. What it replaces at the stored end is a version of it, or gone."""
    scene = end.scene
    if scene.is_heard(end.news[-1]) and not _asks_another(end):
        raise Doubt(ASKS_NOTHING)
    seen_before = scene.was_seen(end.news[-1])
    if not scene.stored or seen_before:
        _check_begun(end)
    end = _without_echoes(end)
    if not end.news:
        return _asked_again(end)
    if not certainty.are_said(scene, end.hints, max(end.changes.ids, default=-1), end.news):
        raise Doubt(NOT_SETTLED)
    if not scene.stored:
        return Ending("first", "nothing is stored yet", end.news)
    return _appended(end)


def _asks_another(end: _End) -> bool:
    """Whether somebody is to speak after the last reply: it is not to grow."""
    scene = end.scene
    told = [scene.pieces[i] for i in range(end.news[-1], len(scene.pieces))]
    said = [piece.said.body for piece in told if piece.role == "system"]
    grows = end.hints.type == "continue" or any(map(phrases.asks_to_continue, said))
    speaker = any(map(phrases.asks_next_speaker, said))
    return not grows and (speaker or end.hints.type == "normal")


def _appended(end: _End) -> Ending:
    scene, news = end.scene, end.news
    replies = [i for i in news if scene.pieces[i].role == "assistant"]
    strange = sum(not scene.is_settled(i) for i in replies)
    if not certainty.is_solid(scene) or strange > len(scene.pairs):
        raise Doubt(TOO_LITTLE)
    if not end.gone:
        return Ending("append", continued(len(news), whole=certainty.is_whole(scene)), news)
    if not certainty.may_fork(scene, end.hints, end.gone, replies):
        raise Doubt(DEEP_FORK)
    end.changes.drops += [m.id for m in end.gone]
    return Ending("append", f"{len(end.gone)} of the last are gone, {len(news)} new", news)


def _without_echoes(end: _End) -> _End:
    """Pair the last turn with what the client made of it: cleaned, cut short, swiped, edited."""
    scene, news, gone = end.scene, end.news, end.gone
    guessed = False
    while news and gone:
        version = _version(scene, news, gone)
        if version is None:
            if guessed or not _may_be_echo(scene, news, gone):
                break
            version, guessed = (news[0], 0), True
        echo, skipped = version
        if echo != news[0] and (skipped or scene.pieces[echo].role == "user"):
            if all(map(scene.is_settled, news[: news.index(echo) + 1])):
                break  # the story has gone on from there: only by chance it says the same
            raise Doubt(MIXED)  # what stands before it may be what is missing there
        end.changes.take(scene, echo, gone[skipped])
        end.changes.hides += [m.id for m in gone[:skipped]]
        news, gone = news[news.index(echo) + 1 :], gone[skipped + 1 :]
    return replace(end, news=news, gone=gone)


def _version(scene: Scene, news: Sequence[int], gone: Sequence[Message]) -> tuple[int, int] | None:
    """The first piece of what is new that is plainly one of the last messages, and which."""
    role = scene.pieces[news[0]].role
    for i in takewhile(lambda i: scene.pieces[i].role == role, news):
        for k, m in enumerate(gone[:FORK_MAX]):
            if _shows(scene, i, m) and (i == news[0] or _begins_alike(scene, i, m)):
                return i, k
    return None


def _begins_alike(scene: Scene, i: int, m: Message) -> bool:
    """Whether a question with something before it is a stored one: by chance one is in another."""
    a, b = normal.bare(scene.pieces[i].said.body), normal.bare(m.body)
    return m.role == "assistant" or a.startswith(b) or b.startswith(a)


def _may_be_echo(scene: Scene, news: Sequence[int], gone: Sequence[Message]) -> bool:
    """The last reply, in whatever words, if the user speaks after it; not what was seen before
    somewhere else, which may be an instruction that has come to stand there."""
    said = [scene.pieces[i].said for i in news[:2]]
    if scene.is_doubtful(news[0]):
        return False
    if len(gone) > 1 or len(said) < 2 or said[1].role == "assistant":
        return False
    same_calls = normal.call_ids(gone[0].tool_calls) == normal.call_ids(said[0].tool_calls)
    return gone[0].role == said[0].role == "assistant" and same_calls


def _asked_again(end: _End) -> Ending:
    """Nothing new is said: the last words wait for a reply, or for another one."""
    scene, gone = end.scene, end.gone
    if not certainty.is_solid(scene):
        raise Doubt(TOO_LITTLE)
    if len(scene.pairs) > 1 and scene.unknown(scene.pairs[-2][0] + 1, scene.pairs[-1][0]):
        raise Doubt(NOT_SETTLED)
    if not gone:
        return Ending("append", "the last words wait for a reply")
    if _is_one_reply(gone):
        return Ending("reroll", "the last turn is asked again", rerolls=gone[0].id)
    if not certainty.may_fork(scene, end.hints, gone):
        raise Doubt(DEEP_FORK)
    end.changes.drops += [m.id for m in gone]
    return Ending("append", f"{len(gone)} of the last are gone, asked again")


def _is_one_reply(gone: Sequence[Message]) -> bool:
    return len(gone) == 1 and gone[0].role == "assistant" and gone[0].tool_calls is None


def _after_reply(end: _End) -> Ending:
    """The last thing said is a reply: it is to grow, or somebody else is to speak."""
    scene, hints, gone = end.scene, end.hints, end.gone
    last, j = scene.pairs[-1]
    told = [p.said.body for p in scene.pieces[last + 1 :] if p.role == "system"]
    if end.begun or not certainty.is_solid(scene):
        raise Doubt(ASKS_NOTHING if end.begun else TOO_LITTLE)
    grows = hints.type == "continue" or any(map(phrases.asks_to_continue, told))
    if grows and not gone:
        return Ending("continue", "the last reply is to grow", grows=scene.stored[j].id)
    speaker = any(map(phrases.asks_next_speaker, told))
    if not grows and _is_one_reply(gone) and (speaker or hints.tells):
        return Ending("reroll", "the last reply is asked again", rerolls=gone[0].id)
    if not grows and not gone and (speaker or hints.type == "normal"):
        return Ending("append", "another reply is asked for")
    raise Doubt(ASKS_NOTHING)
