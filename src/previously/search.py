"""Search: the index yields candidates, and ranking is ours.

BM25 over the statistics of one chat: both databases give the same answer, and nothing in another
chat changes a score. `query_terms`, `recall_terms` and `rank` are pure; `related` is the one look
that stands between the last two when a prompt is to hold what belongs to a message.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from previously.model import ChatRef, Message
from previously.store import Candidate, Found, Store, TermStats
from previously.text.terms import counter, is_sign, normal, places, spans, terms

TERMS_MAX = 8
QUESTION_TERMS_MAX = 24  # a question is about all of its words; Chinese has two terms to each
CANDIDATES_MAX = 500
SEARCHED_MAX = 160  # candidates that a user's search ranks
HITS_DEFAULT = 20
HITS_MAX = 200
QUERY_CHARS_MAX = 2_000
CHATS_MAX = 64  # that one search over all of an owner's chats reads
INFIX_CHARS_MIN = 3
INFIX_CHATS_MAX = 16  # newest chats that are looked through for a part of a word
SNIPPET_CHARS = 120
SNIPPET_BEFORE_CHARS = 30
HELD_TEXTS, HELD_CHARS_MAX = 1_024, 2_000  # as they are compared
NO_END = 1 << 62  # after every message

SATURATION, LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25
LONE_WEIGHT = 0.25  # of a character whose neighbour in the query is wanted beside it
LOOSE_WEIGHT = 0.25  # of two characters of which one says nothing: they are seldom a word
PHRASE_SHARE = 0.5  # of the rarest term's weight, for a message that has the query as it stands
RECALL_SHARE_MAX = 0.1  # a term that more of the messages hold says nothing about what is meant

WORDS, PHRASE, PART = "words", "phrase", "part of a word"

# They find nothing by themselves; a query that has other terms does without them.
STOP_TERMS = terms(
    "a about all also am an and any are as at be been being but by can could d did do does for from"
    " had has have he her his how i if in into is it its just ll m me my no nor not of on only or"
    " our re s she so some t than that the their them then there they this to too us ve very was we"
    " were what when where which who whom whose why will with would you your"
) | set("的了是在我你他她它们这那和就不也都很有一个么吗呢吧啊着过得地与及什哪谁怎被把为请问")

_LATIN = re.compile("[a-z]+")


class Ranked(NamedTuple):
    """A candidate, how well it answers, and by what."""

    message: Candidate
    score: float
    terms: tuple[str, ...]
    reason: str  # words | phrase | part of a word


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a message's text, and where in it the query was found, in characters."""

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """What was found, with all that a reader wants to see of it."""

    message: Message
    chat: ChatRef
    floor: int
    score: float
    terms: tuple[str, ...]
    reason: str
    snippet: Snippet


def query_terms(text: str, counts: Mapping[str, int], most: int = TERMS_MAX) -> tuple[str, ...]:
    """The rarest terms of a query; those that the index does not know last."""
    return _rarest(telling_terms(text), counts, most)


def recall_terms(text: str, stats: TermStats) -> tuple[str, ...]:
    """The rarest terms of a message that others may be related by: none that most of them hold.

    While the index is behind, what it does not know may stand in what it has not read.
    """
    least, most = 0 if stats.behind else 1, max(1, int(stats.messages * RECALL_SHARE_MAX))
    known = [t for t in telling_terms(text) if least <= stats.counts.get(t, 0) <= most]
    return _rarest(known, stats.counts, TERMS_MAX)


def telling_terms(text: str) -> list[str]:
    """The terms of a query without those that find nothing, unless there are no others."""
    found = terms(text[:QUERY_CHARS_MAX])
    return sorted(found - STOP_TERMS or found)


def _rarest(found: Iterable[str], counts: Mapping[str, int], most: int) -> tuple[str, ...]:
    """Known before unknown, words before what only looks like one, then by how rare they are."""

    def rarity(term: str) -> tuple[bool, bool, int, int, str]:
        held = counts.get(term, 0)
        return (not held, _is_loose(term), held, -len(term), term)

    return tuple(sorted(found, key=rarity)[:most])


