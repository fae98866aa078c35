"""What the doors keep: settings, tokens, what went upstream, answers that may be asked again."""

from __future__ import annotations

import sqlalchemy as sa

from previously.store.schema.metadata import Key, chat_id, metadata

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

sent = sa.Table(  # what went upstream for a chat's newest turn: sizes and ids, no texts
    "sent",
    metadata,
    chat_id(primary_key=True),
    sa.Column("tail_key", sa.Text, nullable=False),  # finds the chat of a request without a name
    sa.Column("facts", sa.Text, nullable=False),  # JSON
    sa.Column("sent_at", Key, nullable=False),
    sa.Index(None, "tail_key"),
)

passed = sa.Table(  # requests that went on as they came since the newest turn, and why
    "passed",
    metadata,
    chat_id(primary_key=True),
    sa.Column("requests", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("passed_at", Key, nullable=False),
    sqlite_with_rowid=False,
)

sent_turn = sa.Table(  # what the prompts of a chat have weighed, the newest of them: for charts
    "sent_turn",
    metadata,
    chat_id(primary_key=True),
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
