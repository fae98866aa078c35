"""What goes in and out of the REST interface. Ids are opaque strings; times are UTC milliseconds.

A shape is checked on its way in and on its way out, and is what OpenAPI and the page's types are
made from.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel

from previously.service import BODY_CHARS_MAX, NAME_CHARS_MAX

MARKED_MAX = 1_000  # messages that are changed in one step

Id = Annotated[str, Field(min_length=1, max_length=120, examples=["c1"])]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, examples=["harbour"])]
Text = Annotated[str, Field(max_length=BODY_CHARS_MAX)]
Role = Literal["system", "user", "assistant", "tool"]


class Asked(BaseModel):
    """The body of a request: a field that nobody knows is a mistake, and said so."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Told(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldError(Told):
    """What is wrong with one field, in a form that a page can word in its own language."""

    field: str
    type: str = Field(examples=["greater_than_equal"])
    detail: str
    ctx: dict[str, JsonValue] = {}


class Problem(Told):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:previously:chat-not-found"])
    title: str = Field(examples=["There is no such chat"])
    status: int = Field(examples=[404])
    detail: str
    field: str | None = None
    next: str = Field(description="What to do about it.")
    errors: list[FieldError] = []


# Chats


class Chat(Told):
    """A chat as a list shows it."""

    id: Id
    name: str = Field(description="Its name in addresses: /c/NAME/v1.")
    title: str
    preset: str = Field(examples=["volumes"])
    lane: str = Field(examples=["volumes"])
    messages: int
    summaries_written: int = Field(description="Every summary ever written, revisions too.")
    recording: bool = Field(description="Off: proxied turns pass through and leave no mark.")
    recalculating: bool
    branch_of: Id | None
    character: str | None = Field(description="Whose settings hold where it has none of its own.")
    revision: int = Field(description="Grows with every change; the id of live events.")
    created_at_ms: int
    active_at_ms: int = Field(description="When its newest message was recorded.")
    deleted_at_ms: int | None
    base_path: str = Field(examples=["/c/harbour/v1"])


class ChatFull(Chat):
    """One chat, with what takes a look at all of it."""

    tokens: int = Field(description="Of all its messages together.")
    summaries: int = Field(description="That are valid now.")
    proposals: int = Field(description="New texts that wait to be accepted or rejected.")
    uncovered: int = Field(description="Messages that no summary stands for.")
    working: bool = Field(description="Somebody is writing about it at this moment.")
    due: bool = Field(description="Something has changed since the background last looked.")
    wishes: list[str] = Field(examples=[["backfill"]])


class ChatPage(Told):
    items: list[Chat]
    next: str | None = Field(description="The cursor of the next page.")


class NewChat(Asked):
    name: Name
    preset: str | None = Field(default=None, max_length=80, examples=["volumes"])
    character: Name | None = None
    settings: dict[str, JsonValue] | None = None
    continue_from: Id | None = Field(
        default=None,
        description="Begin with the memory of this chat, and its preset and settings; no messages.",
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "harbour"}]})


class ChatChange(Asked):
    title: Name | None = None
    preset: str | None = Field(default=None, max_length=80)
    recording: bool | None = None
    character: str | None = Field(
        default=None, max_length=NAME_CHARS_MAX, description="Empty: nobody's."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "At the harbour"}]})


class Branch(Asked):
    name: Name
    at: Id | None = Field(default=None, description="The last message to copy; none: all.")


class Character(Told):
    name: str
    chats: int


class CharacterList(Told):
    items: list[Character]


class Carried(Told):
    """Something that the chat which this one continues has handed on."""

    id: Id
    text: str
    tokens: int
    kind: str = Field(examples=["mini", "volume", "pinned", "rest"])
    is_extract: bool
    from_chat: Id
    from_title: str
    shown: bool = Field(description="It stands in the next prompt.")


class CarriedList(Told):
    items: list[Carried]


class Touched(Told):
    """How many messages a step has changed."""

    messages: int
    revision: int


# Messages

How = Literal["verbatim", "standing", "summary", "hidden", "dropped"]


class Place(Told):
    """How the next prompt represents a message."""

    how: How
    summary: Id | None = Field(default=None, description="The summary that stands for it.")
    by: str | None = Field(default=None, description="Who hides it.")
    reason: str = Field(default="", description="Why it is left out.")


