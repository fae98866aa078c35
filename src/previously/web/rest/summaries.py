"""Summaries: the tree, revisions, a user's own words, proposals; and asking for new ones."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response

from previously.errors import BadInput, Conflict
from previously.model import START, ChatRef, SummaryStatus, birth
from previously.service import Service
from previously.text.clean import clean
from previously.web.rest import ids, shapes, told
from previously.web.rest.chats import revision
from previously.web.rest.context import Seen, TheChat, Use, check_seen, tag

PAGE_DEFAULT, PAGE_MAX = 100, 500

router = APIRouter(tags=["summaries"])

SummaryId = Annotated[str, Path(max_length=120, description="A summary's id.", examples=["s1-3"])]


async def _summary_chat(use: Use, summary: SummaryId) -> ChatRef:
    """A summary's id names its chat."""
    return await use.chat_by_id(ids.chat_of(ids.summary_key(summary)))


ItsChat = Annotated[ChatRef, Depends(_summary_chat)]


@router.get("/chats/{chat}/summaries")
async def listed(
    use: Use,
    ref: TheChat,
    show: Annotated[
        Literal["top", "proposed", "all"],
        Query(description="Those on top of the tree, those that wait for you, or every one ever."),
    ] = "top",
    parent: Annotated[str | None, Query(max_length=120)] = None,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
) -> shapes.SummaryPage:
    """Summaries in the order of what they stand for; with `parent` those that one is made of."""
    above = None if parent is None else ids.summary_key(parent)
    if above is not None:
        await use.store.summary(ref, above)
    after = (START, 0) if cursor is None else ids.read_cursor(cursor, 2)
    page = await use.store.summary_page(ref, show, above, (after[0], after[1]), limit)
    last = page.summaries[-1] if len(page.summaries) == limit else None
    following = None if last is None else ids.cursor(last.first_pos, last.id)
    return shapes.SummaryPage(items=told.summaries(page), next=following)


@router.get("/summaries/{summary}")
async def shown(
    use: Use, ref: ItsChat, summary: SummaryId, response: Response
) -> shapes.SummaryFull:
    """One summary, with what it was made of."""
    return await full(use, ref, ids.summary_key(summary), response)


@router.patch("/summaries/{summary}")
async def changed(
    use: Use,
    ref: ItsChat,
    summary: SummaryId,
    asked: shapes.SummaryChange,
    seen: Seen,
    response: Response,
) -> shapes.SummaryFull:
    """Your own words in its place: a new revision that no rewriting touches."""
    key = ids.summary_key(summary)
    await _check_stands(use, ref, key, seen)
    made = await use.edit_summary(ref, key, clean(asked.text))
    return await full(use, ref, made.id, response)


@router.delete("/summaries/{summary}", status_code=204)
async def removed(use: Use, ref: ItsChat, summary: SummaryId, seen: Seen) -> None:
    """Show what it stands for in its place; it is not written anew. POST …/restore undoes it."""
    key = ids.summary_key(summary)
    await _check_stands(use, ref, key, seen)
    await use.delete_summary(ref, key)


async def _check_stands(use: Service, ref: ChatRef, key: int, seen: int | None) -> None:
    """Another revision stands: somebody has edited or rewritten it meanwhile."""
    found = (await use.store.summary(ref, key)).summaries[0]
    check_seen(seen, birth(found.id), "the summary")
    if found.status != SummaryStatus.READY:
        raise Conflict("another revision of this summary stands now")


@router.get("/summaries/{summary}/revisions")
async def revisions(use: Use, ref: ItsChat, summary: SummaryId) -> shapes.SummaryPage:
    """Every text it has had, oldest first."""
    page = await use.store.revision_page(ref, ids.summary_key(summary))
    return shapes.SummaryPage(items=told.summaries(page), next=None)


@router.post("/summaries/{summary}/restore")
async def restored(
    use: Use, ref: ItsChat, summary: SummaryId, response: Response
) -> shapes.SummaryFull:
    """Let this revision stand again."""
    key = ids.summary_key(summary)
    await use.store.summary(ref, key)
    made = await use.restore_summary(ref, key)
    return await full(use, ref, made.id, response)


