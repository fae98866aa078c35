// Made by tools/gen_ts.py from the REST interface: change the shapes there, not here.

export type About = {
  version: string;
  upstream: string | null;
  token_needed: boolean;
  may_keep_keys: boolean;
  presets: Preset[];
  formats_in: string[];
  formats_out: string[];
};

export type Archive = {
  beyond_budget?: boolean;
};

export type Backfill = {
  beyond_budget?: boolean;
  dry_run?: boolean;
};

export type Begun = {
  begun: boolean;
  revision: number;
};

export type Block = {
  place: string;
  role: string;
  name: string | null;
  text: string;
  tokens: number;
  messages: string[];
  summaries: string[];
  first_floor: number | null;
  last_floor: number | null;
};

export type Branch = {
  name: string;
  at?: string | null;
};

export type Carried = {
  id: string;
  text: string;
  tokens: number;
  kind: string;
  is_extract: boolean;
  from_chat: string;
  from_title: string;
  shown: boolean;
};

export type CarriedList = {
  items: Carried[];
};

export type Character = {
  name: string;
  chats: number;
};

export type CharacterList = {
  items: Character[];
};

export type Chat = {
  id: string;
  name: string;
  title: string;
  preset: string;
  lane: string;
  messages: number;
  summaries_written: number;
  recording: boolean;
  recalculating: boolean;
  branch_of: string | null;
  character: string | null;
  revision: number;
  created_at_ms: number;
  active_at_ms: number;
  deleted_at_ms: number | null;
  base_path: string;
};

export type ChatChange = {
  title?: string | null;
  preset?: string | null;
  recording?: boolean | null;
  character?: string | null;
};

export type ChatFull = {
  id: string;
  name: string;
  title: string;
  preset: string;
  lane: string;
  messages: number;
  summaries_written: number;
  recording: boolean;
  recalculating: boolean;
  branch_of: string | null;
  character: string | null;
  revision: number;
  created_at_ms: number;
  active_at_ms: number;
  deleted_at_ms: number | null;
  base_path: string;
  tokens: number;
  summaries: number;
  proposals: number;
  uncovered: number;
  working: boolean;
  due: boolean;
  wishes: string[];
  passed: Passed | null;
};

export type ChatPage = {
  items: Chat[];
  next: string | null;
};

export type Dropped = {
  first_floor: number;
  before_floor: number;
  reason: string;
};

export type Estimate = {
  model: string;
  messages: number;
  calls: number;
  calls_max: number;
  kinds: Record<string, number>;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  cost_max_usd: number | null;
  seconds: number;
  measured: boolean;
  budget_left_usd: number | null;
  begun: boolean;
};

export type FieldError = {
  field: string;
  type: string;
  detail: string;
  ctx?: Record<string, JsonValue>;
};

export type Finding = {
  ok: boolean;
  says: string[];
  answer: string;
};

export type Fold = {
  version: number;
  reason: string;
  tail_floor: number | null;
  stale: boolean;
};

export type Group = {
  id: string;
  title: Words;
};

export type Hit = {
  chat: string;
  chat_title: string;
  message: string;
  floor: number;
  role: string;
  name: string | null;
  score: number;
  reason: string;
  terms: string[];
  snippet: Snippet;
};

export type Hits = {
  items: Hit[];
};

export type Imported = {
  chat: Chat;
  messages: number;
  held: boolean;
};

export type JsonValue = unknown;

export type LastSent = {
  sent_at_ms: number;
  model: string;
  tokens: number;
  client_tokens: number;
  budget_tokens: number | null;
  fold: number | null;
  trace: string;
  own_messages: number;
  blocks: SentBlock[];
};

export type Limits = {
  at_once?: number | null;
  per_minute?: number | null;
};

export type LoggedIn = {
  scopes: string[];
};

export type Login = {
  token: string;
};

export type Marks = {
  ids: string[];
  hidden?: boolean | null;
  excluded?: boolean | null;
  pinned?: boolean | null;
  deleted?: true | null;
};

export type Message = {
  id: string;
  floor: number;
  role: string;
  name: string | null;
  text: string;
  kind: string;
  state: string;
  tokens: number;
  hidden_by: string | null;
  excluded: boolean;
  pinned: boolean;
  variant: number;
  variants: number;
  version: number;
  created_at_ms: number;
  tool_calls: JsonValue[] | null;
  tool_call_id: string | null;
  has_parts: boolean;
  place: Place;
};

