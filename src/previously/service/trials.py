"""Trying a user's own words on a real chat: the very request, and what a model makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from previously.engine import Cleaner
from previously.errors import BadInput, NotConfigured
from previously.lanes.registry import LANES
from previously.lanes.wording import validate
from previously.model import (
    Ask,
    ChatRef,
    Draft,
    Intent,
    Part,
    Rebuild,
    Snapshot,
    Task,
)
from previously.service.chats import TEMPLATES
from previously.service.desk import AS_SAID, Desk
from previously.settings import Settings
from previously.text.lines import lines_of, lines_of_notes

FENCE = "=== 000000000000 ==="  # as long as a real one
LOOKED_AT = 500  # newest messages, for one that has a summary
WISHES = {"mini": "run", "volume": "archive"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a template would ask, and, if it was asked, what came back."""

    wrong: tuple[str, ...]
    ask: Ask | None
    task: Task | None
    draft: Draft | None = None


class Trials(Desk):
    """Nothing of this is stored but what an answer has cost."""

    async def try_template(self, ref: ChatRef, name: str, template: str, *, run: bool) -> Trial:
        """The setting's text on the newest thing of its kind in this chat; ours if it is empty."""
        kind = TEMPLATES[name]
        wrong = tuple(validate(kind, template)) if template else ()
        if wrong:
            return Trial(wrong, None, None)
        snapshot = await self.store.load(ref, AS_SAID, wide=True)
        settings = replace(snapshot.settings, auto_mini_summary=True, **{name: template})
        task = await self._task(replace(snapshot, settings=settings), kind)
        read, _ = await Cleaner().cleaned(task)
        ask = LANES[task.lane].ask(read, FENCE, _whole(read))
        return Trial((), ask, task, await self._run(task, settings) if run else None)

    async def _task(self, snapshot: Snapshot, kind: str) -> Task:
        assert snapshot.backlog is not None
        wish = Intent(0, snapshot.lane, WISHES[kind])
        wished = replace(snapshot, backlog=replace(snapshot.backlog, intents=(wish,), attempts={}))
        found = _newest(wished, kind) or _newest(await self._again(wished), kind)
        if found is None:
            raise BadInput(f"there is nothing in this chat yet to make a {kind} of", field="chat")
        return found

    async def _again(self, snapshot: Snapshot) -> Snapshot:
        """As if the newest leaf were to be written anew."""
        assert snapshot.backlog is not None
        ref = snapshot.ref
        newest = [m.id for m in await self.store.newest(ref, LOOKED_AT)]
        covering = await self.store.covering(ref, snapshot.lane, newest)
        leaf_id = next((covering[i][0] for i in reversed(newest) if covering.get(i)), None)
        if leaf_id is None:
            return snapshot
        (leaf,) = (await self.store.summary(ref, leaf_id)).summaries
        sources = await self.store.messages_by_id(ref, leaf.covers)
        again = Rebuild(0, leaf, tuple(sorted(sources, key=lambda m: m.pos)))
        return replace(snapshot, backlog=replace(snapshot.backlog, rebuilds=(again,)))

    async def _run(self, task: Task, settings: Settings) -> Draft:
        if self._background is None:
            raise NotConfigured("this server writes no summaries; ask one that does")
        return await self._background.draft(task, settings)


def _newest(snapshot: Snapshot, kind: str) -> Task | None:
    found = [task for task in LANES[snapshot.lane].due(snapshot) if task.kind == kind]
    return found[-1] if found else None


def _whole(task: Task) -> Part:
    lines = lines_of(task.sources, task.language) if task.sources else lines_of_notes(task.children)
    return Part(task.tokens_max, lines=lines)