class Message(Told):
    id: Id
    floor: int
    role: str
    name: str | None
    text: str
    kind: str
    state: str = Field(description="candidate: the client has not been seen to keep it yet.")
    tokens: int
    hidden_by: str | None
    excluded: bool
    pinned: bool
    variant: int
    variants: int
    version: int
    created_at_ms: int
    tool_calls: list[JsonValue] | None
    tool_call_id: str | None
    has_parts: bool = Field(description="Its content is structured; the text is what is shown.")
    place: Place


class Variant(Told):
    index: int
    text: str
    tokens: int
    created_at_ms: int


class MessageFull(Message):
    all_variants: list[Variant]
    covers: list[Id] = Field(description="Summaries that stand for it, smallest first.")


class MessagePage(Told):
    items: list[Message]
    total: int
    first_floor: int
    older: int | None = Field(description="`before_floor` of the page before; none: the start.")
    newer: int | None = Field(description="`from_floor` of the page after; none: the end.")


class NewMessage(Asked):
    role: Role
    text: Text
    name: str | None = Field(default=None, max_length=200)
    before: Id | None = Field(default=None, description="Put it in front of this message.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"role": "user", "text": "Meet me at the harbour."}]}
    )


class MessageChange(Asked):
    text: Text | None = None
    hidden: bool | None = None
    excluded: bool | None = None
    pinned: bool | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "At the old harbour."}]})


class Marks(Asked):
    """The same change for several messages, in one step that one undo takes back."""

    ids: list[Id] = Field(min_length=1, max_length=MARKED_MAX)
    hidden: bool | None = None
    excluded: bool | None = None
    pinned: bool | None = None
    deleted: Literal[True] | None = None


class Swipe(Asked):
    """Another variant: one of those it has, or a new text."""

    variant: int | None = Field(default=None, ge=0, le=1_000_000)
    text: Text | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"variant": 1}]})


class Move(Asked):
    before: Id | None = Field(description="None: to the end.")


# Summaries


class Summary(Told):
    id: Id
    chat: Id
    lane: str
    kind: str = Field(examples=["mini", "volume", "era"])
    level: int
    ordinal: int
    text: str
    tokens: int
    first_floor: int
    last_floor: int
    messages: int
    status: Literal["ready", "proposed", "superseded", "deleted"]
    valid: bool
    edited_by_user: bool
    is_extract: bool
    parent: Id | None
    children: int = Field(description="Summaries that it is made of; a mini has none.")
    model: str | None
    flags: list[str] = Field(description="What is doubtful about it.")
    created_at_ms: int


class SummaryFull(Summary):
    source_messages: list[Id]
    source_summaries: list[Id]
    shown: bool = Field(description="It stands in the next prompt.")


class SummaryPage(Told):
    items: list[Summary]
    next: str | None


class SummaryChange(Asked):
    text: Annotated[str, Field(min_length=1, max_length=100_000)]

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "They met again."}]})


class Proposal(Asked):
    accept: bool


class Wish(Asked):
    """Work that is asked for by hand."""

    beyond_budget: bool = Field(
        default=False, description="Do it even if it costs more than the month has left."
    )


class Archive(Wish):
    pass


class Run(Wish):
    lane: str | None = Field(default=None, max_length=80)
    latest: bool = Field(default=False, description="Up to and including the newest reply.")


class Rebuild(Wish):
    lane: str | None = Field(default=None, max_length=80)
    from_message: Id | None = Field(default=None, alias="from")
    dry_run: bool = False

    model_config = ConfigDict(
        populate_by_name=True, json_schema_extra={"examples": [{"dry_run": True}]}
    )


class Rebuilding(Told):
    summaries: int = Field(description="That are to be written anew; yours are left alone.")
    begun: bool


class Backfill(Wish):
    dry_run: bool = True


class Estimate(Told):
    """What a backfill is expected to take."""

    model: str
    messages: int
    calls: int
    calls_max: int = Field(description="If the model cannot answer for several exchanges at once.")
    kinds: dict[str, int]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="None: nobody knows the price.")
    cost_max_usd: float | None = Field(description="With as many calls as there may be.")
    seconds: float
    measured: bool = Field(description="The time comes from this chat's own summaries.")
    budget_left_usd: float | None = Field(description="Of this month; None: no limit can hold.")
    begun: bool


class Begun(Told):
    """Something goes on in the background; events tell when it is done."""

    begun: bool
    revision: int


# Prompt


class Block(Told):
    place: str = Field(
        examples=["carried", "standing", "cover", "raw", "tail", "fragment", "pending"]
    )
    role: str
    name: str | None
    text: str
    tokens: int
    messages: list[Id]
    summaries: list[Id]
    first_floor: int | None
    last_floor: int | None


