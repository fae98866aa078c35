"""What is wanted of models, which ones there are, and what they were asked."""

from __future__ import annotations

import sqlalchemy as sa

from previously.store.schema.metadata import Key, chat_id, metadata

intent = sa.Table(
    "intent",
    metadata,
    sa.Column("id", Key, primary_key=True),
    chat_id(),
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
    chat_id(primary_key=True),
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
    chat_id(primary_key=True),
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
