"""Recall: from what was just said to what it calls up, in three steps: terms, candidates, ranking.

No model and no embedding: the terms of the pending turn, the index of the chat, and our own BM25.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from previously.lanes.related import REACH, with_neighbours
from previously.model import Message, Recall, Recalled, Snapshot
from previously.search import (
    CANDIDATES_MAX,
    QUESTION_TERMS_MAX,
    Ranked,
    query_terms,
    rank,
    recall_terms,
    telling_terms,
    was_there,
)
from previously.store import Store, TermStats

RECALLED_MAX = 12  # for an ordinary turn; what is called up changes every time and is paid for
ANSWERS_MAX = 100  # for a question about the past
SCORE_SHARE_MIN = 0.3  # of the best one's score: who has less is called up by nothing but chance
RARE_SHARE, RARE_MIN = 100, 3  # one in a hundred messages, or three


async def recalled(
    store: Store,
    snapshot: Snapshot,
    text: str,
    audience: Collection[str],
    *,
    before_pos: int,
    question: bool,
) -> Recall:
    """What stands before a position and answers to a text, with what stands beside it.

    A question is about all of its words. An ordinary turn calls up only what shares something rare
    with it.
    """
    choose = partial(_asked if question else recall_terms, text)
    look = await store.find_terms(
        snapshot.ref, telling_terms(text), choose, CANDIDATES_MAX, before_pos
    )
    people = frozenset(audience)
    there = await store.presences(snapshot.ref) if people else {}
    seen_by_all = [c for c in look.candidates if was_there(c, people, there)]
    ranked = rank(seen_by_all, look.terms, look.stats, text)
    best = ranked[:ANSWERS_MAX] if question else telling(ranked, look.stats)[:RECALLED_MAX]
    if not best:
        return Recall()
    around = [
        found
        for found in await _around(store, snapshot, best, before_pos)
        if was_there(found[0], people, there)
    ]
    seen = {message.id: (message, floor) for message, floor in around}
    hits = [
        Recalled(*seen[r.message.id], r.score, f"{r.reason}: {', '.join(r.terms)}")
        for r in best
        if r.message.id in seen
    ]
    return Recall(with_neighbours(hits, around))


def _asked(text: str, stats: TermStats) -> tuple[str, ...]:
    return query_terms(text, stats.counts, QUESTION_TERMS_MAX)


def telling(ranked: Sequence[Ranked], stats: TermStats) -> list[Ranked]:
    """Those that share more with the turn than a word by chance."""
    best = ranked[0].score if ranked else 0.0
    return [
        r
        for r in ranked
        if r.score >= best * SCORE_SHARE_MIN and (len(r.terms) > 1 or _is_rare(r, stats))
    ]


def _is_rare(found: Ranked, stats: TermStats) -> bool:
    """Whether its one word is known to be said in few places, as names and numbers are."""
    held = stats.counts.get(found.terms[0], 0)
    return 0 < held <= max(RARE_MIN, stats.messages // RARE_SHARE)


async def _around(
    store: Store, snapshot: Snapshot, ranked: Sequence[Ranked], before_pos: int
) -> list[tuple[Message, int]]:
    """These messages and those around them that may be shown, with floors, in their order.

    Messages are born beside each other: the keys around a hit are what was said around it.
    """
    ids = {r.message.id + step for r in ranked for step in range(-REACH, REACH + 1)}
    shown = await store.shown(snapshot.ref, sorted(ids))
    before = (found for found in shown.values() if found[0].pos < before_pos)
    return sorted(before, key=lambda found: found[0].pos)
