"""Long chats for the benchmarks, written straight into the tables in batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from previously.lanes.volumes import NAME as LANE
from previously.model import POS_GAP, ChatRef, Kind, NewMessage, State, SummaryStatus, digest, key
from previously.store.schema import lane_state, link, message, summary, work
from previously.text.wire import tokens_of

LEVELS = (("mini", 2), ("volume", 20), ("era", 20))  # each with how many it stands for
TAIL = 20  # messages that no summary covers
BATCH = 5_000
MESSAGE_CHARS = 300
WORDS = "harbour lantern ledger tide captain promised rope Thursday compass silver quarrel letter"


def said(n: int) -> NewMessage:
    """A message of 300 characters, different each time."""
    words = WORDS.split()
    text = f"{n}: " + " ".join(words[(n * 7 + k * (n % 5 + 1)) % len(words)] for k in range(60))
    return NewMessage("user" if n % 2 == 0 else "assistant", text[:MESSAGE_CHARS])


@dataclass(frozen=True, slots=True)
class Node:
    """A message or summary, as far as what stands above it needs to know."""

    id: int
    hash: bytes
    first_pos: int
    last_pos: int
    messages: int


def message_row(ref: ChatRef, n: int, spoken: NewMessage) -> dict[str, Any]:
    """The n-th message as it is stored."""
    return {
        "id": key(ref.id, n),
        "chat_id": ref.id,
        "pos": n * POS_GAP,
        "role": spoken.role,
        "kind": Kind.SPEECH.value,
        "state": State.CONFIRMED.value,
        "body": spoken.body,
        "hash": spoken.hash,
        "tokens": tokens_of(spoken),
        "excluded": False,
        "pinned": False,
        "variant": 0,
        "version": 1,
        "created_at": 1,
    }


def summary_row(ref: ChatRef, node: Node, level: int, ordinal: int, text: str) -> dict[str, Any]:
    """A summary as it is stored."""
    return {
        "id": node.id,
        "chat_id": ref.id,
        "lane": LANE,
        "kind": LEVELS[level][0],
        "level": level,
        "ordinal": ordinal,
        "text": text,
        "hash": node.hash,
        "tokens": 12,
        "first_pos": node.first_pos,
        "last_pos": node.last_pos,
        "message_count": node.messages,
        "status": SummaryStatus.READY.value,
        "valid": True,
        "root_id": node.id,
        "edited_by_user": False,
        "pinned": False,
        "version": 1,
        "created_at": 1,
        "updated_at": 1,
    }


def fill(conn: sa.Connection, ref: ChatRef, size: int, levels: int = len(LEVELS)) -> None:
    """A chat of this size with everything that stands for it, up to so many levels."""
    nodes: list[Node] = []
    for start in range(1, size + 1, BATCH):
        spoken = [(n, said(n)) for n in range(start, min(size + 1, start + BATCH))]
        conn.execute(sa.insert(message), [message_row(ref, n, s) for n, s in spoken])
        nodes += [Node(key(ref.id, n), s.hash, n * POS_GAP, n * POS_GAP, 1) for n, s in spoken]
    births = itertools.count(1)
    nodes = nodes[:-TAIL]
    covered_to = nodes[-1].last_pos
    for level, (_, fan) in enumerate(LEVELS[:levels]):
        nodes = cover(conn, ref, nodes, level, fan, births)
    state = {"covered_to": covered_to, "next_ordinal": size, "checked_at_ordinal": 0}
    row = {"chat_id": ref.id, "lane": LANE, "enabled": True, "frozen": False, **state}
    conn.execute(sa.insert(lane_state), row)
    after = {"next_n": size + 1, "next_s": next(births), "last_pos": size * POS_GAP}
    conn.execute(sa.update(work).where(work.c.chat_id == ref.id).values(rev=1, done_rev=1, **after))


def cover(
    conn: sa.Connection,
    ref: ChatRef,
    nodes: Sequence[Node],
    level: int,
    fan: int,
    births: Iterator[int],
) -> list[Node]:
    """One level of summaries over what is below it; what is left over at the end stays open."""
    made: list[Node] = []
    rows: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for ordinal in range(len(nodes) // fan):
        below = nodes[ordinal * fan : (ordinal + 1) * fan]
        text = f"{LEVELS[level][0]} {ordinal}: the captain promised the lantern on Thursday"
        node = Node(
            id=key(ref.id, next(births)),
            hash=digest(text),
            first_pos=below[0].first_pos,
            last_pos=below[-1].last_pos,
            messages=sum(n.messages for n in below),
        )
        made.append(node)
        rows.append(summary_row(ref, node, level, ordinal + 1, text))
        links += [link_row(node, i, child, level) for i, child in enumerate(below)]
    for start in range(0, len(rows), BATCH):
        conn.execute(sa.insert(summary), rows[start : start + BATCH])
    for start in range(0, len(links), BATCH):
        conn.execute(sa.insert(link), links[start : start + BATCH])
    if level and links:
        under = sa.update(summary).where(summary.c.id == sa.bindparam("child"))
        pairs = [{"child": row["target_id"], "parent": row["summary_id"]} for row in links]
        conn.execute(under.values(covered_by=sa.bindparam("parent")), pairs)
    return made


def link_row(node: Node, position: int, child: Node, level: int) -> dict[str, Any]:
    """What ties a summary to one of its sources."""
    return {
        "summary_id": node.id,
        "position": position,
        "target_is_summary": level > 0,
        "target_id": child.id,
        "target_hash": child.hash,
    }
