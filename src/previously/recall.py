"""Recall: from what was just said to what it calls up, in three steps: terms, candidates, ranking.

No model and no embedding: the terms of the pending turn, the index of the chat, and our own BM25.
"""

from __future__ import annotations

from collections.abc import Collection

from previously.lanes.related import neighbour
from previously.model import Recall, Recalled, Snapshot
from previously.search import Ranked, candidates, query_terms, rank, recall_terms, telling_terms
from previously.store import Store, TermStats

RECALLED_MAX = 12  # for an ordinary turn; what is called up changes every time and is paid for
ANSWERS_MAX = 200  # for a question about the past
WEIGHT_SHARE_MIN = 0.3  # of the turn's own weight that a message must have to be called up by it


async def recalled(
    store: Store,
    snapshot: Snapshot,
    text: str,
    audience: Collection[str],
    *,
    before_pos: int,
    question: bool,
) -> Recall:
    """What stands before a position and answers to a text, with what stands beside it."""
    ref = snapshot.ref
    stats = await store.term_stats(ref, telling_terms(text))
    wanted = query_terms(text, stats.counts) if question else recall_terms(text, stats)
    if not wanted:
        return Recall(question=question)
    found = await candidates(store, ref, wanted, stats, before_pos=before_pos)
    ranked = rank(found, wanted, stats, text)
    if audience:
        there = await store.presences(ref)
        people = frozenset(audience)
        ranked = [
            r
            for r in ranked
            if r.message.presence is None or people <= there.get(r.message.presence, people)
        ]
    ranked = ranked[:ANSWERS_MAX] if question else _telling(ranked, stats)[:RECALLED_MAX]
    return await _with_neighbours(store, snapshot, ranked, before_pos, question=question)


def _telling(ranked: list[Ranked], stats: TermStats) -> list[Ranked]:
    """Those that share more with the turn than a word by chance."""
    best = ranked[0].score if ranked else 0.0
    return [
        r
        for r in ranked
        if r.score >= best * WEIGHT_SHARE_MIN and (len(r.terms) > 1 or _is_rare(r, stats))
    ]


def _is_rare(found: Ranked, stats: TermStats) -> bool:
    """Whether its one word is said in few places, as names and numbers are."""
    return stats.counts.get(found.terms[0], 0) * 100 <= max(300, stats.messages)


async def _with_neighbours(
    store: Store, snapshot: Snapshot, ranked: list[Ranked], before_pos: int, *, question: bool
) -> Recall:
    """Messages are born beside each other: the keys around a hit are what was said around it."""
    ids = [r.message.id for r in ranked]
    near = {i: (i - 1, i + 1) for i in ids}
    shown = await store.shown(
        snapshot.ref, list({*ids, *(n for pair in near.values() for n in pair)})
    )
    found: list[Recalled] = []
    beside: dict[int, tuple[Recalled, ...]] = {}
    for r in ranked:
        if r.message.id not in shown:
            continue
        message, floor = shown[r.message.id]
        hit = Recalled(message, floor, r.score, f"{r.reason}: {', '.join(r.terms)}")
        found.append(hit)
        beside[message.id] = tuple(
            neighbour(*shown[n], hit)
            for n in near[message.id]
            if n in shown and shown[n][0].pos < before_pos
        )
    return Recall(tuple(found), beside, question=question)
