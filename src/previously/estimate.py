"""Estimate: what writing about all that has piled up would take, without asking anybody.

The backfill is imagined: the same planner decides task after task, and in the place of each
summary stands one of the size that summaries usually have. So volumes, and the questions about
them, are counted as they will come.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import ceil

from previously.engine.request import TaskRequest
from previously.engine.together import fitting, in_vain
from previously.measure import count_tokens
from previously.model import (
    START,
    Attempt,
    Backlog,
    ChatRef,
    FoldKey,
    Intent,
    Message,
    Part,
    Snapshot,
    Summary,
    SummaryStatus,
    Task,
    Uncovered,
    Usage,
    digest,
)
from previously.planner import (
    BACKFILL,
    COVERS_LOOKED_AT,
    NEVER_MS,
    TAIL_LOOKED_AT,
    advance,
    plan,
    together,
)
from previously.store import Pace, Store
from previously.summariser import Quote

IMAGINED = FoldKey("(imagined)")
PAGE = 500
WINDOW = 16  # messages that the planner is shown at a time; more where a turn is longer…
TURN_MESSAGES = 2  # …or where more turns than that may share a call
NO_END_MS = NEVER_MS - 1  # every retry has come
FIRST_ID = 1 << 62  # of summaries that are only imagined
WRITTEN_SHARE = 0.85  # of the tokens that a summary may have
PACE_SUMMARIES_MIN = 8  # fewer say little about the next ones
CALL_S = 4.0  # for a hosted model, until this chat knows better
EXTRACT_S = 0.004
STORE_S = 0.006  # to plan one task and to write down what came of it
FIT_SHARE = 0.5  # of a window that material may take up before it is cut in two
MICROS = 1_000_000
FENCE = "=== 000000000000 ==="


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill comes to: expected, not promised."""

    model: str
    messages: int = 0  # that no summary stands for yet and one is to
    calls: int = 0
    calls_max: int = 0  # if the model cannot answer for several exchanges at once
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])  # of task: how many
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0  # None: nobody knows the price
    cost_max_usd: float | None = 0.0  # with as many calls as there may be
    seconds: float = 0.0
    measured: bool = False  # the time comes from this chat's own summaries
    budget_left_usd: float | None = None  # of this month; None: no limit can hold


async def estimate(store: Store, ref: ChatRef, quoted: Quote) -> Estimate:
    """What is due in this chat and all that will become due by doing it."""
    snapshot = await store.load(
        ref, IMAGINED, wide=True, tail_max=TAIL_LOOKED_AT, covers_max=COVERS_LOOKED_AT
    )
    pace = await store.pace(ref, snapshot.lane)
    run = _Run(_wished(snapshot), quoted, _share(pace))
    async for page in _pages(store, ref, snapshot.lane):
        run.read(page)
    run.read(())
    return run.result(pace)


async def _pages(store: Store, ref: ChatRef, lane: str) -> AsyncIterator[tuple[Message, ...]]:
    after = START
    while page := await store.uncovered_page(ref, lane, after, PAGE):
        yield page
        after = page[-1].pos


def _wished(snapshot: Snapshot) -> Snapshot:
    """As it will be planned: somebody has asked for it."""
    assert snapshot.backlog is not None
    wish = Intent(0, snapshot.lane, BACKFILL)
    backlog = replace(
        snapshot.backlog, intents=(*snapshot.backlog.intents, wish), uncovered=Uncovered()
    )
    return replace(snapshot, backlog=backlog)


def _share(pace: Pace) -> float:
    known = pace.summaries >= PACE_SUMMARIES_MIN and pace.tokens_max
    return pace.tokens / pace.tokens_max if known else WRITTEN_SHARE


