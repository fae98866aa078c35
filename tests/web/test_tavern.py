"""Whole stories as role-play clients tell them: what is kept is what the client has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.web.life import GROUP, INJECTED, PRESET, Kind, begun, line, without_status
from tests.web.rig import opened
from tests.web.tavern import Row, Tavern

# Lives in which something was lost, doubled or taken in once, by whatever took long to be told.
HARD = (3142, 4004, 4015, 4027, 5147, 5170, 7010, 7093, 7104, 7299, 8237, 9141, 9199)
TERSE = (15, 22, 31, 32, 87)
FAR = {"visible_floors": 100}
NEAR = {"visible_floors": 4, "fold_every": 2}
LORE = {"dune": ("(lore: dunes wander)", "user"), "amber": ("[lore: amber]", "system")}


async def turns(client: Tavern, first: int, last: int) -> None:
    for n in range(first, last):
        replies = (line(1_000 + 10 * n + k) for k, _ in enumerate(client.members))
        await client.say(line(n), *replies)


async def plain(client: Tavern) -> None:
    await turns(client, 0, 8)


async def changes(client: Tavern) -> None:
    """Swipes, an edit, a question beside the chat, something hidden, a reply that grows."""
    await turns(client, 0, 4)
    await client.swipe(line(555))
    await client.swipe(line(556))
    await turns(client, 4, 7)
    client.rows[-4].text = line(777)
    await turns(client, 7, 8)
    await client.quiet("Describe the weather in one line.")
    await turns(client, 8, 9)
    client.rows[-5].hidden = True
    await turns(client, 9, 11)
    await client.grow(" And more of it, later.")
    await turns(client, 11, 14)


async def taken_back(client: Tavern) -> None:
    await turns(client, 0, 6)
    del client.rows[-2:]
    await turns(client, 50, 51)
    del client.rows[-3:]
    await turns(client, 51, 54)


async def spoken_on(client: Tavern) -> None:
    """Members of a group who speak without being asked by the user."""
    await turns(client, 0, 3)
    for n in range(4):
        await client.reply(line(2_000 + n), client.members[n % 2])
    await turns(client, 5, 8)


async def with_tools(client: Tavern) -> None:
    for n in range(9):
        await turns(client, n, n + 1)
        if n in (3, 5):
            made = {"name": "look", "arguments": "{}"}
            call = {"id": f"c{n}", "type": "function", "function": made}
            answer = {"role": "tool", "tool_call_id": f"c{n}", "content": "clear sky"}
            client.rows[-1].extra = [{"role": "assistant", "tool_calls": [call]}, answer]
        if n == 7:
            for row in client.rows:
                row.extra = []  # switched off


def status(n: int) -> str:
    return f"{line(100 + n)}\n<status>{line(200 + n, 3)}</status>"


async def with_status(client: Tavern) -> None:
    for n in range(10):
        await client.say(line(n), *(status(20 * k + n) for k, _ in enumerate(client.members)))


async def with_status_in_doubt(client: Tavern) -> None:
    """A reply that nobody asked for: it takes a few requests until it is believed."""
    for n in range(4):
        await client.say(line(n), status(n))
    await client.reply(status(50))
    for n in range(4, 10):
        await client.say(line(n), status(n))


def cleaned(text: str) -> str:
    """As such clients clean a reply: no name in front, nothing that speaks for the user."""
    text = re.sub(r"^Alice: ", "", text.strip()).split("\nAlex:")[0]
    return "\n".join(part.rstrip() for part in text.split("\n")).strip()


async def uncleaned(client: Tavern) -> None:
    for n in range(7):
        said = f"Alice: {line(100 + n)}   \n\n  {line(200 + n)}  \n\nAlex: I say {line(300 + n)}"
        await client.say(line(n), said)
    client.rows.pop()  # what is not sent back yet is kept as it came
    client.rows.pop()


Story = Callable[[Tavern], Awaitable[None]]
STORIES: dict[str, tuple[Story, dict[str, Any]]] = {
    "one speaker": (changes, {}),
    "one speaker, notes and instructions": (changes, {"note": "[note]", "jailbreak": "Stay."}),
    "a preset with a beginning of the reply": (changes, PRESET),
    "a group": (changes, GROUP),
    "a group with a short window": (plain, {**GROUP, "window": 7, "note": "[note]"}),
    "a group, joined": (plain, {**GROUP, "merges": True}),
    "a group under a preset, joined": (plain, {**GROUP, **PRESET, "merges": True}),
    "a group, joined, instructions as the user": (
        plain,
        {**GROUP, "merges": True, "as_user": True, "jailbreak": "Stay."},
    ),
    "a group under a preset, joined, instructions as the user, a short window": (
        plain,
        {**GROUP, **PRESET, "merges": True, "as_user": True, "window": 7},
    ),
    "one speaker, joined, instructions as the user": (
        plain,
        {"merges": True, "as_user": True, "note": "[note]", "jailbreak": "Stay."},
    ),
    "members who speak on": (spoken_on, GROUP),
    "names as a field": (
        changes,
        {"members": ("艾莉丝", "Bob"), "user": "林", "names": "completion"},
    ),
    "names in front": (changes, {"names": "content"}),
    "lore that comes and goes": (plain, {"lore": LORE, "note": "[note]"}),
    "lore from the first request on": (plain, {"lore": {"": LORE["dune"]}}),
    "turns taken back": (taken_back, {}),
    "tools switched off": (with_tools, {}),
    "a rule that shortens old replies": (with_status, {"shows": without_status}),
    "the same under a preset, joined": (
        with_status,
        {"shows": without_status, **PRESET, "merges": True},
    ),
    "the same in a group, joined": (
        with_status,
        {"shows": without_status, **GROUP, "merges": True},
    ),
    "the same in doubt": (with_status_in_doubt, {"shows": without_status}),
    "the same in doubt, with a short window": (
        with_status_in_doubt,
        {"shows": without_status, "window": 8},
    ),
    "no greeting, joined, instructions as the user": (
        plain,
        {"greeting": "", "merges": True, "as_user": True, "note": "[note]", "note_depth": 0},
    ),
    "replies that are cleaned": (uncleaned, {"keeps": cleaned}),
}


def flat(rows: list[tuple[str, str]], *, joined: bool) -> list[tuple[str, str]]:
    """Without names in front; joined, where the client joins: what came so cannot be parted."""
    made: list[tuple[str, str]] = []
    for role, text in rows:
        bare = " ".join(re.sub(r"(?m)^(Alice|Bob|Alex): ", "", text).split())
        if joined and made and made[-1][0] == role:
            bare = f"{made.pop()[1]} {bare}"
        made.append((role, bare))
    return made


async def compare(client: Tavern) -> None:
    """Everything the client shows is kept, in order, once; nothing else is."""
    chat = client.chat or client.found
    kept = [(m.role, m.body) for m in await client.door.messages(chat) if m.shown]
    assert not [text for _, text in kept if text.startswith(INJECTED)]
    have = flat(kept, joined=client.merges)
    wanted = flat(client.holds(), joined=client.merges)
    assert have[: len(wanted)] == wanted
    assert len(have) <= len(wanted) + 2


@pytest.mark.parametrize(
    "settings",
    [pytest.param(FAR, id="far"), pytest.param(NEAR, id="near", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("story", STORIES)
async def test_what_is_kept_is_what_the_client_has(
    tmp_path: Path, story: str, settings: dict[str, int]
) -> None:
    tell, options = STORIES[story]
    async with opened(tmp_path, settings=settings) as door:
        client = Tavern(door, **options)
        await tell(client)
        await compare(client)
        assert sum("pass" in trace for trace in client.traces) <= max(3, len(client.traces) // 4)


async def test_what_a_rule_leaves_out_of_prompts_is_not_sent(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, shows=without_status)
        await with_status(client)
        sent = door.upstream.requests[-1].messages
        assert [m["content"] for m in sent] == [m["content"] for m in client.last]
        assert sum("<status>" in m["content"] for m in sent) == 1


@pytest.mark.parametrize("options", [{}, PRESET, GROUP, {"window": 6}], ids=str)
async def test_chats_without_names_are_told_apart(tmp_path: Path, options: dict[str, Any]) -> None:
    """The same card and the same first line, two stories in turns."""
    async with opened(tmp_path, settings={"visible_floors": 6, "fold_every": 4}) as door:
        one, other = Tavern(door, chat="", **options), Tavern(door, chat="", **options)
        for n in range(7):
            await turns(one, n, n + 1)
            if n % 3 == 1:
                await one.swipe(line(600 + n))
            if n % 2:
                await turns(other, 100 + n, 101 + n)
        await turns(other, 120, 123)
        assert one.found != other.found
        for client in (one, other):
            await compare(client)
        assert len(door.rows("select id from chat")) == 2


async def asked_otherwise(client: Tavern) -> None:
    """The user puts his last question in other words and asks again."""
    del client.rows[-2:]
    await turns(client, 60, 61)


async def unasked(client: Tavern) -> None:
    """A reply that nobody asked for, which takes a while to be believed."""
    await client.reply(line(7_000 + len(client.rows)))


async def taken_back_in_part(client: Tavern) -> None:
    """What is asked next stands behind a question that has no reply any more."""
    del client.rows[-3:]


async def spoken_twice(client: Tavern) -> None:
    client.rows.append(Row(client.user, line(701 + len(client.rows)), "user"))


@pytest.mark.parametrize("more", [{}, {"merges": True}, {"merges": True, "as_user": True}], ids=str)
async def test_a_group_that_joins_under_a_preset_and_names_no_chat_is_one_chat(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, chat="", **GROUP, **PRESET, **more)
        await turns(client, 0, 8)
        await compare(client)
        assert len(door.rows("select id from chat")) == 1


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("doubt", [asked_otherwise, unasked, spoken_twice, taken_back_in_part])
async def test_a_chat_without_a_name_stays_one_chat(
    tmp_path: Path, doubt: Story, window: int | None
) -> None:
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, chat="", window=window)
        await turns(client, 0, 6)
        found = client.found
        await doubt(client)
        await turns(client, 6, 11)
        assert client.found == found
        await compare(client)
        assert len(door.rows("select id from chat")) == 1


async def test_of_several_chats_that_fit_the_one_that_shares_most_is_meant(tmp_path: Path) -> None:
    async with opened(tmp_path, settings=FAR) as door:
        shorter, longer = Tavern(door, chat=""), Tavern(door, chat="longer")
        await turns(shorter, 0, 3)
        longer.rows = list(shorter.rows)
        await turns(longer, 3, 6)
        unnamed = Tavern(door, chat="", rows=list(longer.rows), greeting="")
        await turns(unnamed, 6, 7)
        assert unnamed.found == "longer"


async def test_a_chat_without_a_name_is_known_by_each_question_of_a_turn(tmp_path: Path) -> None:
    """Its last one may be edited before it is seen again, and those before are out of sight."""
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, chat="", window=7)
        await turns(client, 0, 5)
        found = client.found
        await spoken_twice(client)
        await turns(client, 5, 7)
        client.rows[-2].text = line(777)
        await turns(client, 7, 10)
        assert client.found == found


@pytest.mark.parametrize("depth", [0, 1])
async def test_a_chat_without_a_name_is_known_by_its_first_question_without_what_was_joined_to_it(
    tmp_path: Path, depth: int
) -> None:
    """Nobody can tell at first sight that the note is none of the question; the next request shows
    the question alone, and by then only one reply tells whose it is."""
    async with opened(tmp_path, settings=FAR) as door:
        joins: dict[str, Any] = {"merges": True, "as_user": True}
        client = Tavern(door, chat="", note="[The tide turns.]", note_depth=depth, **joins)
        await turns(client, 0, 4)
        assert len(door.rows("select id from chat")) == 1


async def test_a_chat_without_a_name_is_found_while_its_last_turn_is_written_down(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, settings=FAR) as door:
        real, writing = door.house.store.keep_sent, asyncio.Event()

        async def slow(*told: Any) -> None:
            writing.set()
            await asyncio.sleep(1.0)
            await real(*told)

        door.break_store(keep_sent=slow)
        client = Tavern(door, chat="")
        await turns(client, 0, 3)
        found = client.found
        async with asyncio.timeout(10):
            await writing.wait()
        await turns(client, 3, 5)
        assert client.found == found
        assert len(door.rows("select id from chat")) == 1


@pytest.mark.parametrize("change", ["none", "edit", "hide"])
async def test_a_client_whose_window_moves_on_in_doubt_keeps_in_touch(
    tmp_path: Path, change: str
) -> None:
    """It takes several requests until something is certain, and by then the window shows nothing
    that is stored; what they said in between is remembered."""
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, window=6)
        await turns(client, 0, 4)
        for n in range(4, 7):  # two in a row, from a user who never did that
            client.rows.append(Row(client.user, line(300 + n), "user"))
            await turns(client, n, n + 1)
            if n == 5 and change == "edit":
                client.rows[-4].text = line(555)
            elif n == 5 and change == "hide":
                client.rows[-4].hidden = True
        await turns(client, 7, 10)
        await compare(client)
        assert not client.traces[-1].startswith("pass")


async def test_a_chat_that_begins_in_doubt_is_kept_from_its_first_message_on(
    tmp_path: Path,
) -> None:
    """By the time that anything is certain, the window has moved on."""
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, window=6, **PRESET)
        for n in range(3):
            await spoken_twice(client)
            await turns(client, n, n + 1)
            await unasked(client)
        await turns(client, 3, 8)
        await compare(client)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(8), *TERSE])
async def test_a_random_life_of_few_words_is_kept(tmp_path: Path, seed: int) -> None:
    async with begun(tmp_path, seed, Kind(terse=True)) as life:
        await life.lived()
        assert not await life.faults()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(24), *HARD])
async def test_a_random_life_is_kept(tmp_path: Path, seed: int) -> None:
    async with begun(tmp_path, seed) as life:
        await life.lived()
        assert not await life.faults()


@pytest.mark.parametrize("change", ["edit", "taken back", "several taken back", "shown shortened"])
async def test_an_unnamed_chat_is_found_by_its_last_reply_after_a_restart(
    tmp_path: Path, change: str
) -> None:
    """Its last question, which it was known by, is in other words or gone."""
    async with opened(tmp_path, settings=FAR) as door:
        client = Tavern(door, chat="")
        await turns(client, 0, 5)
        if change == "shown shortened":  # and only the last reply is shown whole
            client.shows = lambda text, depth: text.rpartition(" ")[0] if depth > 2 else text
        other = Tavern(door, chat="")  # the same card
        await turns(other, 20, 23)
    if change == "edit":
        client.rows[-2].text = line(555)
    else:
        del client.rows[-4 if change == "several taken back" else -2 :]
    async with opened(tmp_path, settings=FAR) as door:
        client.door = other.door = door
        found = client.found
        await turns(client, 5, 8)
        assert client.found == found
        await turns(other, 23, 25)
        assert len(door.rows("select id from chat")) == 2
        kept = [(m.role, m.body) for m in await door.messages(found) if m.shown]
        assert kept == client.holds()
