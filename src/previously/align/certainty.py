"""How much has to be shared, and what may be believed, before a request is read as certain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice, pairwise

from previously.align import normal
from previously.align.hints import Hints
from previously.align.match import Pair
from previously.align.mend import FIRST_MAX
from previously.align.moves import TURN
from previously.align.scene import Scene
from previously.model import POS_GAP, Message, NewMessage, State

OVERLAP_MIN = 2  # messages in a row that a shortened history must share with what is stored
NEAR_END = 6  # shared messages among which they stand: between others something may be hidden
TOLD_MIN = 3  # lines of a narrator that push all but one message out of a short window
FORK_MAX = 4  # messages that may be gone from the end before anything else confirms it


class Doubt(Exception):
    """There is no one certain reading; the message says why."""


def is_whole(scene: Scene) -> bool:
    """Whether the request shows the chat from its first message on."""
    if not scene.complete:
        return False
    shown = (j for j, m in enumerate(scene.stored) if m.shown and not m.pinned)
    first = list(islice(shown, FIRST_MAX + 1))
    if 1 < len(first) <= FIRST_MAX and first[1] in scene.told:
        # What stood before everything may have been an instruction, if it is nowhere now.
        return first[0] in scene.told or not scene.saying(scene.stored[first[0]])
    return bool(first) and first[0] in scene.told


def is_solid(scene: Scene) -> bool:
    """Whether enough is shared: all from the start, or several messages in a row near the end."""
    return is_whole(scene) or _has_run(scene, NEAR_END) or _is_told_of(scene) or _shows_turn(scene)


def _shows_turn(scene: Scene) -> bool:
    """Whether the last question is shown, and the reply to it in the client's words."""
    m = scene.unkept
    if m is None or not scene.pairs or not is_telling(m):
        return False
    last, j = scene.pairs[-1]
    between = [one for one in scene.stored[j + 1 :] if one.shown]
    after = scene.unknown(last + 1, len(scene.pieces))
    return between == [m] and bool(after) and scene.is_last_reply(after[0])


def _is_told_of(scene: Scene) -> bool:
    """Whether only the last reply is left in a window that a narrator has filled since: nothing
    else is said in it but what is asked now, and what we have replied to meanwhile."""
    if len(scene.pairs) != 1:
        return False
    i, j = scene.pairs[0]
    last = max(k for k, m in enumerate(scene.stored) if m.shown or k == j)
    if j != last or scene.stored[j].role != "assistant" or not is_telling(scene.stored[j]):
        return False
    *between, asked = scene.unknown(i, len(scene.pieces)) or [i]
    if any(map(scene.is_heard, between)):
        return all(map(scene.is_settled, between))
    told = sum(scene.pieces[k].role == "system" for k in range(i, asked))
    return not between and not scene.unknown(scene.start, i) and told >= TOLD_MIN


def shows_end(scene: Scene) -> bool:
    """Whether enough is shared, up to the last message that is stored, but for a reply that nobody
    has kept yet and that may have been asked for again; or several messages in a row, whatever
    has been taken back or changed behind them."""
    if not scene.pairs or not is_solid(scene):
        return False
    left = [m for m in scene.stored[scene.pairs[-1][1] + 1 :] if m.shown]
    kept = [m for m in left if m.role != "assistant" or m.state != State.CANDIDATE]
    return not kept or _has_run(scene, NEAR_END)


def is_in_touch(scene: Scene) -> bool:
    """Whether this is a request of the chat at all, and not of another one that is sent under its
    name: it shows messages that nobody says by chance, or replies of ours to such requests."""
    if not scene.stored or any(scene.is_heard(i) for i in scene.spots):
        return True
    if scene.unkept and is_telling(scene.unkept) and any(map(scene.is_last_reply, scene.spots)):
        return True
    if _goes_on_behind(scene):
        return True
    telling = {j for j, m in enumerate(scene.stored) if j and is_telling(m)}
    shown = [j for _, j in scene.pairs if j and scene.stored[j].shown]
    if sum(j in telling for j in shown) >= max(1, min(OVERLAP_MIN, len(telling))):
        return True
    letters = sum(len(normal.bare(scene.stored[j].body)) for j in shown)
    return len(shown) >= OVERLAP_MIN and letters >= OVERLAP_MIN * normal.SHARED_MIN