export type MessageChange = {
  text?: string | null;
  hidden?: boolean | null;
  excluded?: boolean | null;
  pinned?: boolean | null;
};

export type MessageFull = {
  id: string;
  floor: number;
  role: string;
  name: string | null;
  text: string;
  kind: string;
  state: string;
  tokens: number;
  hidden_by: string | null;
  excluded: boolean;
  pinned: boolean;
  variant: number;
  variants: number;
  version: number;
  created_at_ms: number;
  tool_calls: JsonValue[] | null;
  tool_call_id: string | null;
  has_parts: boolean;
  place: Place;
  all_variants: Variant[];
  covers: string[];
};

export type MessagePage = {
  items: Message[];
  total: number;
  first_floor: number;
  older: number | null;
  newer: number | null;
};

export type Move = {
  before: string | null;
};

export type NewChat = {
  name: string;
  preset?: string | null;
  character?: string | null;
  settings?: Record<string, JsonValue> | null;
  continue_from?: string | null;
};

export type NewMessage = {
  role: "system" | "user" | "assistant" | "tool";
  text: string;
  name?: string | null;
  before?: string | null;
};

export type NewProfile = {
  source?: "openai" | "anthropic" | "extractive";
  base_url?: string;
  model?: string;
  window_tokens?: number | null;
  output_tokens?: number;
  temperature?: number | null;
  timeout_s?: number;
  price?: Price | null;
  limits?: Limits;
  stream?: boolean;
  cache_marks?: "" | "anthropic" | "openai";
  params?: Record<string, JsonValue>;
  api_key?: string | null;
  name: string;
};

export type NewToken = {
  name: string;
  scopes: ("read" | "write" | "admin")[];
};

export type Passed = {
  requests: number;
  reason: string;
  at_ms: number;
};

export type Place = {
  how: "verbatim" | "standing" | "summary" | "hidden" | "dropped";
  summary?: string | null;
  by?: string | null;
  reason?: string;
};

export type Preset = {
  name: string;
  lane: string;
  is_default: boolean;
};

export type Price = {
  input_usd: number;
  output_usd: number;
  cached_usd?: number | null;
};

export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  field?: string | null;
  next: string;
  errors?: FieldError[];
};

export type Profile = {
  id: string;
  name: string;
  source: string;
  base_url: string;
  model: string;
  window_tokens: number | null;
  output_tokens: number;
  temperature: number | null;
  timeout_s: number;
  price: Price | null;
  price_known: boolean;
  limits: Limits;
  stream: boolean;
  cache_marks: string;
  params: Record<string, JsonValue>;
  has_key: boolean;
  key_kept: "here" | "environment" | "file" | null;
  used_by: string[];
  trouble: string | null;
  version: number;
};

export type ProfileChange = {
  source?: "openai" | "anthropic" | "extractive";
  base_url?: string;
  model?: string;
  window_tokens?: number | null;
  output_tokens?: number;
  temperature?: number | null;
  timeout_s?: number;
  price?: Price | null;
  limits?: Limits;
  stream?: boolean;
  cache_marks?: "" | "anthropic" | "openai";
  params?: Record<string, JsonValue>;
  api_key?: string | null;
};

export type Profiles = {
  items: Profile[];
};

export type Prompt = {
  tokens: number;
  budget_tokens: number;
  chat_tokens: number;
  layers: Record<string, number>;
  blocks: Block[];
  dropped: Dropped[];
  notes: string[];
  recalled: Recalled[];
  fold: Fold;
  sent_at_ms: number | null;
  same_blocks: number;
  messages: (Record<string, JsonValue>)[];
};

export type Proposal = {
  accept: boolean;
};

export type Rebuild = {
  beyond_budget?: boolean;
  lane?: string | null;
  from?: string | null;
  dry_run?: boolean;
};

export type Rebuilding = {
  summaries: number;
  begun: boolean;
};

export type Recalled = {
  message: string;
  floor: number;
  score: number;
  reason: string;
  text: string;
};

export type Run = {
  beyond_budget?: boolean;
  lane?: string | null;
  latest?: boolean;
};

export type Sample = {
  language?: "en" | "zh";
};

