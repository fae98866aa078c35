/** 提示词: what would go to the model now, block by block, what does not, and why. */

import { useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../lib/api";
import { floors, known, number, percent, said, t, when } from "../lib/i18n";
import { useResource } from "../lib/resource";
import { href, route } from "../lib/route";
import type { Block, LastSent, Prompt } from "../lib/api-types";
import { Icon } from "../ui/icon";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { PassedOn } from "./passed";

export const PLACE_HUE: Record<string, string> = {
  carried: "summary", standing: "standing", cover: "summary", raw: "dropped", tail: "verbatim",
  fragment: "recalled", pending: "pending",
};
const BUDGET_MIN = 256;
const BUDGET_MAX = 64_000;
const CALM_MS = 180;

/** The slider goes by ratio: between 1,000 and 2,000 lies as much as between 20,000 and 40,000. */
const toSlider = (tokens: number): number =>
  Math.round((Math.log(tokens / BUDGET_MIN) / Math.log(BUDGET_MAX / BUDGET_MIN)) * 1000);
const fromSlider = (at: number): number => {
  const tokens = BUDGET_MIN * (BUDGET_MAX / BUDGET_MIN) ** (at / 1000);
  const step = tokens < 2_000 ? 50 : tokens < 10_000 ? 100 : 500;
  return Math.max(BUDGET_MIN, Math.round(tokens / step) * step);
};

export default function PromptTab(): JSX.Element {
  const id = route.value.chat;
  const budget = useSignal<number | null>(null); // null: the chat's own
  const question = useSignal("");
  const query = useSignal("");
  const timer = useRef(0);
  const asked = useSignal<number | null>(null);
  const previous = useSignal<Prompt | null>(null);
  const latest = useRef<Prompt | null>(null);

  const prompt = useResource<Prompt>(
    (signal) => get(`chats/${id}/prompt`, {
      ...(asked.value !== null && { budget_tokens: asked.value }),
      ...(query.value && { query: query.value }),
    }, signal),
    [id],
    (change) => change.kind === "chat" && change.chat === id,
  );
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) prompt.reload();
    first.current = false;
  }, [asked.value, query.value]);
  useEffect(() => {
    const now = prompt.data.value;
    if (!now || now === latest.current) return;
    previous.value = latest.current;
    latest.current = now;
  }, [prompt.data.value]);

  const later = (work: () => void) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(work, CALM_MS);
  };
  return (
    <>
      <Title text={t("tab.prompt")} ofChat lead={t("prompt.lead")} />
      <PassedOn />
      <Shown of={prompt}>
        {(data) => {
          const shown = budget.value ?? data.budget_tokens;
          return (
            <>
              <section class="card stack">
                <div class="field">
                  <label for="budget">{t("prompt.budget")}: <b class="num">{number(shown)}</b> {t("tokens")}</label>
                  <input
                    id="budget"
                    type="range"
                    min={0}
                    max={1000}
                    value={toSlider(shown)}
                    aria-valuetext={t("tokens.n", { n: number(shown) })}
                    onInput={(event) => {
                      budget.value = fromSlider(Number(event.currentTarget.value));
                      later(() => (asked.value = budget.value));
                    }}
                  />
                  <span class="help">{t("prompt.budget.text")}</span>
                </div>
                <Facts data={data} />
                <Layers data={data} />
                {budget.value !== null && (
                  <div class="row">
                    <button type="button" onClick={() => (budget.value = asked.value = null)}>
                      <Icon name="undo" /> {t("prompt.own")}
                    </button>
                  </div>
                )}
              </section>
              <input
                type="search"
                aria-label={t("prompt.query")}
                placeholder={t("prompt.query")}
                value={question.value}
                onInput={(event) => {
                  question.value = event.currentTarget.value;
                  later(() => (query.value = question.value.trim()));
                }}
              />
              {data.sent_at_ms !== null && <Sent key={data.sent_at_ms} chat={id} />}
              <Left data={data} />
              <Recalled data={data} />
              <h2>{t("prompt.blocks", { n: data.blocks.length })}</h2>
              <Blocks data={data} previous={previous.value} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

function Facts({ data }: { data: Prompt }): JSX.Element {
  const saved = data.chat_tokens > data.tokens ? 1 - data.tokens / data.chat_tokens : 0;
  return (
    <dl class="facts">
      <div><dt>{t("prompt.tokens")}</dt><dd>{number(data.tokens)}</dd></div>
      <div><dt>{t("prompt.whole")}</dt><dd>{number(data.chat_tokens)}</dd></div>
      <div><dt>{t("prompt.saved")}</dt><dd>{percent(saved)}</dd></div>
      <div><dt>{t("prompt.tail")}</dt><dd>{data.fold.tail_floor === null ? "—" : `#${number(data.fold.tail_floor)}`}</dd></div>
      {data.sent_at_ms !== null && <div><dt>{t("prompt.sent")}</dt><dd>{when(data.sent_at_ms)}</dd></div>}
    </dl>
  );
}

/** Tokens by place as one bar, with the same numbers in words below. */
export function Layers({ data }: { data: Prompt }): JSX.Element {
  const layers = Object.entries(data.layers).filter(([, tokens]) => tokens > 0);
  return (
    <div class="stack tight">
      <div class="bar-stack" aria-hidden="true">
        {layers.map(([place, tokens]) => (
          <i key={place} class={`hue-${PLACE_HUE[place] ?? "hidden"}`} style={{ width: `${(tokens / data.budget_tokens) * 100}%` }} />
        ))}
      </div>
      <ul class="legend">
        {layers.map(([place, tokens]) => (
          <li key={place} class={`hue-${PLACE_HUE[place] ?? "hidden"}`}>
            <i />{known("place", place)} <b class="num">{number(tokens)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What the newest turn has sent: sizes at once, words when somebody asks for them. */
function Sent({ chat }: { chat: string }): JSX.Element {
  const text = useSignal(false);
  const open = useSignal(false);
  return (
    <details class="card sent" onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary><h2>{t("sent.title")}</h2></summary>
      {open.value && <SentBlocks key={String(text.value)} chat={chat} text={text} />}
    </details>
  );
}

function SentBlocks({ chat, text }: { chat: string; text: Signal<boolean> }): JSX.Element {
  const last = useResource<LastSent | null>(
    (signal) => get(`chats/${chat}/sent`, { text: text.value }, signal), [chat, text.value],
  );
  return (
    <Shown of={last}>
      {(sent) => sent && (
        <div class="stack tight">
          <p class="meta">
            {sent.model && <span>{sent.model}</span>}
            <span class="num">{t("sent.tokens", { n: number(sent.tokens), client: number(sent.client_tokens) })}</span>
            <span>{when(sent.sent_at_ms)}</span>
          </p>
          <div class="row">
            <button type="button" aria-pressed={text.value} onClick={() => (text.value = !text.value)}>{t("sent.text")}</button>
          </div>
          <ol class="blocks">
            {sent.own_messages > 0 && (
              <li><article class="block hue-hidden"><header><b>{t("place.head")}</b><span>{t("sent.own", { n: sent.own_messages })}</span></header></article></li>
            )}
            {sent.blocks.map((block, index) => (
              <li key={index}>
                <article class={`block hue-${PLACE_HUE[block.place] ?? "hidden"}`} data-sent={block.place}>
                  <header>
                    <b>{known("place", block.place)}</b>
                    {block.summaries.length > 0 && (
                      <a href={href({ tab: "summaries", summary: block.summaries[0] })}>{t("prompt.summaries", { n: block.summaries.length })}</a>
                    )}
                    <span class="num">{t("tokens.n", { n: number(block.tokens) })}</span>
                  </header>
                  {block.text && <p class="plain-text">{block.text}</p>}
                </article>
              </li>
            ))}
          </ol>
          {text.value && <p class="soft small">{t("sent.now")}</p>}
        </div>
      )}
    </Shown>
  );
}

function Left({ data }: { data: Prompt }): JSX.Element | null {
  if (!data.dropped.length && !data.notes.length) return null;
  return (
    <section class="note warn">
      <h2>{t("prompt.dropped")}</h2>
      <ul>
        {data.dropped.map((gone) => (
          <li key={gone.first_floor}>
            <a href={href({ tab: "history", floor: gone.first_floor })}>
              {floors(gone.first_floor, gone.before_floor - 1)}
            </a>
            {" · "}{said(gone.reason)}
          </li>
        ))}
        {data.notes.map((note) => <li key={note}>{said(note)}</li>)}
      </ul>
    </section>
  );
}

function Recalled({ data }: { data: Prompt }): JSX.Element | null {
  if (!data.recalled.length) return null;
  return (
    <section class="card stack tight">
      <h2>{t("prompt.recalled")}</h2>
      <ol class="recalled">
        {data.recalled.map((hit) => (
          <li key={hit.message}>
            <p class="meta">
              <a href={href({ tab: "history", floor: hit.floor })}>{floors(hit.floor)}</a>
              <span class="num">{t("prompt.score", { score: number(hit.score, 2) })}</span>
              <span>{said(hit.reason)}</span>
            </p>
            <p class="serif">{shorten(hit.text, 160)}</p>
          </li>
        ))}
      </ol>
    </section>
  );
}

const shorten = (text: string, chars: number): string =>
  [...text].length > chars ? `${[...text].slice(0, chars).join("")}…` : text;

/** How many blocks from the start are the same as before: that part a provider has in its cache. */
function samePrefix(now: Block[], before: Block[]): number {
  let same = 0;
  while (same < now.length && same < before.length && now[same]!.role === before[same]!.role && now[same]!.text === before[same]!.text) same++;
  return same;
}

function Blocks({ data, previous }: { data: Prompt; previous: Prompt | null }): JSX.Element {
  if (!data.blocks.length) return <Empty icon="prompt" title={t("prompt.empty")} text={t("prompt.empty.text")} />;
  // What went upstream with the newest turn counts; before that, what was looked at before.
  const compared = data.sent_at_ms !== null || previous !== null;
  const same = data.sent_at_ms !== null ? data.same_blocks : previous ? samePrefix(data.blocks, previous.blocks) : 0;
  const cached = data.blocks.slice(0, same).reduce((sum, block) => sum + block.tokens, 0);
  return (
    <ol class="blocks">
      {data.blocks.map((block, index) => (
        <li key={index}>
          {compared && index === same && same > 0 && (
            <p class="prefix-line">{t("prompt.prefix", { n: number(cached), share: percent(cached / Math.max(1, data.tokens)) })}</p>
          )}
          <OneBlock block={block} changed={compared && index >= same} />
        </li>
      ))}
    </ol>
  );
}

function OneBlock({ block, changed }: { block: Block; changed: boolean }): JSX.Element {
  const open = useSignal(false);
  const long = block.text.length > 220;
  return (
    <article class={`block hue-${PLACE_HUE[block.place] ?? "hidden"}`} data-place={block.place}>
      <header>
        <b>{known("place", block.place)}</b>
        <span>{block.name || known("role", block.role)}</span>
        {block.first_floor !== null && (
          <a href={href({ tab: "history", floor: block.first_floor })}>{floors(block.first_floor, block.last_floor)}</a>
        )}
        {block.summaries.length > 0 && (
          <a href={href({ tab: "summaries", summary: block.summaries[0] })}>{t("prompt.summaries", { n: block.summaries.length })}</a>
        )}
        <span class="num">{t("tokens.n", { n: number(block.tokens) })}</span>
        {changed && <span class="tag">{t("prompt.changed")}</span>}
        {long && (
          <button type="button" class="plain last" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
            {t(open.value ? "less" : "more")}
          </button>
        )}
      </header>
      <p class={long && !open.value ? "plain-text short" : "plain-text"}>{block.text}</p>
    </article>
  );
}