def _goes_on_behind(scene: Scene) -> bool:
    """Whether a question and a reply stood in an earlier request behind a message of the chat, and
    a turn more is said after both now. A greeting is no such message: others begin with it too."""
    greeting = {m.id for m in scene.stored[:1] if m.role != "user"}
    anchors = {m.id for m in scene.stored if is_telling(m)} - greeting
    moved = (i for i, old in scene.before.items() if scene.was_seen(i) and old.after in anchors)
    since = (i for i in moved if scene.spots[i].later >= scene.before[i].later + TURN)
    roles = {scene.pieces[i].role for i in since if normal.is_telling(scene.pieces[i].said)}
    return roles >= {"user", "assistant"}


def is_telling(m: Message) -> bool:
    """Whether it is shown, and more than anybody says."""
    return m.shown and normal.is_telling(m)


def _has_run(scene: Scene, last: int) -> bool:
    """Whether several messages in a row are shared, among so many of the last that are."""
    return any(_are_in_a_row(scene, one, then) for one, then in pairwise(scene.pairs[-last:]))


def _are_in_a_row(scene: Scene, one: Pair, then: Pair) -> bool:
    """Whether nothing stands between two shared messages on either side, or as much as there is
    stored, and stays: it is edited."""
    stretch, strange = scene.stored[one[1] : then[1] + 1], scene.unknown(one[0] + 1, then[0])
    if not strange:
        return _are_neighbours(stretch)
    ours = [m.role for m in stretch[1:-1] if m.shown]
    edited = ours == [scene.pieces[i].role for i in strange] and all(map(scene.has_stayed, strange))
    return edited and is_telling(stretch[0]) and is_telling(stretch[-1])


def _are_neighbours(stretch: Sequence[Message]) -> bool:
    """Whether nothing that is shown stands between the first and the last of these."""
    ends = stretch[0].shown and stretch[-1].shown
    return ends and not any(m.shown for m in stretch[1:-1])


def may_fork(
    scene: Scene, hints: Hints, gone: Sequence[Message], replies: Sequence[int] = ()
) -> bool:
    """A few messages less, from this client's own last turn back, are what a user deletes. More are
    believed once the story went on without them, or if the client says that this is a turn."""
    if len(gone) <= FORK_MAX and gone[-1].state == State.CANDIDATE:
        return True
    settled = sum(map(scene.is_settled, replies))
    # Where something else has changed as well, it takes a story that went on for longer.
    near = NEAR_END if settled >= OVERLAP_MIN else OVERLAP_MIN
    return bool(replies or hints.tells) and _has_run(scene, near)


def are_said(scene: Scene, hints: Hints, last: int, news: Sequence[int]) -> bool:
    """Whether what is new after a piece was said by somebody: it takes turns, or stays put."""
    if _counts_all(scene, hints, news):
        return True
    if _came_before(scene, news) or any(map(scene.is_doubtful, news)):
        return False  # or something is where it need not be
    if _is_strange(scene, hints, news):
        return False
    before = scene.pieces[last].role if last >= 0 else ""
    for role, found in groupby(news, lambda i: scene.pieces[i].role):
        run = list(found)
        alone = len(run) == 1 and role != before
        before = role
        certain = alone or role == "tool" or _are_certain(scene, hints, run)
        if not certain and not (role == "user" and _says_twice(scene)):
            return False
    return True


def _came_before(scene: Scene, news: Sequence[int]) -> bool:
    """Whether something has come in front of what was there: what earlier requests had, and replies
    to them. Where they had nothing of it, they may have shown it in another form."""
    known = [scene.was_seen(i) or scene.is_heard(i) or scene.was_asked(i) for i in news]
    return known != sorted(known, reverse=True) and any(map(scene.was_seen, news))


