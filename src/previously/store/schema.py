"""The tables, one definition for SQLite and PostgreSQL. Times are UTC epoch milliseconds.

Messages and summaries are keyed by `chat << 32 | birth number`: compact, clustered by chat, stable
when order changes. `work` is the one row per chat that every change touches; everything else about
a chat that rarely changes stands in `chat`, so that a turn writes few pages.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite only takes the fast path for a key declared INTEGER.
Key: TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _chat_id(*, primary_key: bool = False) -> sa.Column[int]:
    return sa.Column(
        "chat_id",
        Key,
        sa.ForeignKey("chat.id", ondelete="CASCADE"),
        primary_key=primary_key,
        nullable=False,
    )


chat = sa.Table(
    "chat",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("preset", sa.Text, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),  # the one that replaces old messages
    sa.Column("character", sa.Text),
    sa.Column("conv_key", sa.Text),
    sa.Column("branch_of", Key),
    sa.Column("branch_at", Key),
    sa.Column("recalculating", sa.Boolean, nullable=False, default=False),
    sa.Column("archived", sa.Boolean, nullable=False, default=False),
    sa.Column("recording", sa.Boolean, nullable=False, default=True),
    sa.Column("building", sa.Boolean, nullable=False, default=False),  # an import in progress
    sa.Column("extra", sa.Text),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("deleted_at", Key),
    sa.UniqueConstraint("owner", "name"),
    sa.Index(None, "owner", "conv_key"),
    sqlite_autoincrement=True,  # a key is never given out twice, even after a purge
)

work = sa.Table(
    "work",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("rev", Key, nullable=False, default=0),
    sa.Column("done_rev", Key, nullable=False, default=0),
    sa.Column("next_n", Key, nullable=False, default=1),
    sa.Column("next_s", Key, nullable=False, default=1),
    sa.Column("last_pos", Key, nullable=False, default=0),
    sa.Column("due_at", Key),  # the earliest retry; a change is due at once by rev > done_rev
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_until", Key),
    sa.Column("fence", Key, nullable=False, default=0),
)

message = sa.Table(
    "message",
    metadata,
    sa.Column("id", Key, primary_key=True),
    _chat_id(),
    sa.Column("pos", Key, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("speaker", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("tool_calls", sa.Text),
    sa.Column("tool_call_id", sa.Text),
    sa.Column("parts", sa.Text),
    sa.Column("extra", sa.Text),
    sa.Column("hidden_by", sa.Text),
    sa.Column("excluded", sa.Boolean, nullable=False),
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("presence", sa.Integer),
    sa.Column("variant", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("deleted_at", Key),
    sa.Index(None, "chat_id", "pos"),
)
sa.Index(
    "ix_message_pinned",
    message.c.chat_id,
    message.c.pos,
    sqlite_where=message.c.pinned.is_(True),
    postgresql_where=message.c.pinned.is_(True),
)
sa.Index(  # a floor is a place in the order less those that were taken out before it
    "ix_message_deleted",
    message.c.chat_id,
    message.c.pos,
    sqlite_where=message.c.deleted_at.is_not(None),
    postgresql_where=message.c.deleted_at.is_not(None),
)

variant = sa.Table(
    "variant",
    metadata,
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("idx", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("tool_calls", sa.Text),
    sa.Column("parts", sa.Text),
    sa.Column("extra", sa.Text),
    sa.Column("created_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

message_revision = sa.Table(
    "message_revision",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("rev", Key, primary_key=True),  # of the chat: what changed together has one
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("change", sa.Text, nullable=False),  # edit, delete, swipe, hide, move, …
    sa.Column("before", sa.Text, nullable=False),  # JSON of the columns that changed
    sa.Column("undone", sa.Boolean, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Index(None, "message_id"),
    sqlite_with_rowid=False,
)

presence = sa.Table(
    "presence",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("members", sa.Text, nullable=False),  # JSON, sorted
    sa.UniqueConstraint("chat_id", "members"),
)

summary = sa.Table(
    "summary",
    metadata,
    sa.Column("id", Key, primary_key=True),
    _chat_id(),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("level", sa.Integer, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("first_pos", Key, nullable=False),
    sa.Column("last_pos", Key, nullable=False),
    sa.Column("message_count", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("valid", sa.Boolean, nullable=False),
    sa.Column("covered_by", Key),
    sa.Column("presence", sa.Integer),
    sa.Column("root_id", Key, nullable=False),  # the first revision: identity over revisions
    sa.Column("prev_id", Key),  # the chain of a rewriting lane
    sa.Column("participant", sa.Text),  # a biography belongs to a person, not to a floor
    sa.Column("superseded_by", Key),
    sa.Column("edited_by_user", sa.Boolean, nullable=False),
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("provenance", sa.Text),
    sa.Column("stats", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("updated_at", Key, nullable=False),
)
_LIVE = sa.and_(
    summary.c.status == "ready", summary.c.valid.is_(True), summary.c.covered_by.is_(None)
)
sa.Index(
    "ix_summary_covered_by",
    summary.c.covered_by,
    sqlite_where=summary.c.covered_by.is_not(None),
    postgresql_where=summary.c.covered_by.is_not(None),
)
sa.Index(  # the covers a prompt may show, however many lie archived beneath them
    "ix_summary_live",
    summary.c.chat_id,
    summary.c.lane,
    summary.c.last_pos,
    sqlite_where=_LIVE,
    postgresql_where=_LIVE,
)

_PROPOSED = summary.c.status == "proposed"
sa.Index(
    "ix_summary_proposed",
    summary.c.chat_id,
    summary.c.lane,
    sqlite_where=_PROPOSED,
    postgresql_where=_PROPOSED,
)

link = sa.Table(
    "link",
    metadata,
    sa.Column("summary_id", Key, sa.ForeignKey("summary.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("target_is_summary", sa.Boolean, nullable=False),
    sa.Column("target_id", Key, nullable=False),
    sa.Column("target_hash", sa.LargeBinary, nullable=False),
    sa.Index(None, "target_id", "target_is_summary"),
    sqlite_with_rowid=False,
)

carried = sa.Table(  # what an earlier chat has handed on: it covers nothing, nothing rewrites it
    "carried",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("is_extract", sa.Boolean, nullable=False),
    sa.Column("presence", sa.Integer),
    sa.Column("from_chat", Key, nullable=False),  # no foreign key: that chat may be purged
    sa.Column("from_title", sa.Text, nullable=False),
    sa.Column("from_record", Key),  # a revision of a summary has a key of its own
    sa.Column("created_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

lane_state = sa.Table(
    "lane_state",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("lane", sa.Text, primary_key=True),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("frozen", sa.Boolean, nullable=False),
    sa.Column("covered_to", Key, nullable=False),  # every eligible message up to here is covered…
    sa.Column("next_ordinal", sa.Integer, nullable=False),
    sa.Column("checked_at_ordinal", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

hole = sa.Table(
    "hole",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("lane", sa.Text, primary_key=True),
    sa.Column(
        "message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True
    ),  # …but for these
    sa.Column("since", Key, nullable=False),  # a rebuild waits until edits have come to rest
    sa.Column("proposal", Key),  # a new text that waits for the user, who had edited the old one
    sa.Index(None, "message_id"),
    sqlite_with_rowid=False,
)

fold = sa.Table(
    "fold",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("audience", sa.Text, primary_key=True),
    sa.Column("budget_tokens", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("tail_pos", Key, nullable=False),
    sa.Column("from_pos", Key, nullable=False),
    sa.Column("room_tokens", sa.Integer, nullable=False),
    sa.Column("shown", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("stale", sa.Boolean, nullable=False),
    sa.Column("moved_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

intent = sa.Table(
    "intent",
    metadata,
    sa.Column("id", Key, primary_key=True),
    _chat_id(),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("created_at", Key, nullable=False),
    sa.Column("closed_at", Key),
    sa.Index(None, "chat_id"),
)

attempt = sa.Table(
    "attempt",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("task_id", sa.Text, primary_key=True),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("error_class", sa.Text, nullable=False),
    sa.Column("error_text", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("not_before", Key, nullable=False),
    sa.Column("updated_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

llm_result = sa.Table(
    "llm_result",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("request_hash", sa.Text, primary_key=True),
    sa.Column("response", sa.Text, nullable=False),  # JSON
    sa.Column("sources", sa.Text, nullable=False),  # JSON: keys of the messages it read
    sa.Column("created_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

profile = sa.Table(
    "profile",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("base_url", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("secret_ref", sa.Text),  # a reference, never the secret
    sa.Column("context_window", sa.Integer),
    sa.Column("max_output", sa.Integer),
    sa.Column("price", sa.Text),
    sa.Column("params", sa.Text),
    sa.Column("limits", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("trouble", sa.Text),  # why another one was asked, until it answers or is changed
    sa.UniqueConstraint("owner", "name"),
)

participant = sa.Table(
    "participant",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),  # namespace:key
    sa.Column("display_name", sa.Text, nullable=False),
    sa.Column("last_seen_name", sa.Text),
    sa.Column("rev", sa.Integer, nullable=False),
    sa.Column("fixed_prompt", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.UniqueConstraint("owner", "key"),
)

chat_participant = sa.Table(
    "chat_participant",
    metadata,
    _chat_id(primary_key=True),
    sa.Column(
        "participant_id",
        Key,
        sa.ForeignKey("participant.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Index(None, "participant_id"),
    sqlite_with_rowid=False,
)

setting = sa.Table(
    "setting",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, primary_key=True),  # global | character | chat
    sa.Column("scope_id", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),  # JSON
    sa.Column("revision", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

usage = sa.Table(
    "usage",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("month", sa.Text, nullable=False),
    sa.Column("profile", sa.Text, nullable=False),
    sa.Column("chat_id", Key),  # no foreign key: what was spent stays spent
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("cost_micros", Key),  # unknown is NULL, never 0
    sa.Column("reserved_micros", Key),
    sa.Column("created_at", Key, nullable=False),
    sa.Index(None, "owner", "month"),
)

token = sa.Table(
    "token",
    metadata,
    sa.Column("id", Key, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("created_at", Key, nullable=False),
)

installation = sa.Table(
    "installation",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("secret", sa.LargeBinary, nullable=False),  # keys the fences around quoted text
    sa.Column("created_at", Key, nullable=False),
)

limit_slot = sa.Table(  # calls that are running now, over all processes
    "limit_slot",
    metadata,
    sa.Column("profile", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("until", Key, nullable=False),
    info={"made_again": True},
    sqlite_with_rowid=False,
)

limit_rate = sa.Table(  # when the next call of a profile is on time
    "limit_rate",
    metadata,
    sa.Column("profile", sa.Text, primary_key=True),
    sa.Column("next_at", Key, nullable=False),
    info={"made_again": True},
    sqlite_with_rowid=False,
)

sent = sa.Table(  # what went upstream for a chat's newest turn: sizes and ids, no texts
    "sent",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("tail_key", sa.Text, nullable=False),  # finds the chat of a request without a name
    sa.Column("facts", sa.Text, nullable=False),  # JSON
    sa.Column("sent_at", Key, nullable=False),
    sa.Index(None, "tail_key"),
)

passed = sa.Table(  # requests that went on as they came since the newest turn, and why
    "passed",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("requests", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("passed_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

sent_turn = sa.Table(  # what the prompts of a chat have weighed, the newest of them: for charts
    "sent_turn",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("born", Key, nullable=False),  # the birth number of the next message, by then
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("client_tokens", sa.Integer, nullable=False),
    sa.Column("budget_tokens", sa.Integer, nullable=False),
    sa.Column("same_tokens", sa.Integer, nullable=False),  # the beginning that was sent before too
    sa.Column("layers", sa.Text, nullable=False),  # JSON: tokens by place
    sa.Column("sent_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

answer = sa.Table(  # what was answered to a request that may be asked again with the same key
    "answer",
    metadata,
    sa.Column("slot", sa.Text, primary_key=True),  # digest of the key, who asked, and where
    sa.Column("request", sa.Text, nullable=False),  # digest of what was asked
    sa.Column("status", sa.Integer),  # none: it is being made
    sa.Column("headers", sa.Text, nullable=False),  # JSON
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("until", Key, nullable=False),
    sa.Index(None, "until"),
    info={"made_again": True},
)

# What messages are found by. Beside these stands `posting`, made by its migration: an FTS5 table
# in SQLite, an array of terms with a GIN index in PostgreSQL.
index_state = sa.Table(
    "index_state",
    metadata,
    _chat_id(primary_key=True),
    sa.Column("rev", Key, nullable=False),  # every change up to here is in the index…
    sa.Column("next_n", Key, nullable=False),  # …as is every message born before
    sa.Column("messages", sa.Integer, nullable=False),
    sa.Column("tokens", Key, nullable=False),  # of those messages together
    info={"made_again": True},
)

term_count = sa.Table(
    "term_count",
    metadata,
    _chat_id(primary_key=True),
    sa.Column(
        "term",
        sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql"),
        primary_key=True,
    ),
    sa.Column("messages", sa.Integer, nullable=False),  # of this chat, that hold the term
    info={"made_again": True},
    sqlite_with_rowid=False,
)

indexed = sa.Table(
    "indexed",
    metadata,
    sa.Column("message_id", Key, sa.ForeignKey("message.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),  # of the message, when it was read
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # finds the text again that was read
    sa.Column("candidate", sa.Boolean, nullable=False),  # may change without a revision
    info={"made_again": True},
)
sa.Index(
    "ix_indexed_candidate",
    indexed.c.message_id,
    sqlite_where=sa.text("candidate"),
    postgresql_where=sa.text("candidate"),
)
