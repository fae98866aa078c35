"""The tables, one definition for SQLite and PostgreSQL. Times are UTC epoch milliseconds.

Messages and summaries are keyed by `chat << 32 | birth number`: compact, clustered by chat, stable
when order changes. `work` is the one row per chat that every change touches; everything else about
a chat that rarely changes stands in `chat`, so that a turn writes few pages.
"""

from previously.store.schema.asking import (
    attempt,
    intent,
    limit_rate,
    limit_slot,
    llm_result,
    profile,
    usage,
)
from previously.store.schema.chats import (
    chat,
    chat_participant,
    message,
    message_revision,
    participant,
    presence,
    variant,
    work,
)
from previously.store.schema.doors import (
    answer,
    installation,
    passed,
    sent,
    sent_turn,
    setting,
    token,
)
from previously.store.schema.index import index_state, indexed, term_count
from previously.store.schema.memory import carried, fold, hole, lane_state, link, summary
from previously.store.schema.metadata import metadata

__all__ = [
    "answer",
    "attempt",
    "carried",
    "chat",
    "chat_participant",
    "fold",
    "hole",
    "index_state",
    "indexed",
    "installation",
    "intent",
    "lane_state",
    "limit_rate",
    "limit_slot",
    "link",
    "llm_result",
    "message",
    "message_revision",
    "metadata",
    "participant",
    "passed",
    "presence",
    "profile",
    "sent",
    "sent_turn",
    "setting",
    "summary",
    "term_count",
    "token",
    "usage",
    "variant",
    "work",
]