def _is_strange(scene: Scene, hints: Hints, news: Sequence[int]) -> bool:
    """Whether somebody has replied since our last reply: it may be an instruction, which together
    with another one takes turns like a question and its answer."""
    if has_others(scene, news):
        return False
    ours = [i for i in scene.history if scene.is_heard(i)]
    last = next((j for j in range(len(scene.stored) - 1, -1, -1) if scene.stored[j].shown), -1)
    if last >= 0 and scene.stored[last].role == "assistant" and not scene.habit.doubts:
        ours += [i for i, j in scene.pairs[-1:] if j == last]
    if not ours:
        return False
    since = [i for i in news if i > max(ours) and scene.pieces[i].role == "assistant"]
    if not since:
        return False
    names = _names(scene, hints, [i for i in scene.history if i in scene.said or i in ours])
    strange = (i for i in since if not scene.is_settled(i))
    said = (scene.pieces[i].said for i in strange)
    return any(one.tool_calls is None and _name(one) not in names for one in said)


def has_others(scene: Scene, news: Sequence[int]) -> bool:
    """Whether somebody else than we has replied to this client, as earlier requests have shown."""
    asked = next((i for i in scene.history if scene.pieces[i].role == "user"), len(scene.pieces))
    replies = (i for i in news if i > asked and scene.pieces[i].role == "assistant")
    settled = (i for i in replies if scene.is_settled(i) and not scene.is_heard(i))
    return scene.habit.others or next(settled, None) is not None


def _are_certain(scene: Scene, hints: Hints, run: Sequence[int]) -> bool:
    """Whether several messages in a row are certainly no instructions."""
    known = set(replies_of_known(scene, hints, run))
    rest = (i for i in run if i not in known and scene.pieces[i].said.tool_calls is None)
    return all(map(scene.is_settled, rest))


def _counts_all(scene: Scene, hints: Hints, news: Sequence[int]) -> bool:
    """Whether the client's own number of the newest message leaves no room for an instruction."""
    if not is_whole(scene):
        return False
    if len(news) > 1 and not all(m.shown for m in scene.stored):
        return False  # a client counts what is hidden, not what is deleted
    said = [i for i in scene.history if i in scene.said or scene.is_unknown(i)]
    return hints.last_id == sum(i <= news[-1] for i in said) - 1


def replies_of_known(scene: Scene, hints: Hints, some: Sequence[int]) -> list[int]:
    """Those of the pieces that somebody says who speaks in this chat, by the name on them."""
    replies = [i for i in some if scene.pieces[i].role == "assistant"]
    names = _names(scene, hints, scene.history) if replies else set[str]()
    return [i for i in replies if _name(scene.pieces[i].said) in names]


def _name(said: NewMessage) -> str:
    return said.name or normal.prefix(said.body).rstrip(":")


def _names(scene: Scene, hints: Hints, among: Iterable[int]) -> set[str]:
    """Of those who speak in this chat: named by the client, or seen in front of several texts."""
    seen: dict[str, int] = {}
    for i in among:
        if scene.pieces[i].role == "assistant":
            name = _name(scene.pieces[i].said)
            seen[name] = seen.get(name, 0) + 1
    return {n for n, count in seen.items() if n and count > 1} | set(hints.names)


def _says_twice(scene: Scene) -> bool:
    """Whether this client's users mostly say several things in a row."""
    told = [scene.stored[j] for j in sorted(scene.told)]
    starts = [k for k, m in enumerate(told) if m.role == "user" and not _goes_on(told, k)]
    double = sum(_goes_on(told, k + 1) for k in starts)
    return double >= OVERLAP_MIN and 2 * double >= len(starts)


def _goes_on(told: Sequence[Message], k: int) -> bool:
    """Whether a user's message came right after another one: no reply between them is gone."""
    if not 0 < k < len(told) or not told[k - 1].role == told[k].role == "user":
        return False
    return told[k].pos - told[k - 1].pos <= POS_GAP