def _is_loose(term: str) -> bool:
    """Whether it is a pair of characters of which one finds nothing by itself, as in 猫的."""
    return len(term) > 1 and not STOP_TERMS.isdisjoint(term) and is_sign(term)


def rank(
    found: Iterable[Candidate], wanted: Sequence[str], stats: TermStats, query: str = ""
) -> list[Ranked]:
    """Those that hold any of the terms, best first; of equals the newest."""
    weights = {t: _weight(t, wanted, stats) for t in wanted}
    counters = [(t, counter(t)) for t in wanted]
    phrase = _phrase(query, wanted)
    bonus = PHRASE_SHARE * max(weights.values(), default=0.0)
    average = stats.tokens / stats.messages if stats.messages else 0.0
    made: list[Ranked] = []
    for message in found:
        text = _normal_again(message.body)
        often = {t: n for t, count in counters if (n := count(text))}
        if not often:
            continue
        size = message.tokens / average if average else 1.0
        damp = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * size)
        score = sum(weights[t] * n * (SATURATION + 1) / (n + damp) for t, n in often.items())
        whole = bool(phrase) and phrase in text
        reason = PHRASE if whole else WORDS
        made.append(Ranked(message, score + bonus * whole, tuple(often), reason))
    made.sort(key=_best_first)
    return made


def _normal_again(text: str) -> str:
    """`normal`, held for a while: what the index does not know yet is ranked turn after turn."""
    return _held(text) if len(text) <= HELD_CHARS_MAX else normal(text)


_held = lru_cache(HELD_TEXTS)(normal)


def _best_first(ranked: Ranked) -> tuple[float, int, int]:
    return (-ranked.score, -ranked.message.created_at_ms, -ranked.message.id)


def _weight(term: str, wanted: Sequence[str], stats: TermStats) -> float:
    holding = stats.counts.get(term, 0)
    rarity = math.log(1 + (max(stats.messages, holding) - holding + 0.5) / (holding + 0.5))
    if _is_loose(term):
        return rarity * LOOSE_WEIGHT
    beside = is_sign(term) and any(term != other and term in other for other in wanted)
    return rarity * LONE_WEIGHT if beside else rarity


def _phrase(query: str, wanted: Sequence[str]) -> str:
    """The query as it stands, where it says more than its terms do."""
    return normal(query[:QUERY_CHARS_MAX]).strip() if len(wanted) > 1 else ""


async def candidates(
    store: Store,
    ref: ChatRef,
    wanted: Sequence[str],
    stats: TermStats,
    limit: int = CANDIDATES_MAX,
    before_pos: int = NO_END,
) -> tuple[Candidate, ...]:
    """Messages before a position that may hold these terms, for `rank`."""
    if not wanted:
        return ()
    return await store.term_candidates(ref, wanted, stats, limit, before_pos)


async def related(
    store: Store,
    ref: ChatRef,
    text: str,
    limit: int = CANDIDATES_MAX,
    before_pos: int = NO_END,
) -> Found:
    """In one look: what messages before a position may be related to a text, for `rank`."""
    asked = telling_terms(text)
    return await store.find_terms(ref, asked, partial(recall_terms, text), limit, before_pos)


async def in_chat(
    store: Store,
    ref: ChatRef,
    query: str,
    limit: int,
    people: frozenset[str] | None = None,
    most: int = SEARCHED_MAX,
) -> list[Ranked]:
    """The messages of one chat that answer a query best."""

    def choose(stats: TermStats) -> tuple[str, ...]:
        return query_terms(query, stats.counts)

    look = await store.find_terms(ref, telling_terms(query), choose, most, NO_END)
    found = rank(look.candidates, look.terms, look.stats, query)
    if people is not None:
        there = await store.presences(ref)
        found = [r for r in found if was_there(r.message, people, there)]
    return found[:limit]


