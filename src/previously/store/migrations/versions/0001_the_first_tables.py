"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chat",
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("preset", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("character", sa.Text(), nullable=True),
        sa.Column("conv_key", sa.Text(), nullable=True),
        sa.Column("branch_of", KEY, nullable=True),
        sa.Column("branch_at", KEY, nullable=True),
        sa.Column("recalculating", sa.Boolean(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("recording", sa.Boolean(), nullable=False),
        sa.Column("building", sa.Boolean(), nullable=False),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("created_at", KEY, nullable=False),
        sa.Column("deleted_at", KEY, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chat")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_chat_owner_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_chat_owner_conv_key", "chat", ["owner", "conv_key"], unique=False)

    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "participant",
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("last_seen_name", sa.Text(), nullable=True),
        sa.Column("rev", sa.Integer(), nullable=False),
        sa.Column("fixed_prompt", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_participant")),
        sa.UniqueConstraint("owner", "key", name=op.f("uq_participant_owner_key")),
    )
    op.create_table(
        "profile",
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("secret_ref", sa.Text(), nullable=True),
        sa.Column("context_window", sa.Integer(), nullable=True),
        sa.Column("max_output", sa.Integer(), nullable=True),
        sa.Column("price", sa.Text(), nullable=True),
        sa.Column("params", sa.Text(), nullable=True),
        sa.Column("limits", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profile")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_profile_owner_name")),
    )
    op.create_table(
        "setting",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "scope", "scope_id", name=op.f("pk_setting")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "token",
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("digest", name=op.f("uq_token_digest")),
    )
    op.create_table(
        "usage",
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("chat_id", KEY, nullable=True),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_micros", KEY, nullable=True),
        sa.Column("reserved_micros", KEY, nullable=True),
        sa.Column("created_at", KEY, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    op.create_index("ix_usage_owner_month", "usage", ["owner", "month"], unique=False)

    op.create_table(
        "attempt",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("error_class", sa.Text(), nullable=False),
        sa.Column("error_text", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("not_before", KEY, nullable=False),
        sa.Column("updated_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_attempt_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "task_id", name=op.f("pk_attempt")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "chat_participant",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("participant_id", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_chat_participant_chat_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["participant_id"],
            ["participant.id"],
            name=op.f("fk_chat_participant_participant_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("chat_id", "participant_id", name=op.f("pk_chat_participant")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_chat_participant_participant_id", "chat_participant", ["participant_id"], unique=False
    )

    op.create_table(
        "fold",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("budget_tokens", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tail_pos", KEY, nullable=False),
        sa.Column("from_pos", KEY, nullable=False),
        sa.Column("room_tokens", sa.Integer(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("stale", sa.Boolean(), nullable=False),
        sa.Column("moved_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_fold_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "audience", "budget_tokens", name=op.f("pk_fold")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "intent",
        sa.Column("id", KEY, nullable=False),
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.Column("closed_at", KEY, nullable=True),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_intent_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intent")),
    )
    op.create_index("ix_intent_chat_id", "intent", ["chat_id"], unique=False)

    op.create_table(
        "lane_state",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.Column("covered_to", KEY, nullable=False),
        sa.Column("next_ordinal", sa.Integer(), nullable=False),
        sa.Column("checked_at_ordinal", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_lane_state_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "lane", name=op.f("pk_lane_state")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "llm_result",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_llm_result_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "request_hash", name=op.f("pk_llm_result")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "message",
        sa.Column("id", KEY, nullable=False),
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("pos", KEY, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Text(), nullable=True),
        sa.Column("tool_call_id", sa.Text(), nullable=True),
        sa.Column("parts", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("hidden_by", sa.Text(), nullable=True),
        sa.Column("excluded", sa.Boolean(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("presence", sa.Integer(), nullable=True),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.Column("deleted_at", KEY, nullable=True),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_message_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_message")),
    )
    op.create_index("ix_message_chat_id_pos", "message", ["chat_id", "pos"], unique=False)
    op.create_index(
        "ix_message_pinned",
        "message",
        ["chat_id", "pos"],
        unique=False,
        sqlite_where=sa.text("pinned IS 1"),
        postgresql_where=sa.text("pinned IS true"),
    )

    op.create_table(
        "presence",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("members", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_presence_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "id", name=op.f("pk_presence")),
        sa.UniqueConstraint("chat_id", "members", name=op.f("uq_presence_chat_id_members")),
    )
    op.create_table(
        "summary",
        sa.Column("id", KEY, nullable=False),
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("first_pos", KEY, nullable=False),
        sa.Column("last_pos", KEY, nullable=False),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("covered_by", KEY, nullable=True),
        sa.Column("presence", sa.Integer(), nullable=True),
        sa.Column("root_id", KEY, nullable=False),
        sa.Column("prev_id", KEY, nullable=True),
        sa.Column("participant", sa.Text(), nullable=True),
        sa.Column("superseded_by", KEY, nullable=True),
        sa.Column("edited_by_user", sa.Boolean(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=True),
        sa.Column("stats", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.Column("updated_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_summary_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summary")),
    )
    op.create_index(
        "ix_summary_covered_by",
        "summary",
        ["covered_by"],
        unique=False,
        sqlite_where=sa.text("covered_by IS NOT NULL"),
        postgresql_where=sa.text("covered_by IS NOT NULL"),
    )
    op.create_index(
        "ix_summary_live",
        "summary",
        ["chat_id", "lane", "last_pos"],
        unique=False,
        sqlite_where=sa.text("status = 'ready' AND valid IS 1 AND covered_by IS NULL"),
        postgresql_where=sa.text("status = 'ready' AND valid IS true AND covered_by IS NULL"),
    )

    op.create_table(
        "work",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("rev", KEY, nullable=False),
        sa.Column("done_rev", KEY, nullable=False),
        sa.Column("next_n", KEY, nullable=False),
        sa.Column("next_s", KEY, nullable=False),
        sa.Column("last_pos", KEY, nullable=False),
        sa.Column("due_at", KEY, nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", KEY, nullable=True),
        sa.Column("fence", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_work_chat_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", name=op.f("pk_work")),
    )
    op.create_table(
        "hole",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("message_id", KEY, nullable=False),
        sa.Column("since", KEY, nullable=False),
        sa.Column("proposal", KEY, nullable=True),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_hole_chat_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["message.id"], name=op.f("fk_hole_message_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_id", "lane", "message_id", name=op.f("pk_hole")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link",
        sa.Column("summary_id", KEY, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("target_is_summary", sa.Boolean(), nullable=False),
        sa.Column("target_id", KEY, nullable=False),
        sa.Column("target_hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["summary_id"], ["summary.id"], name=op.f("fk_link_summary_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("summary_id", "position", name=op.f("pk_link")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_link_target_id_target_is_summary",
        "link",
        ["target_id", "target_is_summary"],
        unique=False,
    )

    op.create_table(
        "message_revision",
        sa.Column("chat_id", KEY, nullable=False),
        sa.Column("rev", KEY, nullable=False),
        sa.Column("message_id", KEY, nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("undone", sa.Boolean(), nullable=False),
        sa.Column("created_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["chat.id"], name=op.f("fk_message_revision_chat_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["message.id"],
            name=op.f("fk_message_revision_message_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("chat_id", "rev", "message_id", name=op.f("pk_message_revision")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "variant",
        sa.Column("message_id", KEY, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Text(), nullable=True),
        sa.Column("parts", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("created_at", KEY, nullable=False),
        sa.ForeignKeyConstraint(
            ["message_id"], ["message.id"], name=op.f("fk_variant_message_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", "idx", name=op.f("pk_variant")),
        sqlite_with_rowid=False,
    )
