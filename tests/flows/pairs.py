"""A second history lane, for tests only: one summary for every two turns."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from previously.lanes.registry import LANES, PRESETS
from previously.lanes.volumes import Volumes
from previously.model import Snapshot, Task, Uncovered

NAME = "pairs"


class Pairs(Volumes):
    """As `volumes`, but each of its summaries covers other messages, under its own name."""

    name = NAME

    def due(self, snapshot: Snapshot) -> list[Task]:
        """The turns that `volumes` would take, two by two; a last single one has to wait."""
        wanted = [t for t in super().due(snapshot) if t.sources]
        fresh = [t for t in wanted if t.replaces is None]
        found = [_task(t, Uncovered((t.sources,))) for t in wanted if t.replaces is not None]
        while len(fresh) > 1:
            first, second = fresh.pop(0), fresh[0]
            if _are_neighbours(snapshot, first, second):
                fresh.pop(0)
                both = Uncovered(((*first.sources, *second.sources),))
                found.append(_task(first, both))
        return found


def _are_neighbours(snapshot: Snapshot, first: Task, second: Task) -> bool:
    assert snapshot.backlog is not None
    both = (*first.sources, *second.sources)
    if both[0].presence != both[-1].presence:
        return False
    runs = (run for run in snapshot.backlog.uncovered.runs if both[0] in run)
    return any(run[run.index(both[0]) :][: len(both)] == both for run in runs)


def _task(like: Task, uncovered: Uncovered) -> Task:
    sources = uncovered.runs[0]
    return replace(like, lane=NAME, kind="pair", sources=sources, uncovered=uncovered)


@contextmanager
def registered() -> Generator[None]:
    """The lane is there, and a preset of the same name uses it."""
    LANES[NAME], PRESETS[NAME] = Pairs(), NAME
    try:
        yield
    finally:
        del LANES[NAME], PRESETS[NAME]