def was_there(
    message: Candidate | Message, people: frozenset[str], there: Mapping[int, frozenset[str]]
) -> bool:
    """Everybody is, unless the message says who was."""
    return message.presence is None or people <= there.get(message.presence, people)


async def by_part(
    store: Store, ref: ChatRef, query: str, limit: int, people: frozenset[str] | None = None
) -> list[Ranked]:
    """The newest messages with a word that has the query somewhere inside it."""
    part = normal(query[:QUERY_CHARS_MAX]).strip()
    if len(part) < INFIX_CHARS_MIN or not _LATIN.fullmatch(part):
        return []
    there = await store.presences(ref) if people is not None else {}
    found = await store.containing(ref, part, limit)
    seen = (m for m in found if people is None or was_there(m, people, there))
    return [Ranked(m, 0.0, (part,), PART) for m in seen]


async def hits(
    store: Store,
    owner: str,
    query: str,
    limit: int,
    *,
    ref: ChatRef | None = None,
    people: frozenset[str] | None = None,
) -> list[Hit]:
    """The best hits in one chat, or in all chats of an owner; among people, in theirs alone.

    People take part in a chat if each of them has spoken in it or was said to be present; of its
    messages those count that name nobody as present, or all of them.
    """
    wanted = telling_terms(query)
    if not wanted:
        return []
    refs = await _chats(store, owner, wanted, ref, people)
    most = max(limit, SEARCHED_MAX // max(1, len(refs)))
    ranked = [(r, c) for c in refs for r in await in_chat(store, c, query, limit, people, most)]
    if not ranked:
        refs = (await _chats(store, owner, (), ref, people))[:INFIX_CHATS_MAX]
        ranked = [(r, c) for c in refs for r in await by_part(store, c, query, limit, people)]
    ranked.sort(key=lambda found: _best_first(found[0]))
    return await _complete(store, ranked[:limit])


async def _chats(
    store: Store,
    owner: str,
    wanted: Sequence[str],
    ref: ChatRef | None,
    people: frozenset[str] | None,
) -> list[ChatRef]:
    if ref is not None and people is None:
        return [ref]
    found = await store.term_chats(owner, wanted, people)
    return found[:CHATS_MAX] if ref is None else [c for c in found if c.id == ref.id]


async def _complete(store: Store, ranked: Sequence[tuple[Ranked, ChatRef]]) -> list[Hit]:
    """With floors and snippets; what was hidden since it was found is left out."""
    shown: dict[int, tuple[Message, int]] = {}
    for ref in dict.fromkeys(ref for _, ref in ranked):
        shown |= await store.shown(ref, [r.message.id for r, c in ranked if c == ref])
    return [
        Hit(
            message=shown[r.message.id][0],
            chat=ref,
            floor=shown[r.message.id][1],
            score=r.score,
            terms=r.terms,
            reason=r.reason,
            snippet=snippet(r.message.body, r.terms, part=r.reason == PART),
        )
        for r, ref in ranked
        if r.message.id in shown
    ]


def snippet(body: str, found: Sequence[str], *, part: bool = False) -> Snippet:
    """The text around the first of the rarest term, every found term in it marked."""
    text, at = normal(body), places(body)
    marks = _merged(
        (at[start], at[end - 1] + 1)
        for term in found
        for start, end in (_parts(text, term) if part else spans(text, term))
    )
    first = next((at[s] for s, _ in (_parts if part else spans)(text, found[0])), 0)
    start = max(0, min(first - SNIPPET_BEFORE_CHARS, len(body) - SNIPPET_CHARS))
    end = start + SNIPPET_CHARS
    inside = marks[bisect_left(marks, (start, start)) :]
    shown = tuple((a - start, min(b, end) - start) for a, b in inside if a < end)
    return Snippet(body[start:end], shown)


def _parts(text: str, part: str) -> Iterable[tuple[int, int]]:
    return (found.span() for found in re.finditer(re.escape(part), text))


def _merged(marks: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """From left to right, neighbours in one."""
    made: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((start, end))
    return made