class _Run:
    """One backfill in the mind."""

    def __init__(self, snapshot: Snapshot, quoted: Quote, share: float) -> None:
        self._snapshot = snapshot
        self._quoted = quoted
        self._share = share
        self._unread: deque[Message] = deque()
        self._born = FIRST_ID
        self._beside: dict[tuple[str, str], int] = {}  # what a request weighs by itself
        self._answered: set[str] = set()  # tasks whose answer came with that to another
        self._window = max(WINDOW, TURN_MESSAGES * snapshot.settings.minis_per_call)
        self.kinds: Counter[str] = Counter()
        self.messages = self.calls = self.input_tokens = self.output_tokens = 0
        self.spared_calls = self.spared_tokens = 0  # by calls that are made for several

    def read(self, page: tuple[Message, ...]) -> None:
        """Do all that is due with these messages; without any, all that is left."""
        self._unread.extend(page)
        while not page or len(self._unread) > PAGE // 2:
            company = self._next()
            if not company:
                return
            self._imagine(company)

    def _next(self) -> tuple[Task, ...]:
        """The next task, and those that its call may be made for too."""
        size = self._window
        while True:
            backlog = self._backlog
            shown = tuple(islice(self._unread, size))
            seen = replace(backlog, uncovered=Uncovered((shown,) if shown else ()))
            self._snapshot = replace(self._snapshot, backlog=seen)
            decided = plan(self._snapshot, NO_END_MS, 0)
            if decided.ready:
                return together(self._snapshot, decided)
            if len(shown) < size:
                return ()
            size *= 2

    @property
    def _backlog(self) -> Backlog:
        assert self._snapshot.backlog is not None
        return self._snapshot.backlog

    def _imagine(self, company: tuple[Task, ...]) -> None:
        task = company[0]
        self.kinds[task.kind] += 1
        request = TaskRequest(task)
        size = sum(thing.tokens for thing in (*task.sources, *task.children))
        self.input_tokens += size
        if task.id in self._answered:
            self._answered.discard(task.id)
            self.spared_calls += self._calls_for(size)
            self.spared_tokens += self._weight(task, request)
        else:
            self.calls += self._calls_for(size)
            self.input_tokens += self._weight(task, request)
            self._answer_others(company)
        if request.decides:
            self.output_tokens += 1
            self._answer_no(task)
            return
        made = self._summary(task)
        self.output_tokens += made.tokens
        self.messages += len(task.sources)
        self._snapshot = advance(self._snapshot, made)
        self._forget({m.id for m in task.sources})

    def _forget(self, read: set[int]) -> None:
        """These have their summary. A task that was cancelled keeps its messages at the front."""
        while self._unread and self._unread[0].id in read:
            read.discard(self._unread.popleft().id)
        if read:
            self._unread = deque(m for m in self._unread if m.id not in read)

    def _answer_others(self, company: tuple[Task, ...]) -> None:
        if self._quoted.costs:
            shared = fitting(company, self._quoted.window_tokens)
            self._answered.update(other.id for other in shared[1:])

    def _calls_for(self, size: int) -> int:
        """One, unless the model's window is too small: then one for each part, and their joins."""
        window = self._quoted.window_tokens
        parts = 1 if window is None else ceil(size / max(1, int(window * FIT_SHARE)))
        return parts if parts == 1 else 2 * parts - 1

    def _weight(self, task: Task, request: TaskRequest) -> int:
        """Tokens of a request beside its material."""
        context = sum(map(_count, task.context))
        key = (task.kind, task.language)
        if key not in self._beside:
            part = Part(task.tokens_max, lines=request.lines)
            asked = sum(count_tokens(m["content"]) for m in request.ask(part, FENCE).messages)
            self._beside[key] = max(0, asked - context - sum(x.tokens for x in request.lines))
        return self._beside[key] + context

    def _answer_no(self, task: Task) -> None:
        said = Attempt(task.id, task.lane, "no", "", "", tries=1, not_before_ms=NEVER_MS)
        backlog = replace(self._backlog, attempts={**self._backlog.attempts, task.id: said})
        self._snapshot = replace(self._snapshot, backlog=backlog)

    def _summary(self, task: Task) -> Summary:
        self._born += 1
        things = (*task.sources, *task.children)
        first, last = things[0], things[-1]
        tokens = max(1, round(task.tokens_max * self._share))
        text = _words(task.language, tokens)
        return Summary(
            id=self._born,
            lane=task.lane,
            kind=task.kind,
            level=task.children[0].level + 1 if task.children else 0,
            ordinal=0,
            text=text,
            tokens=tokens,
            hash=digest(str(self._born)),
            first_pos=first.first_pos if isinstance(first, Summary) else first.pos,
            last_pos=last.last_pos if isinstance(last, Summary) else last.pos,
            message_count=len(things),
            status=SummaryStatus.READY,
            presence=first.presence,
            covers=tuple(thing.id for thing in things),
        )

    def result(self, pace: Pace) -> Estimate:
        """What it came to."""
        measured = pace.summaries >= PACE_SUMMARIES_MIN
        call_s = CALL_S if self._quoted.costs else EXTRACT_S
        if measured:
            call_s = pace.duration_ms / 1000 / max(1, pace.calls)
        per_minute = self._quoted.per_minute
        at_least_s = 60 / per_minute if per_minute else 0.0
        return Estimate(
            model=self._quoted.name,
            messages=self.messages,
            calls=self.calls,
            calls_max=self.calls + self.spared_calls + self._vain(),
            kinds=dict(self.kinds),
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self._cost_usd(self.input_tokens),
            cost_max_usd=self._cost_usd(self.input_tokens + self.spared_tokens),
            seconds=round(self.calls * max(call_s + STORE_S, at_least_s), 1),
            measured=measured,
        )

    def _vain(self) -> int:
        """Calls until a model that cannot share them is hardly asked to any more."""
        return in_vain(self.kinds.total()) if self.spared_calls else 0

    def _cost_usd(self, input_tokens: int) -> float | None:
        if not self._quoted.costs:
            return 0.0
        if self._quoted.price is None:
            return None
        return self._quoted.price.of(Usage(input_tokens, self.output_tokens)) / MICROS


@lru_cache(maxsize=512)
def _words(language: str, tokens: int) -> str:
    """Any text of about that size, in a language that can be told."""
    return "好" * tokens if language == "zh" else "and " * tokens


@lru_cache(maxsize=4096)
def _count(text: str) -> int:
    return count_tokens(text)