class Dropped(Told):
    """Messages that the prompt leaves out."""

    first_floor: int
    before_floor: int
    reason: str


class Recalled(Told):
    message: Id
    floor: int
    score: float
    reason: str
    text: str


class Fold(Told):
    version: int
    reason: str
    tail_floor: int | None = Field(description="Where the verbatim tail begins.")
    stale: bool


class SentBlock(Told):
    place: str
    tokens: int
    messages: list[Id]
    summaries: list[Id]
    text: str | None = Field(description="What its ids hold now; only if it was asked for.")


class LastSent(Told):
    """What went upstream for the newest turn: sizes and ids; texts only if they are asked for."""

    sent_at_ms: int
    model: str
    tokens: int
    client_tokens: int
    budget_tokens: int | None
    fold: int | None
    trace: str = Field(description="What was made of the request, in words.")
    own_messages: int = Field(description="Of the client's own, in front of the blocks.")
    blocks: list[SentBlock]


class SentTurn(Told):
    """What one prompt has weighed."""

    n: int
    sent_at_ms: int
    tokens: int
    layers: dict[str, int] = Field(description="Tokens by place.")
    budget_tokens: int
    client_tokens: int = Field(description="What the client had sent, and would have without us.")
    chat_tokens: int = Field(description="What the whole chat weighed by then.")
    same_tokens: int = Field(description="Its beginning that the prompt before had too.")


class SentTurns(Told):
    items: list[SentTurn] = Field(description="Oldest first.")
    older: int | None = Field(description="`before` for the ones before these; none: no more.")


class Prompt(Told):
    tokens: int
    budget_tokens: int
    chat_tokens: int = Field(description="What the whole chat would weigh.")
    layers: dict[str, int] = Field(description="Tokens by place.")
    blocks: list[Block]
    dropped: list[Dropped]
    notes: list[str]
    recalled: list[Recalled]
    fold: Fold
    sent_at_ms: int | None = Field(description="When the newest turn went upstream.")
    same_blocks: int = Field(description="How many blocks from the start were sent by then too.")
    messages: list[dict[str, JsonValue]] = Field(description="As OpenAI's format has them.")


# Tasks

TaskStateName = Literal["due", "running", "waiting", "failed", "cancelled", "held"]


class Task(Told):
    id: Id
    chat: Id
    chat_title: str
    kind: str
    state: TaskStateName
    reason: str = Field(description="Why it waits or failed, in words.")
    messages: list[Id]
    summaries: list[Id]
    first_floor: int | None
    last_floor: int | None
    tries: int
    error: str = Field(description="The class of the last error.")
    next_try_ms: int | None


class Work(Told):
    """How far the background has come with one chat."""

    chat: Id
    chat_title: str
    uncovered: int
    summaries: int
    working: bool
    due: bool
    next_look_ms: int | None
    wishes: list[str]


class Tasks(Told):
    items: list[Task]
    work: list[Work]
    more: bool = Field(description="There are more than are listed.")


# Settings


class Words(Told):
    zh: str
    en: str


class Group(Told):
    id: str
    title: Words


SettingValue = bool | int | float | str | None


class SettingField(Told):
    name: str
    group: str
    type: Literal["flag", "whole", "amount", "choice", "text", "template", "rules"]
    title: Words
    help: Words
    value: SettingValue = Field(description="What holds now.")
    own: SettingValue = Field(description="What is set here; none: nothing.")
    inherited: SettingValue = Field(description="What would hold without it.")
    inherited_from: Literal["default", "environment", "global", "character"]
    default: SettingValue
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] | None = None
    max_chars: int | None = None


class SettingsForm(Told):
    scope: Literal["global", "character", "chat"]
    character: str | None = Field(description="Whose these are, or whose the chat is.")
    revision: int
    groups: list[Group]
    fields: list[SettingField]


class SettingsChange(RootModel[dict[str, bool | int | float | str | None]]):
    """New values by name; null takes one back to what stands below."""

    model_config = ConfigDict(
        frozen=True, json_schema_extra={"examples": [{"visible_floors": 30, "fold_every": None}]}
    )


class Template(Told):
    """A text that asks a model for something, and that a user may put in their own words."""

    setting: str
    kind: str
    required: list[str] = Field(description="Names that it must have, as {{NAME}}.")
    optional: list[str]
    ours: Words


class Templates(Told):
    items: list[Template]


