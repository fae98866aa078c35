"""A client that begins a continued chat with its first words is answered from the old memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from previously.testing import ScriptedLlm, plain_note
from tests.web.rig import Talk, opened, say, say_streaming

SMALL = {"visible_floors": 2, "fold_every": 2, "related": False, "auto_volume_summary": False}
HEAD: list[Any] = [{"role": "system", "content": "You are the keeper of a lighthouse."}]


async def test_a_client_with_no_history_is_answered_from_the_old_chat(tmp_path: Path) -> None:
    async with opened(tmp_path, llm=ScriptedLlm(plain_note), settings=SMALL) as door:
        old: Talk = list(HEAD)
        for n in range(6):
            await say(door.client("old"), old, f"The lamp of night {n} was lit by Tomas.")
        await door.settle("old")
        async with door.http.get(f"http://127.0.0.1:{door.port}/api/chats") as answer:
            (chat,) = (await answer.json())["items"]
        made = {"name": "new", "continue_from": chat["id"]}
        async with door.http.post(f"http://127.0.0.1:{door.port}/api/chats", json=made) as answer:
            assert answer.status == 201, await answer.text()
            new_id = (await answer.json())["id"]

        talk: Talk = list(HEAD)
        for n in range(12):
            speak = say if n % 2 else say_streaming
            await speak(door.client("new"), talk, f"Who lit the lamp, and what of day {n}?")
            sent = door.upstream.requests[-1].messages
            assert sent[0] == HEAD[0]
            assert sent[1]["role"] == "system"
            assert all(f"lamp of night {k}" in sent[1]["content"] for k in range(6))
            assert sent[-1] == talk[-2]
            assert sum("lamp of night" in str(m["content"]) for m in sent) == 1
        await door.settle("new")
        assert await door.lines("new") == [(m["role"], m["content"]) for m in talk[1:]]
        assert len(await door.lines("old")) == 12

        where = f"http://127.0.0.1:{door.port}/api/chats/{new_id}"
        async with door.http.get(f"{where}/prompt") as answer:
            blocks = (await answer.json())["blocks"]
        assert blocks[0]["place"] == "carried"
        async with door.http.get(f"{where}/carried") as answer:
            items = (await answer.json())["items"]
        assert {item["from_title"] for item in items} == {"old"}
        assert all(item["shown"] for item in items)
        async with door.http.delete(f"{where}/carried/{items[0]['id']}") as answer:
            assert answer.status == 204
        await say(door.client("new"), talk, "And now?")
        sent = door.upstream.requests[-1].messages
        assert items[0]["text"] not in sent[1]["content"]
        assert items[1]["text"] in sent[1]["content"]
