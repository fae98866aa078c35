"""Tasks: what is due, what became of it so far, and when it is tried again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from previously.model import ChatRef
from previously.planner import NEVER_MS
from previously.service import OWNER, Service, TaskState
from previously.store import ChatCard
from previously.web.rest import ids, shapes
from previously.web.rest.context import Use

CHATS_MAX = 20  # whose plans are made for one answer
TASKS_MAX = 200  # of one chat

router = APIRouter(prefix="/tasks", tags=["tasks"])

TaskId = Annotated[str, Path(max_length=120, description="A task's id.")]


@router.get("")
async def listed(
    use: Use, chat: Annotated[str | None, Query(max_length=120)] = None
) -> shapes.Tasks:
    """What is due in one chat, or in all in which something is."""
    if chat is None:
        refs = await use.store.busy_chats(OWNER, CHATS_MAX + 1)
    else:
        refs = [await use.chat_by_id(ids.chat_key(chat))]
    items: list[shapes.Task] = []
    work: list[shapes.Work] = []
    more = len(refs) > CHATS_MAX
    for ref in refs[:CHATS_MAX]:
        card = await use.store.chat_card(ref)
        found = await use.tasks(ref)
        state = await _work(use, ref, card)
        more = more or len(found) > TASKS_MAX
        items += await _tasks(use, ref, card, found[:TASKS_MAX], working=state.working)
        work.append(state)
    return shapes.Tasks(items=items, work=work, more=more)


async def _work(use: Service, ref: ChatRef, card: ChatCard) -> shapes.Work:
    state = await use.store.work_state(ref)
    progress = await use.store.progress(ref, card.chat.lane)
    facts = await use.facts(ref)
    return shapes.Work(
        chat=ids.chat_id(ref.id),
        chat_title=card.chat.title,
        uncovered=progress.uncovered,
        summaries=progress.summaries,
        working=state.leased,
        due=state.rev > state.done_rev,
        next_look_ms=state.due_at_ms,
        wishes=list(facts.wishes),
    )


async def _tasks(
    use: Service, ref: ChatRef, card: ChatCard, found: list[TaskState], *, working: bool
) -> list[shapes.Task]:
    messages = await use.store.messages_by_id(ref, [i for t in found for i in t.messages])
    covers = await use.store.summaries_by_id(ref, [i for t in found for i in t.children])
    ends = {m.id: (m.pos, m.pos) for m in messages}
    tops = {s.id: (s.first_pos, s.last_pos) for s in covers}
    floors = await use.store.floors(
        ref, [pos for pair in (*ends.values(), *tops.values()) for pos in pair]
    )
    now_ms = await use.store.now_ms()
    told: list[shapes.Task] = []
    for task in found:
        spans = [ends[i] for i in task.messages if i in ends]
        spans += [tops[i] for i in task.children if i in tops]
        state, reason, next_ms = _state(task, now_ms, working=working)
        attempt = task.attempt
        told.append(
            shapes.Task(
                id=ids.task_id(ref.id, task.id),
                chat=ids.chat_id(ref.id),
                chat_title=card.chat.title,
                kind=task.kind,
                state=state,
                reason=reason,
                messages=[ids.message_id(i) for i in task.messages],
                summaries=[ids.summary_id(i) for i in task.children],
                first_floor=min((floors[a] for a, _ in spans), default=None),
                last_floor=max((floors[b] for _, b in spans), default=None),
                tries=attempt.tries if attempt else 0,
                error=attempt.error_class if attempt else "",
                next_try_ms=next_ms,
            )
        )
    return told


_DECIDED: dict[str, tuple[shapes.TaskStateName, str]] = {
    "cancelled": ("cancelled", "left alone until its messages change"),
    "no": ("waiting", "the stretch is not finished yet, says the model"),
}


def _state(
    task: TaskState, now_ms: int, *, working: bool
) -> tuple[shapes.TaskStateName, str, int | None]:
    """Its state, why, and when it is tried next."""
    if task.reason:
        return "held", task.reason, None
    attempt = task.attempt
    if attempt is None or attempt.verdict == "yes":
        return ("running" if working else "due"), "", None
    if attempt.verdict in _DECIDED:
        return (*_DECIDED[attempt.verdict], None)
    if attempt.not_before_ms >= NEVER_MS:
        return "failed", attempt.error_text, None
    late = attempt.not_before_ms > now_ms
    return ("waiting" if late else "due"), attempt.error_text, attempt.not_before_ms


@router.post("/{task}/retry", status_code=204)
async def retried(use: Use, task: TaskId) -> None:
    """Try a failed task again now."""
    chat, key = ids.task_key(task)
    await use.retry(await use.chat_by_id(chat), key)


@router.post("/{task}/cancel", status_code=204)
async def cancelled(use: Use, task: TaskId) -> None:
    """Leave a failed task alone until its messages change."""
    chat, key = ids.task_key(task)
    await use.cancel(await use.chat_by_id(chat), key)