class Trying(Asked):
    setting: Literal["mini_prompt", "volume_prompt"]
    template: str = Field(default="", max_length=20_000, description="Empty: ours.")
    run: bool = Field(default=False, description="Ask the chat's model too; that may cost.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"setting": "mini_prompt", "template": "In one line: {{NEW_HISTORY}}"}]
        }
    )


class Tried(Told):
    wrong: list[str] = Field(description="What is wrong with the template; none: it will do.")
    messages: list[dict[str, JsonValue]] = Field(description="The very request.")
    tokens_max: int | None
    answer: str | None
    model: str | None


# Profiles


class Price(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_usd: float = Field(ge=0, le=1_000_000)
    output_usd: float = Field(ge=0, le=1_000_000)
    cached_usd: float | None = Field(default=None, ge=0, le=1_000_000)


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    at_once: int | None = Field(default=None, ge=1, le=1_000_000)
    per_minute: int | None = Field(default=None, ge=1, le=1_000_000)


class Profile(Told):
    id: Id
    name: str
    source: str
    base_url: str
    model: str
    window_tokens: int | None
    output_tokens: int
    temperature: float | None
    timeout_s: float
    price: Price | None
    price_known: bool = Field(description="From here, or from the table of known models.")
    limits: Limits
    stream: bool
    cache_marks: str = Field(description="Whose marks the proxy sets in prompts; empty: none.")
    params: dict[str, JsonValue]
    has_key: bool = Field(description="Keys go in and never come out.")
    key_kept: Literal["here", "environment", "file"] | None
    used_by: list[str] = Field(description="Titles of chats that name it; `*`: all chats.")
    trouble: str | None = Field(description="Why another one is asked instead, until it is mended.")
    version: int


class Profiles(Told):
    items: list[Profile]


class ProfileFields(Asked):
    source: Literal["openai", "anthropic", "extractive"] = "openai"
    base_url: str = Field(default="", max_length=2_000)
    model: str = Field(default="", max_length=200)
    window_tokens: int | None = Field(default=None, ge=256, le=100_000_000)
    output_tokens: int = Field(default=1_024, ge=1, le=100_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    timeout_s: float = Field(default=120.0, gt=0, le=3_600)
    price: Price | None = None
    limits: Limits = Limits()
    stream: bool = False
    cache_marks: Literal["", "anthropic", "openai"] = ""
    params: dict[str, JsonValue] = {}
    api_key: str | None = Field(
        default=None,
        max_length=4_096,
        description="Written only. Missing or empty: as it is. To remove it, send null.",
    )


class NewProfile(ProfileFields):
    name: Annotated[str, Field(min_length=1, max_length=80, examples=["main"])]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "main",
                    "base_url": "http://127.0.0.1:11434/v1",
                    "model": "qwen3",
                    "window_tokens": 32768,
                }
            ]
        }
    )


class ProfileChange(ProfileFields):
    """Fields that are not sent stay as they are."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "qwen3:32b"}]})


class Finding(Told):
    ok: bool
    says: list[str]
    answer: str


# The rest


class Spent(Told):
    heading: str
    label: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: int


class Usage(Told):
    by: Literal["month", "profile", "chat"]
    items: list[Spent]
    month: str
    spent_usd: float
    budget_usd: float


class Snippet(Told):
    text: str
    marks: list[tuple[int, int]] = Field(description="Where the query stands in it, in characters.")


class Hit(Told):
    chat: Id
    chat_title: str
    message: Id
    floor: int
    role: str
    name: str | None
    score: float
    reason: str
    terms: list[str]
    snippet: Snippet


class Hits(Told):
    items: list[Hit]


class Imported(Told):
    chat: Chat
    messages: int
    held: bool = Field(description="Summaries wait for a backfill, which costs.")


class Sample(Asked):
    language: Literal["en", "zh"] = "en"


class Preset(Told):
    name: str
    lane: str
    is_default: bool


class About(Told):
    """What a page needs to know before anything else."""

    version: str
    upstream: str | None
    token_needed: bool
    may_keep_keys: bool
    presets: list[Preset]
    formats_in: list[str]
    formats_out: list[str]


class Login(Asked):
    token: Annotated[str, Field(min_length=1, max_length=4_096)]


class LoggedIn(Told):
    scopes: list[str]


class Token(Told):
    id: Id
    name: str
    scopes: list[str]
    created_at_ms: int


class Tokens(Told):
    items: list[Token]


class NewToken(Asked):
    name: Name
    scopes: list[Literal["read", "write", "admin"]] = Field(min_length=1, max_length=3)

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "monitor", "scopes": ["read"]}]}
    )


class TokenMade(Token):
    token: str = Field(description="Shown this once.")
