"""What is due, computed from a snapshot: the same snapshot always gives the same plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from previously.lanes.registry import LANES
from previously.model import Snapshot, Summary, Task, Uncovered


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks that may run now, and when the next one that has to wait may."""

    ready: tuple[Task, ...] = ()
    next_ms: int | None = None


def plan(snapshot: Snapshot, now_ms: int) -> Plan:
    """Due tasks, less those whose last attempt asked for patience."""
    assert snapshot.backlog is not None
    ready: list[Task] = []
    waits: list[int] = []
    for task in LANES[snapshot.lane].due(snapshot):
        attempt = snapshot.backlog.attempts.get(task.id)
        if attempt is None or attempt.not_before_ms <= now_ms:
            ready.append(task)
        else:
            waits.append(attempt.not_before_ms)
    return Plan(tuple(ready), min(waits, default=None))


def advance(snapshot: Snapshot, made: Summary) -> Snapshot:
    """The snapshot as it is after this summary was committed: what the next task starts from."""
    assert snapshot.backlog is not None
    covered = frozenset(made.covers)
    runs = (tuple(m for m in run if m.id not in covered) for run in snapshot.backlog.uncovered.runs)
    covers = sorted((*snapshot.backlog.covers, made), key=lambda s: s.first_pos)
    backlog = replace(
        snapshot.backlog,
        uncovered=Uncovered(tuple(run for run in runs if run)),
        covers=tuple(covers),
    )
    return replace(snapshot, backlog=backlog, covered_to=max(snapshot.covered_to, made.last_pos))
