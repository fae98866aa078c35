from __future__ import annotations

from previously.model import Message
from previously.store.coverage import Leaf, accepted
from tests.core.makers import message, talk

SAID = talk(6)


def leaf(n: int, sources: tuple[Message, ...]) -> Leaf:
    return Leaf(n, tuple((m.id, m.hash) for m in sources))


def valid(*leaves: Leaf, messages: tuple[Message, ...] = SAID) -> set[int]:
    counts = {x.id: len(x.targets) for x in leaves}
    return set(accepted(leaves, {m.id: m for m in messages}, counts))


def test_of_leaves_that_overlap_the_larger_one_stands_whichever_came_first():
    small, large = leaf(2, SAID[1:2]), leaf(1, SAID[0:2])
    assert valid(small, large) == valid(large, small) == {1}
    assert valid(leaf(1, SAID[1:2]), leaf(2, SAID[0:2])) == {2}


def test_of_equals_the_newer_one_stands():
    assert valid(leaf(1, SAID[0:2]), leaf(2, SAID[0:2])) == {2}
    assert valid(leaf(1, SAID[0:2]), leaf(2, SAID[1:3])) == {2}


def test_leaves_that_share_nothing_all_stand_with_their_ends():
    leaves = [leaf(1, SAID[0:2]), leaf(2, SAID[2:5])]
    found = accepted(leaves, {m.id: m for m in SAID}, {1: 2, 2: 3})
    assert found == {1: (SAID[0].pos, SAID[1].pos), 2: (SAID[2].pos, SAID[4].pos)}


def test_a_leaf_falls_with_any_of_its_messages():
    one = leaf(1, SAID[0:2])
    assert valid(one) == {1}
    assert valid(one, messages=SAID[1:]) == set()
    assert valid(one, messages=(message(2, body="changed"), *SAID[1:])) == set()
    assert valid(one, messages=(message(2, hidden_by="user"), *SAID[1:])) == set()
    backwards = leaf(2, (SAID[1], SAID[0]))
    assert valid(backwards) == set()
    crowded = accepted([one], {m.id: m for m in SAID}, {1: 3})
    assert crowded == {}
