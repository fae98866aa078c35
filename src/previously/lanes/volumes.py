"""Volumes: a mini for each turn that leaves the tail, volumes of minis, and volumes of volumes.

Each is written once. What has grown too long is not rewritten but covered by something shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from previously.lanes import carried
from previously.lanes.levels import (
    LABEL_TOKENS,
    LINE_TOKENS,
    MINIS_SHARE_MAX,
    Limits,
    groups,
    size,
)
from previously.lanes.wording import (
    ask_about,
    ask_about_each,
    ask_about_notes,
    ask_to_merge,
    context,
    own,
)
from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import (
    START,
    Accepted,
    Ask,
    Block,
    Cleaning,
    Item,
    Message,
    Part,
    Reply,
    Snapshot,
    Summary,
    Task,
    Uncovered,
)
from previously.prompts import texts
from previously.settings import TAIL_SHARE, Settings
from previously.text.answer import judge, says_yes
from previously.text.language import language_of
from previously.text.turns import tail_start, turns

NAME = "volumes"
MINI, VOLUME, ERA, FINISHED = "mini", "volume", "era", "finished"
RUN, LATEST, ARCHIVE = "run", "latest", "archive"  # wishes
YES = "yes"
CONTEXT_MINIS = 2
TARGET_MIN_TOKENS = 32
MERGED_SHARE = 2  # a summary of summaries has at most half of what it stands for
ONE_WORD_TOKENS = 16
CONTEXT_TOKENS = 600  # of the volumes before, that a new one is written in the light of
CONTEXT_VOLUMES = 8  # of them, however short they are
ROOM_MIN_TOKENS = 200


class Volumes:
    """Default lane: facts pass through few hands, so they last."""

    name = NAME

    def due(self, snapshot: Snapshot) -> list[Task]:
        """Volumes first, so that what stands stays little; then a mini for each closed turn."""
        if snapshot.backlog is None:
            return []
        before = _low_mark(snapshot)
        minis = self._minis(snapshot, before)
        return [*self._volumes(snapshot, before, minis), *minis]

    def _volumes(self, snapshot: Snapshot, before: int, minis: Sequence[Task]) -> list[Task]:
        """What is to be made one, or a question whether it is time for it."""
        backlog, settings = snapshot.backlog, snapshot.settings
        assert backlog is not None
        now = any(wish.kind == ARCHIVE for wish in backlog.intents)
        if not settings.auto_volume_summary and not now:
            return []
        covers = [c for c in backlog.covers if c.last_pos < before]
        found = groups(covers, backlog.uncovered, _limits(snapshot), backlog.waiting, now=now)
        untried = [m for m in minis if m.id not in backlog.attempts]
        tasks = [
            self._merging(snapshot, group)
            for group in found.due
            if not _is_torn(group, covers, untried)
        ]
        if found.ask:
            asked = self._question(snapshot, found.ask)
            said = backlog.attempts.get(asked.id)
            if said is not None and said.verdict == YES:
                tasks.append(self._merging(snapshot, found.ask))
            tasks.append(asked)
        return tasks

    def _merging(self, snapshot: Snapshot, group: tuple[Summary, ...]) -> Task:
        settings, is_era = snapshot.settings, group[0].level > 0
        most = settings.era_tokens if is_era else settings.volume_tokens
        target = max(TARGET_MIN_TOKENS * 2, size(group) // MERGED_SHARE)
        return self._about(snapshot, ERA if is_era else VOLUME, group, min(most, target))

    def _question(self, snapshot: Snapshot, group: tuple[Summary, ...]) -> Task:
        return self._about(snapshot, FINISHED, group, ONE_WORD_TOKENS)

    def _about(
        self, snapshot: Snapshot, kind: str, group: tuple[Summary, ...], tokens_max: int
    ) -> Task:
        assert snapshot.backlog is not None
        wanted = snapshot.settings.language
        spoken = language_of("\n".join(s.text for s in group))
        return Task(
            chat=snapshot.ref,
            lane=NAME,
            kind=kind,
            sources=(),
            context=_volumes_before(snapshot.backlog.covers, group[0]),
            tokens_max=tokens_max,
            language=spoken if wanted == "auto" else wanted,
            uncovered=snapshot.backlog.uncovered,
            children=group,
            template=snapshot.settings.volume_prompt if kind == VOLUME else "",
        )

    def _minis(self, snapshot: Snapshot, before: int) -> list[Task]:
        """One for each closed turn that has left the low mark and has none."""
        backlog = snapshot.backlog
        assert backlog is not None
        if not snapshot.settings.auto_mini_summary:
            return []
        tasks = [self._task(snapshot, r.sources, r.summary.id) for r in backlog.rebuilds]
        for run in backlog.uncovered.runs:
            closed, rest = turns(run)
            # What a run leaves open was closed when it was first covered.
            whole = [*closed, rest] if rest and run is not backlog.uncovered.runs[-1] else closed
            tasks += [
                self._task(snapshot, turn)
                for turn in whole
                if turn[-1].pos < before and not any(m.id in backlog.proposed for m in turn)
            ]
        return tasks

    def _task(
        self, snapshot: Snapshot, turn: tuple[Message, ...], replaces: int | None = None
    ) -> Task:
        assert snapshot.backlog is not None
        wanted = snapshot.settings.language
        spoken = language_of("\n".join(m.body for m in turn))
        return Task(
            chat=snapshot.ref,
            lane=NAME,
            kind=MINI,
            sources=turn,
            context=_noted_before(snapshot.backlog.covers, turn[0]),
            tokens_max=_target(turn, snapshot.settings.mini_tokens),
            language=spoken if wanted == "auto" else wanted,
            uncovered=snapshot.backlog.uncovered if replaces is None else Uncovered((turn,)),
            replaces=replaces,
            template=snapshot.settings.mini_prompt,
            cleaning=_cleaning(snapshot.settings),
        )

    def ask(self, task: Task, fence: str, part: Part) -> Ask:
        """Instruction, what came before, and the turn or the notes, quoted between fences."""
        wording = texts(task.language)
        if task.children and part.lines:
            part = replace(part, lines=(), notes=tuple(line.text for line in part.lines))
            ours = {VOLUME: wording.volume, FINISHED: wording.finished}.get(task.kind)
            instruction = own(VOLUME, task.template, task.language) or ours
            before = {"CONTEXT": context(part, task.context, wording)}
            return ask_about_notes(instruction or wording.merge, part, fence, task.language, before)
        if part.notes:
            return ask_to_merge(part, fence, task.language)
        before = {"CONTEXT": context(part, task.context, wording)}
        instruction = own(MINI, task.template, task.language) or wording.mini
        return ask_about(instruction, part, fence, task.language, before)

    def together(self, snapshot: Snapshot, ready: Sequence[Task]) -> tuple[Task, ...]:
        """Minis of neighbouring turns that the same people were there for. What has failed once is
        asked about alone."""
        assert snapshot.backlog is not None
        first, tried = ready[0], snapshot.backlog.attempts
        if not _may_share(first) or first.id in tried:
            return (first,)
        chosen = [first]
        for task in ready[1 : snapshot.settings.minis_per_call]:
            alike = task.language == first.language and _may_share(task) and task.id not in tried
            if not alike or not _follows(snapshot.backlog.uncovered, chosen[-1], task):
                break
            chosen.append(task)
        return tuple(chosen)

    def ask_together(self, tasks: Sequence[Task], fence: str, parts: Sequence[Part]) -> Ask:
        """Instruction, what came before the first, and every turn under its number."""
        wording = texts(tasks[0].language)
        before = context(parts[0], tasks[0].context, wording)
        return ask_about_each(wording, parts, fence, tasks[0].language, before)

    def accept(self, task: Task, part: Part, reply: Reply, *, last: bool) -> Accepted:
        """The reply's words, if they are whole and shorter than what they stand for."""
        wording = texts(task.language)
        ours = wording.merge if part.notes or task.children else wording.mini
        return judge(part, reply, last=last, instructions=task.template or ours.system)

    def decides(self, task: Task) -> bool:
        """Whether the task asks for a yes or no."""
        return task.kind == FINISHED

    def verdict(self, task: Task, reply: Reply) -> bool:
        """Strictly one word for yes; anything else is no."""
        return says_yes(reply.text)

    def covers(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """Every valid mini that is loaded."""
        return snapshot.backlog.covers if snapshot.backlog else ()

    def carry(self, snapshot: Snapshot) -> tuple[Summary, ...]:
        """What stands at the top: all that a prompt with room enough would show."""
        return self.covers(snapshot)

    def show(self, covers: Sequence[Summary]) -> Block:
        """One system message: a label that says what this is, then a line for each mini."""
        wording = texts(language_of(covers[0].text))
        extracts = any(s.is_extract for s in covers)
        label = wording.recap_label + (wording.extract_label if extracts else "")
        content = "\n".join([label, *(f"- {s.text}" for s in covers)])
        size = sum(s.tokens + LINE_TOKENS for s in covers)
        return Block(
            place="cover",
            wire={"role": "system", "content": content},
            tokens=size + count_tokens(label) + MESSAGE_OVERHEAD_TOKENS,
            sources=tuple(map(Item.of, covers)),
        )


def _cleaning(settings: Settings) -> Cleaning:
    return Cleaning(
        settings.capture_start_tag, settings.capture_end_tag, settings.message_cleanup_regex
    )


def _limits(snapshot: Snapshot) -> Limits:
    """What settings allow, and no more than a prompt has room for."""
    settings, backlog = snapshot.settings, snapshot.backlog
    tightest = backlog.room_tokens if backlog else None
    budget = min(tightest or settings.budget_tokens, settings.budget_tokens)
    share = int(budget * settings.covers_share)
    share -= min(carried.size(backlog.carried) if backlog else 0, int(share * carried.SHARE_MIN))
    room = max(ROOM_MIN_TOKENS, share - LABEL_TOKENS)
    threshold = min(settings.volume_token_threshold, int(room * MINIS_SHARE_MAX))
    return Limits(room, threshold, settings.check_interval, settings.max_unarchived_minis)


def _may_share(task: Task) -> bool:
    return task.kind == MINI and task.replaces is None and not task.template


def _follows(uncovered: Uncovered, before: Task, task: Task) -> bool:
    """Whether nothing lies between them, and whoever may know the one may know the other."""
    if before.sources[0].presence != task.sources[0].presence:
        return False
    both = uncovered.between(before.sources[0], task.sources[-1])
    one_run = any(before.sources[-1] in run and task.sources[0] in run for run in uncovered.runs)
    return one_run and both == before.sources + task.sources


def _is_torn(group: Sequence[Summary], covers: Sequence[Summary], minis: Sequence[Task]) -> bool:
    """Whether a mini is about to come right before or behind it: then they belong together.

    After an edit inside a volume the minis left and right of it would else become two.
    """
    start = max((c.last_pos for c in covers if c.last_pos < group[0].first_pos), default=START)
    end = min((c.first_pos for c in covers if c.first_pos > group[-1].last_pos), default=START)
    return any(
        start < mini.sources[0].pos < group[0].first_pos
        or group[-1].last_pos < mini.sources[0].pos < end
        for mini in minis
        if mini.replaces is None
    )


def _noted_before(covers: Sequence[Summary], first: Message) -> tuple[str, ...]:
    """The two minis before a turn; where they have become a volume, that, if it is short."""
    chosen: list[str] = []
    for cover in reversed([s for s in covers if s.last_pos < first.pos][-CONTEXT_MINIS:]):
        if not cover.level or cover.tokens <= CONTEXT_TOKENS:
            chosen.append(cover.text)
        if cover.level:
            break
    return tuple(reversed(chosen))


def _volumes_before(covers: Sequence[Summary], first: Summary) -> tuple[str, ...]:
    """The newest volumes before a stretch, oldest of them first, as far as they are short."""
    chosen: list[str] = []
    left = CONTEXT_TOKENS
    for cover in reversed(covers):
        if cover.level and cover.last_pos < first.first_pos:
            left -= cover.tokens
            if left < 0 or len(chosen) == CONTEXT_VOLUMES:
                break
            chosen.append(cover.text)
    return tuple(reversed(chosen))


def _target(turn: Sequence[Message], tokens_max: int) -> int:
    """Half of what it stands for, within limits: a note as long as its turn saves nothing."""
    return min(tokens_max, max(TARGET_MIN_TOKENS, sum(m.tokens for m in turn) // 2))


def _low_mark(snapshot: Snapshot) -> int:
    """The position where the tail starts once it is folded to its low mark."""
    tail, settings = snapshot.tail, snapshot.settings
    room = snapshot.backlog.room_tokens if snapshot.backlog else None
    share = int(min(room or settings.budget_tokens, settings.budget_tokens) * TAIL_SHARE)
    wishes = snapshot.backlog.intents if snapshot.backlog else ()
    if tail and any(wish.kind == LATEST for wish in wishes):
        return tail[-1].pos + 1  # the newest turn too, if it is closed
    now = any(wish.kind == RUN for wish in wishes)
    index = tail_start(tail, 1 if now else settings.visible_floors, 0 if now else share)
    return tail[index].pos if tail else 0