@router.post("/summaries/{summary}/proposal")
async def decided(
    use: Use, ref: ItsChat, summary: SummaryId, asked: shapes.Proposal, response: Response
) -> shapes.SummaryFull:
    """Accept a new text over what you had edited, or leave the messages as they were said."""
    key = ids.summary_key(summary)
    found = (await use.store.summary(ref, key)).summaries[0]
    if found.status != SummaryStatus.PROPOSED:
        raise Conflict("this is no proposal any more")
    if asked.accept:
        await use.restore_summary(ref, key)
    else:
        await use.reject_proposal(ref, key)
    return await full(use, ref, key, response)


@router.post("/chats/{chat}/run", status_code=202)
async def run(use: Use, ref: TheChat, asked: shapes.Run | None = None) -> shapes.Begun:
    """Write about every closed turn but the last, or that too, whatever the thresholds say."""
    wish = asked or shapes.Run()
    await _check_lane(use, ref, wish.lane)
    await use.run_now(ref, latest=wish.latest, beyond_budget=wish.beyond_budget)
    return shapes.Begun(begun=True, revision=await revision(use, ref))


@router.post("/chats/{chat}/archive", status_code=202)
async def archive(use: Use, ref: TheChat, asked: shapes.Archive | None = None) -> shapes.Begun:
    """Make the small summaries before the tail into a volume, few as they are."""
    await use.archive(ref, beyond_budget=bool(asked and asked.beyond_budget))
    return shapes.Begun(begun=True, revision=await revision(use, ref))


@router.post("/chats/{chat}/rebuild", status_code=202)
async def rebuild(use: Use, ref: TheChat, asked: shapes.Rebuild | None = None) -> shapes.Rebuilding:
    """Write summaries anew, from a message on; each old one stands until its successor does."""
    wish = asked or shapes.Rebuild()
    await _check_lane(use, ref, wish.lane)
    start = START
    if wish.from_message is not None:
        start = (await use.store.message(ref, ids.message_key(wish.from_message))).pos
    count = await use.plan_rebuild(ref, start)
    begun = bool(count) and not wish.dry_run
    if begun:
        await use.rebuild(ref, start, beyond_budget=wish.beyond_budget)
    return shapes.Rebuilding(summaries=count, begun=begun)


@router.delete("/chats/{chat}/rebuild")
async def stop_rebuild(use: Use, ref: TheChat) -> shapes.Begun:
    """Leave what was not written anew yet as it is; whether a rebuild was under way."""
    stopped = await use.stop_rebuild(ref)
    return shapes.Begun(begun=stopped, revision=await revision(use, ref))


@router.post("/chats/{chat}/backfill")
async def backfill(use: Use, ref: TheChat, asked: shapes.Backfill | None = None) -> shapes.Estimate:
    """What writing about all that has piled up would take; without `dry_run` it begins."""
    wish = asked or shapes.Backfill()
    found = await use.backfill(ref, dry_run=wish.dry_run, beyond_budget=wish.beyond_budget)
    return shapes.Estimate(
        model=found.model,
        messages=found.messages,
        calls=found.calls,
        calls_max=found.calls_max,
        kinds=dict(found.kinds),
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        cost_usd=found.cost_usd,
        cost_max_usd=found.cost_max_usd,
        seconds=found.seconds,
        measured=found.measured,
        budget_left_usd=found.budget_left_usd,
        begun=not wish.dry_run and found.calls > 0,
    )


@router.delete("/chats/{chat}/backfill")
async def pause_backfill(use: Use, ref: TheChat) -> shapes.Begun:
    """Let what has piled up wait again; whether a backfill was under way."""
    paused = await use.pause_backfill(ref)
    return shapes.Begun(begun=paused, revision=await revision(use, ref))


async def _check_lane(use: Service, ref: ChatRef, lane: str | None) -> None:
    own = (await use.store.find_chat(ref.owner, ref.name)).lane
    if lane is not None and lane != own:
        raise BadInput(f"this chat is remembered by the lane {own!r}", field="lane")


async def full(use: Service, ref: ChatRef, key: int, response: Response) -> shapes.SummaryFull:
    """A summary with all there is to say about it."""
    page = await use.store.summary(ref, key)
    (found,) = page.summaries
    prompt = await use.prompt(ref, preview=True)
    shown_ids = {i.id for b in prompt.trace.blocks for i in b.sources if i.is_summary}
    is_leaf = found.level == 0
    tag(response, birth(found.id))
    return shapes.SummaryFull(
        **told.summary_fields(found, page),
        source_messages=[ids.message_id(i) for i in found.covers] if is_leaf else [],
        source_summaries=[] if is_leaf else [ids.summary_id(i) for i in found.covers],
        shown=found.id in shown_ids,
    )
