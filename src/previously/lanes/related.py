"""Related: what was said long ago and the pending turn calls up again, quoted as it was said.

An overlay: it stands for nothing and covers nothing. It stands behind the tail, because it changes
with every turn: whatever came after it would have to be paid for anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace

from previously.measure import MESSAGE_OVERHEAD_TOKENS, count_tokens
from previously.model import Block, Item, Message, Recalled, Summary
from previously.prompts import texts
from previously.text.language import language_of
from previously.text.spoken import body_of, speaker_of, spoken_text

NEIGHBOUR_TOKENS_MAX = 120  # a longer one costs more than what it may explain
REACH = 2  # messages on either side of a hit that it may lend something to
# What a message is worth for standing beside a hit, of the worth of that.
BESIDE_SHARE = 0.5
ANSWER_SHARE = 0.9  # right after a question: what was asked for is said there
NEAR_SHARE = 0.3  # two away
LINE_TOKENS = 4  # floor and end of a line, beyond what the message itself counts
LABEL_TOKENS = 48
QUOTED_CHARS_MIN = 8  # a shorter one may stand in an extract by chance
QUESTION_MARKS = "?？"
CLOSING_MARKS = " \n\"'”’」』）)*~"
BESIDE = "beside"


def with_neighbours(
    hits: Sequence[Recalled], around: Sequence[tuple[Message, int]]
) -> tuple[Recalled, ...]:
    """Hits and what stands around them, best first; of equals the newest.

    `around` holds messages with their floors, the hits among them, in the order of the chat. Who
    answers often does not repeat what was asked: a message is worth its own words, and a share of
    the best hit near it.
    """
    own = {hit.message.id: hit for hit in hits}
    made: list[Recalled] = []
    for at, (message, floor) in enumerate(around):
        lent, lender = _lent(around, at, own)
        hit = own.get(message.id)
        if hit is not None:
            made.append(replace(hit, score=hit.score + lent))
        elif lender is not None and message.body.strip():
            made.append(Recalled(message, floor, lent, f"{BESIDE} #{lender.floor}"))
    made.sort(key=lambda r: (-r.score, -r.message.pos))
    return tuple(made)


def _lent(
    around: Sequence[tuple[Message, int]], at: int, own: dict[int, Recalled]
) -> tuple[float, Recalled | None]:
    """The largest share in a hit nearby, and that hit."""
    message, floor = around[at]
    best: tuple[float, Recalled | None] = (0.0, None)
    if message.tokens > NEIGHBOUR_TOKENS_MAX:
        return best
    for near, near_floor in around[max(0, at - REACH) : at + REACH + 1]:
        hit = own.get(near.id)
        if hit is not None and 0 < abs(floor - near_floor) <= REACH:
            lent = hit.score * _share(near, floor - near_floor)
            best = max(best, (lent, hit), key=lambda found: found[0])
    return best


def _share(hit: Message, distance: int) -> float:
    if abs(distance) > 1:
        return NEAR_SHARE
    return ANSWER_SHARE if distance == 1 and _asks(hit) else BESIDE_SHARE


def _asks(message: Message) -> bool:
    return message.body.rstrip(CLOSING_MARKS)[-1:] in tuple(QUESTION_MARKS)


def quoted(found: Sequence[Recalled], shown: Sequence[Summary]) -> set[int]:
    """The messages that an extract quotes as a whole: they need not be said twice."""
    starts = [cover.first_pos for cover in shown]
    said: set[int] = set()
    for one in found:
        at = bisect_right(starts, one.message.pos) - 1
        if at >= 0 and one.message.pos <= shown[at].last_pos and _quotes(shown[at], one.message):
            said.add(one.message.id)
    return said


def _quotes(cover: Summary, message: Message) -> bool:
    told = _flat(body_of(message))
    return len(told) >= QUOTED_CHARS_MIN and told in _flat(cover.text) and cover.is_extract


def _flat(text: str) -> str:
    """A text on one line, as an extract writes it."""
    return " ".join(text.split())


def choose(
    found: Sequence[Recalled], room_tokens: int, known: Collection[int] = ()
) -> tuple[Recalled, ...]:
    """The best that fit, in the order of the chat; none of those whose ids are `known`."""
    chosen: list[Recalled] = []
    left = room_tokens - LABEL_TOKENS
    for one in found:
        cost = one.message.tokens + LINE_TOKENS
        if cost <= left and one.message.id not in known:
            chosen.append(one)
            left -= cost
    while chosen and show(chosen).tokens > room_tokens:  # in other words: the estimate was low
        chosen.pop()
    return tuple(sorted(chosen, key=lambda r: r.message.pos))


def show(chosen: Sequence[Recalled]) -> Block:
    """One system message, a line for each, with floor and speaker."""
    language = language_of("\n".join(r.message.body for r in chosen))
    lines = [
        f"#{r.floor} {speaker_of(r.message, language)}: {spoken_text(r.message, language)}"
        for r in chosen
    ]
    content = "\n".join([texts(language).recalled_label, *lines])
    return Block(
        place="fragment",
        wire={"role": "system", "content": content},
        tokens=count_tokens(content) + MESSAGE_OVERHEAD_TOKENS,
        sources=tuple(Item.of(r.message) for r in chosen),
    )
