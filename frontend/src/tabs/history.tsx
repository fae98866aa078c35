/** 历史记录: every floor, coloured by how the next prompt stands for it; to read and to put right. */

import { useComputed, useSignal, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../lib/api";
import { t } from "../lib/i18n";
import { listen } from "../lib/live";
import { useResource } from "../lib/resource";
import { replace, route } from "../lib/route";
import type { Hits, Message, MessagePage, SettingsForm } from "../lib/api-types";
import { Icon } from "../ui/icon";
import { Marked } from "../ui/marked";
import { Empty, Shown } from "../ui/states";
import { Title } from "../ui/title";
import { VList } from "../ui/vlist";
import { Floor, HUES } from "./floor";
import { PassedOn } from "./passed";

const PAGE_SIZE = 100; // HistoryPageSize; the chat's own setting replaces it
const CHUNK = 100; // floors asked for at once while scrolling

export default function History(): JSX.Element {
  const id = route.value.chat;
  const size = useSignal(PAGE_SIZE);
  const scrolling = useSignal(false);
  const query = useSignal("");
  const find = useSignal("");
  const timer = useRef(0);
  const floor = route.value.params["floor"];
  useEffect(() => {
    // The next prompt matters most: without a place in the address, the newest page is shown.
    void get<SettingsForm>(`chats/${id}/settings`).then(
      ({ fields }) => {
        size.value = Number(fields.find(({ name }) => name === "history_page_size")?.value) || PAGE_SIZE;
      },
      () => undefined,
    );
  }, [id]);
  return (
    <>
      <Title text={t("tab.history")} ofChat lead={t("history.lead")} />
      <PassedOn />
      <ul class="legend" aria-label={t("history.legend")}>
        {HUES.map((how) => <li key={how} class={`hue-${how}`}><i />{t(`how.${how}`)}</li>)}
      </ul>
      <div class="row">
        <input
          class="grow"
          type="search"
          aria-label={t("history.search")}
          placeholder={t("history.search")}
          value={query.value}
          onInput={(event) => {
            query.value = event.currentTarget.value;
            clearTimeout(timer.current);
            timer.current = window.setTimeout(() => (find.value = query.value.trim()), 250);
          }}
        />
        <button type="button" aria-pressed={scrolling.value} onClick={() => (scrolling.value = !scrolling.value)}>
          {t("history.scroll")}
        </button>
      </div>
      {find.value ? (
        <Found chat={id} text={find.value} onOpen={() => (query.value = find.value = "")} />
      ) : scrolling.value ? (
        <Scroll chat={id} at={floor === undefined ? null : Number(floor)} />
      ) : (
        <Paged chat={id} size={size} />
      )}
    </>
  );
}

function Paged({ chat, size }: { chat: string; size: Signal<number> }): JSX.Element {
  const { page, floor } = route.value.params;
  const wanted = floor !== undefined ? Math.floor(Number(floor) / size.value) + 1 : Number(page) || 0;
  const floors = useResource<MessagePage>(
    async (signal) => {
      const at = `chats/${chat}/messages`;
      if (wanted) return get(at, { from_floor: (wanted - 1) * size.value, limit: size.value }, signal);
      const { total } = await get<MessagePage>(at, { from_floor: 0, limit: 1 }, signal);
      const last = Math.max(0, Math.ceil(total / size.value) - 1);
      return get(at, { from_floor: last * size.value, limit: size.value }, signal);
    },
    [chat, wanted, size.value],
    (change) => change.kind === "chat" && change.chat === chat,
  );
  return (
    <Shown of={floors}>
      {({ total, items, first_floor: first }) => {
        const here = Math.floor(first / size.value) + 1;
        const pages = Math.max(1, Math.ceil(total / size.value));
        if (!total) return <Empty icon="history" title={t("history.empty")} text={t("history.empty.text")} />;
        return (
          <>
            <Pager label={t("pager.label")} here={here} pages={pages} total={total} />
            <ol class="floors">
              {items.map((message) => (
                <li key={message.id}>
                  <Floor chat={chat} message={message} here={String(message.floor) === floor} onChanged={floors.reload} />
                </li>
              ))}
            </ol>
            {items.length > 8 && <Pager label={t("pager.below")} here={here} pages={pages} total={total} />}
          </>
        );
      }}
    </Shown>
  );
}

function Pager({ label, here, pages, total }: { label: string; here: number; pages: number; total: number }): JSX.Element {
  const open = (page: number) => replace({ page: Math.max(1, Math.min(pages, page)) });
  return (
    <nav class="pager" aria-label={label}>
      <button type="button" class="icon" disabled={here <= 1} aria-label={t("pager.before")} onClick={() => open(here - 1)}>
        <Icon name="left" />
      </button>
      <label class="row tight">
        <span class="soft">{t("pager.page")}</span>
        <input
          type="number"
          min={1}
          max={pages}
          value={here}
          key={here}
          onChange={(event) => open(Number(event.currentTarget.value) || here)}
        />
      </label>
      <span class="soft num">{t("pager.of", { pages, total })}</span>
      <button type="button" class="icon" disabled={here >= pages} aria-label={t("pager.after")} onClick={() => open(here + 1)}>
        <Icon name="chevron" />
      </button>
    </nav>
  );
}

/** All floors in one list; what comes into view is asked for. */
function Scroll({ chat, at }: { chat: string; at: number | null }): JSX.Element {
  const total = useSignal<number | null>(null);
  const rows = useSignal<ReadonlyMap<number, Message>>(new Map());
  const asked = useRef(new Set<number>());
  const empty = useComputed(() => total.value === 0);

  const ask = async (chunk: number) => {
    if (asked.current.has(chunk)) return;
    asked.current.add(chunk);
    try {
      const page = await get<MessagePage>(`chats/${chat}/messages`, { from_floor: chunk * CHUNK, limit: CHUNK });
      const next = new Map(rows.value);
      for (const message of page.items) next.set(message.floor, message);
      rows.value = next;
      total.value = page.total;
    } catch {
      asked.current.delete(chunk); // asked again when it comes into view again
    }
  };
  const again = () => {
    const seen = [...asked.current];
    asked.current.clear();
    for (const chunk of seen.slice(-3)) void ask(chunk);
  };
  useEffect(() => {
    void ask(at === null ? 0 : Math.floor(at / CHUNK));
    return listen((change) => {
      if (change.kind === "hello" || change.chat === chat) again();
    });
  }, [chat]);

  if (total.value === null) return <p role="status" class="soft">{t("loading")}</p>;
  if (empty.value) return <Empty icon="history" title={t("history.empty")} text={t("history.empty.text")} />;
  return (
    <VList
      label={t("tab.history")}
      count={total.value}
      at={at}
      keyOf={(index) => String(index)}
      row={(index) => {
        const message = rows.value.get(index);
        if (message) return <Floor chat={chat} message={message} here={index === at} onChanged={again} />;
        void ask(Math.floor(index / CHUNK));
        return <article class="floor hue-hidden"><header><span class="n">#{index}</span></header></article>;
      }}
    />
  );
}

function Found({ chat, text, onOpen }: { chat: string; text: string; onOpen: () => void }): JSX.Element {
  const found = useResource<Hits>(
    (signal) => get("search", { q: text, chat, limit: 100 }, signal), [chat, text],
  );
  return (
    <Shown of={found}>
      {({ items }) => items.length === 0 ? <Empty icon="search" title={t("search.none")} text={t("search.none.text")} /> : (
        <ol class="chat-list">
          {items.map((hit) => (
            <li key={hit.message}>
              <button
                type="button"
                class="card hit"
                onClick={() => {
                  onOpen();
                  replace({ floor: hit.floor });
                }}
              >
                <span class="meta"><b>{t("floor.n", { n: hit.floor })}</b></span>
                <Marked text={hit.snippet.text} marks={hit.snippet.marks} />
              </button>
            </li>
          ))}
        </ol>
      )}
    </Shown>
  );
}
