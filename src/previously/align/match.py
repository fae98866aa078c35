"""Which of their messages is which of ours: pairs in the same order on both sides.

Texts that occur once on each side hold the rest in place; between two of them the ends are
compared, and what is small enough is looked through whole. Linear in what is compared, but for a
logarithm; a text that only repeats itself costs a bounded number of looks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

DEPTH_MAX = 6  # a stretch is parted by what is unique in it, and its parts again
CELLS_MAX = 4_096  # of a stretch that is compared all with all
LATE_THEIRS, LATE_OURS = 12, 6  # at the end of a long stretch that repeats itself

Keys = Sequence[Hashable]
Span = tuple[int, int, int, int]  # theirs from, to; ours from, to
Pair = tuple[int, int]


def matched(theirs: Keys, ours: Keys, fixed: Sequence[Pair] = ()) -> list[Pair]:
    """Pairs of equal keys, rising on both sides; `fixed` ones are kept and lie between them."""
    found = list(fixed)
    for span in between(fixed, len(theirs), len(ours)):
        found += _in_span(theirs, ours, span)
    return sorted(found)


def between(pairs: Sequence[Pair], theirs: int, ours: int) -> Iterator[Span]:
    """The stretches around these pairs in which both sides have something."""
    a = b = 0
    for i, j in (*pairs, (theirs, ours)):
        if a < i and b < j:
            yield a, i, b, j
        a, b = i + 1, j + 1


def _in_span(theirs: Keys, ours: Keys, span: Span) -> list[Pair]:
    """Part by what is unique, again and again; what has nothing unique is filled from its ends."""
    found: list[Pair] = []
    todo = [(0, span)]
    while todo:
        depth, (a, b, c, d) = todo.pop()
        if b - a == d - c and theirs[a:b] == ours[c:d]:  # all of it, however it repeats itself
            found += zip(range(a, b), range(c, d), strict=True)
            continue
        anchors = _rising(_unique(theirs, ours, (a, b, c, d))) if depth < DEPTH_MAX else []
        if not anchors:
            found += _filled(theirs, ours, (a, b, c, d))
            continue
        found += anchors
        inner = [(i - a, j - c) for i, j in anchors]
        for i, k, j, m in between(inner, b - a, d - c):
            todo.append((depth + 1, (a + i, a + k, c + j, c + m)))
    return found


def _unique(theirs: Keys, ours: Keys, span: Span) -> list[Pair]:
    """Pairs of keys that occur once on each side, in their order."""
    a, b, c, d = span
    where = _once(ours, c, d)
    found = ((i, where.get(key, -1)) for key, i in _once(theirs, a, b).items() if i >= 0)
    return [(i, j) for i, j in found if j >= 0]


def _once(keys: Keys, first: int, last: int) -> dict[Hashable, int]:
    """Where each key stands, in the order of their first places; -1 if it does so twice."""
    where: dict[Hashable, int] = {}
    for i in range(first, last):
        key = keys[i]
        where[key] = -1 if key in where else i
    return where


def _rising(pairs: Sequence[Pair]) -> list[Pair]:
    """The most of these pairs that rise on our side too; of equal choices the latest there.

    Walked from the end, where a client's history and ours have most in common.
    """
    tops: list[int] = []  # the highest place at which a row of each length can begin, negated
    at: list[int] = []  # which pair that is
    then: list[int] = [-1] * len(pairs)
    for index in range(len(pairs) - 1, -1, -1):
        place = -pairs[index][1]
        length = bisect_left(tops, place)
        then[index] = at[length - 1] if length else -1
        if length == len(tops):
            tops.append(place)
            at.append(index)
        else:
            tops[length], at[length] = place, index
    out: list[Pair] = []
    index = at[-1] if at else -1
    while index >= 0:
        out.append(pairs[index])
        index = then[index]
    return out


def _filled(theirs: Keys, ours: Keys, span: Span) -> list[Pair]:
    """Without anything unique: equal ends, then all that is left if it is little."""
    a, b, c, d = span
    found: list[Pair] = []
    while a < b and c < d and theirs[b - 1] == ours[d - 1]:
        b, d = b - 1, d - 1
        found.append((b, d))
    while a < b and c < d and theirs[a] == ours[c]:
        found.append((a, c))
        a, c = a + 1, c + 1
    if a == b or c == d:
        return found
    if (b - a) * (d - c) <= CELLS_MAX:
        return found + _all_with_all(theirs, ours, (a, b, c, d))
    return found + _late_run(theirs, ours, (a, b, c, d))


def _all_with_all(theirs: Keys, ours: Keys, span: Span) -> list[Pair]:
    """A longest common row; of equal choices the one that ends latest on our side."""
    a, b, c, d = span
    best = [[0] * (d - c + 1) for _ in range(b - a + 1)]
    for i in range(a, b):
        row, above = best[i - a + 1], best[i - a]
        for j in range(c, d):
            equal = theirs[i] == ours[j]
            row[j - c + 1] = above[j - c] + 1 if equal else max(above[j - c + 1], row[j - c])
    found: list[Pair] = []
    i, j = b - a, d - c
    while i and j:
        if theirs[a + i - 1] == ours[c + j - 1]:
            i, j = i - 1, j - 1
            found.append((a + i, c + j))
        elif best[i - 1][j] >= best[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def _late_run(theirs: Keys, ours: Keys, span: Span) -> list[Pair]:
    """The longest run of neighbours that ends near both ends."""
    a, b, c, d = span
    best: list[Pair] = []
    for late in range(LATE_THEIRS):
        for ours_late in range(LATE_OURS):
            run: list[Pair] = []
            i, j = b - late - 1, d - ours_late - 1
            while i >= a and j >= c and theirs[i] == ours[j]:
                run.append((i, j))
                i, j = i - 1, j - 1
            best = max(best, run, key=len)
    return best
