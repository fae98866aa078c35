"""Requests recorded from a real SillyTavern, replayed through the real server.

For each recorded request a row says how it must be read and what the chat must hold afterwards.
The recordings' upstream answered "Reply N." to request N, but for two that tried reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from previously.errors import ChatNotFound
from previously.model import State
from tests.web.rig import Door, opened

FOLDER = Path(__file__).parent.parent / "fixtures" / "sillytavern"
HOP = frozenset({"host", "connection", "content-length", "accept-encoding"})
ANSWERS = {
    31: "<think>I should be nice.</think>A reply with inline think tags.",
    32: "A reply with separate reasoning.",
}
# Nothing of this may ever be stored: cards, lore, notes, instructions, sentences of the client.
INJECTED = (
    "Write Seraphina's next reply",
    "[LORE ",
    "LOREBOOK:",
    "placeholder character card",
    "AUX prompt.",
    "[Start a new",
    "Author note:",
    "JAILBREAK:",
    "INJ-",
    "[Story so far",
    "[Continue your last message",
    "[Write your next reply",
    "Describe the weather",
    "Quiet",
)
GREETING = '*The lantern is lit when you wake.* "You are safe here. My name is Seraphina."'

Raw = dict[str, Any]


@dataclass(frozen=True)
class Capture:
    """One recorded request."""

    number: int
    headers: Mapping[str, str]
    body: Raw

    @property
    def messages(self) -> list[Raw]:
        return self.body["messages"]

    @property
    def answer(self) -> str:
        return ANSWERS.get(self.number, f"Reply {self.number}.")


def recorded(name: str) -> list[Raw]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def captures(name: str) -> Iterator[Capture]:
    for row in recorded(name):
        if row["method"] == "POST" and "messages" in row["body"]:
            headers = {k: v for k, v in row["headers"] if k.lower() not in HOP}
            yield Capture(row["n"], headers, row["body"])


async def replay(door: Door, one: Capture, chat: str) -> str:
    """Send it on its way as it was recorded; what the server says of its reading."""
    door.upstream.says(one.answer)
    async with door.http.post(door.url(chat=chat), json=one.body, headers=one.headers) as answer:
        assert answer.status == 200
        await answer.read()
        return answer.headers["x-previously-trace"]


async def shown(door: Door, chat: str) -> list[str]:
    """What the chat holds, hidden and deleted messages left out."""
    try:
        return [f"{m.role[0]}:{m.body}" for m in await door.messages(chat) if m.shown]
    except ChatNotFound:
        return []


def nothing_injected_is_stored(door: Door) -> None:
    bodies = [str(body) for (body,) in door.rows("select body from message")]
    bodies += [str(body) for (body,) in door.rows("select body from variant")]
    assert [b for b in bodies if any(text in b for text in INJECTED)] == []


# How each request of one chat must be read, and which messages the chat must end with then.
SINGLE: dict[int, tuple[str, list[str]]] = {
    3: ("first", [f"a:{GREETING}", "u:Hello, I am lost in the forest.", "a:Reply 3."]),
    4: ("append", ["a:Reply 3.", "u:Who are you and what is Eldoria?", "a:Reply 4."]),
    5: ("append", ["a:Reply 4.", "u:我想在这里休息一下。", "a:Reply 5."]),
    6: ("reroll", ["a:Reply 4.", "u:我想在这里休息一下。", "a:Reply 6."]),
    7: ("append", ["a:Reply 5.", "u:Tell me about the beasts.", "a:Reply 7."]),
    8: ("append", ["a:EDITED ASSISTANT TEXT.", "u:我想在这里休息一下。", "a:Reply 5.",
                   "u:Tell me about the beasts.", "a:Reply 7.", "u:What now?", "a:Reply 8."]),
    9: ("reroll", ["a:Reply 7.", "u:What now?", "a:Reply 9."]),
    10: ("append", ["a:Reply 7.", "u:Message after deletion.", "a:Reply 10."]),
    11: ("append", ["a:EDITED ASSISTANT TEXT.", "a:Reply 5.", "u:Tell me about the beasts.",
                    "a:Reply 7.", "u:Message after deletion.", "a:Reply 10.",
                    "u:Message after middle deletion.", "a:Reply 11."]),
    12: ("continue", ["u:Message after middle deletion.", "a:Reply 11. Reply 12."]),
    13: ("pass", ["u:Message after middle deletion.", "a:Reply 11. Reply 12."]),
    14: ("pass", ["a:Reply 11. Reply 12."]),  # impersonate
    15: ("pass", ["a:Reply 11. Reply 12."]),  # quiet
    16: ("pass", ["a:Reply 11. Reply 12."]),  # raw
    17: ("append", [f"a:{GREETING}", "u:EDITED: who are you really?", "a:EDITED ASSISTANT TEXT.",
                    "a:Reply 5.", "u:Tell me about the beasts.", "a:Reply 7.",
                    "u:Message after deletion.", "a:Reply 10.",
                    "u:Message after middle deletion.", "a:Reply 11. Reply 12. Reply 13.",
                    "u:Message while 1-2 hidden.", "a:Reply 17."]),
    18: ("pass", ["u:Message while 1-2 hidden.", "a:Reply 17."]),  # another reply, or more of it?
    19: ("pass", ["u:Message while 1-2 hidden.", "a:Reply 17."]),  # three replies in a row
    20: ("append", ["u:Message while 1-2 hidden.", "a:Reply 17.", "a:Reply 18.",
                    "a:Bob: I am Bob, a hunter.", "u:Hi Bob.", "a:Reply 19.",
                    "u:Speak about shadowfangs and the Glade.", "a:Reply 20."]),
    21: ("append", ["a:Reply 20.", "u:With injects.", "a:Reply 21."]),
    22: ("append", ["a:Reply 21.", "u:Names in completion.", "a:Reply 22."]),
    23: ("append", ["a:Reply 22.", "u:Names in content.", "a:Reply 23."]),
    24: ("append", ["u:Names in content.", "a:Reply 23.", "u:Squashed system.", "a:Reply 24."]),
    25: ("append", ["a:Reply 24.", "u:Post processing merge.", "a:Reply 25."]),
    26: ("append", ["a:Reply 25.", "u:Post processing semi.", "a:Reply 26."]),
    27: ("append", ["a:Reply 26.", "u:Post processing strict.", "a:Reply 27."]),
    28: ("pass", ["u:Post processing strict.", "a:Reply 27."]),  # all in one message
    29: ("append", ["a:Reply 27.", "u:Post processing single.", "a:Reply 28.",
                    "u:Post processing merge_tools.", "a:Reply 29."]),
    30: ("append", ["a:Reply 29.", "u:No streaming.", "a:Reply 30."]),
    31: ("append", ["a:Reply 30.", "u:Reply with inline think.", f"a:{ANSWERS[31]}"]),
    32: ("append", [f"a:{ANSWERS[31]}", "u:Reply with reasoning_content.", f"a:{ANSWERS[32]}"]),
    33: ("append", [f"a:{ANSWERS[32]}", "u:After reasoning.", "a:Reply 33."]),
    34: ("append", ["a:Reply 33.", "u:Macro headers 1.", "a:Reply 34."]),
    35: ("append", ["a:Reply 34.", "u:Macro headers 2.", "a:Reply 35."]),
    36: ("reroll", ["a:Reply 34.", "u:Macro headers 2.", "a:Reply 36."]),
    37: ("reroll", ["a:Reply 34.", "u:Macro headers 2.", "a:Reply 37."]),
    38: ("pass", ["a:Reply 37."]),  # quiet
    39: ("pass", ["a:Reply 37."]),  # impersonate
    40: ("continue", ["u:Macro headers 2.", "a:Reply 37. Reply 40."]),
    41: ("append", [f"a:{GREETING}", "u:Hello, I am lost in the forest.", "a:Reply 3.",
                    "u:EDITED: who are you really?", "a:EDITED ASSISTANT TEXT.", "a:Reply 5.",
                    "u:Tell me about the beasts.", "u:Message in the branch.", "a:Reply 41."]),
}  # fmt: skip


async def test_every_request_of_a_chat_is_read_as_it_was_meant(tmp_path: Path) -> None:
    async with opened(tmp_path, settings={"visible_floors": 100}) as door:
        for one in captures("01_single_chat.jsonl"):
            if one.number not in SINGLE:
                continue  # a new chat, with an id of its own
            kind, rows = SINGLE[one.number]
            trace = await replay(door, one, "demo")
            assert trace.startswith(kind), (one.number, trace)
            kept = await shown(door, "demo")
            assert kept[-len(rows) :] == rows, (one.number, trace)
            # Nothing is old enough to be folded: what goes on is what came, and nothing of ours.
            sent = door.upstream.requests[-1].body
            assert sent == {k: v for k, v in one.body.items() if k != "previously"}
            nothing_injected_is_stored(door)


async def test_the_clients_own_instructions_stay_where_they_were(tmp_path: Path) -> None:
    """Also where the history between them is folded."""
    small = {"visible_floors": 4, "fold_every": 2}
    async with opened(tmp_path, settings=small) as door:
        folded = 0
        for one in captures("01_single_chat.jsonl"):
            if one.number > 40:
                break
            trace = await replay(door, one, "demo")
            await door.settle()
            sent = door.upstream.requests[-1].messages
            folded += len(sent) < len(one.messages)
            if trace.startswith("pass") or one.number in (25, 26, 27, 29):  # joined into others
                continue
            told = [m for m in one.messages if m["role"] == "system"]
            kept = iter(sent)
            assert all(m in kept for m in told), (one.number, trace)
            assert sent[-1] == one.messages[-1]
        assert folded > 15


async def test_what_a_request_changed_is_taken_back_one_by_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        before: dict[int, list[str]] = {}
        for one in captures("01_single_chat.jsonl"):
            if one.number in (8, 10, 11, 17):  # edits, two gone, one hidden, two hidden
                before[one.number] = await shown(door, "demo")
            if one.number <= 17:
                await replay(door, one, "demo")
        ref = (await door.house.service.find_chat("demo")).ref
        await door.house.service.undo(ref)
        assert {"u:Hello, I am lost in the forest.", "a:Reply 3."} <= set(await shown(door, "demo"))
        await door.house.service.undo(ref)  # the reply that grew
        await door.house.service.undo(ref)
        assert "u:我想在这里休息一下。" in await shown(door, "demo")
        await door.house.service.undo(ref)
        assert set(before[10]) <= set(await shown(door, "demo"))
        await door.house.service.undo(ref)
        assert set(before[8]) <= set(await shown(door, "demo"))


async def test_a_new_chat_with_the_same_words_is_another_chat(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        *_, last = captures("01_single_chat.jsonl")
        assert (await replay(door, last, "another")).startswith("first")
        rows = [f"a:{GREETING}", "u:Hello, I am lost in the forest.", "a:Reply 42."]
        assert await shown(door, "another") == rows


async def test_other_sources_make_one_story(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        for one in captures("04_sources.jsonl"):
            await replay(door, one, "demo")
            assert door.upstream.requests[-1].body == one.body
            nothing_injected_is_stored(door)
        assert await shown(door, "demo") == [
            f"a:{GREETING}",
            "u:Via reverse proxy.",
            "a:Reply 50.",
            "u:Via deepseek reverse proxy.",
            "a:Reply 51.",
            "u:n=2.",
            "a:Reply 52.",
            "u:seed.",
            "a:Reply 53.",
        ]
        states = [m.state for m in await door.messages()]
        assert states == [State.CONFIRMED] * 7 + [State.CANDIDATE] * 2


# With an extension that folds by itself the proxy sees a moving window of each chat.
WINDOWS: dict[int, tuple[str, list[str]]] = {
    73: ("first", [f"a:{GREETING}", "u:Ext message 1.", "a:Reply 73."]),
    74: ("append", ["u:Ext message 2.", "a:Reply 74."]),
    75: ("append", ["u:Ext message 3.", "a:Reply 75."]),
    76: ("append", ["u:Ext message 4.", "a:Reply 76."]),
    77: ("reroll", ["u:Ext message 4.", "a:Reply 77."]),
    78: ("append", ["u:Ext message 4.", "a:Reply 77.", "u:After changes 4 old messages.",
                    "a:Reply 78."]),
    79: ("pass", ["a:Reply 78."]),
    80: ("first", ["u:Ext message 1 EDITED.", "a:Reply 74.", "u:In branch.", "a:Reply 80."]),
    81: ("append", ["u:Persist 0.", "a:Reply 81."]),
    82: ("append", ["u:Persist 1.", "a:Reply 82."]),
    83: ("append", ["u:Ext message 1 EDITED.", "a:Reply 74.", "u:In branch.", "a:Reply 80.",
                    "u:Persist 0.", "a:Reply 81.", "u:Persist 1.", "a:Reply 82.",
                    "u:Persist 2.", "a:Reply 83."]),
}  # fmt: skip


async def test_a_window_that_moves_loses_and_doubles_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        for one in captures("05_ext_requests.jsonl"):
            chat = one.headers["x-previously-chat"]
            kind, rows = WINDOWS[one.number]
            trace = await replay(door, one, chat)
            assert trace.startswith(kind), (one.number, trace)
            kept = await shown(door, chat)
            assert kept[-len(rows) :] == rows, (one.number, trace)
            sent = iter(door.upstream.requests[-1].messages)
            assert all(m in sent for m in one.messages), one.number
            nothing_injected_is_stored(door)


# Everything else that was recorded: passed on as it came, and nothing of it is stored.
PASSED = {
    "01_single_chat.jsonl": {2: "GET /v1/models"},
    "04_sources.jsonl": {
        **dict.fromkeys((49, 54, 55, 56, 57, 59), "GET /v1/models"),
        58: "POST /v1/completions",
    },
    "05_ext_requests.jsonl": {72: "GET /v1/models"},
}
TOLD = {
    "01_single_chat.jsonl": {*SINGLE, 42},  # the last is a chat of its own
    "04_sources.jsonl": {50, 51, 52, 53},
    "05_ext_requests.jsonl": {*WINDOWS},
}
SYNCED = "05_sync.jsonl"  # no requests to a model: what the client's chats hold


def test_every_recording_has_a_row() -> None:
    assert {path.name for path in FOLDER.glob("*.jsonl")} == {*TOLD, SYNCED}
    for name, told in TOLD.items():
        numbers = [row["n"] for row in recorded(name)]
        assert len(numbers) == len(set(numbers))
        assert set(numbers) == told | PASSED[name].keys()


async def test_what_is_no_turn_passes_byte_for_byte_and_leaves_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        for name, told in PASSED.items():
            for row in recorded(name):
                if row["n"] in told:
                    assert told[row["n"]] == f"{row['method']} {row['path']}"
                    await _pass(door, row)
        assert door.rows("select count(*) from chat") == [(0,)]


async def _pass(door: Door, row: Raw) -> None:
    headers = {k: v for k, v in row["headers"] if k.lower() not in HOP}
    body = None if row["method"] == "GET" else json.dumps(row["body"]).encode()
    url = f"http://127.0.0.1:{door.port}{row['path']}"
    async with door.http.request(row["method"], url, data=body, headers=headers) as answer:
        assert answer.status == 200
        said = await answer.read()
        assert not [name for name in answer.headers if name.lower().startswith("x-previously-")]
    seen = door.upstream.requests[-1]
    assert (seen.path, seen.raw) == (row["path"], body or b"")
    assert {k: seen.headers.get(k.lower()) for k in headers} == headers
    assert body is None or said == body  # the upstream gives back what it got


async def test_what_is_stored_is_what_the_client_says_it_has(tmp_path: Path) -> None:
    """Its own list of each chat's messages, recorded beside the requests."""
    texts: dict[str, str] = {}
    rows: dict[str, list[list[Any]]] = {}
    for sync in recorded(SYNCED):
        texts |= sync["texts"]
        rows[sync["chat"]["id"]] = sync["rows"]
    async with opened(tmp_path) as door:
        seen: dict[str, list[str]] = {}  # by chat: what its last turn showed, and the reply
        for one in captures("05_ext_requests.jsonl"):
            chat = one.headers["x-previously-chat"]
            if not (await replay(door, one, chat)).startswith("pass"):
                told = [f"{m['role'][0]}:{m['content']}" for m in one.messages]
                seen[chat] = [*told, f"a:{one.answer}"]
        assert len(seen) == 2
        for chat, told in seen.items():
            has = [f"{role[0]}:{texts[known]}" for _, known, role, *_ in rows[chat]]
            inside = [line for line in has if line in told]  # what lies before the window changes
            assert len(inside) >= 5  # unseen, and stays as it was last shown
            assert (await shown(door, chat))[-len(inside) :] == inside
