"""The chat of a request that names none: found by its own words, or made for them.

One stored chat must fit, and share more than any other that does: surely; or by going on from a
request of its that was not understood; or, in doubt, by showing it up to its end or several of
its messages in a row. A first message alone starts no chat, since a side question looks the same;
once the client shows a reply to it, the whole is recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from previously.align import align, normal
from previously.errors import BadInput
from previously.model import ChatRef, NewMessage, digest
from previously.service import NAME_CHARS_MAX, OWNER, Service
from previously.text.wire import as_object
from previously.web.sending import Sending
from previously.web.turns import READ_MORE, Conversation, Turns

NAME_DIGITS = 12
RECENT_MAX = 16  # chats whose newest replies are looked for
NEWEST = 8  # messages of each
REPLIES_BACK = 3  # that may be the last one that is shown
TELLING_CHARS = 24

NO_NAME = "the request names no chat"
SEVERAL = "the request names no chat, and its words fit several"


class Finder:
    """Looks among the chats of the same owner."""

    def __init__(self, service: Service, sending: Sending, turns: Turns) -> None:
        self._service = service
        self._sending = sending
        self._turns = turns

    @staticmethod
    def fresh_name(messages: Sequence[Any], like: str | None) -> str | None:
        """A name for the chat that a first message starts; None if it is not the first."""
        roles = [as_object(one).get("role") for one in messages]
        if "user" not in roles or "assistant" in roles:
            return None
        token = secrets.token_hex(NAME_DIGITS // 2)
        return f"{(like or 'resp')[: NAME_CHARS_MAX - NAME_DIGITS - 1]}-{token}"

    async def name_for(self, messages: Sequence[Any]) -> tuple[str | None, str]:
        """The chat's name, or None and the reason."""
        try:
            if not all(isinstance(m, dict) for m in messages):
                return None, NO_NAME
            history = Conversation.read(list(messages)).history
        except BadInput as error:
            return None, str(error)
        return await self._found(history)

    async def _found(self, history: Sequence[NewMessage]) -> tuple[str | None, str]:
        sure, likely = await self._candidates(history)
        if len(sure) > 1:
            return None, SEVERAL
        # Or it goes on from a request that was not understood: what that has shown helps to read
        # it. Or it is in doubt itself, and still nothing else than one chat with more behind it.
        for fitting in (sure, self._turns.begun(history), likely):
            if len(fitting) == 1:
                return fitting[0], ""
        answered = await self._by_our_replies(history)
        if len(answered) == 1:
            return answered[0], ""
        told = _told(history)
        return (_name(told), "") if told else (None, NO_NAME)

    async def _candidates(self, history: Sequence[NewMessage]) -> tuple[list[str], list[str]]:
        """The names of those to which this certainly belongs, and of those that it goes on from."""
        sure: dict[str, int] = {}
        likely: list[str] = []
        for ref in await self._sending.chats(history):
            stored = await self._service.store.newest(ref, len(history) + READ_MORE)
            found = align(stored, history, habit=await self._turns.habit(ref))
            if stored and found.sure:
                sure[ref.name] = sum(one is not None for one in found.matched)
            elif found.goes_on:
                likely.append(ref.name)
        most = max(sure.values(), default=0)
        return [name for name, shared in sure.items() if shared == most], likely

    async def _by_our_replies(self, history: Sequence[NewMessage]) -> list[str]:
        """The names of those whose newest replies are shown: whatever else was changed, by that."""
        replies = [normal.marks(said.body) for said in history if _is_telling(said)]
        if not replies:
            return []
        heard = self._turns.answered(replies)
        if heard:
            return heard
        shown = {mark for said in history for mark in normal.marks(said.body)}
        recent = await self._service.store.chat_cards(OWNER, RECENT_MAX)
        refs = [card.chat.ref for card in recent]
        return [ref.name for ref in refs if await self._shows_last(ref, shown)]

    async def _shows_last(self, ref: ChatRef, shown: AbstractSet[bytes]) -> bool:
        """Whether one of the newest replies to somebody is among what is shown: the last turns may
        have been taken back. And something else that was said, since refusals are alike."""
        newest = [m for m in await self._service.store.newest(ref, NEWEST) if m.shown]
        asked = next((n for n, m in enumerate(newest) if m.role == "user"), len(newest))
        said = [(m.role, shown >= set(normal.marks(m.body))) for m in newest[asked:] if _is_long(m)]
        replies = [told for role, told in said if role == "assistant"]
        return any(replies[-REPLIES_BACK:]) and sum(told for _, told in said) > 1


def _is_long(said: normal.Said) -> bool:
    """Whether it is more than two people say by chance."""
    return len(normal.bare(said.body)) >= TELLING_CHARS


def _is_telling(said: normal.Said) -> bool:
    """Whether it is a reply that nobody else would give by chance."""
    return said.role == "assistant" and _is_long(said)


def _told(history: Sequence[NewMessage]) -> Sequence[NewMessage]:
    """The history up to its last reply: what a new chat is known by."""
    replies = (i for i in range(len(history) - 1, -1, -1) if history[i].role == "assistant")
    return history[: next(replies, -1) + 1]


def _name(told: Sequence[NewMessage]) -> str:
    """The same for the same history, so that a request that is sent twice makes one chat."""
    return "chat-" + digest(*(said.hash for said in told)).hex()[:NAME_DIGITS]
