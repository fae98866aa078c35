"""What is due, computed from a snapshot: the same snapshot always gives the same plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from previously.lanes.registry import LANES
from previously.model import (
    BACKLOG_MAX,
    Backlog,
    Snapshot,
    Summary,
    SummaryStatus,
    Task,
    Uncovered,
)

BACKFILL = "backfill"  # a wish: write about everything that has piled up
_CONSENT = frozenset({BACKFILL, "run", "latest"})
COVERS_LOOKED_AT = 256  # summaries; what stands in a chat is fewer once volumes are made
TAIL_LOOKED_AT = 128  # messages; enough to find the low mark at any setting
NEVER_MS = 1 << 62  # a task that the user has cancelled
REST_MS = 2_000  # who edits once often edits again


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks that may run now, and when the next one that has to wait may."""

    ready: tuple[Task, ...] = ()
    next_ms: int | None = None


def piled_up(snapshot: Snapshot) -> bool:
    """Whether more is uncovered than anybody should pay for unasked, and nobody was asked."""
    assert snapshot.backlog is not None
    asked = any(wish.kind in _CONSENT for wish in snapshot.backlog.intents)
    return snapshot.backlog.uncovered_count > BACKLOG_MAX and not asked


def beyond_budget(snapshot: Snapshot) -> bool:
    """Whether somebody asked for this chat's work who was told what it costs."""
    assert snapshot.backlog is not None
    return any(wish.beyond_budget for wish in snapshot.backlog.intents)


def is_held(task: Task) -> bool:
    """Whether a task is of the kind that waits where too much has piled up: a first summary."""
    return bool(task.sources) and task.replaces is None


def plan(snapshot: Snapshot, now_ms: int, rest_ms: int = REST_MS, *, frugal: bool = False) -> Plan:
    """Due tasks, less those whose last attempt or latest edit asks for patience.

    `frugal`: calls cost, so what has piled up waits until somebody wishes for it.
    """
    assert snapshot.backlog is not None
    if _rests(snapshot):
        return Plan()
    ready: list[Task] = []
    waits: list[int] = []
    held = frugal and piled_up(snapshot)
    for task in due(snapshot):
        if held and is_held(task):
            continue
        start_ms = _not_before(snapshot.backlog, task, rest_ms)
        if start_ms <= now_ms:
            ready.append(task)
        else:
            waits.append(start_ms)
    return Plan(tuple(ready), min((w for w in waits if w < NEVER_MS), default=None))


def together(snapshot: Snapshot, decided: Plan) -> tuple[Task, ...]:
    """The first of the tasks that may run now, and those that one call may be made for with it."""
    return LANES[snapshot.lane].together(snapshot, decided.ready)


def _rests(snapshot: Snapshot) -> bool:
    return snapshot.recalculating or not snapshot.settings.enabled


def due(snapshot: Snapshot) -> list[Task]:
    """All that its lane wants done, whether or not it has to wait."""
    return LANES[snapshot.lane].due(snapshot)


def forgotten(snapshot: Snapshot) -> tuple[str, ...]:
    """This lane's attempts at what is no longer due. None if only a part of that was read."""
    assert snapshot.backlog is not None
    if not snapshot.backlog.attempts or snapshot.backlog.uncovered_cut:
        return ()
    wanted = {task.id for task in due(snapshot)}
    tried = snapshot.backlog.attempts.items()
    return tuple(t for t, a in tried if a.lane == snapshot.lane and t not in wanted)


def fulfilled(snapshot: Snapshot, decided: Plan) -> tuple[int, ...]:
    """The wishes that nothing is left to do for. None while the chat rests: they are for later."""
    assert snapshot.backlog is not None
    if decided.next_ms is not None or _rests(snapshot):
        return ()
    return tuple(wish.id for wish in snapshot.backlog.intents)


def _not_before(backlog: Backlog, task: Task, rest_ms: int) -> int:
    attempt = backlog.attempts.get(task.id)
    edited = max((backlog.open_since.get(m.id, 0) for m in task.sources), default=0)
    return max(attempt.not_before_ms if attempt else 0, edited + rest_ms if edited else 0)


def advance(snapshot: Snapshot, made: Summary) -> Snapshot:
    """The snapshot as it is after this summary was committed: what the next task starts from."""
    assert snapshot.backlog is not None
    backlog = snapshot.backlog
    covered = frozenset(made.covers)
    if made.level:
        return replace(snapshot, backlog=_under(backlog, made, covered))
    if made.status == SummaryStatus.PROPOSED:
        return replace(snapshot, backlog=replace(backlog, proposed=backlog.proposed | covered))
    runs = (tuple(m for m in run if m.id not in covered) for run in backlog.uncovered.runs)
    written = {r.summary.id for r in backlog.rebuilds if r.sources[0].id in covered}
    covers = [*(s for s in backlog.covers if s.id not in written), made]
    backlog = replace(
        backlog,
        uncovered=Uncovered(tuple(run for run in runs if run)),
        covers=tuple(sorted(covers, key=lambda s: s.first_pos)),
        rebuilds=tuple(r for r in backlog.rebuilds if r.summary.id not in written),
    )
    return replace(snapshot, backlog=backlog, covered_to=max(snapshot.covered_to, made.last_pos))


def _under(backlog: Backlog, made: Summary, children: frozenset[int]) -> Backlog:
    """What stands after these summaries were covered by one above them."""
    if made.status == SummaryStatus.PROPOSED:
        return replace(backlog, waiting=backlog.waiting | children)
    covers = [*(s for s in backlog.covers if s.id not in children), made]
    return replace(backlog, covers=tuple(sorted(covers, key=lambda s: s.first_pos)))
