"""Search through the doors: whose messages are found, what a hit shows, what the command prints."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

from previously import Memory, cli, runner
from previously.errors import BadInput, ChatNotFound
from previously.model import NewMessage
from previously.search import (
    TERMS_MAX,
    Hit,
    candidates,
    hits,
    query_terms,
    rank,
    recall_terms,
    related,
    snippet,
    telling_terms,
)
from previously.store import Candidate, TermStats
from previously.store.index import RIPE_MESSAGES
from previously.store.sql import SqlStore
from tests.search import corpus
from tests.search.conftest import catch_up


async def fill(store: SqlStore, owner: str, name: str, said: list[NewMessage]) -> None:
    ref = (await store.ensure_chat(owner, name, "volumes", "volumes")).ref
    await store.append(ref, said)


def seen(found: list[Hit]) -> list[tuple[str, str, float]]:
    return [(h.chat.name, h.message.body, h.score) for h in found]


@pytest.mark.proves("G-89")
async def test_nothing_in_another_chat_or_of_another_owner_changes_an_answer(store: SqlStore):
    await fill(store, "anna", "hers", corpus.messages(80, 1))
    await catch_up(store)
    queries = corpus.queries(3)[:120]
    before = [seen(await hits(store, "anna", q, 20)) for q in queries]
    await fill(store, "anna", "another", [NewMessage("user", "zzz")] * 5)
    await fill(store, "bert", "hers", corpus.messages(200, 2))
    await fill(store, "bert", "his", corpus.messages(200, 1))
    assert [seen(await hits(store, "anna", q, 20)) for q in queries] == before  # behind
    await catch_up(store)
    assert [seen(await hits(store, "anna", q, 20)) for q in queries] == before  # caught up
    found = [h for q in queries for h in await hits(store, "anna", q, 20)]
    assert {h.chat.owner for h in found} == {"anna"}
    assert any(before)


async def test_all_chats_of_an_owner_are_ranked_together(store: SqlStore):
    for n in range(5):
        await fill(
            store, "anna", f"chat {n}", [*corpus.messages(20, n), NewMessage("user", "白鸦!")]
        )
    await catch_up(store)
    await fill(store, "anna", "behind", [NewMessage("user", "又见白鸦")])
    found = await hits(store, "anna", "白鸦", 100)
    assert {h.chat.name for h in found} == {*(f"chat {n}" for n in range(5)), "behind"}
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


async def test_participants_are_those_who_spoke_or_were_there(store: SqlStore):
    def said(text: str, name: str, *present: str) -> NewMessage:
        return NewMessage("user", text, name, present=frozenset(present) or None)

    await fill(store, "anna", "ab", [said("灯塔 one", "a"), said("灯塔 two", "b")])
    await fill(store, "anna", "abc", [said("灯塔 three", "a", "a", "b", "c"), said("灯塔 4", "b")])
    await fill(store, "anna", "ac", [said("灯塔 five", "a"), said("灯塔 six", "c")])
    await fill(store, "bert", "ab", [said("灯塔 seven", "a"), said("灯塔 eight", "b")])

    async def chats(*people: str) -> set[str]:
        found = await hits(store, "anna", "灯塔", 50, people=frozenset(people))
        return {h.chat.name for h in found}

    for _ in range(2):  # before the index knows them, and after
        assert await chats("a") == {"ab", "abc", "ac"}
        assert await chats("a", "b") == {"ab", "abc"}
        assert await chats("a", "b", "c") == {"abc"}
        assert await chats("nobody") == set()
        quiet = await hits(store, "anna", "three", 50, people=frozenset("ad"))
        assert quiet == []
        await catch_up(store)


async def test_what_somebody_was_not_there_for_is_not_found_for_them(store: SqlStore):
    private = NewMessage("user", "the 密钥 is under the stone", "a", present=frozenset({"a", "b"}))
    await fill(store, "anna", "room", [private, NewMessage("user", "密钥?", "c")])
    for people, count in (("ab", 2), ("ac", 1)):
        found = await hits(store, "anna", "密钥", 9, people=frozenset(people))
        assert len(found) == count


async def test_the_library_finds_in_one_chat_and_in_all(tmp_path: Path):
    async with Memory.open(tmp_path / "a.db") as memory:
        chat = await memory.chat("one")
        await chat.append("system", "You keep the log of a lighthouse.")
        await chat.append("user", "I promised Mara 12 candles.", name="Tomas")
        other = await memory.chat("two")
        await other.append("user", "She promises a lantern.", name="Mara")
        (hit,) = await chat.search("promise", limit=5)
        assert (hit.chat.name, hit.floor, hit.message.speaker) == ("one", 1, "Tomas")
        assert [hit.snippet.text[a:b] for a, b in hit.snippet.marks] == ["promised"]
        assert {h.chat.name for h in await memory.search("promising")} == {"one", "two"}
        (hers,) = await memory.search("promise", participants=["Mara"])
        assert hers.chat.name == "two"
        for wrong in ([], [""]):
            with pytest.raises(BadInput, match="participant"):
                await memory.search("promise", participants=wrong)
        with pytest.raises(BadInput, match="hits"):
            await chat.search("promise", limit=0)


@pytest.mark.proves("D-03b")
async def test_the_background_feeds_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "SWEEP_EVERY_S", 0.01)
    async with Memory.open(tmp_path / "a.db") as memory:
        chat = await memory.chat("one")
        # A sweep may find the chat while it is being filled; what is left then must be ripe still.
        for n in range(2 * RIPE_MESSAGES):
            await chat.append("user", f"lantern {n}")
        async with asyncio.timeout(10):
            known = 0
            while known < RIPE_MESSAGES:
                await asyncio.sleep(0.01)
                known = (await memory._house.store.term_stats(chat._ref, [])).messages
        assert len(await chat.search("lanterns", limit=200)) >= RIPE_MESSAGES


def test_the_command_prints_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    async def fill_file() -> None:
        async with Memory.open(tmp_path / "previously.db", worker=False) as memory:
            chat = await memory.chat("夜")
            await chat.append("user", "我在灯塔\n看见了白鸦。", name="李明")
            await (await memory.chat("day")).append("user", "白鸦 again")

    asyncio.run(fill_file())
    data = ["--data", str(tmp_path)]
    assert cli.main(["search", "白鸦", "--chat", "夜", *data]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("夜 #0     李明")
    assert line.endswith("我在灯塔 看见了[白鸦]。")
    assert (
        cli.main(["search", "白鸦", "--participant", "李明", "--limit", "5", "--json", *data]) == 0
    )
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["chat"], found["floor"], found["speaker"]) == ("夜", 0, "李明")
    assert [found["snippet"][a:b] for a, b in found["marks"]] == ["白鸦"]
    assert found["score"] > 0
    assert cli.main(["search", "()", *data]) == 0
    assert capsys.readouterr().out == "Nothing found.\n"
    assert cli.main(["search", "x", "--limit", "0", *data]) == 2
    assert cli.main(["search", "x", "--chat", "none", *data]) == 1


async def test_an_unknown_chat_is_said_to_be_unknown(tmp_path: Path):
    async with Memory.open(tmp_path / "a.db", worker=False) as memory:
        with pytest.raises(ChatNotFound):
            await memory._house.service.search("x", chat="none")


def test_a_query_is_its_rarest_terms():
    text = " ".join(f"word{n}" for n in range(20)) + " the of"
    counts = {f"word{n}": n + 1 for n in range(18)}
    assert query_terms(text, counts) == tuple(f"word{n}" for n in range(TERMS_MAX))
    assert query_terms("the of", {}) == ("the", "of")
    assert query_terms("the lantern", {"the": 1}) == ("lantern",)
    assert query_terms("known unknown", {"known": 9}) == ("known", "unknown")


def test_recall_leaves_out_what_most_messages_hold():
    stats = TermStats(100, 1_000, {"lantern": 10, "captain": 11, "mara": 1})
    assert recall_terms("Mara and the captain's lanterns, unknown", stats) == ("mara", "lantern")
    assert recall_terms("", stats) == ()


async def test_what_is_related_to_a_message_stands_before_it(store: SqlStore):
    await fill(store, "anna", "chat", [NewMessage("user", f"day {n}") for n in range(30)])
    ref = (await store.find_chat("anna", "chat")).ref
    said = [NewMessage("user", text) for text in ("白鸦 owes 12 coins", "nothing", "白鸦 is back")]
    first, _, last = await store.append(ref, said)
    await catch_up(store)
    found = await related(store, ref, last.body, before_pos=last.pos)
    assert "白鸦" in found.terms
    ranked = rank(found.candidates, found.terms, found.stats)
    assert [r.message.id for r in ranked] == [first.id]
    again = await candidates(store, ref, found.terms, found.stats, before_pos=last.pos)
    assert again == found.candidates
    assert await candidates(store, ref, (), found.stats) == ()


def test_rarer_terms_shorter_messages_and_newer_ones_come_first():
    stats = TermStats(100, 1_000, {"lantern": 2, "knot": 50})

    def said(id_: int, body: str, tokens: int = 10) -> Candidate:
        return Candidate(id_, id_, tokens, id_, None, body)

    found = [said(1, "knot"), said(2, "lantern"), said(3, "lantern", 90), said(4, "lantern")]
    ranked = rank([*found, said(5, "none")], ("lantern", "knot"), stats)
    assert [r.message.id for r in ranked] == [4, 2, 3, 1]
    assert all(math.isfinite(r.score) for r in ranked)
    assert rank(found, (), stats) == []
    (whole, _) = rank(
        [said(1, "knot lantern"), said(2, "lantern knot")],
        ("lantern", "knot"),
        stats,
        "Lantern KNOT",
    )
    assert (whole.message.id, whole.reason) == (2, "phrase")


@pytest.mark.parametrize(
    ("body", "found", "marked"),
    [
        ("x" * 500 + " 看见白鸦 " + "y" * 500, ("白鸦", "白"), ["白鸦"]),
        ("ＡＢＣ then Ｒｕｎｎｉｎｇ", ("run",), ["Ｒｕｎｎｉｎｇ"]),
        ("İİ lantern", ("lantern",), ["lantern"]),
        ("ﬁne 1,234.5!", ("1234\u00b75", "fin"), ["ﬁne", "1,234.5"]),
        ("lantern lantern", ("lantern",), ["lantern", "lantern"]),
    ],
)
def test_a_snippet_marks_what_was_found(body: str, found: tuple[str, ...], marked: list[str]):
    made = snippet(body, found)
    assert made.text in body
    assert len(made.text) <= 120
    assert [made.text[a:b] for a, b in made.marks] == marked


def test_a_query_of_any_length_has_few_terms():
    assert len(query_terms("白鸦灯塔" * 10_000, {})) == TERMS_MAX
    assert telling_terms("") == []