export type SentBlock = {
  place: string;
  tokens: number;
  messages: string[];
  summaries: string[];
  text: string | null;
};

export type SentTurn = {
  n: number;
  sent_at_ms: number;
  tokens: number;
  layers: Record<string, number>;
  budget_tokens: number;
  client_tokens: number;
  chat_tokens: number;
  same_tokens: number;
};

export type SentTurns = {
  items: SentTurn[];
  older: number | null;
};

export type SettingField = {
  name: string;
  group: string;
  type: "flag" | "whole" | "amount" | "choice" | "text" | "template" | "rules";
  title: Words;
  help: Words;
  value: boolean | number | string | null;
  own: boolean | number | string | null;
  inherited: boolean | number | string | null;
  inherited_from: "default" | "environment" | "global" | "character";
  default: boolean | number | string | null;
  minimum?: number | null;
  maximum?: number | null;
  choices?: string[] | null;
  max_chars?: number | null;
};

export type SettingsChange = Record<string, boolean | number | string | null>;

export type SettingsForm = {
  scope: "global" | "character" | "chat";
  character: string | null;
  revision: number;
  groups: Group[];
  fields: SettingField[];
};

export type Snippet = {
  text: string;
  marks: ([number, number])[];
};

export type Spent = {
  heading: string;
  label: string;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
  unpriced_calls: number;
};

export type Summary = {
  id: string;
  chat: string;
  lane: string;
  kind: string;
  level: number;
  ordinal: number;
  text: string;
  tokens: number;
  first_floor: number;
  last_floor: number;
  messages: number;
  status: "ready" | "proposed" | "superseded" | "deleted";
  valid: boolean;
  edited_by_user: boolean;
  is_extract: boolean;
  parent: string | null;
  children: number;
  model: string | null;
  flags: string[];
  created_at_ms: number;
};

export type SummaryChange = {
  text: string;
};

export type SummaryFull = {
  id: string;
  chat: string;
  lane: string;
  kind: string;
  level: number;
  ordinal: number;
  text: string;
  tokens: number;
  first_floor: number;
  last_floor: number;
  messages: number;
  status: "ready" | "proposed" | "superseded" | "deleted";
  valid: boolean;
  edited_by_user: boolean;
  is_extract: boolean;
  parent: string | null;
  children: number;
  model: string | null;
  flags: string[];
  created_at_ms: number;
  source_messages: string[];
  source_summaries: string[];
  shown: boolean;
};

export type SummaryPage = {
  items: Summary[];
  next: string | null;
};

export type Swipe = {
  variant?: number | null;
  text?: string | null;
};

export type Task = {
  id: string;
  chat: string;
  chat_title: string;
  kind: string;
  state: "due" | "running" | "waiting" | "failed" | "cancelled" | "held";
  reason: string;
  messages: string[];
  summaries: string[];
  first_floor: number | null;
  last_floor: number | null;
  tries: number;
  error: string;
  next_try_ms: number | null;
};

export type Tasks = {
  items: Task[];
  work: Work[];
  more: boolean;
};

export type Template = {
  setting: string;
  kind: string;
  required: string[];
  optional: string[];
  ours: Words;
};

export type Templates = {
  items: Template[];
};

export type Token = {
  id: string;
  name: string;
  scopes: string[];
  created_at_ms: number;
};

export type TokenMade = {
  id: string;
  name: string;
  scopes: string[];
  created_at_ms: number;
  token: string;
};

export type Tokens = {
  items: Token[];
};

export type Touched = {
  messages: number;
  revision: number;
};

export type Tried = {
  wrong: string[];
  messages: (Record<string, JsonValue>)[];
  tokens_max: number | null;
  answer: string | null;
  model: string | null;
};

export type Trying = {
  setting: "mini_prompt" | "volume_prompt";
  template?: string;
  run?: boolean;
};

export type Usage = {
  by: "month" | "profile" | "chat";
  items: Spent[];
  month: string;
  spent_usd: number;
  budget_usd: number;
};

export type Variant = {
  index: number;
  text: string;
  tokens: number;
  created_at_ms: number;
};

export type Words = {
  zh: string;
  en: string;
};

export type Work = {
  chat: string;
  chat_title: string;
  uncovered: number;
  summaries: number;
  working: boolean;
  due: boolean;
  next_look_ms: number | null;
  wishes: string[];
};
