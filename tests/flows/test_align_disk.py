"""The random client of the aligner's own tests, in front of a real database.

What a request was read to have changed is one change there: one undo takes it back, to the letter.
So nothing that is concluded from a request is ever final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from previously.model import Message, NewMessage, TurnRecord
from previously.store.sql import SqlStore
from previously.store.sqlite import SqliteDatabase
from tests.core.test_align_life import Life

ALL = 10_000


class Disk:
    """A shelf that is a chat in a file."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: SqlStore, name: str) -> None:
        self._loop = loop
        self._store = store
        made = store.ensure_chat("local", name, "volumes", "volumes")
        self._ref = loop.run_until_complete(made).ref
        self._undone: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """Without the number that goes up with every change, back or forth."""
        found = self._loop.run_until_complete(self._store.newest(self._ref, ALL))
        return [replace(m, version=0) for m in found]

    def record(self, turn: TurnRecord, reply: NewMessage | None) -> None:
        answered = turn if reply is None else turn.answered([reply])
        self._write(answered)
        if turn.mends:
            self._loop.run_until_complete(self._store.undo(self._ref))
            self._undone = self.messages
            self._write(answered)

    def _write(self, turn: TurnRecord) -> None:
        self._loop.run_until_complete(self._store.record_turn(self._ref, turn))

    def undone(self) -> list[Message]:
        """What one undo has left of the last change."""
        return self._undone

    def lines(self) -> list[tuple[str, str]]:
        return [(m.role, m.body) for m in self.messages if m.shown]


@contextmanager
def disks(path: Path) -> Generator[Any]:
    """One file, in which every life has a chat of its own."""
    numbers = count()
    loop = asyncio.new_event_loop()
    database = SqliteDatabase(path)
    store = SqlStore(database, lambda: 1_000_000, {})
    try:
        yield lambda: Disk(loop, store, f"life {next(numbers)}")
    finally:
        loop.run_until_complete(database.close())
        loop.close()


@pytest.mark.slow
def test_one_undo_takes_back_whatever_was_concluded_from_a_request(tmp_path: Path) -> None:
    with disks(tmp_path / "life.db") as new_disk:

        class LifeOnDisk(Life):
            """The same life, the same promises."""

            def __init__(self) -> None:
                super().__init__()
                self.shelf = new_disk()

        # Shrinking would take longer than any test may: the life that failed is told as it was.
        some = settings(
            max_examples=25, stateful_step_count=16, deadline=None, phases=[Phase.generate]
        )
        run_state_machine_as_test(LifeOnDisk, settings=some)
