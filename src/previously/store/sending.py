"""Transactions on what was sent upstream: the newest per chat, found again by the client's words,
what the prompts before it have weighed, and what went on since without being understood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from previously.model import (
    BIRTH_MASK,
    ChatRef,
    Doubted,
    Passed,
    Sent,
    SentTurn,
    Weight,
    birth,
    key,
)
from previously.store.schema import chat, message, passed, sent, sent_turn

FITTING_MAX = 8  # chats that may end with the same words; more tell nothing
TURNS_KEPT = 500  # of each chat

# Both databases read it the same way. A chat that is gone by now gives no row to insert.
_KEEP = sa.text(
    "INSERT INTO sent (chat_id, tail_key, facts, sent_at)"
    " SELECT id, CAST(:tail AS TEXT), CAST(:facts AS TEXT), CAST(:at_ms AS BIGINT)"
    " FROM chat WHERE id = :chat"
    " ON CONFLICT (chat_id) DO UPDATE"
    " SET tail_key = excluded.tail_key, facts = excluded.facts, sent_at = excluded.sent_at"
)
_PASS = sa.text(
    "INSERT INTO passed (chat_id, requests, reason, passed_at)"
    " SELECT id, CAST(:requests AS INTEGER), CAST(:reason AS TEXT), CAST(:at_ms AS BIGINT)"
    " FROM chat WHERE id = :chat"
    " ON CONFLICT (chat_id) DO UPDATE SET requests = passed.requests + excluded.requests,"
    " reason = excluded.reason, passed_at = excluded.passed_at"
)
_UNDERSTOOD = sa.delete(passed).where(passed.c.chat_id == sa.bindparam("chat"))
_PASSED = sa.select(passed).where(passed.c.chat_id == sa.bindparam("chat"))
_LAST = sa.select(sent).where(sent.c.chat_id == sa.bindparam("chat"))
_ADD = sa.text(
    "INSERT INTO sent_turn (chat_id, n, born, tokens, client_tokens, budget_tokens, same_tokens,"
    " layers, sent_at)"
    " SELECT chat_id,"
    " COALESCE((SELECT MAX(n) FROM sent_turn WHERE chat_id = work.chat_id), 0) + 1,"
    " next_n, CAST(:tokens AS INTEGER), CAST(:client AS INTEGER), CAST(:budget AS INTEGER),"
    " CAST(:same AS INTEGER), CAST(:layers AS TEXT), CAST(:at_ms AS BIGINT)"
    " FROM work WHERE chat_id = :chat"
    " ON CONFLICT (chat_id, n) DO NOTHING"  # another process was first: one point less to draw
)
_FORGET = sa.text(
    "DELETE FROM sent_turn WHERE chat_id = :chat AND n <="
    " (SELECT MAX(n) FROM sent_turn WHERE chat_id = :chat) - CAST(:kept AS INTEGER)"
)
_T = sent_turn.c
_TURNS = (
    sa.select(sent_turn)
    .where(_T.chat_id == sa.bindparam("chat"), _T.n < sa.bindparam("before"))
    .order_by(_T.n.desc())
    .limit(sa.bindparam("most"))
)
_BORN = (
    message.c.chat_id == sa.bindparam("chat"),
    message.c.deleted_at.is_(None),
    message.c.id.between(sa.bindparam("first"), sa.bindparam("last")),
)
_BEFORE = sa.select(sa.func.coalesce(sa.func.sum(message.c.tokens), 0)).where(*_BORN)
_SINCE = sa.select(message.c.id, message.c.tokens).where(*_BORN).order_by(message.c.id)


def keep(
    conn: sa.Connection, news: Sequence[Sent], doubts: Mapping[int, Doubted] | None = None
) -> None:
    """Replace what is known of each chat; of one chat the last stands. Then what was seen of
    clients since: all of it or nothing, so that it can be tried again."""
    by_chat: dict[int, list[Sent]] = {chat_id: [] for chat_id in doubts or ()}
    for one in news:
        by_chat.setdefault(one.chat_id, []).append(one)
    for chat_id, some in sorted(by_chat.items()):  # one order for all: no two wait in a circle
        if some:
            _replace(conn, some)
        if doubts and chat_id in doubts:
            _doubt(conn, chat_id, doubts[chat_id])


def _replace(conn: sa.Connection, turns_of_it: Sequence[Sent]) -> None:
    """These turns of one chat were understood: the last of them stands, and every doubt is over."""
    one = turns_of_it[-1]
    _add(conn, one.chat_id, [turn for turn in turns_of_it if turn.weight is not None])
    values = {"tail": one.tail_key, "facts": one.facts, "at_ms": one.sent_at_ms}
    conn.execute(_KEEP, {"chat": one.chat_id, **values})
    conn.execute(_UNDERSTOOD, {"chat": one.chat_id})


def _doubt(conn: sa.Connection, chat_id: int, doubted: Doubted) -> None:
    """What a request has shown of its client that was not understood, beside what was sent last.
    Where nothing was, nothing stored can be taken for something else."""
    row = conn.execute(_LAST, {"chat": chat_id}).one_or_none()
    if row is not None and doubted.habit is not None:
        told = {**json.loads(row.facts), "habit": doubted.habit}
        facts = json.dumps(told, ensure_ascii=False)
        values = {"tail": row.tail_key, "facts": facts, "at_ms": row.sent_at}
        conn.execute(_KEEP, {"chat": chat_id, **values})
    if doubted.passed is not None:
        more = doubted.passed
        values = {"requests": more.requests, "reason": more.reason, "at_ms": more.at_ms}
        conn.execute(_PASS, {"chat": chat_id, **values})


def passed_on(conn: sa.Connection, ref: ChatRef) -> Passed | None:
    """What went on as it came since the newest turn; None: nothing."""
    row = conn.execute(_PASSED, {"chat": ref.id}).one_or_none()
    return None if row is None else Passed(row.requests, row.reason, row.passed_at)


def _add(conn: sa.Connection, chat_id: int, some: Sequence[Sent]) -> None:
    """What these turns have weighed, each beside the one before it."""
    if not some:
        return
    row = conn.execute(_LAST, {"chat": chat_id}).one_or_none()
    known: list[str] = [] if row is None else json.loads(row.facts).get("pieces", [])
    for one in some:
        assert one.weight is not None
        conn.execute(_ADD, _weighed(one, one.weight, known))
        known = [piece for piece, _ in one.weight.pieces]
    conn.execute(_FORGET, {"chat": chat_id, "kept": TURNS_KEPT})


def _weighed(one: Sent, weight: Weight, known: Sequence[str]) -> dict[str, Any]:
    pairs = takewhile(lambda pair: pair[0][0] == pair[1], zip(weight.pieces, known, strict=False))
    return {
        "chat": one.chat_id,
        "tokens": weight.tokens,
        "client": weight.client_tokens,
        "budget": weight.budget_tokens,
        "same": sum(tokens for (_, tokens), _ in pairs),
        "layers": json.dumps(dict(weight.layers)),
        "at_ms": one.sent_at_ms,
    }


def last(conn: sa.Connection, ref: ChatRef) -> Sent | None:
    """What the newest turn sent."""
    row = conn.execute(_LAST, {"chat": ref.id}).one_or_none()
    return None if row is None else Sent(row.chat_id, row.tail_key, row.facts, row.sent_at)


def turns(conn: sa.Connection, ref: ChatRef, before: int, limit: int) -> tuple[SentTurn, ...]:
    """The newest prompts before one, oldest first; each with what the whole chat weighed then."""
    values = {"chat": ref.id, "before": before, "most": limit}
    found = list(conn.execute(_TURNS, values))[::-1]
    whole = _whole(conn, ref, [row.born for row in found])
    return tuple(
        SentTurn(
            n=row.n,
            tokens=row.tokens,
            client_tokens=row.client_tokens,
            chat_tokens=tokens,
            budget_tokens=row.budget_tokens,
            same_tokens=row.same_tokens,
            layers=json.loads(row.layers),
            sent_at_ms=row.sent_at,
        )
        for row, tokens in zip(found, whole, strict=True)
    )


def _whole(conn: sa.Connection, ref: ChatRef, born: Sequence[int]) -> list[int]:
    """The tokens of all messages that were born before each of these numbers, which only rise."""
    if not born:
        return []
    middle = key(ref.id, born[0])
    ends = {"chat": ref.id, "first": key(ref.id, 0), "last": middle - 1}
    total = int(conn.execute(_BEFORE, ends).scalar_one())
    ends |= {"first": middle, "last": key(ref.id, BIRTH_MASK)}
    later = [(birth(row.id), row.tokens) for row in conn.execute(_SINCE, ends)]
    found: list[int] = []
    at = 0
    for number in born:
        while at < len(later) and later[at][0] < number:
            total += later[at][1]
            at += 1
        found.append(total)
    return found


def by_tail(conn: sa.Connection, owner: str, keys: Sequence[str]) -> list[ChatRef]:
    """The owner's chats whose newest turn was asked with one of these."""
    query = (
        sa.select(chat.c.id, chat.c.owner, chat.c.name)
        .join(sent, sent.c.chat_id == chat.c.id)
        .where(
            sent.c.tail_key.in_(list(keys)),
            chat.c.owner == owner,
            chat.c.deleted_at.is_(None),
            chat.c.building.is_(False),
        )
        .order_by(chat.c.id.desc())
        .limit(FITTING_MAX)
    )
    return [ChatRef(row.id, row.owner, row.name) for row in conn.execute(query)]
