"""A summariser that follows a script: an `Llm` like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from previously.measure import count_tokens, cut_to_tokens
from previously.model import Ask, Part, Reply, Usage
from previously.text.lines import transcript
from previously.text.parts import joined

Line = str | Reply | Exception
Script = Sequence[Line] | Callable[[Ask], Line]


class ScriptedLlm:
    """Answers as the script says, and remembers what it was asked.

    The script is a list, used up in order, or a function of the request. An exception in it is
    raised. Without a script, or after its end, the answer is the material itself, cut to size: a
    note that keeps the facts it has room for.

    A request for several notes is put to the script note by note and answered in one; with
    `parted` off the script answers it as a whole.
    """

    costs = True

    def __init__(
        self,
        script: Script = (),
        *,
        name: str = "scripted",
        delay_s: float = 0.0,
        window_tokens: int | None = None,
        parted: bool = True,
    ) -> None:
        self.name = name
        self._parted = parted
        self.window_tokens = window_tokens
        self.delay_s = delay_s
        self.asks: list[Ask] = []
        self.waiting = 0  # calls that hang at this moment
        self._script = script if callable(script) else _in_order(script)
        self._open = asyncio.Event()
        self._open.set()

    def hang(self) -> None:
        """From now on calls wait for `release`."""
        self._open.clear()

    def release(self) -> None:
        """Let every waiting call answer, late as it is."""
        self._open.set()

    async def complete(self, ask: Ask) -> Reply:
        """The next line of the script."""
        self.asks.append(ask)
        self.waiting += 1
        try:
            await self._open.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        finally:
            self.waiting -= 1
        line = self._together(ask) if ask.parts and self._parted else self._script(ask)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Reply):
            return line
        asked = sum(count_tokens(m["content"]) for m in ask.messages)
        return Reply(line, self.name, usage=Usage(asked, count_tokens(line)))

    def _together(self, ask: Ask) -> Line:
        """One answer about several parts; it ends with the first that does not come to its end."""
        notes: list[str] = []
        for part in ask.parts:
            line = self._script(_alone(ask, part))
            notes.append(_text(line))
            if isinstance(line, Reply) and line.finish != "stop":
                return replace(line, text=joined(notes))
        return joined(notes)


def _in_order(script: Iterable[Line]) -> Callable[[Ask], Line]:
    lines = iter(script)

    def answer(ask: Ask) -> Line:
        line = next(lines, None)
        return plain_note(ask) if line is None else line

    return answer


def _alone(ask: Ask, part: Part) -> Ask:
    """The request as it would be about one of its parts."""
    told = {"role": "user", "content": transcript(part.lines)}
    return replace(
        ask,
        messages=(*ask.messages[:1], told),
        material=part.material,
        tokens_max=part.tokens_max,
        parts=(),
    )


def _text(line: Line) -> str:
    if isinstance(line, Exception):
        raise line
    return line.text if isinstance(line, Reply) else line


def plain_note(ask: Ask) -> str:
    """The material as one note within the limit."""
    text = " ".join(f"{speaker}: {text}" for speaker, text in ask.material)
    return cut_to_tokens(text, ask.tokens_max)
